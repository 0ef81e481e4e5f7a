//! Many payments confirmed in one transaction.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::database::DatabaseError;
use super::ledger::{Ledger, column};
use super::life::{Confirmed, Which, confirmed};
use crate::config::settings::LatePayment;

/// The most payments in one call.
pub const CONFIRMS_MAX: usize = 256;

const CONFIRM: &str = "SELECT * FROM confirm_batch($1, $2, $3, $4, $5, $6) ORDER BY ord";

/// A payment that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// For which order.
    pub which: Which,
    /// The payment's own reference.
    pub payment_ref: String,
    /// What becomes of it after the hold's end.
    pub late: LatePayment,
}

/// What is said to a payment among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaidTogether {
    /// Decided.
    Said(Confirmed),
    /// Another payment for the same order was in the call: send it again.
    Again,
    /// Its units would have to be taken again: [`Ledger::confirm`] does that.
    Alone,
}

impl Ledger {
    /// Confirms each order as [`Ledger::confirm`] would, in this order; at most [`CONFIRMS_MAX`].
    pub async fn confirm_batch(
        &self,
        payments: &[&Payment],
    ) -> Result<Vec<SaidTogether>, DatabaseError> {
        let id = |payment: &&Payment| match &payment.which {
            Which::Id(id) => Some(*id),
            Which::Key(_) => None,
        };
        let order = |payment: &&Payment| match &payment.which {
            Which::Id(_) => None,
            Which::Key(order) => Some(order.clone()),
        };
        let ids: Vec<Option<Uuid>> = payments.iter().map(id).collect();
        let orders: Vec<_> = payments.iter().map(order).collect();
        let each = || orders.iter().map(Option::as_ref);
        let sales: Vec<_> = each().map(|o| o.map(|o| o.sale.as_str())).collect();
        let buyers: Vec<_> = each().map(|o| o.map(|o| o.buyer.as_str())).collect();
        let keys: Vec<_> = each().map(|o| o.map(|o| o.order_key.as_str())).collect();
        let refs: Vec<_> = payments.iter().map(|payment| payment.payment_ref.as_str()).collect();
        let honoured: Vec<_> =
            payments.iter().map(|payment| payment.late == LatePayment::Honour).collect();
        let arguments: [&(dyn ToSql + Sync); 6] = [&ids, &sales, &buyers, &keys, &refs, &honoured];
        let found = self.query(CONFIRM, &arguments).await?;
        if found.len() != payments.len() {
            return Err(DatabaseError::Garbled("verdicts for other payments".into()));
        }
        let said = found.iter().map(|row| {
            Ok(match column(row, "verdict")? {
                "again" => SaidTogether::Again,
                "alone" => SaidTogether::Alone,
                other => SaidTogether::Said(confirmed(other)?),
            })
        });
        said.collect()
    }
}

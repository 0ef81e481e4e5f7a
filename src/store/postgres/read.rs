//! Reading reservations: one with its history, or many by page.

use serde::Serialize;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::database::DatabaseError;
use super::ledger::{Ledger, column, columns, instant, parsed, reservation, sku};
use super::life::Which;
use crate::domain::id::{BuyerId, OrderKey, SaleId, Sku};
use crate::domain::quantity::Quantity;
use crate::domain::reservation::{Line, Reservation, Status};

/// Reservations on one page.
const PAGE: usize = 100;

const SELECT: &str = "
    SELECT r.id, r.sale, r.buyer, r.order_key, r.status, r.expires_at, r.created_at, r.payment_ref,
           r.settling, l.skus, l.quantities
    FROM reservation r
    LEFT JOIN LATERAL (
        SELECT array_agg(g.sku ORDER BY g.sku) AS skus, array_agg(g.qty ORDER BY g.sku) AS quantities
        FROM (SELECT sku, sum(qty)::bigint AS qty FROM reservation_line
              WHERE reservation = r.id GROUP BY sku) g) l ON true
    WHERE true";

/// What came from, or went to, several rows of a SKU at once is one change.
const HISTORY: &str = "
    SELECT at, kind, sku, sum(qty)::bigint AS qty FROM movement WHERE reservation = $1
    GROUP BY at, kind, sku ORDER BY min(id) LIMIT 1000";

/// One change in the life of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// When.
    pub at: jiff::Timestamp,
    /// hold, confirm, expire, release or cancel.
    pub kind: String,
    /// Of which SKU.
    pub sku: Sku,
    /// How many units.
    pub qty: i64,
}

/// A reservation with its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct View {
    /// As it is now.
    #[serde(flatten)]
    pub reservation: Reservation,
    /// How it came to that, oldest first.
    pub history: Vec<Change>,
}

/// What is searched for; all that is given must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// Of this sale.
    pub sale: Option<SaleId>,
    /// Of this buyer.
    pub buyer: Option<BuyerId>,
    /// With this key.
    pub order_key: Option<OrderKey>,
    /// Confirmed by this payment.
    pub payment_ref: Option<String>,
    /// In this state.
    pub status: Option<Status>,
    /// Behind the page that ended with this id.
    pub after: Option<Uuid>,
}

/// A page of reservations, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page {
    /// At most a hundred.
    pub reservations: Vec<Reservation>,
    /// What to search after for the next page; none when this is the last.
    pub next: Option<Uuid>,
}

impl Ledger {
    /// The reservation as it is now.
    pub async fn reservation(&self, which: &Which) -> Result<Option<Reservation>, DatabaseError> {
        let found = match which {
            Which::Id(id) => self.query(&format!("{SELECT} AND r.id = $1"), &[id]).await?,
            Which::Key(order) => {
                let sql = format!("{SELECT} AND r.sale = $1 AND r.buyer = $2 AND r.order_key = $3");
                let [sale, buyer, key] = columns(order);
                self.query(&sql, &[&sale, &buyer, &key]).await?
            }
        };
        found.first().map(read).transpose()
    }

    /// The reservation with its history, which is kept when the hold is long gone.
    pub async fn view(&self, id: Uuid) -> Result<Option<View>, DatabaseError> {
        let Some(reservation) = self.reservation(&Which::Id(id)).await? else { return Ok(None) };
        let history =
            self.query(HISTORY, &[&id]).await?.iter().map(change).collect::<Result<_, _>>();
        Ok(Some(View { reservation, history: history? }))
    }

    /// A page of what matches.
    pub async fn search(&self, search: &Search) -> Result<Page, DatabaseError> {
        let given = [
            ("r.sale =", search.sale.as_ref().map(ToString::to_string)),
            ("r.buyer =", search.buyer.as_ref().map(ToString::to_string)),
            ("r.order_key =", search.order_key.as_ref().map(ToString::to_string)),
            ("r.payment_ref =", search.payment_ref.clone()),
            ("r.status =", search.status.map(|status| status.as_str().to_owned())),
        ];
        let mut conditions = vec![SELECT.to_owned()];
        let mut arguments: Vec<&(dyn ToSql + Sync)> = Vec::new();
        for (condition, argument) in &given {
            if let Some(argument) = argument {
                arguments.push(argument);
                conditions.push(format!("{condition} ${}", arguments.len()));
            }
        }
        if let Some(after) = &search.after {
            arguments.push(after);
            conditions.push(format!("r.id > ${}", arguments.len()));
        }
        let sql = format!("{} ORDER BY r.id LIMIT {PAGE}", conditions.join(" AND "));
        let found = self.query(&sql, &arguments).await?;
        let reservations = found.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let next = reservations.last().filter(|_| reservations.len() == PAGE).map(|r| r.id);
        Ok(Page { reservations, next })
    }

    /// The live holds of one buyer in one sale, a page of them.
    pub async fn live_holds(
        &self,
        sale: &SaleId,
        buyer: &BuyerId,
    ) -> Result<Vec<Reservation>, DatabaseError> {
        let (sale, buyer, status) = (Some(sale.clone()), Some(buyer.clone()), Some(Status::Held));
        let search = Search { sale, buyer, status, ..Search::default() };
        Ok(self.search(&search).await?.reservations)
    }
}

fn read(row: &Row) -> Result<Reservation, DatabaseError> {
    let order = (
        parsed("sale", SaleId::parse(column(row, "sale")?))?,
        parsed("buyer", BuyerId::parse(column(row, "buyer")?))?,
        parsed("order_key", OrderKey::parse(column(row, "order_key")?))?,
    );
    let skus: Option<Vec<&str>> = column(row, "skus")?;
    let quantities: Option<Vec<i64>> = column(row, "quantities")?;
    let mut lines = Vec::new();
    for (sku, qty) in skus.unwrap_or_default().into_iter().zip(quantities.unwrap_or_default()) {
        let (sku, qty) = (parsed("sku", Sku::parse(sku))?, parsed("qty", Quantity::new(qty))?);
        lines.push(Line { sku, qty });
    }
    reservation(row, order, lines)
}

fn change(row: &Row) -> Result<Change, DatabaseError> {
    let (at, kind, qty) = (instant(row, "at")?, column(row, "kind")?, column(row, "qty")?);
    Ok(Change { at, kind, sku: sku(row)?, qty })
}

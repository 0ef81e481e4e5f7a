//! The life of a reservation after the take: confirm, release, extend, cancel, sweep.

use tokio_postgres::Row;
use uuid::Uuid;

use super::database::DatabaseError;
use super::ledger::{Ledger, Push, column, columns, count, parsed};
use crate::config::settings::LatePayment;
use crate::domain::id::{SaleId, Sku};
use crate::domain::reservation::OrderRef;

/// The most holds that one transaction expires: orders wait behind what one chunk writes.
const CHUNK: i32 = 250;

/// The id of the order with a key, in the statement that uses it.
const ID_OF_KEY: &str =
    "(SELECT id FROM reservation WHERE sale = $1 AND buyer = $2 AND order_key = $3)";

/// Which reservation is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// By id.
    Id(Uuid),
    /// By sale, buyer and order key.
    Key(OrderRef),
}

/// What became of a confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    /// Now confirmed.
    Done,
    /// Now confirmed, with units taken again past the gate.
    Retaken,
    /// Confirmed before by this very payment.
    Replay,
    /// No such order; it may still be on its way.
    Unknown,
    /// Confirmed before by another payment; this one is to be refunded.
    OtherPayment,
    /// The hold had ended; the payment is to be refunded.
    Expired,
    /// It was released; the payment is to be refunded.
    Released,
    /// It was cancelled; a payment other than the cancelled one is to be refunded.
    Cancelled,
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The units are back, or a tombstone stands where the order would have come.
    Done,
    /// It held nothing any more.
    Replay,
    /// No such order.
    Unknown,
    /// It is confirmed.
    Ordered,
}

/// What became of an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// The hold ends as late as it may.
    Done,
    /// It is confirmed: there is nothing to extend.
    Confirmed,
    /// No such order.
    Unknown,
    /// The hold had ended.
    Expired,
    /// It was released or cancelled.
    Released,
}

/// What became of settling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// An ordinary hold from now on.
    Done,
    /// It was no settling hold any more: confirmed, or settled before.
    Replay,
    /// No such order.
    Unknown,
    /// It was settled before, and the hold had ended.
    Expired,
    /// It was released or cancelled.
    Released,
}

/// What became of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The units are back.
    Done,
    /// Cancelled before.
    Replay,
    /// No such order.
    Unknown,
    /// Not paid yet.
    NotPaid,
    /// The hold had ended.
    Expired,
    /// It was released.
    Released,
}

/// What one chunk of a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Holds that are expired now.
    pub expired: u64,
    /// Units that came back.
    pub units: u64,
    /// What the gate must be told.
    pub pushes: Vec<Push>,
    /// Whether the chunk was full, so that more may be lapsed.
    pub full: bool,
}

impl Ledger {
    /// Confirms after payment, exactly once.
    pub async fn confirm(
        &self,
        which: &Which,
        payment_ref: &str,
        late: LatePayment,
    ) -> Result<Confirmed, DatabaseError> {
        let honour = late == LatePayment::Honour;
        let found = match which {
            Which::Id(id) => {
                let sql = "SELECT * FROM confirm($1, $2, $3)";
                self.query(sql, &[id, &payment_ref, &honour]).await?
            }
            Which::Key(order) => {
                let sql = format!("SELECT * FROM confirm({ID_OF_KEY}, $4, $5)");
                let [sale, buyer, key] = columns(order);
                self.query(&sql, &[&sale, &buyer, &key, &payment_ref, &honour]).await?
            }
        };
        confirmed(verdict(&found)?)
    }

    /// Gives units back before the hold's end. A key that is not known yet is closed for ever.
    pub async fn release(&self, which: &Which) -> Result<(Released, Vec<Push>), DatabaseError> {
        let tombstone = Uuid::now_v7();
        let found = match which {
            Which::Id(id) => {
                let sql = with_sale("release($1)");
                self.query(&sql, &[id]).await?
            }
            Which::Key(order) => {
                let sql = with_sale("release_key($1, $2, $3, $4)");
                let [sale, buyer, key] = columns(order);
                self.query(&sql, &[&sale, &buyer, &key, &tombstone]).await?
            }
        };
        let released = match verdict(&found)? {
            "released" => Released::Done,
            "replay" => Released::Replay,
            "unknown-order" => Released::Unknown,
            "already-ordered" => Released::Ordered,
            other => return Err(unheard_of(other)),
        };
        Ok((released, pushes(&found)?))
    }

    /// A whole hold from now on, at most `extension_ms` later than its first end.
    pub async fn extend(&self, id: Uuid, extension_ms: u64) -> Result<Extended, DatabaseError> {
        let most = i64::try_from(extension_ms).unwrap_or(i64::MAX);
        let found = self.query("SELECT extend($1, $2) AS verdict", &[&id, &most]).await?;
        Ok(match verdict(&found)? {
            "extended" => Extended::Done,
            "replay" => Extended::Confirmed,
            "unknown-order" => Extended::Unknown,
            "hold-expired" => Extended::Expired,
            "released" => Extended::Released,
            other => return Err(unheard_of(other)),
        })
    }

    /// Makes an ordinary hold of one that waited for the shop's answer.
    pub async fn settle(&self, id: Uuid) -> Result<Settled, DatabaseError> {
        let found = self.query("SELECT settle($1) AS verdict", &[&id]).await?;
        Ok(match verdict(&found)? {
            "settled" => Settled::Done,
            "replay" => Settled::Replay,
            "unknown-order" => Settled::Unknown,
            "hold-expired" => Settled::Expired,
            "released" => Settled::Released,
            other => return Err(unheard_of(other)),
        })
    }

    /// Undoes a confirmed order, once.
    pub async fn cancel(&self, id: Uuid) -> Result<(Cancelled, Vec<Push>), DatabaseError> {
        let found = self.query(&with_sale("cancel($1)"), &[&id]).await?;
        let cancelled = match verdict(&found)? {
            "cancelled" => Cancelled::Done,
            "replay" => Cancelled::Replay,
            "unknown-order" => Cancelled::Unknown,
            "in-progress" => Cancelled::NotPaid,
            "hold-expired" => Cancelled::Expired,
            "released" => Cancelled::Released,
            other => return Err(unheard_of(other)),
        };
        Ok((cancelled, pushes(&found)?))
    }

    /// Expires one chunk of lapsed holds; any number of sweeps stay exact. While another one is at
    /// work it waits for its turn, or leaves the work to that one.
    pub async fn sweep_chunk(&self, wait: bool) -> Result<Swept, DatabaseError> {
        let found = self.query(&with_sale("sweep($1, $2)"), &[&CHUNK, &wait]).await?;
        let Some(first) = found.first() else { return Ok(Swept::default()) };
        let expired: i32 = column(first, "expired")?;
        let mut swept = Swept {
            expired: parsed("expired", u64::try_from(expired))?,
            full: expired == CHUNK,
            pushes: pushes(&found)?,
            units: 0,
        };
        for row in &found {
            swept.units += count(row, "units")?;
        }
        Ok(swept)
    }
}

/// The rows of a function that changes stock, each with its SKU's sale.
fn with_sale(call: &str) -> String {
    format!("SELECT f.*, k.sale FROM {call} f LEFT JOIN sku k ON k.sku = f.sku")
}

pub(super) fn confirmed(verdict: &str) -> Result<Confirmed, DatabaseError> {
    Ok(match verdict {
        "confirmed" => Confirmed::Done,
        "retaken" => Confirmed::Retaken,
        "replay" => Confirmed::Replay,
        "unknown-order" => Confirmed::Unknown,
        "payment-conflict" => Confirmed::OtherPayment,
        "hold-expired" => Confirmed::Expired,
        "released" => Confirmed::Released,
        "cancelled" => Confirmed::Cancelled,
        other => return Err(unheard_of(other)),
    })
}

fn verdict(found: &[Row]) -> Result<&str, DatabaseError> {
    let row = found.first().ok_or_else(|| DatabaseError::Garbled("no answer".into()))?;
    column(row, "verdict")
}

fn unheard_of(verdict: &str) -> DatabaseError {
    DatabaseError::Garbled(format!("verdict {verdict}"))
}

fn pushes(found: &[Row]) -> Result<Vec<Push>, DatabaseError> {
    let mut pushes = Vec::new();
    for row in found {
        let (Some(sale), Some(sku)) =
            (column::<Option<&str>>(row, "sale")?, column::<Option<&str>>(row, "sku")?)
        else {
            continue;
        };
        pushes.push(Push {
            sale: parsed("sale", SaleId::parse(sale))?,
            sku: parsed("sku", Sku::parse(sku))?,
            shard: column(row, "shard")?,
            returned: column(row, "returned")?,
        });
    }
    Ok(pushes)
}

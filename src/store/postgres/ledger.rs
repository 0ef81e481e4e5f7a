//! The ledger: Postgres stock and reservations. It decides; the gate only advises.

use std::time::{Duration, SystemTime};

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};
use uuid::Uuid;

use super::database::{Database, DatabaseError};
use crate::domain::id::{BuyerId, OrderKey, SaleId, Sku};
use crate::domain::reservation::{Line, OrderRef, Reservation, Status};

/// How often a statement that Postgres undid, or whose link broke, is sent again.
const TRIES: u32 = 4;
const RETRY_DELAY: Duration = Duration::from_millis(40);

/// The ledger; a clone shares the pool.
#[derive(Clone)]
pub struct Ledger {
    pub(super) database: Database,
}

/// What the gate must be told: the running total of units put back to one stock row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// The sale.
    pub sale: SaleId,
    /// The SKU.
    pub sku: Sku,
    /// The stock row.
    pub shard: i32,
    /// All units ever put back or added there.
    pub returned: i64,
}

impl Ledger {
    /// The ledger in this database.
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// The database itself; for readiness and for the keeper's records.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Reads rows, trying again what may be tried again; prepared once a connection.
    pub(super) async fn query(
        &self,
        sql: &str,
        arguments: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, DatabaseError> {
        let mut tries = Tries::default();
        loop {
            let found = self.query_once(sql, arguments).await;
            if let Some(settled) = tries.settle(found).await {
                return settled;
            }
        }
    }

    /// Reads rows without a second try.
    pub(super) async fn query_once(
        &self,
        sql: &str,
        arguments: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, DatabaseError> {
        let client = self.database.client().await?;
        let statement = client.prepare_cached(sql).await?;
        Ok(client.query(&statement, arguments).await?)
    }
}

/// Counts the tries of a statement that may be repeated, because an order key, an operation key or
/// a status guards it.
#[derive(Default)]
pub(super) struct Tries(u32);

impl Tries {
    /// Whether this is not the first try any more: an earlier one may have been committed.
    pub(super) fn again(&self) -> bool {
        self.0 > 0
    }

    /// The outcome, or none after a pause if the statement is to be sent again.
    pub(super) async fn settle<T>(
        &mut self,
        outcome: Result<T, DatabaseError>,
    ) -> Option<Result<T, DatabaseError>> {
        self.0 += 1;
        match outcome {
            Err(error) if error.is_worth_a_retry() && self.0 < TRIES => {
                tracing::warn!(%error, tries = self.0, "the ledger is asked again");
                tokio::time::sleep(RETRY_DELAY * self.0).await;
                None
            }
            settled => Some(settled),
        }
    }
}

/// A column, or what is wrong with it.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, DatabaseError> {
    Ok(row.try_get(name)?)
}

/// Reads a domain value from a column.
pub(super) fn parsed<T, E: std::fmt::Display>(
    name: &str,
    value: Result<T, E>,
) -> Result<T, DatabaseError> {
    value.map_err(|e| DatabaseError::Garbled(format!("{name} {e}")))
}

/// A column that counts and is never negative.
pub(super) fn count(row: &Row, name: &str) -> Result<u64, DatabaseError> {
    parsed(name, u64::try_from(column::<i64>(row, name)?))
}

/// A column of text that is one of our names.
pub(super) fn sku(row: &Row) -> Result<Sku, DatabaseError> {
    parsed("sku", Sku::parse(column(row, "sku")?))
}

/// An instant.
pub(super) fn instant(row: &Row, name: &str) -> Result<jiff::Timestamp, DatabaseError> {
    parsed(name, jiff::Timestamp::try_from(column::<SystemTime>(row, name)?))
}

/// An instant that may be missing, in Unix milliseconds.
pub(super) fn instant_ms(row: &Row, name: &str) -> Result<Option<u64>, DatabaseError> {
    let at: Option<SystemTime> = column(row, name)?;
    let ms = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).ok().map(|d| d.as_millis());
    Ok(at.and_then(ms).and_then(|ms| u64::try_from(ms).ok()))
}

/// A reservation of given lines from columns id, status, settling, expires_at, created_at and
/// payment_ref.
pub(super) fn reservation(
    row: &Row,
    (sale, buyer, order_key): (SaleId, BuyerId, OrderKey),
    lines: Vec<Line>,
) -> Result<Reservation, DatabaseError> {
    let status: &str = column(row, "status")?;
    Ok(Reservation {
        id: column::<Uuid>(row, "id")?,
        sale,
        buyer,
        order_key,
        status: Status::named(status)
            .ok_or_else(|| DatabaseError::Garbled(format!("status {status}")))?,
        lines,
        expires_at: instant(row, "expires_at")?,
        created_at: instant(row, "created_at")?,
        payment_ref: column(row, "payment_ref")?,
        settling: column(row, "settling")?,
    })
}

/// An order as arguments of a statement: sale, buyer, order key.
pub(super) fn columns(order: &OrderRef) -> [&str; 3] {
    [order.sale.as_str(), order.buyer.as_str(), order.order_key.as_str()]
}

//! The ledger: Postgres stock and reservations. It decides; the gate only advises.

use std::time::{Duration, SystemTime};

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};
use uuid::Uuid;

use super::database::{Client, Database, DatabaseError};
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

    /// Runs `work` on a connection, and again on another if that is right: every statement that is
    /// given here may be repeated, because an order key, an operation key or a status guards it.
    pub(super) async fn again<T, F, Work>(&self, work: F) -> Result<T, DatabaseError>
    where
        F: Fn(Client, u32) -> Work,
        Work: Future<Output = Result<T, DatabaseError>>,
    {
        let mut tries = 0;
        loop {
            let done = match self.database.client().await {
                Ok(client) => work(client, tries).await,
                Err(error) => Err(error),
            };
            tries += 1;
            match done {
                Err(error) if error.is_worth_a_retry() && tries < TRIES => {
                    tracing::warn!(%error, tries, "the ledger is asked again");
                    tokio::time::sleep(RETRY_DELAY * tries).await;
                }
                done => return done,
            }
        }
    }

    /// Reads rows; the statement is prepared once a connection.
    pub(super) async fn query(
        &self,
        sql: &str,
        arguments: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, DatabaseError> {
        self.again(|client, _| async move { rows(&client, sql, arguments).await }).await
    }
}

/// Runs one prepared statement.
pub(super) async fn rows(
    client: &Client,
    sql: &str,
    arguments: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, DatabaseError> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, arguments).await?)
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

/// A reservation of given lines from columns id, status, expires_at, created_at and payment_ref.
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
    })
}

/// An order as arguments of a statement: sale, buyer, order key.
pub(super) fn columns(order: &OrderRef) -> [&str; 3] {
    [order.sale.as_str(), order.buyer.as_str(), order.order_key.as_str()]
}

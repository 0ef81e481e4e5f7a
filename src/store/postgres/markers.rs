//! What the gate is loaded from and compared with.

use std::collections::HashSet;
use std::time::Duration;

use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use uuid::Uuid;

use super::database::{Client, DatabaseError};
use super::ledger::{Ledger, column, count, parsed};
use crate::domain::id::{BuyerId, OrderKey, SaleId, Sku};
use crate::domain::reservation::OrderRef;

const TRUTH: &str = "
    SELECT k.sale, k.generation, sum(s.available)::bigint AS available,
           sum(s.version)::bigint AS version,
           array_agg(s.shard ORDER BY s.shard) AS shards,
           array_agg(s.returned ORDER BY s.shard) AS returned
    FROM sku k JOIN stock s ON s.sku = k.sku
    WHERE k.sku = $1 GROUP BY k.sku";

const LOCK: &str = "SELECT 1 FROM stock WHERE sku = $1 ORDER BY sku, shard FOR NO KEY UPDATE";

const MARKERS: &str = "SELECT id, sale, buyer, order_key FROM known_keys($1, $3, $2, $4)";

const MISSING: &str = "
    SELECT q.id FROM unnest($1::uuid[]) q(id)
    WHERE NOT EXISTS (SELECT 1 FROM reservation r WHERE r.id = q.id)";

/// Keys on one page.
pub const MARKERS_PAGE: usize = 1_000;
/// How long a SKU may be made to stand still.
pub const STANDSTILL_MAX: Duration = Duration::from_millis(250);

/// The advisory lock of reconciling; any number that nothing else uses.
const TURN_LOCK: i64 = 0x5354_414e_4348_5232;
/// How long one core may keep the others from reconciling.
pub const TURN_MAX: Duration = Duration::from_secs(50);

/// What the ledger says about a SKU, for its gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateTruth {
    /// Its sale.
    pub sale: SaleId,
    /// Raised by freeze and thaw.
    pub generation: u64,
    /// Units available over all stock rows.
    pub available: u64,
    /// Stands still while nothing is taken or put back.
    pub version: u64,
    /// The running total of units put back, a stock row each.
    pub returned: Vec<(i32, i64)>,
}

/// An order key that the ledger knows, as the gate marks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Whose order.
    pub order: OrderRef,
    /// Its reservation.
    pub id: Uuid,
}

impl Ledger {
    /// What the gate of a SKU should know; nothing for an unknown SKU.
    pub async fn gate_truth(&self, sku: &Sku) -> Result<Option<GateTruth>, DatabaseError> {
        self.query(TRUTH, &[&sku.as_str()]).await?.first().map(read).transpose()
    }

    /// A page of the keys that concern a SKU.
    pub async fn markers(
        &self,
        sale: &SaleId,
        sku: &Sku,
        after: Uuid,
    ) -> Result<Vec<Marker>, DatabaseError> {
        markers(&self.database.client().await?, sale, sku, after).await
    }

    /// Those of the ids that are no reservation.
    pub async fn missing(&self, ids: &[Uuid]) -> Result<HashSet<Uuid>, DatabaseError> {
        missing(&self.database.client().await?, ids).await
    }

    /// Waits for this core's turn to reconcile, but not for long. The turn lasts as long as the
    /// transaction, which does nothing otherwise.
    pub async fn turn<'c>(&self, client: &'c mut Client) -> Result<Transaction<'c>, DatabaseError> {
        let transaction = client.transaction().await?;
        let patience = TURN_MAX.as_millis();
        let idle = format!("SET LOCAL idle_in_transaction_session_timeout = {patience}");
        transaction.batch_execute(&idle).await?;
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&TURN_LOCK]).await?;
        Ok(transaction)
    }

    /// Lets a SKU stand still: no unit of it is taken or put back as long as the transaction
    /// lives. None for an unknown SKU.
    pub async fn stand_still<'c>(
        &self,
        client: &'c mut Client,
        sku: &Sku,
    ) -> Result<Option<Still<'c>>, DatabaseError> {
        let transaction = client.transaction().await?;
        transaction.execute(LOCK, &[&sku.as_str()]).await?;
        // A fresh snapshot: what the lock was waited for is in it.
        let found = transaction.query_opt(TRUTH, &[&sku.as_str()]).await?;
        let truth = found.as_ref().map(read).transpose()?;
        Ok(truth.map(|truth| Still { transaction, truth }))
    }
}

/// A SKU that stands still. What is read here needs no other connection: all of those may be
/// taken by orders that wait for this very lock.
pub struct Still<'c> {
    transaction: Transaction<'c>,
    /// What the ledger says meanwhile.
    pub truth: GateTruth,
}

impl Still<'_> {
    /// As [`Ledger::markers`].
    pub async fn markers(&self, sku: &Sku, after: Uuid) -> Result<Vec<Marker>, DatabaseError> {
        markers(&self.transaction, &self.truth.sale, sku, after).await
    }

    /// As [`Ledger::missing`].
    pub async fn missing(&self, ids: &[Uuid]) -> Result<HashSet<Uuid>, DatabaseError> {
        missing(&self.transaction, ids).await
    }
}

/// At most [`MARKERS_PAGE`], in the order of their ids.
async fn markers(
    client: &impl GenericClient,
    sale: &SaleId,
    sku: &Sku,
    after: Uuid,
) -> Result<Vec<Marker>, DatabaseError> {
    let statement = client.prepare_cached(MARKERS).await?;
    let limit = i64::try_from(MARKERS_PAGE).unwrap_or(i64::MAX);
    let found = client.query(&statement, &[&sale.as_str(), &after, &sku.as_str(), &limit]).await?;
    found.iter().map(marker).collect()
}

async fn missing(
    client: &impl GenericClient,
    ids: &[Uuid],
) -> Result<HashSet<Uuid>, DatabaseError> {
    let statement = client.prepare_cached(MISSING).await?;
    let found = client.query(&statement, &[&ids]).await?;
    found.iter().map(|row| column(row, "id")).collect()
}

fn read(row: &Row) -> Result<GateTruth, DatabaseError> {
    let shards: Vec<i32> = column(row, "shards")?;
    let returned: Vec<i64> = column(row, "returned")?;
    Ok(GateTruth {
        sale: parsed("sale", SaleId::parse(column(row, "sale")?))?,
        generation: count(row, "generation")?,
        available: count(row, "available")?,
        version: count(row, "version")?,
        returned: shards.into_iter().zip(returned).collect(),
    })
}

fn marker(row: &Row) -> Result<Marker, DatabaseError> {
    Ok(Marker {
        order: OrderRef {
            sale: parsed("sale", SaleId::parse(column(row, "sale")?))?,
            buyer: parsed("buyer", BuyerId::parse(column(row, "buyer")?))?,
            order_key: parsed("order_key", OrderKey::parse(column(row, "order_key")?))?,
        },
        id: column(row, "id")?,
    })
}

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

const SINCE: &str =
    "SELECT id, sale, buyer, order_key FROM keys_since($1, $2, $3::text::pg_snapshot, $4)";

const SNAPSHOT: &str = "SELECT pg_current_snapshot()::text AS now";

const MISSING: &str = "
    SELECT q.id FROM unnest($1::uuid[]) q(id)
    WHERE NOT EXISTS (SELECT 1 FROM reservation r WHERE r.id = q.id)";

/// Keys on one page.
pub const MARKERS_PAGE: usize = 1_000;
/// Keys that may come to be known while others are marked; more means that orders outrun the load.
const NEW_KEYS_MAX: i64 = 100_000;
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

/// What the ledger knew at an instant: every transaction that had committed by then.
pub struct Known(String);

impl Ledger {
    /// What the gate of a SKU should know; nothing for an unknown SKU.
    pub async fn gate_truth(&self, sku: &Sku) -> Result<Option<GateTruth>, DatabaseError> {
        self.query(TRUTH, &[&sku.as_str()]).await?.first().map(read).transpose()
    }

    /// A page of the keys that concern a SKU: at most [`MARKERS_PAGE`], in the order of their ids.
    pub async fn markers(
        &self,
        sale: &SaleId,
        sku: &Sku,
        after: Uuid,
    ) -> Result<Vec<Marker>, DatabaseError> {
        let limit = i64::try_from(MARKERS_PAGE).unwrap_or(i64::MAX);
        let found = self.query(MARKERS, &[&sale.as_str(), &after, &sku.as_str(), &limit]).await?;
        found.iter().map(marker).collect()
    }

    /// What the ledger knows now, to be asked later for what came since.
    pub async fn known_now(&self) -> Result<Known, DatabaseError> {
        let found = self.query(SNAPSHOT, &[]).await?;
        let row = found.first().ok_or_else(|| DatabaseError::Garbled("no snapshot".into()))?;
        Ok(Known(column(row, "now")?))
    }

    /// The keys that concern a SKU and came to be known since.
    pub async fn new_markers(
        &self,
        sale: &SaleId,
        sku: &Sku,
        since: &Known,
    ) -> Result<Vec<Marker>, DatabaseError> {
        new_markers(&self.database.client().await?, sale, sku, since).await
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
    /// As [`Ledger::new_markers`].
    pub async fn new_markers(
        &self,
        sku: &Sku,
        since: &Known,
    ) -> Result<Vec<Marker>, DatabaseError> {
        new_markers(&self.transaction, &self.truth.sale, sku, since).await
    }

    /// As [`Ledger::missing`].
    pub async fn missing(&self, ids: &[Uuid]) -> Result<HashSet<Uuid>, DatabaseError> {
        missing(&self.transaction, ids).await
    }
}

async fn new_markers(
    client: &impl GenericClient,
    sale: &SaleId,
    sku: &Sku,
    since: &Known,
) -> Result<Vec<Marker>, DatabaseError> {
    let statement = client.prepare_cached(SINCE).await?;
    let (sale, sku, since) = (sale.as_str(), sku.as_str(), since.0.as_str());
    let found = client.query(&statement, &[&sale, &sku, &since, &(NEW_KEYS_MAX + 1)]).await?;
    if found.len() > usize::try_from(NEW_KEYS_MAX).unwrap_or(usize::MAX) {
        return Err(DatabaseError::Contended);
    }
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

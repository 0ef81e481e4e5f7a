//! Forgetting: after a sale's close and its retention, no buyer is named any more, and every total
//! is as before. The payment's own reference stays: it tells a notice that is sent again from a
//! second payment, which would be owed back.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::database::{Database, DatabaseError};
use super::ledger::parsed;
use crate::domain::id::SaleId;

/// Rows that one statement looks at.
const CHUNK: i64 = 1_000;

const KEEP: &str = "
    INSERT INTO retention (sale, keep) VALUES ($1, $2::bigint * interval '1 ms')
    ON CONFLICT (sale) DO UPDATE SET keep = excluded.keep WHERE retention.keep <> excluded.keep";
const DUE: &str = "
    SELECT r.sale FROM retention r JOIN control c ON c.sale = r.sale
    WHERE to_timestamp((c.record ->> 'closes_ms')::bigint / 1000.0) + r.keep <= clock_timestamp()
    ORDER BY r.sale";
const ANY: &str = "
    SELECT EXISTS (SELECT 1 FROM reservation
                   WHERE sale = $1 AND buyer <> '-' AND status <> 'held' AND NOT settling)";
/// Held and settling reservations are still somebody's: they are forgotten once decided.
const RESERVATIONS: &str = "
    WITH page AS (
        SELECT id FROM reservation WHERE sale = $1 AND id > $2
        ORDER BY id LIMIT $3
    ), due AS (
        SELECT r.id FROM reservation r JOIN page p ON p.id = r.id
        WHERE r.buyer <> '-' AND r.status <> 'held' AND NOT r.settling
        FOR UPDATE OF r SKIP LOCKED
    ), done AS (
        UPDATE reservation r SET buyer = '-', order_key = r.id::text
        FROM due d WHERE r.id = d.id RETURNING 1
    )
    SELECT (SELECT max(id::text)::uuid FROM page) AS last, (SELECT count(*) FROM done) AS done";
const PLACES: &str = "
    DELETE FROM place WHERE ctid IN (
        SELECT ctid FROM place WHERE sale = $1 LIMIT $2 FOR UPDATE SKIP LOCKED)";

/// A payment without an order names who was to have it.
const UNMATCHED: &str = "
    DELETE FROM outbox WHERE type = 'payment_unmatched' AND detail ->> 'sale' = $1";

impl Database {
    /// Remembers how long a sale's names are kept after its close, in milliseconds.
    pub async fn keep_names(&self, sale: &SaleId, keep_ms: u64) -> Result<(), DatabaseError> {
        let keep = i64::try_from(keep_ms).unwrap_or(i64::MAX);
        self.run_retention(KEEP, &[&sale.as_str(), &keep]).await?;
        Ok(())
    }

    /// The sales whose names are kept long enough.
    pub async fn forgettable(&self) -> Result<Vec<SaleId>, DatabaseError> {
        let client = self.client().await?;
        let statement = client.prepare_cached(DUE).await?;
        let found = client.query(&statement, &[]).await?;
        found.iter().map(|row| parsed("sale", SaleId::parse(row.try_get(0)?))).collect()
    }

    /// Forgets who bought what in a sale, chunk by chunk; how many reservations were forgotten.
    /// Any number of cores may be at it, and a pass that breaks off is taken up by the next.
    pub async fn forget_names(&self, sale: &SaleId) -> Result<u64, DatabaseError> {
        let sale = sale.as_str();
        while self.run_retention(PLACES, &[&sale, &CHUNK]).await? > 0 {}
        self.run_retention(UNMATCHED, &[&sale]).await?;
        let client = self.client().await?;
        let any = client.prepare_cached(ANY).await?;
        if !client.query_one(&any, &[&sale]).await?.try_get::<_, bool>(0)? {
            return Ok(0);
        }
        let (mut after, mut forgotten) = (Uuid::nil(), 0);
        let statement = client.prepare_cached(RESERVATIONS).await?;
        loop {
            let row = client.query_one(&statement, &[&sale, &after, &CHUNK]).await?;
            let Some(last) = row.try_get::<_, Option<Uuid>>("last")? else { return Ok(forgotten) };
            after = last;
            forgotten += u64::try_from(row.try_get::<_, i64>("done")?).unwrap_or(0);
        }
    }

    async fn run_retention(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, DatabaseError> {
        let client = self.client().await?;
        let statement = client.prepare_cached(sql).await?;
        Ok(client.execute(&statement, values).await?)
    }
}

//! The room's durable records: the draw's sealed seed, the opening, the ceilings.

use super::database::{Database, DatabaseError};
use crate::domain::beacon::SignatureBytes;
use crate::domain::id::SaleId;

/// The draw of a run as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrawRecord {
    /// The seed, sealed with the keys' seal key.
    pub sealed_seed: Vec<u8>,
    /// The published hash of the seed.
    pub commitment: Vec<u8>,
    /// The beacon round committed to; 0 = none.
    pub round: u64,
    /// The round's signature, once it is known.
    pub signature: Option<SignatureBytes>,
}

/// The opening of a run: written once, it wins for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpeningRecord {
    /// How many entries are drawn.
    pub n: u64,
    /// Unix milliseconds.
    pub opened_at_ms: u64,
}

impl Database {
    /// The draw of a run, if it was seen before.
    pub async fn draw(&self, sale: &SaleId, run: u64) -> Result<Option<DrawRecord>, DatabaseError> {
        let client = self.client().await?;
        let sql = "SELECT sealed_seed, commitment, round, signature FROM draw \
                   WHERE sale = $1 AND run = $2";
        let statement = client.prepare_cached(sql).await?;
        let found = client.query_opt(&statement, &[&sale.as_str(), &signed(run)]).await?;
        let read = |row: tokio_postgres::Row| {
            let signature: Option<Vec<u8>> = row.try_get(3)?;
            Ok(DrawRecord {
                sealed_seed: row.try_get(0)?,
                commitment: row.try_get(1)?,
                round: unsigned(row.try_get(2)?),
                signature: signature.and_then(|raw| raw.try_into().ok()),
            })
        };
        found.map(read).transpose()
    }

    /// Keeps a draw unless the run has one; a signature is kept by itself.
    pub async fn keep_draw(
        &self,
        sale: &SaleId,
        run: u64,
        draw: &DrawRecord,
    ) -> Result<(), DatabaseError> {
        let client = self.client().await?;
        let sql = "INSERT INTO draw (sale, run, sealed_seed, commitment, round) \
                   VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
        let statement = client.prepare_cached(sql).await?;
        let (sale, run, round) = (sale.as_str(), signed(run), signed(draw.round));
        let DrawRecord { sealed_seed, commitment, .. } = draw;
        client.execute(&statement, &[&sale, &run, sealed_seed, commitment, &round]).await?;
        Ok(())
    }

    /// Keeps the signature of the round that a draw has committed to, verified by the caller. A
    /// round has one signature, so that whoever is second writes the same.
    pub async fn keep_beacon(
        &self,
        sale: &SaleId,
        run: u64,
        signature: &SignatureBytes,
    ) -> Result<(), DatabaseError> {
        let client = self.client().await?;
        let sql = "UPDATE draw SET signature = $3 \
                   WHERE sale = $1 AND run = $2 AND round > 0 AND signature IS NULL";
        let statement = client.prepare_cached(sql).await?;
        let signature = signature.as_slice();
        client.execute(&statement, &[&sale.as_str(), &signed(run), &signature]).await?;
        Ok(())
    }

    /// The opening of a run, once it is durable.
    pub async fn opening(
        &self,
        sale: &SaleId,
        run: u64,
    ) -> Result<Option<OpeningRecord>, DatabaseError> {
        let client = self.client().await?;
        let sql = "SELECT n, opened_at_ms FROM opening WHERE sale = $1 AND run = $2";
        let statement = client.prepare_cached(sql).await?;
        let found = client.query_opt(&statement, &[&sale.as_str(), &signed(run)]).await?;
        let read = |row: tokio_postgres::Row| {
            let (n, opened_at) = (row.try_get(0)?, row.try_get(1)?);
            Ok(OpeningRecord { n: unsigned(n), opened_at_ms: unsigned(opened_at) })
        };
        found.map(read).transpose()
    }

    /// Makes the opening durable unless the run has one; returns the one that it has now.
    pub async fn keep_opening(
        &self,
        sale: &SaleId,
        run: u64,
        opening: OpeningRecord,
    ) -> Result<OpeningRecord, DatabaseError> {
        let client = self.client().await?;
        let sql = "INSERT INTO opening (sale, run, n, opened_at_ms) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT DO NOTHING";
        let statement = client.prepare_cached(sql).await?;
        let (n, opened_at) = (signed(opening.n), signed(opening.opened_at_ms));
        client.execute(&statement, &[&sale.as_str(), &signed(run), &n, &opened_at]).await?;
        drop(client);
        Ok(self.opening(sale, run).await?.unwrap_or(opening))
    }

    /// The ceilings of a run by name.
    pub async fn ceilings(
        &self,
        sale: &SaleId,
        run: u64,
    ) -> Result<Vec<(String, u64)>, DatabaseError> {
        let client = self.client().await?;
        let sql = "SELECT name, value FROM ceiling WHERE sale = $1 AND run = $2";
        let statement = client.prepare_cached(sql).await?;
        let rows = client.query(&statement, &[&sale.as_str(), &signed(run)]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, unsigned(row.try_get(1)?)))).collect()
    }

    /// Raises ceilings; never lowers one.
    pub async fn keep_ceilings(
        &self,
        sale: &SaleId,
        run: u64,
        ceilings: &[(&str, u64)],
    ) -> Result<(), DatabaseError> {
        let client = self.client().await?;
        let sql = "INSERT INTO ceiling (sale, run, name, value) \
                   SELECT $1, $2, name, value \
                   FROM unnest($3::text[], $4::bigint[]) AS new (name, value) ORDER BY name \
                   ON CONFLICT (sale, run, name) \
                   DO UPDATE SET value = greatest(ceiling.value, excluded.value)";
        let statement = client.prepare_cached(sql).await?;
        let (names, values): (Vec<_>, Vec<_>) =
            ceilings.iter().map(|(name, value)| (*name, signed(*value))).unzip();
        client.execute(&statement, &[&sale.as_str(), &signed(run), &names, &values]).await?;
        Ok(())
    }
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The columns are checked to be non-negative, or written by [`signed`].
pub(super) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

//! Staff passes: counted where they cannot be lost.

use serde::Serialize;
use tokio_postgres::Row;
use uuid::Uuid;

use super::database::{Database, DatabaseError};
use super::ledger::parsed;
use crate::domain::id::SaleId;
use crate::domain::pass::{BadPass, Use};

/// The most passes that are listed, the newest first.
const LISTED_MAX: i64 = 1_000;

/// A pass as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassRecord {
    /// Its number.
    pub id: Uuid,
    /// The sale it is for.
    pub sale: SaleId,
    /// How often it may be used.
    pub uses: u64,
    /// How often it was.
    pub used: u64,
    /// Unix milliseconds.
    pub created_at_ms: u64,
    /// Unix milliseconds.
    pub expires_at_ms: u64,
    /// Unix milliseconds, if it was revoked.
    pub revoked_at_ms: Option<u64>,
}

const COLUMNS: &str = "id, sale, uses, used, created_at_ms, expires_at_ms, revoked_at_ms";

impl Database {
    /// Keeps a new pass.
    pub async fn keep_pass(&self, pass: &PassRecord) -> Result<(), DatabaseError> {
        let client = self.client().await?;
        let sql = "INSERT INTO pass (id, sale, uses, created_at_ms, expires_at_ms) \
                   VALUES ($1, $2, $3, $4, $5)";
        let (uses, created) = (signed(pass.uses), signed(pass.created_at_ms));
        let statement = client.prepare_cached(sql).await?;
        let expires = signed(pass.expires_at_ms);
        client
            .execute(&statement, &[&pass.id, &pass.sale.as_str(), &uses, &created, &expires])
            .await?;
        Ok(())
    }

    /// The newest passes, of one sale or of all.
    pub async fn passes(&self, sale: Option<&SaleId>) -> Result<Vec<PassRecord>, DatabaseError> {
        let client = self.client().await?;
        let sql = format!(
            "SELECT {COLUMNS} FROM pass WHERE $1::text IS NULL OR sale = $1 \
             ORDER BY created_at_ms DESC, id DESC LIMIT {LISTED_MAX}"
        );
        let statement = client.prepare_cached(&sql).await?;
        let rows = client.query(&statement, &[&sale.map(SaleId::as_str)]).await?;
        rows.iter().map(read).collect()
    }

    /// Revokes a pass; one that was revoked before stays so. Nothing if there is none.
    pub async fn revoke_pass(
        &self,
        id: Uuid,
        now_ms: u64,
    ) -> Result<Option<PassRecord>, DatabaseError> {
        let client = self.client().await?;
        let sql = format!(
            "UPDATE pass SET revoked_at_ms = coalesce(revoked_at_ms, $2) WHERE id = $1 \
             RETURNING {COLUMNS}"
        );
        let statement = client.prepare_cached(&sql).await?;
        let row = client.query_opt(&statement, &[&id, &signed(now_ms)]).await?;
        row.as_ref().map(read).transpose()
    }

    /// Counts one use, once for each key.
    pub async fn redeem_pass(
        &self,
        id: Uuid,
        sale: &SaleId,
        key: &str,
        now_ms: u64,
    ) -> Result<Result<Use, BadPass>, DatabaseError> {
        let client = self.client().await?;
        let sql = "SELECT outcome, coalesce(number, 0), coalesce(uses, 0) \
                   FROM redeem_pass($1, $2, $3, $4)";
        let statement = client.prepare_cached(sql).await?;
        let now = signed(now_ms);
        let row = client.query_one(&statement, &[&id, &sale.as_str(), &key, &now]).await?;
        let (outcome, number, uses): (String, i64, i64) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let (number, uses) = (unsigned(number), unsigned(uses));
        match outcome.as_str() {
            "used" => Ok(Ok(Use { number, uses, again: false })),
            "again" => Ok(Ok(Use { number, uses, again: true })),
            "unknown" => Ok(Err(BadPass::Unknown)),
            "revoked" => Ok(Err(BadPass::Revoked)),
            "expired" => Ok(Err(BadPass::Expired)),
            "used-up" => Ok(Err(BadPass::UsedUp { uses })),
            other => Err(DatabaseError::Garbled(format!("redeem_pass: {other}"))),
        }
    }
}

fn read(row: &Row) -> Result<PassRecord, DatabaseError> {
    Ok(PassRecord {
        id: row.try_get(0)?,
        sale: parsed("sale", SaleId::parse(row.try_get(1)?))?,
        uses: unsigned(row.try_get(2)?),
        used: unsigned(row.try_get(3)?),
        created_at_ms: unsigned(row.try_get(4)?),
        expires_at_ms: unsigned(row.try_get(5)?),
        revoked_at_ms: row.try_get::<_, Option<i64>>(6)?.map(unsigned),
    })
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The columns are written by [`signed`], or checked.
fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

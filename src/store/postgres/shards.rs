//! A SKU frozen, thawed, and spread over another number of rows.

use super::database::DatabaseError;
use super::ledger::{Ledger, column};
use crate::domain::id::Sku;

/// What became of freezing, thawing or spreading a SKU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turned {
    /// Done now.
    Done,
    /// It was so before.
    Before,
    /// No such SKU.
    Unknown,
    /// It is for sale: only a frozen SKU is spread anew.
    ForSale,
}

impl Ledger {
    /// Freezes a SKU or thaws it, and raises its generation. When this returns, every take that
    /// found it otherwise is committed or undone.
    pub async fn freeze(&self, sku: &Sku, frozen: bool) -> Result<Turned, DatabaseError> {
        self.turn_sku("freeze_sku($1, $2)", &[&sku.as_str(), &frozen]).await
    }

    /// Spreads the available units of a frozen SKU over this many rows.
    pub async fn set_shards(&self, sku: &Sku, shards: u32) -> Result<Turned, DatabaseError> {
        let shards = i32::try_from(shards).unwrap_or(i32::MAX);
        self.turn_sku("set_shards($1, $2)", &[&sku.as_str(), &shards]).await
    }

    /// The SKUs of all sales, by name.
    pub async fn skus(&self) -> Result<Vec<Sku>, DatabaseError> {
        let found = self.query("SELECT sku FROM sku ORDER BY sku", &[]).await?;
        found.iter().map(super::ledger::sku).collect()
    }

    async fn turn_sku(
        &self,
        call: &str,
        arguments: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<Turned, DatabaseError> {
        let found = self.query(&format!("SELECT {call} AS verdict"), arguments).await?;
        let row = found.first().ok_or_else(|| DatabaseError::Garbled("no answer".into()))?;
        Ok(match column::<&str>(row, "verdict")? {
            "done" => Turned::Done,
            "replay" => Turned::Before,
            "unknown-sku" => Turned::Unknown,
            "not-frozen" => Turned::ForSale,
            other => return Err(DatabaseError::Garbled(format!("verdict {other}"))),
        })
    }
}

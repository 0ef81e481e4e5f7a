//! Control records: the truth of what may change while a sale runs.

use serde_json::Value;

use super::database::{Database, DatabaseError};
use super::ledger::parsed;
use crate::domain::id::SaleId;
use crate::domain::sale::Control;

impl Database {
    /// All control records.
    pub async fn controls(&self) -> Result<Vec<(SaleId, Control)>, DatabaseError> {
        let client = self.client().await?;
        let statement = client.prepare_cached("SELECT sale, record FROM control").await?;
        let found = client.query(&statement, &[]).await?;
        found
            .iter()
            .map(|row| {
                Ok((parsed("sale", SaleId::parse(row.try_get(0)?))?, read(row.try_get(1)?)?))
            })
            .collect()
    }

    /// The control record of a sale.
    pub async fn control(&self, sale: &SaleId) -> Result<Option<Control>, DatabaseError> {
        let client = self.client().await?;
        let sql = "SELECT record FROM control WHERE sale = $1";
        let statement = client.prepare_cached(sql).await?;
        let found = client.query_opt(&statement, &[&sale.as_str()]).await?;
        found.map(|row| read(row.try_get(0)?)).transpose()
    }

    /// Stores a record, merged with the one that is there; returns what is stored now.
    pub async fn merge_control(
        &self,
        sale: &SaleId,
        record: &Control,
    ) -> Result<Control, DatabaseError> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        let insert = "INSERT INTO control (sale, version, record) VALUES ($1, $2, $3) \
                      ON CONFLICT DO NOTHING";
        let update = "UPDATE control SET version = $2, record = $3 WHERE sale = $1";
        let lock = "SELECT record FROM control WHERE sale = $1 FOR NO KEY UPDATE";
        transaction.execute(insert, &[&sale.as_str(), &version(record), &write(record)?]).await?;
        let there = read(transaction.query_one(lock, &[&sale.as_str()]).await?.try_get(0)?)?;
        let merged = there.merged(record);
        if merged != there {
            transaction
                .execute(update, &[&sale.as_str(), &version(&merged), &write(&merged)?])
                .await?;
        }
        transaction.commit().await?;
        Ok(merged)
    }
}

fn version(record: &Control) -> i64 {
    i64::try_from(record.version).unwrap_or(i64::MAX)
}

fn write(record: &Control) -> Result<Value, DatabaseError> {
    parsed("control", serde_json::to_value(record))
}

fn read(record: Value) -> Result<Control, DatabaseError> {
    parsed("control", serde_json::from_value(record))
}

//! Control records: the truth of what may change while a sale runs. Each change of one leaves an
//! entry in the audit trail, in the same transaction.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::database::{Database, DatabaseError};
use super::ledger::parsed;
use super::trail::{self, TrailEntry};
use crate::domain::control::{ControlNo, Moment};
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

    /// Stores a record that is in force elsewhere, merged with the one that is there; returns what
    /// is stored now.
    pub async fn merge_control(
        &self,
        sale: &SaleId,
        record: &Control,
    ) -> Result<Control, DatabaseError> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        let there = there(&transaction, sale, record).await?;
        let merged = there.merged(record);
        if merged != there {
            update(&transaction, sale, &merged).await?;
            // Written down already, unless the store that it was made in has lost its trail.
            if !trail::has(&transaction, sale, &merged).await? {
                let entry = format!("carried {} {}", merged.version, merged.author);
                let at_ms = now_ms(&transaction).await?;
                let entry = TrailEntry::of_control(sale, entry, at_ms, &there, &merged);
                trail::write(&transaction, &entry).await?;
            }
        }
        transaction.commit().await?;
        Ok(merged)
    }

    /// Stores a change made here, if the rules allow it at that instant of the room's clock, merged
    /// with what is there; returns what is stored now.
    pub async fn put_control(
        &self,
        sale: &SaleId,
        record: &Control,
        at_ms: u64,
    ) -> Result<Result<Control, ControlNo>, DatabaseError> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        let there = there(&transaction, sale, record).await?;
        let merged = there.merged(record);
        let sql = "SELECT EXISTS (SELECT 1 FROM opening WHERE sale = $1 AND run = $2), \
                   coalesce((SELECT round FROM draw WHERE sale = $1 AND run = $2), 0)";
        let run = i64::try_from(there.run).unwrap_or(i64::MAX);
        let row = transaction.query_one(sql, &[&sale.as_str(), &run]).await?;
        let (frozen, round): (bool, i64) = (row.try_get(0)?, row.try_get(1)?);
        let round = u64::try_from(round).unwrap_or(0);
        if let Err(no) = there.allows(&merged, Moment { now_ms: at_ms, frozen, round }) {
            return Ok(Err(no));
        }
        if merged != there {
            update(&transaction, sale, &merged).await?;
            let entry = format!("put {} {}", merged.version, Uuid::now_v7());
            let entry = TrailEntry::of_control(sale, entry, at_ms, &there, &merged);
            trail::write(&transaction, &entry).await?;
        }
        transaction.commit().await?;
        Ok(Ok(merged))
    }
}

type Transaction<'a> = deadpool_postgres::Transaction<'a>;

/// The record that is there, locked; the given one, if there is none.
async fn there(
    transaction: &Transaction<'_>,
    sale: &SaleId,
    record: &Control,
) -> Result<Control, DatabaseError> {
    let insert = "INSERT INTO control (sale, version, record) VALUES ($1, $2, $3) \
                  ON CONFLICT DO NOTHING";
    let lock = "SELECT record FROM control WHERE sale = $1 FOR NO KEY UPDATE";
    let row: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
        [&sale.as_str(), &version(record), &write(record)?];
    if transaction.execute(insert, &row).await? == 1 {
        let entry = TrailEntry {
            entry: "first".into(),
            at_ms: now_ms(transaction).await?,
            author: record.author.clone(),
            action: "create".into(),
            sale: Some(sale.clone()),
            version: Some(record.version),
            changes: Map::from_iter([(
                "control".to_owned(),
                json!({ "from": null, "to": record }),
            )]),
        };
        trail::write(transaction, &entry).await?;
    }
    read(transaction.query_one(lock, &[&sale.as_str()]).await?.try_get(0)?)
}

async fn update(
    transaction: &Transaction<'_>,
    sale: &SaleId,
    record: &Control,
) -> Result<(), DatabaseError> {
    let update = "UPDATE control SET version = $2, record = $3 WHERE sale = $1";
    let row: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
        [&sale.as_str(), &version(record), &write(record)?];
    transaction.execute(update, &row).await?;
    Ok(())
}

async fn now_ms(transaction: &Transaction<'_>) -> Result<u64, DatabaseError> {
    let sql = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let now: i64 = transaction.query_one(sql, &[]).await?.try_get(0)?;
    Ok(u64::try_from(now).unwrap_or(0))
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

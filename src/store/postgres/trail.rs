//! The audit trail: who changed what by hand, and when.

use serde::Serialize;
use serde_json::{Map, Value};
use tokio_postgres::Row;

use super::database::{Database, DatabaseError};
use super::ledger::{column, parsed};
use crate::domain::id::SaleId;
use crate::domain::sale::Control;

/// Entries on one page.
const PAGE: i64 = 200;
/// Entries are written one writer at a time, so that a reader who goes by their ids skips none;
/// any number that nothing else uses.
const LOCK: i64 = 0x5354_414e_4348_5452;

/// An entry to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct TrailEntry {
    /// Names it: written twice, it is one. At most 300 bytes.
    pub entry: String,
    /// Unix milliseconds.
    pub at_ms: u64,
    /// Who: `config@NODE`, `ops@NODE`, or a name that was given.
    pub author: String,
    /// One word.
    pub action: String,
    /// The sale it concerns, if it is one.
    pub sale: Option<SaleId>,
    /// The control record's version that it led to.
    pub version: Option<u64>,
    /// Field by field `{from, to}`.
    pub changes: Map<String, Value>,
}

impl TrailEntry {
    /// A change of a control record; `entry` tells it from others of the same version.
    pub fn of_control(
        sale: &SaleId,
        entry: String,
        at_ms: u64,
        from: &Control,
        to: &Control,
    ) -> Self {
        Self {
            entry,
            at_ms,
            author: to.author.clone(),
            action: from.action(to).to_owned(),
            sale: Some(sale.clone()),
            version: Some(to.version),
            changes: from.differences(to),
        }
    }
}

/// An entry as it was written.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trailed {
    /// Where to go on from.
    pub id: i64,
    /// When.
    pub at: jiff::Timestamp,
    /// Who.
    pub author: String,
    /// One word.
    pub action: String,
    /// The sale it concerns, if it is one.
    pub sale: Option<SaleId>,
    /// The control record's version that it led to.
    pub version: Option<i64>,
    /// Field by field `{from, to}`.
    pub changes: Value,
}

/// A page of the audit trail, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrailPage {
    /// At most 200.
    pub entries: Vec<Trailed>,
    /// What to ask after for the next page; nothing on the last one.
    pub next: Option<i64>,
}

impl Database {
    /// Writes entries that are not there yet.
    pub async fn note(&self, entries: &[TrailEntry]) -> Result<(), DatabaseError> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        for entry in entries {
            write(&transaction, entry).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// The entries after `after`, of one sale or of all.
    pub async fn audit_trail(
        &self,
        sale: Option<&SaleId>,
        after: i64,
    ) -> Result<TrailPage, DatabaseError> {
        let client = self.client().await?;
        let sql = "SELECT id, at_ms, author, action, sale, version, changes FROM audit_trail \
                   WHERE id > $1 AND ($2::text IS NULL OR sale = $2) ORDER BY id LIMIT $3";
        let statement = client.prepare_cached(sql).await?;
        let sale = sale.map(SaleId::as_str);
        let rows = client.query(&statement, &[&after, &sale, &(PAGE + 1)]).await?;
        let page = usize::try_from(PAGE).unwrap_or(usize::MAX);
        let entries = rows.iter().take(page).map(read).collect::<Result<Vec<_>, _>>()?;
        let next = if rows.len() > page { entries.last().map(|last| last.id) } else { None };
        Ok(TrailPage { entries, next })
    }
}

/// Writes an entry unless it is there.
pub(super) async fn write(
    transaction: &deadpool_postgres::Transaction<'_>,
    entry: &TrailEntry,
) -> Result<(), DatabaseError> {
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    let sql = "INSERT INTO audit_trail (entry, at_ms, author, action, sale, version, changes) \
               VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
    let (at_ms, sale) = (signed(entry.at_ms), entry.sale.as_ref().map_or("", SaleId::as_str));
    let (version, changes) = (entry.version.map(signed), Value::Object(entry.changes.clone()));
    let row: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [&entry.entry, &at_ms, &entry.author, &entry.action, &sale, &version, &changes];
    transaction.execute(sql, &row).await?;
    Ok(())
}

/// Whether a change of that version by that author is written down.
pub(super) async fn has(
    transaction: &deadpool_postgres::Transaction<'_>,
    sale: &SaleId,
    to: &Control,
) -> Result<bool, DatabaseError> {
    let sql = "SELECT 1 FROM audit_trail WHERE sale = $1 AND version = $2 AND author = $3 LIMIT 1";
    let found =
        transaction.query_opt(sql, &[&sale.as_str(), &signed(to.version), &to.author]).await?;
    Ok(found.is_some())
}

fn read(row: &Row) -> Result<Trailed, DatabaseError> {
    let at = jiff::Timestamp::from_millisecond(column(row, "at_ms")?);
    let sale: &str = column(row, "sale")?;
    let sale = (!sale.is_empty()).then(|| SaleId::parse(sale)).transpose();
    Ok(Trailed {
        id: column(row, "id")?,
        at: parsed("at_ms", at)?,
        author: column(row, "author")?,
        action: column(row, "action")?,
        sale: parsed("sale", sale)?,
        version: column(row, "version")?,
        changes: column(row, "changes")?,
    })
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

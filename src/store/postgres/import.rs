//! The stock of many SKUs changed at once, all of it or none.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::database::DatabaseError;
use super::ledger::{Ledger, Tries, column, count, parsed};
use crate::domain::id::SaleId;
use crate::domain::stock_file::{Mode, StockRow};

const IMPORT: &str = "SELECT * FROM import_stock($1, $2, $3, $4, $5, $6)";
/// A hundred thousand SKUs take longer than any other statement may.
const IMPORT_MAX: Duration = Duration::from_mins(1);

/// What is to become of many SKUs.
#[derive(Debug, Clone)]
pub struct StockImport {
    /// What the numbers mean.
    pub mode: Mode,
    /// One row a SKU.
    pub rows: Vec<StockRow>,
    /// Under which name it counts once; a look needs none.
    pub op_key: Option<String>,
    /// Nothing is changed.
    pub look: bool,
    /// What the look before answered, if nothing may have changed since.
    pub seen: Option<String>,
}

/// What became of all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// Done now.
    Done,
    /// Only looked at.
    Looked,
    /// Some rows cannot be done, so nothing was.
    Refused,
    /// Done before under this operation key.
    Replay,
    /// The operation key was used for something else.
    KeyReused,
    /// The stock is not what was seen any more.
    Changed,
}

/// What a row comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowVerdict {
    /// Fine, though the difference may be 0.
    Good,
    /// No such SKU.
    Unknown,
    /// Fewer units are available than would be taken away.
    BelowTaken,
    /// More than can be counted.
    TooMany,
}

/// One SKU of an import; all but the verdict are empty for an unknown one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportRow {
    /// What it comes to.
    pub verdict: RowVerdict,
    /// Its sale.
    pub sale: Option<SaleId>,
    /// Units ever loaded, before.
    pub loaded: u64,
    /// Units held or confirmed.
    pub taken: u64,
    /// What is added, or taken away.
    pub delta: i64,
}

/// An import as the ledger saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// What became of it.
    pub outcome: Imported,
    /// A row for each of the import's, in its order; none after a replay or a reused key.
    pub rows: Vec<ImportRow>,
    /// Names the stock that was seen.
    pub seen: Option<String>,
}

impl Ledger {
    /// Changes the stock of many SKUs in one transaction.
    pub async fn import(&self, import: &StockImport) -> Result<ImportReport, DatabaseError> {
        let mut tries = Tries::default();
        loop {
            let outcome = self.import_once(import).await;
            if let Some(settled) = tries.settle(outcome).await {
                return settled;
            }
        }
    }

    async fn import_once(&self, import: &StockImport) -> Result<ImportReport, DatabaseError> {
        let (skus, units): (Vec<&str>, Vec<i64>) =
            import.rows.iter().map(|row| (row.sku.as_str(), row.units)).unzip();
        let set = import.mode == Mode::Set;
        let StockImport { op_key, seen, look, .. } = import;
        let arguments: [&(dyn ToSql + Sync); 6] = [&set, &skus, &units, op_key, seen, look];
        let mut client = self.database.client().await?;
        let transaction = client.transaction().await?;
        let patience = format!("SET LOCAL statement_timeout = {}", IMPORT_MAX.as_millis());
        transaction.batch_execute(&patience).await?;
        let found = transaction.query(IMPORT, &arguments).await?;
        let (all, rows) =
            found.split_first().ok_or_else(|| DatabaseError::Garbled("no answer".into()))?;
        let report = ImportReport {
            outcome: outcome(column(all, "verdict")?)?,
            rows: rows.iter().map(read).collect::<Result<_, _>>()?,
            seen: column(all, "seen")?,
        };
        transaction.commit().await?;
        Ok(report)
    }
}

fn outcome(verdict: &str) -> Result<Imported, DatabaseError> {
    Ok(match verdict {
        "done" => Imported::Done,
        "looked" => Imported::Looked,
        "refused" => Imported::Refused,
        "replay" => Imported::Replay,
        "key-reused" => Imported::KeyReused,
        "changed" => Imported::Changed,
        other => return Err(DatabaseError::Garbled(format!("verdict {other}"))),
    })
}

fn read(row: &Row) -> Result<ImportRow, DatabaseError> {
    let verdict = match column(row, "verdict")? {
        "unknown-sku" => {
            let (sale, verdict) = (None, RowVerdict::Unknown);
            return Ok(ImportRow { verdict, sale, loaded: 0, taken: 0, delta: 0 });
        }
        "below-taken" => RowVerdict::BelowTaken,
        "too-many" => RowVerdict::TooMany,
        _ => RowVerdict::Good,
    };
    Ok(ImportRow {
        verdict,
        sale: Some(parsed("sale", SaleId::parse(column(row, "sale")?))?),
        loaded: count(row, "loaded")?,
        taken: count(row, "taken")?,
        delta: column(row, "delta")?,
    })
}

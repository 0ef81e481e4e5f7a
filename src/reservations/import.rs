//! The stock of many SKUs from a file: all of it or nothing, seen before it is done.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::refuse::unavailable;
use super::state::Reservations;
use crate::domain::id::{SaleId, Sku};
use crate::domain::near::Lookalikes;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::stock_file::{BadRow, Mode, StockFile, StockRow, TOLD_MAX};
use crate::store::postgres::{ImportReport, ImportRow, Imported, Push, RowVerdict, StockImport};

/// How long the answer waits for the gates; those left follow behind it.
const GATES_MAX: Duration = Duration::from_secs(2);

/// What was asked for.
#[derive(Debug, Clone)]
pub struct ImportOrder {
    /// What the numbers mean.
    pub mode: Mode,
    /// Under which name it counts once; a look needs none.
    pub op_key: Option<String>,
    /// Nothing is changed.
    pub look: bool,
    /// What the look before answered, if nothing may have changed since.
    pub seen: Option<String>,
}

/// What an import does, or did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportAnswer {
    /// What the numbers mean.
    pub mode: Mode,
    /// Whether the stock is changed by now.
    pub applied: bool,
    /// Whether that was done by an earlier one under the same operation key.
    pub replayed: bool,
    /// Lines of the file.
    pub rows: usize,
    /// Units added, over all SKUs.
    pub added: u64,
    /// Units taken away, over all SKUs.
    pub removed: u64,
    /// The first differences, a thousand of them at most.
    pub changes: Vec<ImportChange>,
    /// SKUs that differ, those of `changes` included.
    pub changed: usize,
    /// SKUs that might be taken for one another.
    pub warnings: Vec<BadRow>,
    /// Names the stock that was seen: given with the import itself, it is refused if the stock was
    /// changed in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
}

/// One SKU that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportChange {
    /// From 1.
    pub line: usize,
    /// Which SKU.
    pub sku: Sku,
    /// Units ever loaded, before.
    pub loaded: u64,
    /// What is added, or taken away.
    pub delta: i64,
}

impl Reservations {
    /// Looks at what a file would do, or does it.
    pub async fn import(
        self: &Arc<Self>,
        file: StockFile,
        order: ImportOrder,
    ) -> Result<ImportAnswer, Refusal> {
        let this = Arc::clone(self);
        self.to_its_end(async move { this.import_fully(file, order).await }).await
    }

    async fn import_fully(
        self: &Arc<Self>,
        file: StockFile,
        order: ImportOrder,
    ) -> Result<ImportAnswer, Refusal> {
        let StockFile { rows, warnings } = file;
        let ImportOrder { mode, op_key, look, seen } = order;
        let import = StockImport { mode, rows, op_key, look, seen };
        let report = self.ledger.import(&import).await.map_err(|e| unavailable(&e))?;
        match report.outcome {
            Imported::Done | Imported::Looked | Imported::Replay => {}
            Imported::Refused => return Err(refused_rows(&self.bad_rows(&import, &report).await)),
            Imported::KeyReused => {
                let detail = "op_key: was used for another change; use a new one";
                return Err(Refusal::new(Problem::KeyReused, detail));
            }
            Imported::Changed => {
                let detail = "seen: the stock was changed meanwhile; look again, then import";
                return Err(
                    Refusal::new(Problem::VersionMismatch, detail).with("seen", report.seen)
                );
            }
        }
        match report.outcome {
            Imported::Done => self.gates_follow(&import.rows, &report.rows).await,
            // Perhaps by this very call, whose link broke: the gates have not heard of it then.
            Imported::Replay => {
                for row in &import.rows {
                    if let Some(sale) = self.shelves.sale_of(&row.sku) {
                        self.stray(&sale, &row.sku);
                    }
                }
            }
            _ => {}
        }
        Ok(answer(&import, &report, warnings))
    }

    /// What is wrong with rows that the ledger cannot do.
    async fn bad_rows(&self, import: &StockImport, report: &ImportReport) -> Vec<BadRow> {
        let known = match self.ledger.skus().await {
            Ok(skus) => skus.iter().collect::<Lookalikes>(),
            Err(_) => Lookalikes::default(),
        };
        let bad = |(row, found): (&StockRow, &ImportRow)| {
            let StockRow { line, sku, .. } = row;
            let ImportRow { loaded, taken, delta, .. } = found;
            let (field, detail) = match found.verdict {
                RowVerdict::Good => return None,
                RowVerdict::Unknown => match known.meant(sku) {
                    Some(meant) => ("sku", format!("{sku} is not known; is {meant} meant?")),
                    None => ("sku", format!("{sku} is not known; a sale's settings load it first")),
                },
                RowVerdict::BelowTaken => (
                    "units",
                    format!(
                        "{delta} of {sku} is too many: of {loaded} loaded {taken} are held or confirmed"
                    ),
                ),
                RowVerdict::TooMany => {
                    ("units", format!("{sku} would have more units than can be counted"))
                }
            };
            Some(BadRow::new(*line, field, detail))
        };
        import.rows.iter().zip(&report.rows).filter_map(bad).collect()
    }

    /// The gates are told in the background, and the answer waits for most of them.
    async fn gates_follow(self: &Arc<Self>, rows: &[StockRow], found: &[ImportRow]) {
        let changed: HashMap<Sku, (SaleId, i64)> = rows
            .iter()
            .zip(found)
            .filter(|(_, found)| found.delta != 0)
            .filter_map(|(row, found)| Some((row.sku.clone(), (found.sale.clone()?, found.delta))))
            .collect();
        let this = Arc::clone(self);
        let following = self.tasks.spawn(async move {
            for (sku, (sale, delta)) in changed {
                this.gate_hears(&sale, &sku, delta).await;
            }
        });
        if tokio::time::timeout(GATES_MAX, following).await.is_err() {
            tracing::info!("gates are still being told of an import");
        }
    }

    /// Units added are pushed; lowered stock makes a loaded gate follow.
    async fn gate_hears(&self, sale: &SaleId, sku: &Sku, delta: i64) {
        if delta < 0 {
            self.stray(sale, sku);
            return;
        }
        match self.ledger.gate_truth(sku).await {
            Ok(Some(truth)) => {
                let pushes = truth.returned.into_iter().map(|(shard, returned)| Push {
                    sale: sale.clone(),
                    sku: sku.clone(),
                    shard,
                    returned,
                });
                self.tell_gate(&pushes.collect::<Vec<_>>()).await;
            }
            Ok(None) => {}
            Err(_) => self.stray(sale, sku),
        }
    }
}

/// Nothing was done, and these lines are why: at most a thousand of them are told.
pub(super) fn refused_rows(bad: &[BadRow]) -> Refusal {
    let first = bad.first().map_or_else(String::new, |bad| {
        format!("line {}: {}: {}", bad.line, bad.field, bad.detail)
    });
    let more = match bad.len() {
        0 | 1 => String::new(),
        many => format!(", and {} more bad lines", many - 1),
    };
    let told = bad.get(..bad.len().min(TOLD_MAX)).unwrap_or_default();
    Refusal::bad_request("file", format!("nothing was changed; {first}{more}"))
        .with("bad", bad.len())
        .with("rows", json!(told))
}

fn answer(import: &StockImport, report: &ImportReport, warnings: Vec<BadRow>) -> ImportAnswer {
    let found = import.rows.iter().zip(&report.rows);
    let differing = found.filter(|(_, found)| found.delta != 0).map(|(row, found)| ImportChange {
        line: row.line,
        sku: row.sku.clone(),
        loaded: found.loaded,
        delta: found.delta,
    });
    let mut changes: Vec<_> = differing.collect();
    let units = |sign: i64| {
        let of_sign = changes.iter().filter(|change| change.delta.signum() == sign);
        of_sign.map(|change| change.delta.unsigned_abs()).sum()
    };
    ImportAnswer {
        mode: import.mode,
        applied: report.outcome != Imported::Looked,
        replayed: report.outcome == Imported::Replay,
        rows: import.rows.len(),
        added: units(1),
        removed: units(-1),
        changed: changes.len(),
        changes: {
            changes.truncate(TOLD_MAX);
            changes
        },
        warnings,
        seen: report.seen.clone().filter(|_| report.outcome == Imported::Looked),
    }
}

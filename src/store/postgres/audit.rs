//! The audit: the ledger against itself.

use serde::Serialize;

use super::database::DatabaseError;
use super::ledger::{Ledger, column};

const AUDIT: &str = include_str!("audit.sql");

/// Something in the ledger that does not add up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which rule is broken.
    pub finding: String,
    /// Of which SKU; empty if of none.
    pub sku: String,
    /// The numbers.
    pub detail: String,
}

impl Ledger {
    /// What does not add up, read in one snapshot; nothing when the ledger is sound.
    pub async fn audit(&self) -> Result<Vec<Finding>, DatabaseError> {
        let found = self.query(AUDIT, &[]).await?;
        let finding = |row| {
            let (finding, sku) = (column(row, "finding")?, column(row, "sku")?);
            Ok(Finding { finding, sku, detail: column(row, "detail")? })
        };
        found.iter().map(finding).collect()
    }
}

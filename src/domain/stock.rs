//! Stock as people and machines see it.

use serde::{Deserialize, Serialize};

use super::id::Sku;

/// One SKU's figures, read from the ledger at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkuFigures {
    /// The SKU.
    pub sku: Sku,
    /// Units ever loaded, restocks included.
    pub loaded: u64,
    /// Units that can be held now.
    pub available: u64,
    /// Units in live holds.
    pub held: u64,
    /// Units sold.
    pub confirmed: u64,
    /// When the first hold lapses, Unix milliseconds.
    #[serde(default)]
    pub earliest_release_ms: Option<u64>,
}

/// What one healthy core writes to Redis every 500 ms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Redis' time at the writing, Unix milliseconds.
    pub at_ms: u64,
    /// The sale's SKUs.
    pub skus: Vec<SkuFigures>,
}

/// Figures older than this say that no core is healthy, in milliseconds.
pub const FIGURES_FRESH_MS: u64 = 2_000;

/// The sum over a sale's SKUs, as the status body shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockSum {
    /// Units that can be held now.
    pub available: u64,
    /// Units in live holds.
    pub held: u64,
    /// Units sold.
    pub confirmed: u64,
}

/// Whether anything can still be had. The two kinds of "sold out" are different news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// Units are available.
    Available,
    /// None is available, but some are only held and may come back.
    AllHeld,
    /// Every unit is sold.
    Gone,
}

impl Figures {
    /// Whether a core wrote them lately enough.
    pub fn fresh(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.at_ms) < FIGURES_FRESH_MS
    }

    /// The sum over the SKUs.
    pub fn sum(&self) -> StockSum {
        self.skus.iter().fold(StockSum::default(), |sum, sku| StockSum {
            available: sum.available + sku.available,
            held: sum.held + sku.held,
            confirmed: sum.confirmed + sku.confirmed,
        })
    }
}

impl StockSum {
    /// What can still be had.
    pub fn supply(&self) -> Supply {
        match (self.available, self.held) {
            (0, 0) => Supply::Gone,
            (0, _) => Supply::AllHeld,
            _ => Supply::Available,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rs_82_all_held_is_not_gone() {
        let sum = |available, held, confirmed| StockSum { available, held, confirmed };
        assert_eq!(sum(1, 0, 9).supply(), Supply::Available);
        assert_eq!(sum(0, 1, 9).supply(), Supply::AllHeld);
        assert_eq!(sum(0, 0, 10).supply(), Supply::Gone);
    }
}

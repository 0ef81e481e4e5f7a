//! Stock as people and machines see it.

use serde::{Deserialize, Serialize};

use super::id::Sku;

/// The most rows that the units of a SKU are spread over: each is its own lock, and all of them are
/// locked to gather the last units.
pub const SHARDS_MAX: u32 = 64;

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
    /// Units that the room had been told were taken when the reading began: of these the figures
    /// know.
    #[serde(default)]
    pub units_told: u64,
    /// Buyers with a live hold.
    #[serde(default)]
    pub holders: u64,
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

    /// Units that can be held now, less those that were taken since the figures were read, as far
    /// as the room has been told.
    pub fn available_still(&self, units_told: u64) -> u64 {
        self.sum().available.saturating_sub(units_told.saturating_sub(self.units_told))
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

    #[test]
    fn what_was_taken_since_the_reading_is_not_available_any_more() {
        let sku = SkuFigures {
            sku: Sku::parse("A").unwrap(),
            loaded: 10,
            available: 5,
            held: 5,
            confirmed: 0,
            earliest_release_ms: None,
        };
        let figures = Figures { at_ms: 1, skus: vec![sku], units_told: 100, holders: 5 };
        let still = |told| figures.available_still(told);
        assert_eq!([100, 103, 105, 200].map(still), [5, 2, 0, 0]);
        assert_eq!(still(0), 5, "a server that lost the room begins to count anew");
    }
}

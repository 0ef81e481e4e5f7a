//! What the stores and processes said after a run.

use std::collections::HashMap;

use crate::domain::draw::Proof;
use crate::lab::crowd::SkuSample;
use crate::lab::shop::Journal;

/// Something that was read, or why it could not be.
pub type Seen<T> = Result<T, String>;

/// Everything that is read once the crowd has gone.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The set rate.
    pub rate: Seen<RateSet>,
    /// The draw's proof.
    pub draw: Seen<Proof>,
    /// The core, after a sweep and two reconciles.
    pub core: Seen<CoreView>,
    /// Postgres, read directly.
    pub ledger: Seen<Ledger>,
    /// Redis, read directly.
    pub gate: Seen<Vec<GateSku>>,
    /// Take attempts that the core has counted by now.
    pub takes: Seen<u64>,
    /// What reached the shop's checkout.
    pub journal: Seen<Journal>,
}

/// The meter's numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateSet {
    /// Admissions per second.
    pub per_second: f64,
    /// Admissions that may come at once.
    pub burst: u32,
    /// How many may be inside at once; 0 for as many as come.
    pub max_active: u64,
}

/// The core's own view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoreView {
    /// Its stock.
    pub skus: Vec<SkuSample>,
    /// Rows of its audit, which should be none.
    pub audit: Vec<String>,
    /// What the second reconcile still found to differ, which should be none.
    pub drift: Vec<String>,
}

/// The ledger's rows, added up independently of the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// By SKU.
    pub skus: Vec<LedgerSku>,
    /// (buyer, order key) with more than one row, and how many.
    pub duplicates: Vec<(String, u64)>,
    /// Rows that took units, whatever became of them.
    pub holds_granted: u64,
    /// Reservations whose movements took units more than once.
    pub taken_twice: Vec<String>,
    /// Reservations by status.
    pub by_status: Vec<(String, u64)>,
    /// Whose each reservation is, by its id.
    pub buyers: HashMap<String, String>,
}

/// One SKU's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LedgerSku {
    /// The SKU.
    pub sku: String,
    /// Units loaded.
    pub loaded: i64,
    /// Units in the stock rows.
    pub available: i64,
    /// Sum of the lines of held reservations.
    pub held: i64,
    /// Sum of the lines of confirmed reservations.
    pub confirmed: i64,
}

/// One SKU's gate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateSku {
    /// The SKU.
    pub sku: String,
    /// Its count; nothing when it is not loaded.
    pub count: Option<i64>,
    /// Order markers.
    pub markers: u64,
}

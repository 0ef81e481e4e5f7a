//! What a comparison has found, as JSON has it.

use serde::Serialize;

use super::approach::Approach;
use super::fit::Fit;
use super::plan::Plan;
use super::ratios::Ratio;
use super::row::Row;

/// The whole of it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) clients: u16,
    pub(super) seconds: u32,
    pub(super) units: u16,
    pub(super) shards: u16,
    pub(super) rows: Vec<Row>,
    pub(super) lanes: Option<LanesReport>,
    pub(super) ratios: Vec<Ratio>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slow_flush: Option<SlowFlush>,
}

/// More about lanes.
#[derive(Debug, Serialize)]
pub(super) struct LanesReport {
    /// T(n), the time of a batch of n takes.
    pub(super) batch_fit: Option<Fit>,
    /// The part of it in which the row is locked.
    pub(super) lock_fit: Option<Fit>,
    pub(super) batches: Vec<BatchRow>,
    /// Takes per second with a cap of units per buyer, clients as asked for.
    pub(super) capped_takes_per_second: f64,
}

/// Batches of so many takes.
#[derive(Debug, Serialize)]
pub(super) struct BatchRow {
    pub(super) takes: u16,
    /// Calls one after the other, with nothing between them.
    pub(super) takes_per_second: f64,
    /// Microseconds from the call to its answer, the median.
    pub(super) batch_us: f64,
    /// Microseconds of it in which the row was locked, the median.
    pub(super) lock_us: f64,
    /// The same for each take.
    pub(super) lock_hold_us: f64,
}

/// The ratios once more, with every flush so much longer.
#[derive(Debug, Serialize)]
pub(super) struct SlowFlush {
    pub(super) delay_ms: f64,
    pub(super) rows: Vec<Row>,
    pub(super) ratios: Vec<Ratio>,
}

impl Report {
    pub(super) fn of(
        plan: &Plan,
        rows: Vec<Row>,
        lanes: Option<LanesReport>,
        ratios: Vec<Ratio>,
        slow_flush: Option<SlowFlush>,
    ) -> Self {
        let Plan { clients, seconds, units, shards, .. } = *plan;
        Self { clients, seconds, units, shards, rows, lanes, ratios, slow_flush }
    }

    /// Whether ours kept its word: a wrong sum is worse than a slow one.
    pub(super) fn is_good(&self) -> bool {
        let mut ours = self.rows.iter().filter(|row| row.approach == Approach::Lanes);
        ours.all(|row| row.oversold == 0 && row.lost_updates == 0)
    }
}

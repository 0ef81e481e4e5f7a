//! A line of the table, and how it comes of what was counted.

use serde::Serialize;

use super::approach::Approach;
use super::ground::Truth;
use super::tally::{Tally, number};

/// One approach with one number of clients.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) approach: Approach,
    pub(super) clients: u16,
    pub(super) takes_per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// Units sold beyond those that were loaded, in the run to the last unit.
    pub(super) oversold: u64,
    /// Units told granted that the store does not know of, in that run and in this one.
    pub(super) lost_updates: u64,
    /// Microseconds that the row was locked for a take, until the commit's answer: the median, or
    /// a take's share of its batch. For Redis the time of its script.
    pub(super) lock_hold_us: Option<f64>,
    /// Takes per second that the lock allows.
    pub(super) ceiling_per_second: Option<f64>,
    /// Connections that waited for a lock, on average.
    pub(super) lock_waiters: f64,
    /// What to plan for, as measured here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
}

/// What a run to the last unit has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Correctness {
    /// Units loaded.
    pub(super) loaded: u64,
    /// Units that buyers were told are theirs.
    pub(super) granted: u64,
    /// Beyond those loaded.
    pub(super) oversold: u64,
    /// Granted, but unknown to the store.
    pub(super) lost: u64,
}

impl Correctness {
    pub(super) fn of(loaded: u64, granted: u64, truth: Truth) -> Self {
        let in_rows = truth.in_rows.and_then(|units| u64::try_from(units).ok());
        let sold = granted.max(in_rows.unwrap_or(0));
        let oversold = sold.saturating_sub(loaded);
        Self { loaded, granted, oversold, lost: lost(granted, truth) }
    }
}

/// Units that were told granted and that the counter, or the rows of orders, know nothing of.
pub(super) fn lost(granted: u64, truth: Truth) -> u64 {
    let known = truth.gone.min(truth.in_rows.unwrap_or(truth.gone));
    granted.saturating_sub(u64::try_from(known).unwrap_or(0))
}

/// Clients hear of a commit a little late, and the more of them the later; but so many takes were
/// made one after the other, and no lock was held longer than from one to the next.
fn possible(lock_us: f64, takes_per_second: f64, locks: f64) -> f64 {
    if takes_per_second > 0.0 { lock_us.min(locks * 1e6 / takes_per_second) } else { lock_us }
}

/// A measured run.
pub(super) struct Speed {
    pub(super) tally: Tally,
    pub(super) seconds: f64,
    pub(super) lock_us: Option<f64>,
    pub(super) lock_waiters: f64,
    pub(super) lost: u64,
}

impl Speed {
    pub(super) fn takes_per_second(&self) -> f64 {
        number(self.tally.latency.len()) / self.seconds
    }

    pub(super) fn row(&self, of: (Approach, u16), shards: u16, seen: Correctness) -> Row {
        let (approach, clients) = of;
        let locks = approach.locks(shards);
        let lock_us = self.lock_us.map(|us| possible(us, self.takes_per_second(), locks));
        let ceiling = lock_us.filter(|us| *us > 0.0).map(|us| locks * 1e6 / us);
        Row {
            approach,
            clients,
            takes_per_second: self.takes_per_second(),
            p50_ms: self.tally.latency_ms(0.5),
            p99_ms: self.tally.latency_ms(0.99),
            oversold: seen.oversold,
            lost_updates: seen.lost + self.lost,
            lock_hold_us: lock_us,
            ceiling_per_second: ceiling.filter(|_| !approach.is_wrong()),
            lock_waiters: self.lock_waiters,
            failure: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_sold_than_loaded_is_oversold_whoever_says_so() {
        let of = |granted, gone, in_rows| Correctness::of(10, granted, Truth { gone, in_rows });
        assert_eq!((of(10, 10, Some(10)).oversold, of(10, 10, Some(10)).lost), (0, 0));
        assert_eq!(of(13, 10, Some(13)).oversold, 3);
        assert_eq!(of(9, 10, Some(11)).oversold, 1);
        assert_eq!(of(13, 10, None).oversold, 3);
    }

    #[test]
    fn a_grant_that_counter_or_rows_do_not_know_is_lost() {
        assert_eq!(lost(13, Truth { gone: 4, in_rows: Some(13) }), 9);
        assert_eq!(lost(13, Truth { gone: 13, in_rows: Some(12) }), 1);
        assert_eq!(lost(13, Truth { gone: 13, in_rows: None }), 0);
        assert_eq!(lost(3, Truth { gone: -1, in_rows: None }), 3);
    }

    #[test]
    fn a_lock_is_held_no_longer_than_from_one_take_to_the_next() {
        let is = |lock_us, rate, locks, wanted: f64| {
            assert!((possible(lock_us, rate, locks) - wanted).abs() < 1e-9, "{lock_us} {rate}");
        };
        is(300.0, 2_000.0, 1.0, 300.0);
        is(900.0, 2_000.0, 1.0, 500.0);
        is(900.0, 2_000.0, 5.0, 900.0);
        is(900.0, 0.0, 1.0, 900.0);
    }
}

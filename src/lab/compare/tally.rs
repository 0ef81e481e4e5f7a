//! What one run of clients counted, merged from what each of them saw.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// What became of one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its unit is the buyer's, and the row was locked for it so long.
    Granted(Lock),
    /// Nothing left.
    SoldOut,
}

/// How long a lock was held for a take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// Nobody can tell from outside.
    Unseen,
    /// For this take alone, in microseconds, as its client saw it.
    Alone(u64),
    /// For all takes that share this instant (of Postgres' clock, Unix microseconds).
    Shared {
        /// When the row was locked.
        since: i64,
        /// Microseconds until this take was answered.
        us: u64,
    },
}

impl Lock {
    /// A lock that one take has held from then until now.
    pub(super) fn alone(since: Instant) -> Self {
        Self::Alone(micros(since.elapsed()))
    }
}

/// The takes of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    /// How many.
    pub(super) takes: u32,
    /// From the lock to the first answer, in microseconds.
    pub(super) us: u64,
}

/// Of one client, or of all. Times are in microseconds.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    /// Orders that were told "granted", those outside the measured time included.
    pub(super) granted: u64,
    /// Orders that were told "sold out".
    pub(super) refused: u64,
    /// From the call to the answer, within the measured time.
    pub(super) latency: Histogram<u64>,
    /// What [`Lock::Alone`] told.
    locks: Histogram<u64>,
    /// What [`Lock::Shared`] told.
    batches: HashMap<i64, Batch>,
}

impl Default for Tally {
    fn default() -> Self {
        let (latency, locks) = (empty(), empty());
        Self { granted: 0, refused: 0, latency, locks, batches: HashMap::new() }
    }
}

/// One microsecond to a minute, to two digits.
fn empty() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "constants that the histogram accepts")]
    Histogram::new_with_bounds(1, 60_000_000, 2).expect("constants that the histogram accepts")
}

impl Tally {
    /// Counts a granted take within the measured time.
    pub(super) fn measure(&mut self, latency: Duration, lock: Lock) {
        self.latency.saturating_record(micros(latency).max(1));
        match lock {
            Lock::Unseen => {}
            Lock::Alone(us) => self.locks.saturating_record(us.max(1)),
            Lock::Shared { since, us } => self.join(since, Batch { takes: 1, us }),
        }
    }

    fn join(&mut self, since: i64, part: Batch) {
        let batch = self.batches.entry(since).or_insert(Batch { takes: 0, us: u64::MAX });
        batch.takes += part.takes;
        batch.us = batch.us.min(part.us);
    }

    /// Adds what another client counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.granted += other.granted;
        self.refused += other.refused;
        // Equal bounds: adding cannot fail.
        let _infallible = (self.latency.add(&other.latency), self.locks.add(&other.locks));
        for (since, batch) in &other.batches {
            self.join(*since, *batch);
        }
    }

    /// Milliseconds that this share of the takes was faster than.
    pub(super) fn latency_ms(&self, quantile: f64) -> f64 {
        millis(self.latency.value_at_quantile(quantile))
    }

    /// The transactions that had several takes.
    pub(super) fn batches(&self) -> impl Iterator<Item = Batch> + Clone {
        self.batches.values().copied()
    }

    /// Microseconds that the row was locked for one take: the median, or a take's share of all
    /// batches; none if nobody could tell.
    pub(super) fn lock_us(&self) -> Option<f64> {
        if self.batches.is_empty() {
            return (!self.locks.is_empty()).then(|| number(self.locks.value_at_quantile(0.5)));
        }
        let (takes, us) = self
            .batches()
            .fold((0, 0), |(takes, us), batch| (takes + u64::from(batch.takes), us + batch.us));
        Some(number(us) / number(takes))
    }
}

/// Whole microseconds.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn millis(us: u64) -> f64 {
    number(us) / 1e3
}

/// As a number for reports.
pub(super) fn number(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "2^53 of anything are beyond any run")]
    let number = count as f64;
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(takes: &[(u64, Lock)]) -> Tally {
        let mut tally = Tally::default();
        for (ms, lock) in takes {
            tally.granted += 1;
            tally.measure(Duration::from_millis(*ms), *lock);
        }
        tally
    }

    #[test]
    fn what_clients_counted_is_added_up() {
        let mut all = tally(&[(1, Lock::Alone(100)), (2, Lock::Alone(100))]);
        all.add(&tally(&[(3, Lock::Alone(900)), (400, Lock::Unseen)]));

        assert_eq!((all.granted, all.latency.len()), (4, 4));
        let (median, worst) = (all.latency_ms(0.5), all.latency_ms(0.99));
        assert!((median - 2.0).abs() < 0.05 && (worst - 400.0).abs() < 5.0, "{median} {worst}");
        assert_eq!(all.lock_us(), Some(100.0));
    }

    #[test]
    fn takes_that_share_a_lock_share_its_time() {
        let shared = |since, us| (1, Lock::Shared { since, us });
        let mut all = tally(&[shared(1_000, 300), shared(1_000, 310)]);
        all.add(&tally(&[shared(1_000, 305), shared(2_000, 100)]));

        assert_eq!(all.lock_us(), Some(100.0));
        let mut batches: Vec<_> = all.batches().map(|batch| (batch.takes, batch.us)).collect();
        batches.sort_unstable();
        assert_eq!(batches, [(1, 100), (3, 300)]);
    }

    #[test]
    fn a_run_that_took_nothing_says_nothing() {
        assert_eq!(Tally::default().lock_us(), None);
    }
}

//! What one run of clients counted, merged from what each of them saw.

use std::collections::HashSet;
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
    /// For all takes of the batch that was made at this instant of Postgres' clock, in Unix
    /// microseconds; how long is known by the size of the batch.
    Batch(i64),
}

impl Lock {
    /// A lock that one take has held from then until now.
    pub(super) fn alone(since: Instant) -> Self {
        Self::Alone(micros(since.elapsed()))
    }
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
    /// Instants that [`Lock::Batch`] told.
    batches: HashSet<i64>,
}

impl Default for Tally {
    fn default() -> Self {
        let (latency, locks) = (empty(), empty());
        Self { granted: 0, refused: 0, latency, locks, batches: HashSet::new() }
    }
}

/// One microsecond to a minute, to two digits.
pub(super) fn empty() -> Histogram<u64> {
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
            Lock::Batch(made_at) => {
                self.batches.insert(made_at);
            }
        }
    }

    /// Adds what another client counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.granted += other.granted;
        self.refused += other.refused;
        // Equal bounds: adding cannot fail.
        let _infallible = (self.latency.add(&other.latency), self.locks.add(&other.locks));
        self.batches.extend(&other.batches);
    }

    /// Milliseconds that this share of the takes was faster than.
    pub(super) fn latency_ms(&self, quantile: f64) -> f64 {
        millis(self.latency.value_at_quantile(quantile))
    }

    /// Takes in a batch, on average; none where nothing is batched.
    pub(super) fn batch_mean(&self) -> Option<f64> {
        let batches = u64::try_from(self.batches.len()).unwrap_or(u64::MAX);
        (batches > 0).then(|| number(self.latency.len()) / number(batches))
    }

    /// Microseconds that the row was locked for a take alone: the median; none if nobody saw it.
    pub(super) fn lock_us(&self) -> Option<f64> {
        (!self.locks.is_empty()).then(|| number(self.locks.value_at_quantile(0.5)))
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
    fn takes_of_one_instant_are_of_one_batch_whoever_sent_them() {
        let of = |made_at| (1, Lock::Batch(made_at));
        let mut all = tally(&[of(1_000), of(1_000)]);
        all.add(&tally(&[of(1_000), of(2_000)]));

        assert_eq!((all.batch_mean(), all.lock_us()), (Some(2.0), None));
    }

    #[test]
    fn a_run_that_took_nothing_says_nothing() {
        assert_eq!((Tally::default().lock_us(), Tally::default().batch_mean()), (None, None));
    }
}

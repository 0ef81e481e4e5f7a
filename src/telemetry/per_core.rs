//! Things that every core has one of, so that counting waits for nobody.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use prometheus_client::metrics::counter::{Atomic, Counter};

/// A counter for what happens at every request.
pub type CoreCounter = Counter<u64, Spread>;

/// More threads than this share.
const PLACES_MAX: usize = 256;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of this thread; threads that serve are as many as there are cores.
    static NUMBER: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed));
}

/// One for each of as many threads as serve.
#[derive(Debug)]
pub struct PerCore<T>(Box<[Apart<T>]>);

/// On lines of the cache of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

impl<T: Default> Default for PerCore<T> {
    fn default() -> Self {
        // Threads that serve are numbered among others: room for twice as many.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let places = (4 * cores).next_power_of_two().min(PLACES_MAX);
        Self(std::iter::repeat_with(Apart::default).take(places).collect())
    }
}

impl<T> PerCore<T> {
    /// This thread's own, as a rule; nothing may rely on that.
    pub fn mine(&self) -> &T {
        &self.0[NUMBER.get() % self.0.len()].0
    }

    /// Everybody's.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|apart| &apart.0)
    }
}

/// A number that is added to on every core.
#[derive(Debug, Default)]
pub struct Spread(PerCore<AtomicU64>);

impl Atomic<u64> for Spread {
    fn inc(&self) -> u64 {
        self.inc_by(1)
    }

    /// What it was on this core alone: nobody asks.
    fn inc_by(&self, more: u64) -> u64 {
        self.0.mine().fetch_add(more, Ordering::Relaxed)
    }

    fn get(&self) -> u64 {
        self.0.all().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_count_adds_up() {
        let counter = CoreCounter::default();
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counter.inc();
                    }
                });
            }
        });
        assert_eq!(counter.get(), 40_000);
    }
}

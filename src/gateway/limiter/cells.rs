//! Times by key in a table of fixed size, every cell an atomic: whoever counts waits for no other
//! core, and takes nothing from the allocator.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::clock::{Clock, Reference};
use governor::nanos::Nanos;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::state::{InMemoryState, NotKeyed, StateStore};

/// Keys remembered; more share a few times. Sixteen bytes each: 4 MiB, once there is a first.
pub(super) const KEYS_MAX: usize = ROWS * ROW;
const ROWS: usize = 16_384;
/// Where a key may be: four lines of the cache, one after the other.
const ROW: usize = 16;
/// Times that the rest shares, so that a flood of keys leaves room for an honest one.
const STRIPES: usize = 4_096;

/// The time until which a key's quota is used. A flood costs its own kind most, and whoever was
/// there before nothing.
///
/// Key and time are two atomics. Should another key take an idle cell over just as its own comes
/// back, one request is counted for the wrong one of the two; no more than that.
pub(super) struct Cells<C: Clock> {
    clock: C,
    start: C::Instant,
    rows: OnceLock<Box<[Cell]>>,
    stripes: OnceLock<Box<[InMemoryState]>>,
    /// Times up to here are as if their keys had never come.
    idle: AtomicU64,
}

#[derive(Default)]
struct Cell {
    /// 0 = nobody's.
    key: AtomicU64,
    /// 0 = no time yet.
    until: AtomicU64,
}

impl Cell {
    fn is_idle(&self, idle: u64) -> bool {
        self.until.load(Ordering::Relaxed) <= idle
    }

    /// Takes an idle cell, or finds that somebody else has done so for the same key.
    fn take(&self, key: u64, idle: u64) -> bool {
        let held = self.key.load(Ordering::Relaxed);
        if held == key {
            return true;
        }
        if !self.is_idle(idle) {
            return false;
        }
        let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        match self.key.compare_exchange(held, key, order, failed) {
            Ok(_) => true,
            Err(now) => now == key,
        }
    }
}

impl<C: Clock> Cells<C> {
    /// Empty; times count from now by this clock, as those of a limiter that is made with it.
    pub(super) fn new(clock: C) -> Self {
        let start = clock.now();
        Self { clock, start, rows: OnceLock::new(), stripes: OnceLock::new(), idle: 0.into() }
    }

    /// The cell of a key; none while its row is full of others.
    fn cell(&self, key: u64) -> Option<&Cell> {
        let rows = self.rows.get_or_init(|| fresh(KEYS_MAX));
        let from = index(key >> 32, ROWS) * ROW;
        let row = &rows[from..from + ROW];
        let take = |idle| row.iter().find(|cell| cell.take(key, idle));
        row.iter()
            .find(|cell| cell.key.load(Ordering::Relaxed) == key)
            .or_else(|| take(self.idle.load(Ordering::Relaxed)))
            // The clock is read only for this: a crowd fills the table between two sweeps.
            .or_else(|| take(self.idle_now()))
    }

    fn idle_now(&self) -> u64 {
        let now = self.clock.now().duration_since(self.start).as_u64();
        self.idle.store(now, Ordering::Relaxed);
        now
    }
}

impl<C: Clock> StateStore for Cells<C> {
    type Key = u64;

    fn measure_and_replace<T, F, E>(&self, key: &u64, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let Some(cell) = self.cell((*key).max(1)) else {
            let stripes = self.stripes.get_or_init(|| fresh(STRIPES));
            // By the other half: those of one full row share with others, not all with each other.
            let stripe = &stripes[index(*key & u64::from(u32::MAX), STRIPES)];
            return stripe.measure_and_replace(&NotKeyed::NonKey, measure);
        };
        let mut until = cell.until.load(Ordering::Relaxed);
        loop {
            // An idle time is one that has passed: as good as none.
            let (outcome, next) = measure((until > 0).then_some(Nanos::new(until)))?;
            let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
            match cell.until.compare_exchange_weak(until, next.as_u64(), order, failed) {
                Ok(_) => return Ok(outcome),
                Err(now) => until = now,
            }
        }
    }
}

impl<C: Clock> ShrinkableKeyedStateStore<u64> for Cells<C> {
    fn retain_recent(&self, drop_below: Nanos) {
        self.idle.store(drop_below.as_u64(), Ordering::Relaxed);
    }

    fn len(&self) -> usize {
        let idle = self.idle.load(Ordering::Relaxed);
        let rows = self.rows.get().map_or(&[][..], |rows| rows);
        rows.iter().filter(|cell| !cell.is_idle(idle)).count()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn fresh<T: Default>(count: usize) -> Box<[T]> {
    std::iter::repeat_with(T::default).take(count).collect()
}

/// Keys are hashes already; half of one chooses.
fn index(half: u64, count: usize) -> usize {
    usize::try_from(half % count as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;

    use super::*;

    fn cells() -> Cells<FakeRelativeClock> {
        Cells::new(FakeRelativeClock::default())
    }

    fn note(cells: &Cells<FakeRelativeClock>, key: u64, until: u64) -> Option<Nanos> {
        cells.measure_and_replace(&key, |seen| Ok::<_, ()>((seen, Nanos::new(until)))).unwrap()
    }

    /// Keys of one row.
    fn key(number: u64) -> u64 {
        (7 << 32) + number
    }

    #[test]
    fn a_key_finds_its_time_again_until_it_is_idle_and_another_needs_the_cell() {
        let cells = cells();
        assert_eq!(note(&cells, key(1), 10), None);
        assert_eq!(note(&cells, key(1), 20), Some(Nanos::new(10)));
        assert_eq!(note(&cells, 0, 5), None);
        assert_eq!(cells.len(), 2);

        cells.retain_recent(Nanos::new(20));
        assert_eq!(cells.len(), 0);
        for other in 0..ROW as u64 {
            note(&cells, key(100 + other), 30);
        }
        assert_eq!(cells.len(), ROW);
    }

    #[test]
    fn what_finds_its_row_full_shares_and_nobody_there_is_forgotten() {
        let cells = cells();
        for number in 0..ROW as u64 {
            assert_eq!(note(&cells, key(number), 10 + number), None);
        }
        assert_eq!(note(&cells, key(999), 7), None);
        let neighbour = key(999 + STRIPES as u64);
        assert_eq!(note(&cells, neighbour, 8), Some(Nanos::new(7)), "of the same stripe");
        assert_eq!(note(&cells, key(998), 8), None, "of the same row only");
        for number in 0..ROW as u64 {
            assert_eq!(note(&cells, key(number), 50), Some(Nanos::new(10 + number)));
        }
    }

    #[test]
    fn a_row_of_keys_that_are_idle_by_now_has_room_before_anybody_sweeps() {
        let clock = FakeRelativeClock::default();
        let cells = Cells::new(clock.clone());
        for number in 0..ROW as u64 {
            note(&cells, key(number), 10 + number);
        }
        clock.advance(Duration::from_nanos(10));
        assert_eq!(note(&cells, key(999), 50), Some(Nanos::new(10)), "the cell of an idle key");
        assert_eq!(note(&cells, key(999), 60), Some(Nanos::new(50)));
        assert_eq!(note(&cells, key(998), 70), None, "nobody else is idle");
    }

    #[test]
    fn threads_that_count_the_same_keys_lose_nothing() {
        let cells = cells();
        let (threads, rounds, keys) = (4, 1_000, 8);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for number in 0..rounds * keys {
                        let one_more = |seen: Option<Nanos>| {
                            let seen = seen.map_or(0, Nanos::as_u64);
                            Ok::<_, ()>(((), Nanos::new(seen + 1)))
                        };
                        cells.measure_and_replace(&key(number % keys), one_more).unwrap();
                    }
                });
            }
        });
        for number in 0..keys {
            assert_eq!(note(&cells, key(number), 1), Some(Nanos::new(threads * rounds)));
        }
    }
}

//! The one source of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time. The only trait of the crate with a second implementation for tests.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        #[expect(clippy::disallowed_methods, reason = "this is the one source of time")]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A clock that stands where it is put.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that reads `now_ms`.
    pub fn at(now_ms: u64) -> Self {
        Self(AtomicU64::new(now_ms))
    }

    /// Moves the clock, in either direction.
    pub fn set(&self, now_ms: u64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The room's time on this node: its own clock plus the offset to Redis' clock last seen.
/// Phases, tokens and countdowns go by it, so that a node whose clock is off changes nothing.
#[derive(Clone)]
pub struct RoomClock {
    local: Arc<dyn Clock>,
    offset_ms: Arc<AtomicI64>,
    has_heard: Arc<AtomicBool>,
}

/// An answer that took longer says nothing about the other clock, in milliseconds.
const ROUND_TRIP_MS_MAX: u64 = 250;

impl RoomClock {
    /// Starts without an offset.
    pub fn new(local: Arc<dyn Clock>) -> Self {
        Self { local, offset_ms: Arc::default(), has_heard: Arc::default() }
    }

    /// Takes over Redis' reading, made at the local instant `at_local_ms`.
    pub fn observe(&self, redis_ms: u64, at_local_ms: u64) {
        let offset = i64::try_from(redis_ms)
            .unwrap_or(i64::MAX)
            .saturating_sub(i64::try_from(at_local_ms).unwrap_or(i64::MAX));
        self.offset_ms.store(offset, Ordering::Relaxed);
    }

    /// Takes over Redis' reading from an answer to a question asked at the local `asked_ms`.
    pub fn heard(&self, redis_ms: u64, asked_ms: u64) {
        let took_ms = self.local_ms().saturating_sub(asked_ms);
        let is_first = !self.has_heard.swap(true, Ordering::Relaxed);
        if is_first || took_ms <= ROUND_TRIP_MS_MAX {
            self.observe(redis_ms, asked_ms.saturating_add(took_ms / 2));
        }
    }

    /// The local clock, to note when a reading was made.
    pub fn local_ms(&self) -> u64 {
        self.local.now_ms()
    }
}

impl Clock for RoomClock {
    fn now_ms(&self) -> u64 {
        self.local.now_ms().saturating_add_signed(self.offset_ms.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_clock_is_off_still_tells_the_rooms_time() {
        let local = Arc::new(ManualClock::at(5_000));
        let clock = RoomClock::new(local.clone());
        clock.observe(65_000, 5_000);

        local.set(5_250);

        assert_eq!(clock.now_ms(), 65_250);
    }

    #[test]
    fn an_answer_that_took_long_is_believed_only_if_there_is_no_better_one() {
        let local = Arc::new(ManualClock::at(5_400));
        let clock = RoomClock::new(local.clone());
        clock.heard(65_000, 5_000);
        assert_eq!(clock.now_ms(), 65_200);

        local.set(9_000);
        clock.heard(90_000, 8_000);
        assert_eq!(clock.now_ms(), 68_800);

        clock.heard(90_000, 8_900);
        assert_eq!(clock.now_ms(), 90_050);
    }
}

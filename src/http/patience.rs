//! How long somebody may keep us waiting: a purse of time that waiting empties and bytes refill.

use std::time::Duration;

/// The longest silence, and the fewest bytes that make up for a second of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// A purse holds this much time, and begins full.
    pub idle_max: Duration,
    /// Bytes that earn a second back; with 0, any byte fills the purse.
    pub bytes_per_second: u32,
}

impl Pace {
    /// Only silence counts, however little comes in between.
    pub const fn idle(idle_max: Duration) -> Self {
        Self { idle_max, bytes_per_second: 0 }
    }
}

/// One purse. A silence longer than it holds is the end, and so is a trickle that never earns
/// back what it makes us wait.
#[derive(Debug)]
pub(super) struct Patience {
    pace: Pace,
    left: Duration,
}

impl Patience {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, left: pace.idle_max }
    }

    /// For how much longer to wait.
    pub(super) fn left(&self) -> Duration {
        self.left
    }

    /// We waited.
    pub(super) fn spend(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }

    /// Bytes moved.
    pub(super) fn earn(&mut self, bytes: usize) {
        if bytes == 0 || self.left == self.pace.idle_max {
            return;
        }
        let back = match self.pace.bytes_per_second {
            0 => self.pace.idle_max,
            rate => {
                let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                Duration::from_micros(bytes.saturating_mul(1_000_000) / u64::from(rate))
            }
        };
        self.left = self.left.saturating_add(back).min(self.pace.idle_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ed_60_a_trickle_runs_out_and_a_pause_is_earned_back() {
        let mut trickle = Patience::new(Pace { idle_max: 30 * SECOND, bytes_per_second: 240 });
        for _ in 0..6 {
            assert!(trickle.left() > Duration::ZERO);
            trickle.spend(5 * SECOND);
            trickle.earn(1);
        }
        assert!(trickle.left() < SECOND, "a byte in five seconds is a stall");

        let mut pausing = Patience::new(Pace { idle_max: 30 * SECOND, bytes_per_second: 240 });
        for _ in 0..100 {
            pausing.spend(29 * SECOND);
            assert!(pausing.left() > Duration::ZERO);
            pausing.earn(8 * 1024);
        }
    }

    #[test]
    fn without_a_rate_any_byte_is_enough() {
        let mut patience = Patience::new(Pace::idle(30 * SECOND));
        patience.spend(29 * SECOND);
        patience.earn(1);
        assert_eq!(patience.left(), 30 * SECOND);
        patience.spend(31 * SECOND);
        assert_eq!(patience.left(), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn nobody_saves_up_more_than_one_purse(
            steps in proptest::collection::vec((0u64..40_000, 0usize..1_000_000), 0..50),
            rate in 0u32..10_000,
        ) {
            let pace = Pace { idle_max: 30 * SECOND, bytes_per_second: rate };
            let mut patience = Patience::new(pace);
            for (waited_ms, bytes) in steps {
                patience.spend(Duration::from_millis(waited_ms));
                patience.earn(bytes);
                prop_assert!(patience.left() <= pace.idle_max);
            }
        }
    }
}

//! When people who found no room to join come again: spread over the time that it takes to write
//! all of them down, so that the second wave is no higher than what a node carries.

/// What a node is taken to write down in a second before it was measured.
const PER_SECOND_AT_FIRST: f64 = 5_000.0;
const PER_SECOND_MIN: f64 = 200.0;
const PER_SECOND_MAX: f64 = 1_000_000.0;
/// A measurement over so long is believed by two thirds.
const NEWS_MS: f64 = 300.0;
/// The part of it that is promised to those who come again; the rest is for newcomers.
const PROMISED: f64 = 0.75;
/// How much shorter than its turn a wait may be, at random.
const SPREAD: f64 = 0.2;
const WAIT_MS_MIN: f64 = 500.0;
const WAIT_MS_MAX: f64 = 30_000.0;
/// For the way there, on top of the time in a full queue.
const WAY_MS: f64 = 250.0;
/// Whoever may be told to come before the opening is not told to come earlier than so before it.
const LAST_CALL_MS_MAX: f64 = 2_000.0;

/// The turns that were given to people who come again, on one node.
#[derive(Debug)]
pub struct Comebacks {
    waiting_max: f64,
    per_second: f64,
    /// Turns up to here are given, in milliseconds of the clock that is passed in.
    given_ms: f64,
}

impl Comebacks {
    /// Nobody has been told to come again yet; `waiting_max` joins may wait at once.
    pub fn new(waiting_max: usize) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a bound on a queue is far below 2^53")]
        let waiting_max = waiting_max as f64;
        Self { waiting_max, per_second: PER_SECOND_AT_FIRST, given_ms: 0.0 }
    }

    /// While there was more to do than could be done, so many joins were written down in so many
    /// milliseconds.
    pub fn served(&mut self, joins: u32, took_ms: f64) {
        let measured = f64::from(joins) * 1_000.0 / took_ms.max(0.001);
        let news = 1.0 - (-took_ms / NEWS_MS).exp();
        let believed = self.per_second + news * (measured - self.per_second);
        self.per_second = believed.clamp(PER_SECOND_MIN, PER_SECOND_MAX);
    }

    /// The wait until the next turn, in milliseconds; `chance` is even in 0 to 1.
    ///
    /// While it can be helped nobody is told to come after the opening, when he would be behind
    /// everybody in the draw: if the turns before it are used up, all come evenly spread over the
    /// time that is left. They may be refused again, but not by the length of their wait.
    pub fn next_wait_ms(&mut self, now_ms: u64, opens_ms: u64, chance: f64) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
        let (now, opens) = (now_ms as f64, opens_ms as f64);
        let longest = self.longest_wait_ms(opens - now);
        let turn = self.given_ms.max(now + WAIT_MS_MIN) + 1_000.0 / (PROMISED * self.per_second);
        let wait = turn - now;
        let told = if wait > longest {
            WAIT_MS_MIN + chance * (longest - WAIT_MS_MIN)
        } else {
            self.given_ms = turn;
            (wait * (1.0 - SPREAD * chance)).max(WAIT_MS_MIN)
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between the shortest and the longest wait"
        )]
        let told = told as u64;
        told
    }

    /// Bounded by the opening, if there is time for a turn before it.
    fn longest_wait_ms(&self, left_ms: f64) -> f64 {
        let in_queue_ms = 1_000.0 * self.waiting_max / self.per_second;
        let in_time_ms = left_ms - (in_queue_ms + WAY_MS).min(LAST_CALL_MS_MAX);
        if (WAIT_MS_MIN..WAIT_MS_MAX).contains(&in_time_ms) { in_time_ms } else { WAIT_MS_MAX }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const NOON: u64 = 1_800_000_000_000;
    const PAST: u64 = 0;

    /// How many of so many who are refused at one instant come in each second after it.
    fn wave(comebacks: &mut Comebacks, people: usize, opens_ms: u64) -> Vec<usize> {
        let mut random = SmallRng::seed_from_u64(7);
        let mut seconds = vec![0; 31];
        for _ in 0..people {
            let wait = comebacks.next_wait_ms(NOON, opens_ms, random.random());
            seconds[usize::try_from(wait / 1_000).unwrap()] += 1;
        }
        seconds
    }

    #[test]
    fn wr_77_the_second_wave_is_flat_and_no_higher_than_what_the_node_writes_down() {
        let mut comebacks = Comebacks::new(8_192);
        for _ in 0..100 {
            comebacks.served(512, 51.2);
        }

        let seconds = wave(&mut comebacks, 150_000, PAST);

        assert!(seconds.iter().all(|comes| *comes < 9_000), "{seconds:?}");
        assert!(seconds[1..15].iter().all(|comes| *comes > 6_000), "{seconds:?}");
        assert!(seconds[21..].iter().all(|comes| *comes == 0), "{seconds:?}");
    }

    #[test]
    fn more_than_half_a_minute_holds_come_evenly_within_it() {
        let mut comebacks = Comebacks::new(8_192);
        let seconds = wave(&mut comebacks, 600_000, PAST);
        let (most, least) = (seconds[1..30].iter().max(), seconds[1..30].iter().min());
        assert!(most.unwrap() < &(least.unwrap() * 3 / 2), "{seconds:?}");
    }

    #[test]
    fn nobody_is_sent_past_an_opening_that_he_may_still_be_in_time_for() {
        let mut comebacks = Comebacks::new(1_000);
        // A full queue takes 200 ms.
        let seconds = wave(&mut comebacks, 100_000, NOON + 3_450);
        assert_eq!(seconds[3..].iter().sum::<usize>(), 0, "{seconds:?}");
        assert!(seconds[1].abs_diff(seconds[2]) < seconds[1] / 5, "{seconds:?}");

        // Too late to come back in time: as ever.
        let mut late = Comebacks::new(1_000);
        let waits = wave(&mut late, 40_000, NOON + 900);
        assert!(waits[8] > 0, "{waits:?}");
    }

    #[test]
    fn turns_that_were_not_needed_are_not_kept() {
        let mut comebacks = Comebacks::new(1_000);
        wave(&mut comebacks, 10_000, PAST);
        let later = comebacks.next_wait_ms(NOON + 60_000, PAST, 0.0);
        assert_eq!(later, 500);
    }

    proptest! {
        #[test]
        fn every_wait_is_within_its_bounds_and_before_the_opening_if_it_can_be(
            left_ms in 0_u64..40_000,
            people in 1_usize..3_000,
            joins in 1_u32..=512,
            took_ms in 0.0_f64..5_000.0,
            chance in 0.0_f64..1.0,
        ) {
            let mut comebacks = Comebacks::new(1_000);
            comebacks.served(joins, took_ms);
            for _ in 0..people {
                let wait = comebacks.next_wait_ms(NOON, NOON + left_ms, chance);
                prop_assert!((500..=30_000).contains(&wait), "{wait}");
                prop_assert!(left_ms < 2_500 || wait < left_ms, "{wait} of {left_ms}");
            }
        }
    }
}

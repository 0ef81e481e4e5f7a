//! How far to call: just enough that the meter always has somebody to admit.
//!
//! Over-*call*, never over-*admit*: the meter decides who is admitted when; the pacer only keeps
//! it fed. It aims at a lead (slot of the next claim − now) of [`LEAD_MS`], divides what is
//! missing by the share of the called who turn up, and doubles its step while the lead stays at
//! zero, so that a run of absentees cannot starve the line.

use super::rate::Rate;

/// The lead aimed at: longer than the poll interval told to the front, in milliseconds.
pub const LEAD_MS: f64 = 2_000.0;
/// How long the called get to turn up before they are counted as absent, in milliseconds: the
/// poll interval told to the front, its jitter, and a round trip.
pub const ANSWER_MS: u64 = 1_500;
/// The grid that the cursor moves on, in milliseconds.
pub const TICK_MS: u64 = 100;
/// Over how long the share is measured, in milliseconds.
const WINDOW_MS: u64 = 5_000;
const STEP_DOUBLINGS_MAX: u32 = 6;
const SHARE_MIN: f64 = 0.01;
const SAMPLES_MAX: usize = 128;

/// What one look at the room shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Redis' clock.
    pub now_ms: u64,
    /// Positions below it have been called.
    pub cursor: u64,
    /// Positions handed out: n + latecomers.
    pub line: u64,
    /// Called positions that have claimed at least once in this epoch.
    pub claimed: u64,
    /// Slot of the next claim − now, at least 0.
    pub lead_ms: f64,
    /// Admissions per second.
    pub rate: Rate,
}

/// Decides how far to call. Each node runs its own; whichever is first in a tick moves the cursor.
#[derive(Debug, Default)]
pub struct Pacer {
    seen: std::collections::VecDeque<(u64, u64, u64)>,
    starving: u32,
}

impl Pacer {
    /// Where the cursor should go; equal to `cursor` when nobody more should be called.
    pub fn step(&mut self, now: Observation) -> u64 {
        self.remember(now);
        if now.cursor >= now.line {
            self.starving = 0;
            return now.cursor;
        }
        let per_ms = now.rate.get() / 1000.0;
        let share = self.share(now.now_ms);
        let missing = (LEAD_MS - now.lead_ms).max(0.0) * per_ms - self.answering(now) * share;
        let wanted = (missing / share).max(0.0);
        let floor = self.starvation_floor(now, per_ms);
        let step = ceil(wanted.max(floor));
        now.cursor.saturating_add(step).min(now.line)
    }

    fn remember(&mut self, now: Observation) {
        // A store loss or a new epoch starts the counts anew, and the memory with them.
        let backwards = self.seen.back().is_some_and(|(at, cursor, claimed)| {
            now.now_ms < *at || now.cursor < *cursor || now.claimed < *claimed
        });
        if backwards {
            self.seen.clear();
        }
        self.seen.push_back((now.now_ms, now.cursor, now.claimed));
        let horizon = now.now_ms.saturating_sub(WINDOW_MS + 2 * ANSWER_MS);
        while self.seen.len() > SAMPLES_MAX || self.seen.front().is_some_and(|s| s.0 < horizon) {
            self.seen.pop_front();
        }
    }

    /// The sample in force at an instant: the newest not after it.
    fn at(&self, at_ms: u64) -> Option<(u64, u64)> {
        let sample = self.seen.iter().rev().find(|(at, ..)| *at <= at_ms);
        sample.or(self.seen.front()).map(|(_, cursor, claimed)| (*cursor, *claimed))
    }

    /// The share of the called who claim: claims of the last window over the calls that had
    /// [`ANSWER_MS`] to lead to them. Whoever cannot be known yet counts as present.
    fn share(&self, now_ms: u64) -> f64 {
        let to = now_ms.saturating_sub(ANSWER_MS);
        let from = to.saturating_sub(WINDOW_MS);
        let (Some((called_to, _)), Some((called_from, _))) = (self.at(to), self.at(from)) else {
            return 1.0;
        };
        let called = called_to.saturating_sub(called_from);
        if called == 0 {
            return 1.0;
        }
        let (Some(newest), Some((_, claimed_from))) = (self.seen.back(), self.at(from)) else {
            return 1.0;
        };
        // Claims of those called just now would overstate the share; they are at most the calls.
        let claimed = newest.2.saturating_sub(claimed_from);
        let recent = newest.1.saturating_sub(called_to);
        let answered = claimed.saturating_sub(recent.min(claimed) / 2);
        (real(answered) / real(called)).clamp(SHARE_MIN, 1.0)
    }

    /// Of those called lately, how many may still be about to claim.
    fn answering(&self, now: Observation) -> f64 {
        let Some((called, claimed)) = self.at(now.now_ms.saturating_sub(ANSWER_MS)) else {
            return 0.0;
        };
        let calls = now.cursor.saturating_sub(called);
        real(calls.saturating_sub(now.claimed.saturating_sub(claimed).min(calls)))
    }

    /// One tick's worth, doubled for each tick that the lead has been zero.
    fn starvation_floor(&mut self, now: Observation, per_ms: f64) -> f64 {
        if now.lead_ms > 0.0 || self.seen.len() < 2 {
            self.starving = 0;
            return 0.0;
        }
        self.starving = self.starving.saturating_add(1);
        // The first calls need time to be answered before silence means anything.
        let patience = u32::try_from(ANSWER_MS / TICK_MS).unwrap_or(u32::MAX);
        match self.starving.checked_sub(patience) {
            None => 0.0,
            Some(over) => {
                let doublings = f64::from(1_u32 << over.min(STEP_DOUBLINGS_MAX));
                #[expect(clippy::cast_precision_loss, reason = "a hundred")]
                let tick = TICK_MS as f64;
                per_ms * tick * doublings
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "positions of one sale stay far below 2^53")]
fn real(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, and the step is not negative"
)]
fn ceil(step: f64) -> u64 {
    step.ceil() as u64
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::domain::meter::Meter;

    /// A line of `people` of whom a share turn up within a poll of being called; returns the
    /// slots used in each second.
    fn run(people: u64, present: f64, per_second: f64, seconds: u64, seed: u64) -> Vec<usize> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let rate = Rate::per_second(per_second).unwrap();
        let (mut meter, mut pacer) = (Meter::new(rate, 1), Pacer::default());
        let (mut cursor, start) = (0, 1_000_000_u64);
        let mut due: Vec<u64> = Vec::new();
        let mut slots: Vec<f64> = Vec::new();
        for now_ms in (start..start + seconds * 1000).step_by(100) {
            #[expect(clippy::cast_precision_loss, reason = "a test's clock")]
            let now = now_ms as f64;
            due.retain(|at| {
                let claims = *at <= now_ms;
                if claims {
                    let number = meter.claim(now);
                    slots.push(meter.slot_ms(number).unwrap());
                }
                !claims
            });
            let look = Observation {
                now_ms,
                cursor,
                line: people,
                claimed: meter.next(),
                lead_ms: meter.lead_ms(now),
                rate,
            };
            let to = pacer.step(look);
            for _ in cursor..to {
                if rng.random_bool(present) {
                    due.push(now_ms + rng.random_range(50..1_250));
                }
            }
            cursor = to;
        }
        #[expect(clippy::cast_precision_loss, reason = "a test's clock")]
        let second = |i: u64| (start + i * 1000) as f64;
        (0..seconds)
            .map(|i| slots.iter().filter(|s| (second(i)..second(i + 1)).contains(s)).count())
            .collect()
    }

    #[test]
    fn the_rate_is_used_whatever_the_share_of_absentees() {
        for (seed, present) in [(1, 1.0), (2, 0.7), (3, 0.4), (4, 0.1)] {
            let used = run(60_000, present, 100.0, 40, seed);
            let steady: usize = used[15..35].iter().sum();
            assert!(steady >= 1_900, "share {present}, seed {seed}: {steady} of 2000; {used:?}");
            assert!(used.iter().all(|count| *count <= 101), "share {present}: {used:?}");
        }
    }

    #[test]
    fn wr_04_a_long_run_of_absentees_is_passed_in_seconds() {
        let mut pacer = Pacer::default();
        let rate = Rate::per_second(20.0).unwrap();
        let mut cursor = 0;
        let mut ticks = 0_u64;
        while cursor < 900 && ticks < 200 {
            let now_ms = 1_000_000 + ticks * TICK_MS;
            let seen = Observation { now_ms, cursor, line: 1000, claimed: 0, lead_ms: 0.0, rate };
            cursor = pacer.step(seen);
            ticks += 1;
        }
        assert!(ticks <= 60, "900 absentees took {ticks} ticks");
    }

    #[test]
    fn nobody_is_called_who_has_not_joined() {
        let rate = Rate::per_second(1000.0).unwrap();
        let seen = Observation { now_ms: 5, cursor: 3, line: 5, claimed: 0, lead_ms: 0.0, rate };
        assert_eq!(Pacer::default().step(seen), 5);
    }
}

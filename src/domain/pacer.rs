//! How far to call: just enough that the meter always has somebody to admit.
//!
//! Over-*call*, never over-*admit*: the meter decides who is admitted when; the pacer only keeps
//! it fed. It aims at a lead (slot of the next claim − now) of [`LEAD_MS`], divides what is
//! missing by the share of the called who turn up, and doubles its step while the lead stays at
//! zero, so that a run of absentees cannot starve the line. Where the sale looks at its stock, it
//! calls nobody for units that others will take.

use super::demand::Demand;
use super::rate::Rate;

/// The lead aimed at: longer than the poll interval told to the front, in milliseconds.
pub const LEAD_MS: f64 = 2_000.0;
/// How long the called get to turn up before they are counted as absent, in milliseconds: the
/// poll interval told to the front, its jitter, and a round trip.
pub const ANSWER_MS: u64 = 1_500;
/// How long units are kept for somebody who was called and has not been heard from, in
/// milliseconds: a page without scripts and a slow network take longer than most.
const COMING_MS: u64 = 3_000;
/// The grid that the cursor moves on, in milliseconds.
pub const TICK_MS: u64 = 100;
/// Over how long the share is measured, in milliseconds.
const WINDOW_MS: u64 = 5_000;
const STEP_DOUBLINGS_MAX: u32 = 6;
const SHARE_MIN: f64 = 0.01;
const SAMPLES_MAX: usize = 128;

/// What one look at the room shows. People are those who may come: nobody is counted for a number
/// that nobody has, nor for a place known to be dead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Redis' clock.
    pub now_ms: u64,
    /// People called so far, from any beginning.
    pub called: u64,
    /// Places that have claimed at least once in this epoch.
    pub claimed: u64,
    /// Places called that have not claimed in this epoch, dead ones among them.
    pub unclaimed: u64,
    /// Whether anybody is there to be called.
    pub waiting: bool,
    /// Slot of the next claim − now, at least 0.
    pub lead_ms: f64,
    /// Admissions per second.
    pub rate: Rate,
    /// What is left to call for; nothing if the sale does not look at its stock.
    pub demand: Option<Demand>,
}

/// Decides how far to call. Each node runs its own; whichever is first in a tick moves the cursor.
#[derive(Debug, Default)]
pub struct Pacer {
    /// Instant, called, claimed.
    seen: std::collections::VecDeque<(u64, u64, u64)>,
    starving: u32,
}

/// What the pacer wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// So many more people are to be called now.
    pub call: u64,
    /// So many more than that may be called for the stock that is left.
    pub spare: u64,
}

impl Pacer {
    /// How many more to call.
    pub fn step(&mut self, now: Observation) -> Step {
        self.remember(now);
        let allowed = match now.demand {
            Some(demand) => demand.may_call(self.may_still_claim(now)),
            None => u64::MAX,
        };
        if !now.waiting || allowed == 0 {
            // Nobody starves who waits for stock.
            self.starving = 0;
            return Step { call: 0, spare: allowed };
        }
        let per_ms = now.rate.get() / 1000.0;
        let share = self.share(now.now_ms);
        let missing = (LEAD_MS - now.lead_ms).max(0.0) * per_ms - self.answering(now) * share;
        let wanted = (missing / share).max(0.0);
        let floor = self.starvation_floor(now, per_ms);
        let call = ceil(wanted.max(floor)).min(allowed);
        Step { call, spare: allowed - call }
    }

    fn remember(&mut self, now: Observation) {
        // A store loss or a new epoch starts the counts anew, and the memory with them.
        let backwards = self.seen.back().is_some_and(|(at, called, claimed)| {
            now.now_ms < *at || now.called < *called || now.claimed < *claimed
        });
        if backwards {
            self.seen.clear();
        }
        self.seen.push_back((now.now_ms, now.called, now.claimed));
        let horizon = now.now_ms.saturating_sub(WINDOW_MS + 2 * ANSWER_MS);
        while self.seen.len() > SAMPLES_MAX || self.seen.front().is_some_and(|s| s.0 < horizon) {
            self.seen.pop_front();
        }
    }

    /// The sample in force at an instant: the newest not after it.
    fn at(&self, at_ms: u64) -> Option<(u64, u64)> {
        let sample = self.seen.iter().rev().find(|(at, ..)| *at <= at_ms);
        sample.or(self.seen.front()).map(|(_, called, claimed)| (*called, *claimed))
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
        let calls = now.called.saturating_sub(called);
        real(calls.saturating_sub(now.claimed.saturating_sub(claimed).min(calls)))
    }

    /// The most that may still claim of those called: all who have not, of the last [`COMING_MS`];
    /// a unit that one of them will take is nobody else's. Who was called before this node looked
    /// may have been called just then.
    fn may_still_claim(&self, now: Observation) -> f64 {
        let then_ms = now.now_ms.saturating_sub(COMING_MS);
        let then = self.seen.iter().rev().find(|(at, ..)| *at <= then_ms);
        let called_then = then.map_or(0, |(_, called, _)| *called);
        real(now.called.saturating_sub(called_then).min(now.unclaimed))
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
                called: cursor,
                claimed: meter.next(),
                unclaimed: cursor.saturating_sub(meter.next()),
                waiting: cursor < people,
                lead_ms: meter.lead_ms(now),
                rate,
                demand: None,
            };
            let to = (cursor + pacer.step(look).call).min(people);
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
            let seen = observed(now_ms, cursor, 0, rate);
            cursor += pacer.step(seen).call;
            ticks += 1;
        }
        assert!(ticks <= 60, "900 absentees took {ticks} ticks");
    }

    fn observed(now_ms: u64, called: u64, claimed: u64, rate: Rate) -> Observation {
        let unclaimed = called.saturating_sub(claimed);
        Observation {
            now_ms,
            called,
            claimed,
            unclaimed,
            waiting: true,
            lead_ms: 0.0,
            rate,
            demand: None,
        }
    }

    #[test]
    fn wr_66_as_many_are_called_as_units_came_back_and_their_units_are_kept_for_them() {
        let rate = Rate::per_second(100.0).unwrap();
        let mut pacer = Pacer::default();
        let mut at = |now_ms, called, claimed, available, undecided| {
            let demand = Demand { available, undecided, ..Demand::default() };
            let seen = observed(now_ms, called, claimed, rate);
            pacer.step(Observation { demand: Some(demand), ..seen }).call
        };
        assert_eq!(at(1_000, 500, 500, 0, 0), 0, "all is held: the line waits");
        assert_eq!(at(9_000, 500, 500, 12, 0), 12);
        assert_eq!(at(9_100, 512, 500, 12, 0), 0, "they are about to come");
        assert_eq!(at(9_900, 512, 507, 12, 7), 0, "seven are in");
        assert_eq!(at(10_400, 512, 507, 5, 0), 0, "and have taken theirs");
        assert_eq!(at(12_100, 512, 507, 5, 0), 5, "five did not come");
        assert_eq!(at(12_200, 517, 512, 0, 0), 0);
    }

    /// Called at most as far as the stock goes, whatever the meter would take: a sale of `units`
    /// in which everybody who comes takes one.
    #[test]
    fn nobody_present_is_called_for_units_that_others_will_take() {
        for (seed, present) in [(1, 1.0), (2, 0.6), (3, 0.3)] {
            let mut rng = SmallRng::seed_from_u64(seed);
            let rate = Rate::per_second(50.0).unwrap();
            let (mut meter, mut pacer) = (Meter::new(rate, 1), Pacer::default());
            let (mut called, mut available, mut refused) = (0_u64, 300_u64, 0_u64);
            let mut coming: Vec<u64> = Vec::new();
            let mut inside: Vec<u64> = Vec::new();
            for now_ms in (1_000_000..1_060_000_u64).step_by(100) {
                #[expect(clippy::cast_precision_loss, reason = "a test's clock")]
                let now = now_ms as f64;
                let claims = coming.extract_if(.., |at| *at <= now_ms).count();
                for _ in 0..claims {
                    meter.claim(now);
                    inside.push(now_ms + rng.random_range(2_000..9_000));
                }
                for _ in inside.extract_if(.., |at| *at <= now_ms) {
                    refused += u64::from(available == 0);
                    available = available.saturating_sub(1);
                }
                let demand =
                    Demand { available, undecided: inside.len() as u64, ..Demand::default() };
                let seen = observed(now_ms, called, meter.next(), rate);
                let lead_ms = meter.lead_ms(now);
                let step = pacer.step(Observation { lead_ms, demand: Some(demand), ..seen });
                called += step.call;
                for _ in 0..step.call {
                    if rng.random_bool(present) {
                        coming.push(now_ms + rng.random_range(50..1_250));
                    }
                }
            }
            assert_eq!((available, refused), (0, 0), "share {present}, seed {seed}");
        }
    }
}

//! How far to call: just enough that the meter always has somebody to admit.
//!
//! Over-*call*, never over-*admit*: the meter decides who is admitted when; the pacer only keeps
//! it fed. It aims at a lead (slots booked ahead, and those about to claim) of [`LEAD_MS`], and of
//! more where chance decides who turns up. What is missing is divided by the share of the called who
//! do. Calls are spread, so that nobody who is there is passed by many behind. Where the sale looks
//! at its stock or has only so many places inside, nobody is called for what others will take.

use std::collections::VecDeque;

use super::demand::Demand;
use super::number::{ceil, real, whole};
use super::rate::Rate;
use super::turnout::Turnout;

/// The lead aimed at: longer than the poll interval told to the front, in milliseconds.
pub const LEAD_MS: f64 = 2_000.0;
/// … and where not all turn up, so many times what chance usually makes of it.
const CHANCES: f64 = 3.0;
/// Until when the called turn up, in milliseconds: the poll interval told to the front and the
/// delay that the page adds to it.
pub const ANSWER_MS: u64 = 1_300;
/// Until when everybody has asked for the first time after the draw, in milliseconds: pages
/// come back spread out.
const FIRST_ASK_MS: u64 = 2_300;
/// So long after the opening nobody is taken for absent while nobody at all has answered, in
/// milliseconds: it is the network or the node that is late, and not thousands who went away.
const FIRST_ANSWER_MS: u64 = 5_000;
/// How long units are kept for somebody who was called and has not been heard from, in
/// milliseconds: a page without scripts and a slow network take longer than most.
const COMING_MS: u64 = 3_000;
/// The grid that the cursor moves on, in milliseconds.
pub const TICK_MS: u64 = 100;
/// A lead is made up for by calling so much more than the rate takes, if all turn up. With it somebody
/// called just after asking is passed by fewer than the rate lets in until the next question.
const CATCH_UP: f64 = 1.2;
/// … and so much more for each absentee to one who comes: among few a lead is made up for sooner.
const CATCH_UP_AMONG_FEW: f64 = 0.2;
/// … and so many a second at any rate, or the slowest would take minutes.
const CATCH_UP_PER_MS: f64 = 0.1 / 1_000.0;
/// The calls of so long may be made at once, in milliseconds.
const SPREAD_MS: f64 = 300.0;
/// Looks are kept for so long, in milliseconds, and at most so many.
const REMEMBERED_MS: u64 = 2 * COMING_MS;
const LOOKS_MAX: usize = 80;

/// What one look at the room shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Redis' clock.
    pub now_ms: u64,
    /// Since when this node has seen an order in this room: the draw, or a restore.
    pub ordered_ms: u64,
    /// Positions below it have been called.
    pub cursor: u64,
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
    /// How many more may be inside at once; nothing if there is no cap.
    pub places: Option<u64>,
}

/// A look as it is remembered.
#[derive(Debug, Clone, Copy)]
struct Look {
    at_ms: u64,
    cursor: u64,
    claimed: u64,
    /// How many who may come were called since the look before.
    called: u64,
    /// Until when those are to be expected.
    answered_ms: u64,
}

/// Decides how far to call. Each node runs its own; whichever is first in a tick moves the cursor.
#[derive(Debug, Default)]
pub struct Pacer {
    seen: VecDeque<Look>,
    turnout: Turnout,
    /// How many may be called at this moment without calling too many at once.
    credit: f64,
    /// The most that may be called at any moment.
    most: f64,
    /// When the first claim was seen.
    answered_ms: Option<u64>,
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
    /// How many more to call. `people` counts those who may come from one position to below another:
    /// nobody for a number that nobody has, nor for a place known to be dead.
    pub fn step(&mut self, now: Observation, people: impl Fn(u64, u64) -> u64) -> Step {
        self.remember(now, people);
        // While people ask for the first time silence says nothing yet, and nobody is in a hurry.
        let is_new = now.now_ms < self.first_asks_until(now.ordered_ms);
        let per_ms = now.rate.get() / 1000.0;
        let share = if is_new { 1.0 } else { self.turnout.share() };
        let most_per_ms = if is_new { per_ms } else { catching_up(per_ms, share) };
        let coming = self.coming(now.now_ms) * share;
        // Also while nobody waits: whoever comes then is not made to wait for others.
        let at_once = self.at_once(most_per_ms / share);
        let for_stock =
            now.demand.map_or(u64::MAX, |demand| demand.may_call(self.may_still_claim(now)));
        let for_places =
            now.places.map_or(u64::MAX, |places| ceil((real(places) - coming) / share));
        let allowed = for_stock.min(for_places);
        if !now.waiting || allowed == 0 {
            return Step { call: 0, spare: allowed };
        }
        let missing = (lead(per_ms, share) - now.lead_ms * per_ms).max(0.0) - coming;
        let call = ceil(missing / share).min(at_once).min(allowed);
        Step { call, spare: allowed - call }
    }

    fn remember(&mut self, now: Observation, people: impl Fn(u64, u64) -> u64) {
        // A store loss or a new epoch starts the counts anew, and the memory with them.
        let backwards = self.seen.back().is_some_and(|last| {
            now.now_ms < last.at_ms || now.cursor < last.cursor || now.claimed < last.claimed
        });
        if backwards {
            *self = Self { credit: self.credit, ..Self::default() };
        }
        if now.claimed > 0 {
            self.answered_ms.get_or_insert(now.now_ms);
        }
        let (at_ms, cursor, claimed) = (now.now_ms, now.cursor, now.claimed);
        let answered_ms = (at_ms + ANSWER_MS).max(now.ordered_ms.saturating_add(FIRST_ASK_MS));
        let last = self.seen.back().copied();
        // A node that has called farther at once knew already who is away.
        let at_most = ceil(self.most);
        let called = last.map_or(0, |last| people(last.cursor, cursor).min(at_most));
        self.seen.push_back(Look { at_ms, cursor, claimed, called, answered_ms });
        if let Some(last) = last {
            let expected = self.due(at_ms) - self.due(last.at_ms);
            let came = claimed - last.claimed;
            self.turnout.learn(at_ms - last.at_ms, expected, came, self.coming(at_ms));
        }
        let horizon = at_ms.saturating_sub(REMEMBERED_MS);
        while self.seen.len() > LOOKS_MAX || self.seen.front().is_some_and(|s| s.at_ms < horizon) {
            self.seen.pop_front();
        }
    }

    /// Until when those called ask for the first time: once one has, the others are about to.
    fn first_asks_until(&self, ordered_ms: u64) -> u64 {
        let asked_ms = ordered_ms.saturating_add(FIRST_ASK_MS);
        let latest_ms = ordered_ms.saturating_add(FIRST_ANSWER_MS);
        match self.answered_ms {
            None => latest_ms,
            // They were held up, and now ask in step: once again in this way.
            Some(at_ms) if (asked_ms..latest_ms).contains(&at_ms) => at_ms + 2 * ANSWER_MS,
            Some(at_ms) if at_ms < latest_ms => asked_ms.max(at_ms + ANSWER_MS),
            Some(_) => asked_ms,
        }
    }

    /// How many may be called now, at so many a millisecond, whoever called the last ones.
    fn at_once(&mut self, per_ms: f64) -> u64 {
        let most = (per_ms * SPREAD_MS).max(1.0);
        self.most = most;
        let mut looks = self.seen.iter().rev();
        self.credit = match (looks.next(), looks.next()) {
            (Some(now), Some(before)) => {
                let gained = per_ms * real(now.at_ms - before.at_ms);
                (self.credit + gained - real(now.called)).clamp(-most, most)
            }
            (Some(_) | None, _) => most,
        };
        whole(self.credit)
    }

    /// How many were called at each look, and the part of them that should have come by an
    /// instant.
    fn answers(&self, by_ms: u64) -> impl Iterator<Item = (f64, f64)> {
        self.seen.iter().zip(self.seen.iter().skip(1)).map(move |(before, look)| {
            let takes = look.answered_ms.saturating_sub(before.at_ms).max(1);
            let waited = by_ms.saturating_sub(before.at_ms).min(takes);
            (real(look.called), real(waited) / real(takes))
        })
    }

    /// How many of those called lately should have come by an instant if all are there.
    fn due(&self, by_ms: u64) -> f64 {
        self.answers(by_ms).map(|(people, part)| people * part).sum()
    }

    /// Of those called lately, how many may still be about to claim if all are there.
    fn coming(&self, now_ms: u64) -> f64 {
        self.answers(now_ms).map(|(people, part)| people * (1.0 - part)).sum()
    }

    /// The most that may still claim of those called: all who have not, of the last [`COMING_MS`];
    /// a unit that one of them will take is nobody else's. Who was called before this node looked
    /// may have been called just then.
    fn may_still_claim(&self, now: Observation) -> f64 {
        let then_ms = now.now_ms.saturating_sub(COMING_MS);
        if self.seen.front().is_none_or(|look| look.at_ms > then_ms) {
            return real(now.unclaimed);
        }
        let lately = self.seen.iter().filter(|look| look.at_ms > then_ms);
        real(lately.map(|look| look.called).sum::<u64>().min(now.unclaimed))
    }
}

/// How many people are to be booked ahead or about to claim: where few turn up, chance may bring none
/// of them for a while.
fn lead(per_ms: f64, share: f64) -> f64 {
    let people = LEAD_MS * per_ms;
    people + CHANCES * (people * (1.0 - share)).sqrt()
}

/// How many a millisecond may come while a lead is made up for: where few are there, one who is may
/// be passed by more, the rate ÷ share, until the next question.
fn catching_up(per_ms: f64, share: f64) -> f64 {
    let absent = 1.0 / share - 1.0;
    per_ms * (CATCH_UP + CATCH_UP_AMONG_FEW * absent) + CATCH_UP_PER_MS
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::domain::meter::Meter;

    /// Nobody is known to be away.
    fn all(from: u64, to: u64) -> u64 {
        to - from
    }

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
                ordered_ms: start,
                cursor,
                claimed: meter.next(),
                unclaimed: cursor.saturating_sub(meter.next()),
                waiting: cursor < people,
                lead_ms: meter.lead_ms(now),
                rate,
                demand: None,
                places: None,
            };
            let to = (cursor + pacer.step(look, all).call).min(people);
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
        let (rate, mut pacer) = (Rate::per_second(20.0).unwrap(), Pacer::default());
        let (mut cursor, mut ticks) = (0, 0_u64);
        while cursor < 900 && ticks < 200 {
            let now_ms = 1_000_000 + ticks * TICK_MS;
            let seen = observed(now_ms, cursor, 0, rate);
            cursor += pacer.step(seen, all).call;
            ticks += 1;
        }
        assert!(ticks <= 40, "900 absentees took {ticks} ticks");
    }

    fn observed(now_ms: u64, cursor: u64, claimed: u64, rate: Rate) -> Observation {
        let unclaimed = cursor.saturating_sub(claimed);
        Observation {
            now_ms,
            ordered_ms: 0,
            cursor,
            claimed,
            unclaimed,
            waiting: true,
            lead_ms: 0.0,
            rate,
            demand: None,
            places: None,
        }
    }

    #[test]
    fn wr_66_as_many_are_called_as_units_came_back_and_their_units_are_kept_for_them() {
        let rate = Rate::per_second(100.0).unwrap();
        let mut pacer = Pacer::default();
        let mut at = |now_ms, called, claimed, available, undecided| {
            let demand = Demand { available, undecided, ..Demand::default() };
            let seen = observed(now_ms, called, claimed, rate);
            pacer.step(Observation { demand: Some(demand), ..seen }, all).call
        };
        assert_eq!(at(1_000, 500, 500, 0, 0), 0, "all is held: the line waits");
        assert_eq!(at(9_000, 500, 500, 12, 0), 12);
        assert_eq!(at(9_100, 512, 500, 12, 0), 0, "they are about to come");
        assert_eq!(at(9_900, 512, 507, 12, 7), 0, "seven are in");
        assert_eq!(at(10_400, 512, 507, 5, 0), 0, "and have taken theirs");
        assert_eq!(at(12_100, 512, 507, 5, 0), 5, "five did not come");
        assert_eq!(at(12_200, 517, 512, 0, 0), 0);
    }

    #[test]
    fn whoever_comes_to_an_idle_line_is_called_at_once_also_at_one_in_twenty_seconds() {
        let (rate, mut pacer) = (Rate::per_second(0.05).unwrap(), Pacer::default());
        for now_ms in (1_000_000..1_005_000).step_by(100) {
            let idle = Observation { waiting: false, ..observed(now_ms, 0, 0, rate) };
            assert_eq!(pacer.step(idle, all).call, 0);
        }
        assert_eq!(pacer.step(observed(1_005_000, 0, 0, rate), all).call, 1);
    }

    /// Everybody who comes takes a unit.
    #[test]
    fn nobody_present_is_called_for_units_that_others_will_take() {
        for (seed, present) in [(1, 1.0), (2, 0.6), (3, 0.3)] {
            let mut rng = SmallRng::seed_from_u64(seed);
            let rate = Rate::per_second(50.0).unwrap();
            let (mut meter, mut pacer) = (Meter::new(rate, 1), Pacer::default());
            let (mut called, mut available, mut refused) = (0_u64, 300_u64, 0_u64);
            let (mut coming, mut inside) = (Vec::<u64>::new(), Vec::<u64>::new());
            for now_ms in (1_000_000..1_090_000_u64).step_by(100) {
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
                let undecided = inside.len() as u64;
                let demand = Demand { available, undecided, ..Demand::default() };
                let seen = observed(now_ms, called, meter.next(), rate);
                let lead_ms = meter.lead_ms(now);
                let step = pacer.step(Observation { lead_ms, demand: Some(demand), ..seen }, all);
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

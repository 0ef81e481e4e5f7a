//! How far this node would call the line on, from what it sees.

use super::Snapshot;
use crate::domain::pacer::{Observation, Pacer, Step};

/// The pacer, and the people it has seen called.
#[derive(Debug, Default)]
pub(super) struct Calling {
    pacer: Pacer,
    /// People called, those before the first look included.
    called: u64,
    /// Where the cursor was at the last look.
    cursor: Option<u64>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// Where the cursor should go; where it is if nobody is to be called.
    pub(super) to: u64,
    /// How many more might be called for the stock that is left.
    pub(super) spare: u64,
}

impl Calling {
    /// Decides. `stock_aware`: nobody is called for units that others will take.
    pub(super) fn decide(&mut self, seen: &Snapshot, now_ms: u64, stock_aware: bool) -> Call {
        self.count(seen);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
        let lead_ms = seen.meter.lead_ms(now_ms as f64);
        let Step { call, spare } = self.pacer.step(Observation {
            now_ms,
            called: self.called,
            claimed: seen.claimed,
            unclaimed: seen.gaps.people_below(seen.cursor).saturating_sub(seen.claimed),
            waiting: seen.cursor < seen.line,
            lead_ms,
            rate: seen.control.rate,
            demand: stock_aware.then(|| seen.demand()),
        });
        let to = match call {
            0 => seen.cursor,
            call => seen.presence.position_after(&seen.gaps, seen.cursor, call, seen.line),
        };
        Call { to, spare }
    }

    /// Dead places and numbers that nobody has are not counted, so nobody waits for them to come.
    fn count(&mut self, seen: &Snapshot) {
        match self.cursor.replace(seen.cursor) {
            Some(before) if before <= seen.cursor => {
                let people = seen.presence.people_between(&seen.gaps, before, seen.cursor);
                self.called = self.called.saturating_add(people);
            }
            Some(_) | None => {
                let called = seen.gaps.people_below(seen.cursor);
                *self = Self { pacer: Pacer::default(), called, cursor: Some(seen.cursor) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::domain::draw::Draw;
    use crate::domain::presence::{KNOWN_AFTER_MS, Presence, SLICE_MS, SLICES, known, noted};
    use crate::domain::queue::{Place, PlaceState, poll_after_ms};
    use crate::domain::rate::Rate;
    use crate::domain::sale::tests::control;
    use crate::domain::sale::{Control, Phase};

    const PEOPLE: u64 = 40_000;
    const START_MS: u64 = 1_000_000;

    /// A line on a clock of its own: browsers that ask as they are told, a node that calls.
    struct Line {
        rng: SmallRng,
        rate: Rate,
        seen: Snapshot,
        calling: Calling,
        /// When each of those who turn up asks next.
        asks: Vec<Option<u64>>,
        /// When each was heard from last.
        heard: Vec<u64>,
        claimed: HashSet<u64>,
        slots: Vec<f64>,
    }

    impl Line {
        fn new(number: u64, per_second: f64, is_present: impl Fn(u64) -> f64) -> Self {
            let mut rng = SmallRng::seed_from_u64(number);
            let rate = Rate::per_second(per_second).unwrap();
            let mut seen = Snapshot::unseen(Control { rate, ..control() });
            seen.draw = Some(Arc::new(Draw::new(PEOPLE, [1; 32])));
            seen.line = PEOPLE;
            let asks = (0..PEOPLE).map(|position| {
                let comes = rng.random_bool(is_present(position));
                comes.then(|| START_MS + rng.random_range(0..15_000))
            });
            Self {
                asks: asks.collect(),
                rng,
                rate,
                seen,
                calling: Calling::default(),
                heard: vec![0; usize::try_from(PEOPLE).unwrap()],
                claimed: HashSet::new(),
                slots: Vec::new(),
            }
        }

        fn browsers(&mut self, now_ms: u64) {
            let front = usize::try_from((self.seen.cursor + noted(self.rate)).min(PEOPLE)).unwrap();
            for at in 0..front {
                let position = at as u64;
                let Some(due) = self.asks[at].filter(|due| *due <= now_ms) else { continue };
                self.heard[at] = now_ms;
                let is_called = position < self.seen.cursor;
                if is_called && self.claimed.insert(position) {
                    #[expect(clippy::cast_precision_loss, reason = "a test's clock")]
                    let number = self.seen.meter.claim(now_ms as f64);
                    self.slots.push(self.seen.meter.slot_ms(number).unwrap());
                    self.seen.claimed += 1;
                    self.asks[at] = None;
                    continue;
                }
                let ahead = Some(position - self.seen.cursor.min(position));
                let place = Place { state: PlaceState::Waiting, ahead, ..Place::none() };
                let told = poll_after_ms(Phase::Open, &place, self.rate, 0);
                self.asks[at] = Some(due.max(now_ms) + told + self.rng.random_range(0..=told / 4));
            }
        }

        fn exchange(&mut self, now_ms: u64) {
            let (cursor, rate) = (self.seen.cursor, self.rate);
            let from = cursor.saturating_sub(known(rate));
            let memory_ms = SLICE_MS * (SLICES - 1) + now_ms % SLICE_MS;
            let mut bytes =
                vec![0_u8; usize::try_from((noted(rate) + known(rate)) / 8 + 2).unwrap()];
            for position in from..(cursor + noted(rate)).min(PEOPLE) {
                let heard_ms = self.heard[usize::try_from(position).unwrap()];
                if heard_ms > 0 && now_ms - heard_ms <= memory_ms {
                    let bit = position - from / 8 * 8;
                    bytes[usize::try_from(bit / 8).unwrap()] |= 0x80 >> (bit % 8);
                }
            }
            let means = now_ms - START_MS >= KNOWN_AFTER_MS;
            let to = if means { (cursor + known(rate)).min(PEOPLE) } else { 0 };
            self.seen.presence = Arc::new(Presence::new(from / 8, &[bytes], from, to));
        }

        /// Slots used in each second.
        fn run(mut self, seconds: u64) -> Vec<usize> {
            for now_ms in (START_MS..START_MS + seconds * 1_000).step_by(100) {
                self.browsers(now_ms);
                if now_ms % 1_000 == 0 {
                    self.exchange(now_ms);
                }
                self.seen.cursor = self.calling.decide(&self.seen, now_ms, false).to;
            }
            #[expect(clippy::cast_precision_loss, reason = "a test's clock")]
            let second = |i: u64| (START_MS + i * 1_000) as f64;
            let used = |i| {
                let within = second(i)..second(i + 1);
                self.slots.iter().filter(|slot| within.contains(slot)).count()
            };
            (0..seconds).map(used).collect()
        }
    }

    /// At least 98 % of the rate in every 10 s from one second to another, and never above it.
    fn is_used(used: &[usize], per_second: usize, from: usize, to: usize, what: &str) {
        assert!(used.iter().all(|count| *count <= per_second + 1), "{what}: {used:?}");
        for at in from..to - 10 {
            let sum: usize = used[at..at + 10].iter().sum();
            assert!(sum * 100 >= per_second * 10 * 98, "{what}, second {at}: {sum} in {used:?}");
        }
    }

    #[test]
    fn the_rate_is_used_at_any_share_of_absentees() {
        for (seed, absent) in [(1, 0.0), (2, 0.3), (3, 0.6), (4, 0.9)] {
            let used = Line::new(seed, 50.0, |_| 1.0 - absent).run(45);
            is_used(&used, 50, 10, 45, &format!("{absent} absent"));
        }
    }

    #[test]
    fn wr_05_a_jump_in_absentees_is_made_up_for_within_fifteen_seconds_and_never_overshot() {
        // The first thousand are all there, of the next one in ten, then all again.
        let share = |position| if (1_000..9_000).contains(&position) { 0.1 } else { 1.0 };
        let used = Line::new(7, 50.0, share).run(70);
        is_used(&used, 50, 10, 18, "before the jump");
        is_used(&used, 50, 35, 70, "after it");
        let whole: usize = used[10..].iter().sum();
        assert!(whole * 100 >= 50 * 60 * 95, "{whole}: {used:?}");
    }
}

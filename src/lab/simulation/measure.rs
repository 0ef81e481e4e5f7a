//! What a run came to: slots in windows, the rate used, and who was passed by how many.

use std::collections::HashMap;

use serde::Serialize;

use super::scenario::{Change, Scenario};
use super::store::{Store, index};
use super::world::OPENS_MS;
use crate::domain::line::{Lapses, OpenAdmissions};
use crate::domain::number::real;
use crate::domain::rate::Rate;

/// How long the line gets to find its pace, from the draw and from an upheaval, milliseconds.
const SETTLES_MS: u64 = 10_000;
const RECOVERS_MS: u64 = 15_000;
/// Until whoever comes back has asked, and the nodes have told each other, in milliseconds.
const HEARD_AFTER_MS: u64 = 2_500;
const WINDOW_MS: u64 = 10_000;
const SAMPLE_MS: u64 = 100;
/// The part of the rate that is to be used, in percent.
const USE_PERCENT: f64 = 98.0;

/// Somebody who was let in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admitted {
    pub(super) position: u64,
    pub(super) slot: f64,
    /// When the turn was taken.
    pub(super) claimed_ms: u64,
    /// The question before that.
    pub(super) asked_ms: u64,
    /// Was there all the time, and asked as told.
    pub(super) stayed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at_ms: u64,
    present: u64,
    is_open: bool,
    /// Units beyond what the undecided will take.
    spare: u64,
}

/// All that is noted of a run.
pub(super) struct Log {
    rate: Rate,
    burst: u32,
    drawn_ms: u64,
    /// Those who would claim if called, at this moment.
    pub(super) present: u64,
    pub(super) admitted: Vec<Admitted>,
    /// Where the cursor went, and when.
    pub(super) calls: Vec<(u64, u64)>,
    /// When a turn was taken, and the question before that.
    booked: HashMap<u64, (u64, u64)>,
    samples: Vec<Sample>,
    changes: Vec<(u64, Change)>,
    shares: Vec<(u64, f64)>,
    /// Who took a unit, in order.
    pub(super) orders: Vec<u64>,
    /// Who was let in and found nothing.
    pub(super) refused: u64,
    /// When each was told that nothing is left, and when that one had asked before.
    pub(super) told_sold_out: Vec<(u64, u64)>,
    /// When the last unit was paid for.
    pub(super) gone_ms: Option<u64>,
    pub(super) available: Option<u64>,
    pub(super) held: u64,
    pub(super) missed: u64,
    pub(super) lapses: Lapses,
    pub(super) open: OpenAdmissions,
    /// The most open admissions at any moment.
    pub(super) open_most: u64,
}

impl Log {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let there = (1.0 - scenario.crowd.away) * (1.0 - scenario.crowd.mute);
        Self {
            rate: scenario.rate,
            burst: scenario.burst,
            drawn_ms: OPENS_MS + scenario.draw_ms,
            present: 0,
            admitted: Vec::new(),
            calls: Vec::new(),
            booked: HashMap::new(),
            samples: Vec::new(),
            changes: Vec::new(),
            shares: vec![(0, there)],
            orders: Vec::new(),
            refused: 0,
            told_sold_out: Vec::new(),
            gone_ms: None,
            available: None,
            held: 0,
            missed: 0,
            lapses: Lapses::default(),
            open: OpenAdmissions::default(),
            open_most: 0,
        }
    }

    pub(super) fn sample(&mut self, at_ms: u64, store: &Store, is_up: bool) {
        let undecided = store.open().booked + store.open().undecided;
        let spare = store.available.map_or(u64::MAX, |units| units.saturating_sub(undecided));
        let is_open = is_up && !store.paused && store.max_active == 0;
        self.samples.push(Sample { at_ms, present: self.present, is_open, spare });
        self.open_most = self.open_most.max(store.open().all);
    }

    /// A turn was taken, and has a slot ahead.
    pub(super) fn book(&mut self, position: u64, now_ms: u64, asked_ms: u64) {
        self.booked.insert(position, (now_ms, asked_ms));
    }

    pub(super) fn admit(&mut self, admitted: Admitted) {
        let booked = self.booked.remove(&admitted.position);
        let (claimed_ms, asked_ms) = booked.unwrap_or((admitted.claimed_ms, admitted.asked_ms));
        self.admitted.push(Admitted { claimed_ms, asked_ms, ..admitted });
    }

    pub(super) fn changed(&mut self, now_ms: u64, change: Change, mute: f64) {
        if let Change::Away(share) | Change::AllAway(share) = change {
            self.shares.push((now_ms, (1.0 - share) * (1.0 - mute)));
        }
        self.changes.push((now_ms, change));
    }

    /// Slots, ascending.
    pub(super) fn slots(&self) -> Vec<f64> {
        let mut slots: Vec<f64> = self.admitted.iter().map(|admitted| admitted.slot).collect();
        slots.sort_unstable_by(f64::total_cmp);
        slots
    }

    /// Rates from when on, per millisecond; nothing flows while paused.
    fn rates(&self) -> Vec<(f64, f64)> {
        let (mut rate, mut flows) = (self.rate.get() / 1_000.0, true);
        let mut rates = vec![(0.0, rate)];
        for (at_ms, change) in &self.changes {
            match change {
                Change::Rate(to) => rate = to.get() / 1_000.0,
                Change::Pause | Change::Stop => flows = false,
                Change::Resume => flows = true,
                _ => continue,
            }
            rates.push((real(*at_ms), if flows { rate } else { 0.0 }));
        }
        rates
    }

    /// How many may have been let in from the beginning to an instant.
    fn allowed_until(rates: &[(f64, f64)], at: f64) -> f64 {
        let ends = rates.iter().skip(1).map(|(from, _)| *from).chain([f64::INFINITY]);
        // From the opening on, for the digits' sake.
        let from = |from: f64| from.max(real(OPENS_MS));
        let spans = rates.iter().zip(ends);
        spans.map(|((begins, rate), ends)| (at.min(ends) - from(*begins)).max(0.0) * rate).sum()
    }

    /// The most in any second.
    pub(super) fn most_in_a_second(&self) -> usize {
        most_within(&self.slots(), 1_000.0)
    }

    /// By how much the worst window of any length is above the rate over it + burst; ≤ 0 is good.
    pub(super) fn excess(&self) -> f64 {
        let (slots, rates) = (self.slots(), self.rates());
        let (mut lowest, mut worst) = (f64::INFINITY, f64::NEG_INFINITY);
        for (number, slot) in slots.iter().enumerate() {
            let height = real(number as u64) - Self::allowed_until(&rates, *slot);
            lowest = lowest.min(height);
            worst = worst.max(height - lowest + 1.0 - f64::from(self.burst));
        }
        worst
    }

    fn is_settled(&self, from_ms: u64) -> bool {
        let upsets = |change: &Change| {
            !matches!(
                change,
                Change::Restart(..)
                    | Change::Sleep(..)
                    | Change::ClockStep(..)
                    | Change::Confirm(_)
            )
        };
        let near = |at: u64| at < from_ms + WINDOW_MS && from_ms < at + RECOVERS_MS;
        from_ms >= self.drawn_ms + SETTLES_MS
            && !self.changes.iter().any(|(at, change)| upsets(change) && near(*at))
    }

    /// The use of each 10 s window in which enough people and stock waited: its beginning, the
    /// slots used, and the slots that there were.
    pub(super) fn uses(&self) -> Vec<(u64, usize, f64)> {
        let (slots, rates) = (self.slots(), self.rates());
        let length = index(WINDOW_MS / SAMPLE_MS);
        let mut uses = Vec::new();
        for window in self.samples.windows(length + 1) {
            let first = window[0];
            let (from, to) = (real(first.at_ms), real(first.at_ms + WINDOW_MS));
            let whole = Self::allowed_until(&rates, to) - Self::allowed_until(&rates, from);
            let enough = real(first.present) >= whole && real(first.spare) >= whole;
            let is_open = window.iter().all(|sample| sample.is_open);
            if enough && is_open && whole > 0.0 && self.is_settled(first.at_ms) {
                let booked = slots.partition_point(|slot| *slot < to)
                    - slots.partition_point(|slot| *slot < from);
                uses.push((first.at_ms, booked, whole));
            }
        }
        uses
    }

    /// Whether the meter was changed or lost between a call and its slot, or shortly before: then
    /// numbers are booked anew, in the order in which people ask. The same for a node that has just
    /// come: it does not know yet who is away.
    fn is_upset(&self, called_ms: u64, slot: f64) -> bool {
        self.changes.iter().any(|(at_ms, change)| {
            let upsets = matches!(
                change,
                Change::Rate(_)
                    | Change::Pause
                    | Change::Resume
                    | Change::Stop
                    | Change::StoreLoss(_)
                    | Change::Restart(..)
                    | Change::ClockStep(..)
            );
            upsets && called_ms < at_ms + RECOVERS_MS && real(*at_ms) <= slot
        })
    }

    /// The part of those in line who were there, at its least: nobody can have been heard yet who
    /// has come back a moment ago.
    fn share_at(&self, at_ms: u64) -> f64 {
        let ends = self.shares.iter().skip(1).map(|(from, _)| from + HEARD_AFTER_MS);
        let spans = self.shares.iter().zip(ends.chain([u64::MAX]));
        let counts = spans.filter(|((from, _), to)| *from <= at_ms && at_ms < *to);
        counts.map(|((_, share), _)| *share).fold(1.0, f64::min).max(0.01)
    }

    pub(super) fn called_ms(&self, position: u64) -> u64 {
        let call = self.calls.partition_point(|(to, _)| *to <= position);
        self.calls.get(call).map_or(0, |(_, at_ms)| *at_ms)
    }

    /// Of those who were there all the time: the one who was passed by the most for what is allowed:
    /// position, by how many, and how many might.
    pub(super) fn passed(&self) -> Option<(u64, u64, f64)> {
        let mut by_slot: Vec<&Admitted> = self.admitted.iter().collect();
        by_slot.sort_unstable_by(|one, other| one.slot.total_cmp(&other.slot));
        let last = by_slot.iter().map(|admitted| admitted.position).max()?;
        let mut tree = Fenwick::new(index(last) + 1);
        let mut worst: Option<(u64, u64, f64)> = None;
        for admitted in by_slot {
            let passed = tree.above(index(admitted.position));
            tree.add(index(admitted.position));
            let called_ms = self.called_ms(admitted.position);
            if !admitted.stayed || self.is_upset(called_ms, admitted.slot) {
                continue;
            }
            let poll_ms = admitted.claimed_ms.saturating_sub(admitted.asked_ms);
            let rates = self.rates();
            let rate = rates.iter().rev().find(|(from, _)| *from <= real(called_ms));
            let rate = rate.map_or(0.0, |(_, per_ms)| *per_ms);
            let behind = real(poll_ms) * rate / self.share_at(called_ms);
            let allowed = f64::from(self.burst) + behind;
            if worst.is_none_or(|(_, by, of)| real(passed) / allowed > real(by) / of) {
                worst = Some((admitted.position, passed, allowed));
            }
        }
        worst
    }

    fn lost_at_jump(&self) -> Option<f64> {
        let (from_ms, _) = self.shares.get(1)?;
        let (from, to) = (real(*from_ms), real(from_ms + RECOVERS_MS));
        let (slots, rates) = (self.slots(), self.rates());
        let whole = Self::allowed_until(&rates, to) - Self::allowed_until(&rates, from);
        let used = slots.iter().filter(|slot| (from..to).contains(*slot)).count();
        Some((whole - real(used as u64)).max(0.0))
    }

    pub(super) fn figures(&self) -> Figures {
        let uses = self.uses();
        let share = |(_, used, whole): &(u64, usize, f64)| real(*used as u64) / whole;
        let is_used = |(_, used, whole): &(u64, usize, f64)| {
            // A window's edge may cut off the part of a slot.
            real(*used as u64) >= (whole * USE_PERCENT / 100.0).floor()
        };
        let passed = self.passed();
        Figures {
            windows: uses.len(),
            use_least: uses.iter().map(share).min_by(f64::total_cmp),
            use_kept: uses.iter().all(is_used),
            most_in_a_second: self.most_in_a_second(),
            excess: self.excess().max(0.0),
            passed_by: passed.map(|(_, by, _)| by),
            passing_allowed: passed.map(|(_, _, allowed)| allowed),
            admitted: self.admitted.len(),
            lost_at_jump: self.lost_at_jump(),
        }
    }
}

/// The figures of a run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figures {
    /// How many 10 s windows could be judged.
    pub(super) windows: usize,
    /// The least part of the rate that was used in one of them.
    pub(super) use_least: Option<f64>,
    pub(super) use_kept: bool,
    pub(super) most_in_a_second: usize,
    /// Above the rate + burst in any window; 0 is right.
    pub(super) excess: f64,
    pub(super) passed_by: Option<u64>,
    pub(super) passing_allowed: Option<f64>,
    pub(super) admitted: usize,
    /// Slots unused in the 15 s after the share of those away jumped.
    pub(super) lost_at_jump: Option<f64>,
}

pub(super) fn most_within(slots: &[f64], span_ms: f64) -> usize {
    let (mut from, mut most) = (0, 0);
    for (to, slot) in slots.iter().enumerate() {
        while slots[from] + span_ms <= *slot {
            from += 1;
        }
        most = most.max(to + 1 - from);
    }
    most
}

/// Counts of positions, and of those above one.
struct Fenwick {
    sums: Vec<u64>,
    all: u64,
}

impl Fenwick {
    fn new(positions: usize) -> Self {
        Self { sums: vec![0; positions + 1], all: 0 }
    }

    fn add(&mut self, position: usize) {
        self.all += 1;
        let mut at = position + 1;
        while at < self.sums.len() {
            self.sums[at] += 1;
            at += at & at.wrapping_neg();
        }
    }

    fn above(&self, position: usize) -> u64 {
        let (mut at, mut below) = (position + 1, 0);
        while at > 0 {
            below += self.sums[at];
            at -= at & at.wrapping_neg();
        }
        self.all - below
    }
}

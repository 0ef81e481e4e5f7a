//! What this node believes of the waits: the pace of the line, and how the ranges it has told turned
//! out. A poll reads a number and takes no lock, but for the few places that are looked at.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Moment, Room, Snapshot};
use crate::domain::asking::{Stride, fastest, soon};
use crate::domain::forecast::{self, Before, Kept, Look, Pace, Shown, Tempo};
use crate::domain::queue::{Eta, Odds};
use crate::domain::rate::Rate;
use crate::domain::sale::Phase;
use crate::domain::stock::StockSum;

/// One node's own.
#[derive(Default)]
pub(super) struct Forecast {
    /// Of whoever looks at the room; nobody else.
    tempo: Mutex<(Tempo, Stride, Option<Rate>)>,
    /// The pace: people and trust as halves; 0 until it is known, as trust is never nothing.
    pace: AtomicU64,
    /// The bits of how many people are passed for each slot.
    stride: AtomicU64,
    shown: Mutex<Shown>,
}

impl Forecast {
    fn pace(&self) -> Option<Pace> {
        let bits = self.pace.load(Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "each half of the bits")]
        let half = |bits: u64| f64::from(f32::from_bits(bits as u32));
        (bits != 0).then(|| Pace { people: half(bits >> 32), trust: half(bits) })
    }

    /// How many people are passed for each slot: as lately, or as those ahead are known to be there.
    pub(super) fn stride(&self) -> f64 {
        f64::from_bits(self.stride.load(Ordering::Relaxed))
    }

    fn keep(&self, pace: Option<Pace>) {
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let half = |value: f64| u64::from((value as f32).to_bits());
        let bits = pace.map_or(0, |pace| half(pace.people) << 32 | half(pace.trust));
        self.pace.store(bits, Ordering::Relaxed);
    }

    fn told(&self, seen: &Snapshot, position: u64, now_ms: u64, wait: Eta) {
        if !Shown::samples(position, seen.line) {
            return;
        }
        // Who finds it taken is noted at the next poll, with what is told then.
        if let Ok(mut shown) = self.shown.try_lock() {
            shown.note(position, now_ms, wait);
        }
    }
}

impl Room {
    /// Takes note of how far the line has moved; after each look.
    pub(super) fn forecast(&self, seen: &Snapshot) {
        let now_ms = seen.seen_ms();
        let rate = seen.control.rate;
        let is_moving = self.is_moving(seen, now_ms);
        let passed = seen.gaps.people_below(seen.cursor);
        let passed = passed.saturating_sub(seen.left.between(0, seen.cursor));
        let is_steady = {
            let mut of = self.forecast.tempo.lock().unwrap_or_else(PoisonError::into_inner);
            let (tempo, stride, before) = &mut *of;
            let (run, cursor) = (seen.control.run, seen.cursor);
            tempo.observe(Look { now_ms, run, cursor, passed, is_moving, rate });
            self.forecast.keep(tempo.pace());
            let ahead = seen.presence.sparsity(&seen.gaps, seen.cursor, soon(rate), seen.line);
            let stride = stride.observe(now_ms, passed, rate, ahead);
            self.forecast.stride.store(stride.to_bits(), Ordering::Relaxed);
            before.replace(rate) == Some(rate) && is_moving
        };
        let mut shown = self.forecast.shown.lock().unwrap_or_else(PoisonError::into_inner);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "milliseconds stay below 2^53, and a lead is not negative"
        )]
        let lead_ms = seen.meter.lead_ms(now_ms as f64) as u64;
        shown.passed(seen.cursor, now_ms.saturating_add(lead_ms));
        if !is_steady {
            shown.forget();
        }
    }

    /// The most people that may be called in a second.
    pub(super) fn fastest(&self, seen: &Snapshot) -> f64 {
        fastest(seen.control.rate, self.forecast.stride())
    }

    /// How the waits that this node has told turned out, at rates that did not change meanwhile.
    pub(super) fn waits_kept(&self) -> Kept {
        self.forecast.shown.lock().unwrap_or_else(PoisonError::into_inner).kept()
    }

    /// Whether people wait and neither an order nor the stock holds them up. A full house does not
    /// count as standing: the pace is what it leaves.
    fn is_moving(&self, seen: &Snapshot, now_ms: u64) -> bool {
        seen.phase(now_ms) == Phase::Open
            && seen.cursor < seen.line
            && !seen.is_paused(now_ms)
            && seen.stock(now_ms).is_some_and(|stock| stock.available > 0)
            && !self.waits_for_stock(seen)
    }

    /// The wait and the chance of a position with `ahead` others before it; no wait while the line
    /// `stands`.
    pub(super) fn outlook(
        &self,
        moment: &Moment,
        (position, ahead): (u64, u64),
        stands: bool,
    ) -> (Option<Eta>, Option<Odds>) {
        let (seen, now_ms) = (moment.seen(), moment.now_ms());
        let odds = moment.stock().map(|stock| self.odds(seen, &stock, (position, ahead)));
        let Some(wait) = self.wait(seen, ahead) else { return (None, odds) };
        let left_ms = seen.control.closes_ms.saturating_sub(now_ms);
        let (in_time, best) = forecast::until_end(wait, left_ms);
        let told = in_time.filter(|_| !stands && !self.is_held_up(seen, ahead));
        if let Some(wait) = told {
            self.forecast.told(seen, position, now_ms, wait);
        }
        (told, odds.map(|odds| odds.at_most(best)))
    }

    /// Nobody knows when those inside will go, until some have.
    fn is_held_up(&self, seen: &Snapshot, ahead: u64) -> bool {
        let places = u64::from(seen.control.max_active);
        let is_capped = places > 0 && seen.open.all.saturating_add(ahead) >= places;
        is_capped && self.forecast.pace().is_none()
    }

    /// The wait behind `ahead` others, as long as the line moves.
    fn wait(&self, seen: &Snapshot, ahead: u64) -> Option<Eta> {
        forecast::wait(ahead, seen.coming(), seen.control.rate, self.forecast.pace())
    }

    /// The chance of a position with `ahead` others before it.
    fn odds(&self, seen: &Snapshot, stock: &StockSum, (position, ahead): (u64, u64)) -> Odds {
        let demand = seen.demand();
        let people = seen.gaps.people_between(0, position);
        // Also those called long ago may still come; not so who was in and is out again.
        let inside = seen.open.all.max(demand.undecided);
        let called = forecast::gone(seen.admitted, seen.left.between(0, seen.cursor), inside);
        let gone = called.saturating_add(seen.left.between(seen.cursor, position));
        let before = Before { at_most: people.saturating_sub(gone), ahead, cap: self.cap() };
        forecast::odds(before, stock, &demand, self.forecast.pace())
    }

    /// The most units that one of those ahead may take.
    fn cap(&self) -> u32 {
        match self.options.units_per_buyer {
            0 => u32::MAX,
            cap => cap,
        }
    }
}

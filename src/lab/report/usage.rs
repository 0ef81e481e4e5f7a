//! The judge of full-use: in every 10 s that had people and stock enough, the rate was used.
//!
//! The crowd sees less than there is, so it judges only what is certain: somebody waited at an
//! instant who had a place by then and was let in later, or was still at it in the end.

use super::allowed::Allowed;
use super::evidence::{Evidence, Ledger, RateSet};
use super::promise::Verdict;
use super::rate;
use crate::domain::number::{ceil, real};
use crate::lab::crowd::{Ending, Observations, ShopperSeen};

const WINDOW_MS: u64 = 10_000;
const STEP_MS: u64 = 100;
/// The line may find its pace first: from the opening, and from an upheaval.
const SETTLES_MS: u64 = 10_000;
const RECOVERS_MS: u64 = 15_000;
/// Samples of the stock further apart say that the core was not well.
const GAP_MS_MAX: u64 = 2_000;
const USE_PERCENT: f64 = 98.0;

/// full-use, as far as the run can show it.
pub(super) fn full_use(seen: &Observations, evidence: &Evidence) -> Verdict {
    let (set, draw) = match (&evidence.rate, &evidence.draw) {
        (Ok(set), Ok(draw)) => (*set, draw),
        (Err(reason), _) | (_, Err(reason)) => return Verdict::unchecked(reason),
    };
    let opened = draw.opened_at.as_ref().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    let Some(opened_ms) = opened.and_then(|at| u64::try_from(at.as_millisecond()).ok()) else {
        return Verdict::unchecked("the sale did not open");
    };
    if seen.witness.samples.is_empty() {
        return Verdict::unchecked("nobody watched the stock");
    }
    if set.max_active > 0 {
        return Verdict::unchecked("the sale lets in only as many as leave: it has a max_active");
    }
    let run = Run::of(seen, set, evidence.ledger.as_ref().ok());
    let last = run.slots.last().copied().unwrap_or(opened_ms).saturating_add(RECOVERS_MS);
    let starts = (opened_ms + SETTLES_MS..last).step_by(usize::try_from(STEP_MS).unwrap_or(1));
    let judged: Vec<_> = starts.filter_map(|at_ms| run.used(at_ms)).collect();
    let part = |(used, whole): &(u64, f64)| real(*used) / whole;
    let Some(worst) = judged.iter().min_by(|a, b| part(a).total_cmp(&part(b))) else {
        return Verdict::unchecked(
            "in no 10 s from 10 s after the opening on did enough people wait and was stock for \
             them free",
        );
    };
    let said = format!(
        "at least {:.1} % of the rate used in each of {} windows of 10 s",
        part(worst) * 100.0,
        judged.len()
    );
    // A window's edge may cut off the part of a slot.
    let is_used = |(used, whole): &(u64, f64)| real(*used) >= (whole * USE_PERCENT / 100.0).floor();
    if judged.iter().all(is_used) { Verdict::kept(said) } else { Verdict::broken(said) }
}

struct Run<'seen> {
    seen: &'seen Observations,
    slots: Vec<u64>,
    allowed: Allowed,
    /// Units that one buyer takes.
    each: f64,
    /// From when to when each shopper is known to have waited.
    waits: Vec<(u64, u64)>,
}

impl<'seen> Run<'seen> {
    fn of(seen: &'seen Observations, set: RateSet, ledger: Option<&Ledger>) -> Self {
        Self {
            slots: rate::slots(seen),
            allowed: Allowed::of(set, seen.steering.as_ref()),
            each: ledger.map_or(1.0, units_each),
            waits: seen.shoppers.iter().filter_map(waited).collect(),
            seen,
        }
    }

    /// Slots used in the 10 s from here on, and how many there were; nothing if they do not count.
    fn used(&self, at_ms: u64) -> Option<(u64, f64)> {
        let to_ms = at_ms + WINDOW_MS;
        let whole = self.allowed.until(to_ms) - self.allowed.until(at_ms);
        let waited = self.waits.iter().filter(|(from, to)| *from <= at_ms && at_ms <= *to).count();
        let counts = whole > 0.0
            && waited as u64 >= ceil(whole)
            && self.is_quiet(at_ms)
            && self.is_watched(at_ms, to_ms)
            && self.spare(at_ms)? >= whole * self.each;
        let below = |ms| self.slots.partition_point(|slot| *slot < ms);
        counts.then(|| ((below(to_ms) - below(at_ms)) as u64, whole))
    }

    /// No upheaval and no change of the rate, in the window or shortly before it.
    fn is_quiet(&self, at_ms: u64) -> bool {
        let upheavals = self.seen.upheavals.iter().map(|of| (of.from_ms, of.over_ms));
        let steps = self.seen.steering.iter().flat_map(|steering| &steering.steps);
        let steps = steps.map(|step| (step.sent_ms, Some(step.acked_ms)));
        upheavals.chain(steps).all(|(from_ms, over_ms)| {
            let is_before = over_ms.is_some_and(|over| over.saturating_add(RECOVERS_MS) <= at_ms);
            is_before || from_ms >= at_ms + WINDOW_MS
        })
    }

    /// The core answered all the time.
    fn is_watched(&self, at_ms: u64, to_ms: u64) -> bool {
        let samples = &self.seen.witness.samples;
        let first = samples.partition_point(|sample| sample.received_ms <= at_ms);
        let mut last_ms = match first.checked_sub(1).and_then(|at| samples.get(at)) {
            Some(sample) => sample.received_ms,
            None => return false,
        };
        for sample in &samples[first..] {
            if sample.received_ms - last_ms > GAP_MS_MAX {
                return false;
            }
            last_ms = sample.received_ms;
            if last_ms >= to_ms {
                return true;
            }
        }
        false
    }

    /// Units free beyond those that whoever was let in before may still take.
    fn spare(&self, at_ms: u64) -> Option<f64> {
        let sample = self.seen.witness.samples.iter().rev().find(|of| of.received_ms <= at_ms)?;
        let sku = sample.skus.iter().find(|sku| sku.sku == self.seen.sku)?;
        // Lead included: whoever has a slot booked may take as well.
        let inside = self.slots.partition_point(|slot| *slot <= at_ms + RECOVERS_MS / 5);
        let free = real(u64::try_from(sku.available).unwrap_or(0));
        let taken = real(sku.held + sku.confirmed);
        Some(free - (real(inside as u64) * self.each - taken).max(0.0))
    }
}

/// Units of an order, by what was sold and held in the end.
fn units_each(ledger: &Ledger) -> f64 {
    let units: i64 = ledger.skus.iter().map(|sku| sku.held + sku.confirmed).sum();
    let live = |status: &str| matches!(status, "held" | "confirmed");
    let rows: u64 = ledger.by_status.iter().filter(|(of, _)| live(of)).map(|(_, n)| n).sum();
    let units = real(u64::try_from(units).unwrap_or(0));
    if rows == 0 { 1.0 } else { (units / real(rows)).max(1.0) }
}

/// From when to when somebody is known to have waited with a place.
fn waited(shopper: &ShopperSeen) -> Option<(u64, u64)> {
    if !shopper.joined || shopper.role.no_show {
        return None;
    }
    let told = shopper.ahead.first().map(|seen| seen.at_ms);
    let from_ms = if shopper.joined_in_lobby { 0 } else { told? };
    let slot = shopper.all_admissions().map(|admission| admission.slot_ms).min();
    let to_ms = match (slot, shopper.ending) {
        (Some(slot), _) => slot,
        (None, Ending::Unfinished) => u64::MAX,
        (None, _) => shopper.sold_out.last()?.sent_ms,
    };
    Some((from_ms, to_ms))
}

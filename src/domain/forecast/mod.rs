//! How long the wait will be and how good the chance of a unit is: ranges that hold the truth for
//! most, from what the line has shown so far, and wide ones until it has.

mod shown;
mod tempo;
#[cfg(test)]
mod tests;

pub use shown::{Kept, Shown};
pub use tempo::{Look, Pace, Tempo};

use super::demand::Demand;
use super::number::{real, whole};
use super::pacer::LEAD_MS;
use super::queue::{Eta, Odds};
use super::rate::Rate;
use super::stock::{StockSum, Supply};

/// What is assumed until the line has shown it: at least so many of those ahead turn up.
const SHARE_ASSUMED: f64 = 0.3;
/// How much faster and slower than lately the line may move, by how long that was watched.
const FASTER: (f64, f64) = (0.4, 0.8);
const SLOWER: (f64, f64) = (1.6, 1.3);
/// Slots that are not used, when everybody ahead turns up.
const UNUSED: f64 = 1.05;
/// From the call to the slot, and until the line has got going, in seconds.
const COMING_SECONDS: f64 = 6.0;
/// So few decided admissions say nothing about what the others take.
const DECISIONS_TO_JUDGE: u64 = 20;
/// What is assumed until then: of those let in at least every other one takes a unit …
const TAKEN_MIN: f64 = 0.5;
/// … and none more than so many.
const TAKEN_MAX: u32 = 2;
/// How much more or less than they are expected to take.
const MARGIN: f64 = 0.15;

/// How many of those called who have not claimed may be about to: the line calls no more than its
/// lead, and whoever it called before that is not coming.
pub fn coming(called: u64, rate: Rate) -> u64 {
    called.min(whole((rate.get() * LEAD_MS / 1_000.0 / SHARE_ASSUMED).ceil()))
}

/// The wait behind `ahead` others who are yet to be called and `coming` who are about to claim.
/// Nothing while nobody goes in, for reasons that no rate explains.
pub fn wait(ahead: u64, coming: u64, rate: Rate, pace: Option<Pace>) -> Option<Eta> {
    let seconds = |people: u64| real(people) / rate.get();
    let (low, high) = match pace {
        // They have just been called: all of them may come.
        None => {
            let all = seconds(ahead.saturating_add(coming));
            (seconds(ahead) * SHARE_ASSUMED, all * UNUSED)
        }
        Some(pace) if pace.people < 0.001 => return None,
        Some(pace) => {
            let likely = seconds(ahead) / pace.people;
            let between = |(new, old): (f64, f64)| new + (old - new) * pace.trust;
            let high = likely * between(SLOWER);
            // Later than behind everybody nobody is in, as long as each slot is used.
            let all = seconds(ahead) * UNUSED;
            (likely * between(FASTER), if pace.people >= 1.0 { high.min(all) } else { high })
        }
    };
    Some(Eta { low: whole(low.floor()), high: whole((high + COMING_SECONDS).ceil()) })
}

/// What the end of the sale, so far away, leaves of a wait, as nobody is called after it: the wait
/// to tell, and the best odds. They are never gone, as the rate may rise.
pub fn until_end(wait: Eta, left_ms: u64) -> (Option<Eta>, Odds) {
    let left = left_ms / 1_000;
    if wait.low >= left {
        (None, Odds::Unlikely)
    } else if wait.low.midpoint(wait.high) >= left {
        (Some(wait), Odds::Unlikely)
    } else if wait.high >= left {
        (Some(wait), Odds::Even)
    } else {
        (Some(wait), Odds::Certain)
    }
}

/// Those before a visitor who may take units.
#[derive(Debug, Clone, Copy)]
pub struct Before {
    /// All who may still take something, whether they turn up or not.
    pub at_most: u64,
    /// Those of them not called yet.
    pub ahead: u64,
    /// The most units that one of them may have.
    pub cap: u32,
}

/// At least so many of those called can take nothing any more, if so many were admitted and so many
/// gave their place up. None of those inside: a hold is no end, up to the cap they may order again,
/// and who gave up the place may be among them. Who was in and gave the place up is one, not two.
pub fn gone(admitted: u64, left: u64, inside: u64) -> u64 {
    admitted.max(left).saturating_sub(inside)
}

/// The chance of a unit behind others.
pub fn odds(before: Before, stock: &StockSum, demand: &Demand, pace: Option<Pace>) -> Odds {
    match stock.supply() {
        Supply::Gone => return Odds::None,
        Supply::AllHeld => return Odds::Unlikely,
        Supply::Available => {}
    }
    let everybody = before.at_most.saturating_add(1);
    if stock.available >= everybody.saturating_mul(u64::from(before.cap.max(1))) {
        return Odds::Certain;
    }
    let (few, many) = match pace {
        Some(pace) => {
            let share = 1.0 / pace.people.max(1.0);
            (share * (1.0 - MARGIN), share * (1.0 + MARGIN))
        }
        None => (SHARE_ASSUMED, 1.0),
    };
    let (little, much) = if demand.decisions.count < DECISIONS_TO_JUDGE {
        (TAKEN_MIN, f64::from(before.cap.clamp(1, TAKEN_MAX)))
    } else {
        let each = demand.decisions.share() * demand.decisions.mean_quantity();
        (each * (1.0 - MARGIN), each * (1.0 + MARGIN))
    };
    let taken = |share: f64, each: f64| {
        (real(before.ahead) * share.min(1.0) + real(demand.undecided)) * each + 1.0
    };
    if real(stock.available) >= taken(many, much) {
        Odds::Likely
    } else if real(stock.available) < taken(few, little) {
        Odds::Unlikely
    } else {
        Odds::Even
    }
}

//! When to ask again. The front asks often, so that a call is answered within the meter's lead;
//! everybody else by the distance and by how fast the line moves, so that whoever comes near is
//! heard before being called. Nobody must ask to keep a place.

use std::collections::VecDeque;

use super::number::{real, whole};
use super::queue::{Place, PlaceState};
use super::rate::Rate;
use super::sale::Phase;
use super::stock::{StockSum, Supply};

/// The shortest poll interval told, to the front of the line, in milliseconds.
pub const POLL_MS_MIN: u64 = 1_000;
/// The longest poll interval told, in milliseconds.
pub const POLL_MS_MAX: u64 = 15_000;

/// So many people may be passed for one slot, however slow the line was lately.
const STRIDE_MIN: f64 = 5.0;
/// While nobody knows who is there the line may leap: so many a second may be passed.
const UNKNOWN_PER_SECOND: f64 = 500.0;
/// So much faster than lately may it become.
const FASTER: f64 = 2.0;
/// However slow the rate, this many a second may be passed: the first few hundred always ask often
/// enough to be known, which is a hundred questions a second.
const FASTEST_MIN: f64 = 50.0;
/// What is called fast or slow is measured over so long, in milliseconds.
const LATELY_MS: u64 = 5_000;
const MARK_EVERY_MS: u64 = 500;

/// Nobody knows before the draw who stands in front: all are told to ask again within so long, in
/// milliseconds, that silence at the opening still means absence.
const DRAWING_MS_MAX: u64 = 5_000;

/// All who wait hear within so long that nothing is left, in milliseconds: with what pages add
/// to it, two seconds.
const OVER_MS_MIN: u64 = 1_500;
/// … or as soon as so many may ask in a second, on all nodes together: 100,000 hear of it in time.
const ASKED_PER_SECOND: u64 = 70_000;
/// Nobody who waits asks later than this, in milliseconds, with what pages add.
pub const ASKS_WITHIN_MS: u64 = 20_000;

/// What the next question depends on, the same for everybody.
#[derive(Debug, Clone, Copy)]
pub struct Asking {
    /// Where the sale stands.
    pub phase: Phase,
    /// Until it opens.
    pub until_opening_ms: u64,
    /// Admissions per second.
    pub rate: Rate,
    /// People passed for each slot, as lately or as those ahead are there.
    pub stride: f64,
    /// Who wait for the draw or to be called.
    pub waiting: u64,
    /// The longest interval while the stock may be gone before the next question; see [`over_ms`].
    pub over_ms: Option<u64>,
}

impl Asking {
    /// How long somebody at this place is told to wait, in milliseconds.
    pub fn again_after_ms(&self, place: &Place) -> u64 {
        let ms = match self.phase {
            Phase::Upcoming | Phase::Lobby => self.until_opening_ms / 2,
            Phase::Drawing => all_ask_ms(self.waiting).min(DRAWING_MS_MAX),
            Phase::Closed => POLL_MS_MAX,
            Phase::Open => match (place.state, place.ahead) {
                (PlaceState::Waiting, Some(ahead)) => {
                    (self.soonest_ms(ahead) / 2).min(self.over_ms.unwrap_or(POLL_MS_MAX))
                }
                // To them as well it is news that units come back, or are gone.
                (PlaceState::Left | PlaceState::Missed, _) => self.over_ms.unwrap_or(POLL_MS_MAX),
                _ => POLL_MS_MIN,
            },
        };
        ms.clamp(POLL_MS_MIN, POLL_MS_MAX)
    }

    /// Until somebody behind `ahead` others may be called.
    fn soonest_ms(&self, ahead: u64) -> u64 {
        whole(real(ahead) / fastest(self.rate, self.stride) * 1_000.0)
    }
}

/// The most people that may be called in a second, after so many were passed for each slot.
pub fn fastest(rate: Rate, stride: f64) -> f64 {
    (rate.get() * (stride * FASTER).max(STRIDE_MIN)).max(FASTEST_MIN)
}

/// How many people are called soon: it is they who say how far the line may leap.
pub fn soon(rate: Rate) -> u64 {
    whole(rate.get() * 2.0).max(2)
}

/// Up to how many places behind the cursor people ask again within so long, pages' own delay added.
pub fn asks_to(fastest: f64, within_ms: u64) -> u64 {
    if within_ms >= ASKS_WITHIN_MS {
        return u64::MAX;
    }
    whole(real(within_ms) / 1_300.0 * 2.0 * fastest)
}

/// So long it takes in milliseconds until all of so many have asked, as fast as they may.
fn all_ask_ms(waiting: u64) -> u64 {
    waiting.saturating_mul(1_000) / ASKED_PER_SECOND
}

/// While what is left may be gone before somebody far back asks again, or what is held may come
/// back, all are told to ask so often, in milliseconds, that they hear of it soon. `each`: the units
/// that a buyer takes; `asking`: how many they are.
pub fn over_ms(stock: &StockSum, each: f64, rate: Rate, asking: u64) -> Option<u64> {
    let lasts_ms = real(stock.available) / each.max(1.0) / rate.get() * 1_000.0;
    let is_near = match stock.supply() {
        Supply::Available => lasts_ms < real(ASKS_WITHIN_MS),
        Supply::AllHeld => true,
        Supply::Gone => false,
    };
    is_near.then(|| all_ask_ms(asking).max(OVER_MS_MIN))
}

/// Measures how many people are passed for each slot that the rate offers; a node for itself.
#[derive(Debug, Default)]
pub struct Stride(VecDeque<(u64, u64)>);

impl Stride {
    /// Takes a look: so many people have been passed by now, and one in so many ahead is there, if that
    /// is known. How many are passed for each slot, as lately or as soon.
    pub fn observe(&mut self, now_ms: u64, passed: u64, rate: Rate, ahead: Option<f64>) -> f64 {
        let soon = ahead.unwrap_or((UNKNOWN_PER_SECOND / rate.get()).max(STRIDE_MIN));
        self.lately(now_ms, passed, rate).max(soon)
    }

    fn lately(&mut self, now_ms: u64, passed: u64, rate: Rate) -> f64 {
        // Another run, or a store that was lost.
        if self.0.back().is_some_and(|(at_ms, then)| now_ms < *at_ms || passed < *then) {
            self.0.clear();
        }
        if self.0.back().is_none_or(|(at_ms, _)| now_ms - at_ms >= MARK_EVERY_MS) {
            self.0.push_back((now_ms, passed));
        }
        while self.0.get(1).is_some_and(|(at_ms, _)| now_ms - at_ms >= LATELY_MS) {
            self.0.pop_front();
        }
        let (at_ms, then) = self.0.front().copied().unwrap_or((now_ms, passed));
        let slots = rate.get() * real(now_ms - at_ms) / 1_000.0;
        real(passed - then) / slots.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::presence::KNOWN_AFTER_MS;
    use super::*;

    fn asking(per_second: f64, stride: f64, over_ms: Option<u64>) -> Asking {
        let rate = Rate::per_second(per_second).unwrap();
        let (phase, until_opening_ms, waiting) = (Phase::Open, 0, 0);
        Asking { phase, until_opening_ms, rate, stride, waiting, over_ms }
    }

    fn open(per_second: f64, stride: f64, over_ms: Option<u64>) -> impl Fn(u64) -> u64 {
        let asking = asking(per_second, stride, over_ms);
        move |ahead| {
            let state = PlaceState::Waiting;
            asking.again_after_ms(&Place { state, ahead: Some(ahead), ..Place::none() })
        }
    }

    #[test]
    fn the_front_is_told_to_ask_each_second_and_the_far_end_seldom() {
        let told = open(100.0, 1.0, None);
        assert_eq!([10, 3_000, 900_000].map(told), [POLL_MS_MIN, 3_000, POLL_MS_MAX]);
        let lobby = Asking {
            phase: Phase::Lobby,
            until_opening_ms: 600,
            rate: Rate::whole(1),
            stride: 0.0,
            waiting: 0,
            over_ms: None,
        };
        assert_eq!(lobby.again_after_ms(&Place::none()), POLL_MS_MIN);
    }

    #[test]
    fn in_a_line_that_moves_fast_people_are_heard_at_least_twice_before_they_are_called() {
        for stride in [1.0, 4.0, 10.0, 64.0] {
            let told = open(50.0, stride, None);
            for ahead in (0..100_000).step_by(777) {
                let called_ms = whole(real(ahead) / (50.0 * stride) * 1_000.0);
                let asks_ms = told(ahead) * 13 / 10;
                assert!(asks_ms <= called_ms / 2 || asks_ms <= 1_300, "{ahead} at {stride}");
            }
        }
    }

    #[test]
    fn wr_65_near_the_end_of_the_stock_all_ask_as_often_as_so_many_can() {
        let left = |available, held| StockSum { available, held, confirmed: 1 };
        let over_ms = |stock, each, waiting| over_ms(&stock, each, Rate::whole(50), waiting);
        assert_eq!(over_ms(left(5_000, 9), 1.0, 8_000), None, "they last for longer than a poll");
        assert_eq!(over_ms(left(0, 0), 1.0, 8_000), None, "they have been told");
        assert_eq!(over_ms(left(999, 0), 1.0, 8_000), Some(1_500));
        assert_eq!(over_ms(left(1_999, 0), 2.0, 8_000), Some(1_500), "two for each");
        assert_eq!(over_ms(left(0, 9), 1.0, 8_000), Some(1_500), "it may come back, or be gone");
        assert_eq!(over_ms(left(999, 0), 1.0, 100_000), Some(1_500));
        let most = over_ms(left(999, 0), 1.0, 420_000);
        assert_eq!(most, Some(6_000), "no more than can be answered");
        assert_eq!(open(50.0, 1.0, Some(1_500))(100_000), 1_500);
        assert_eq!(open(50.0, 1.0, Some(6_000))(500), POLL_MS_MIN, "the front as ever");
    }

    #[test]
    fn wr_65_who_missed_the_turn_or_left_hears_as_soon_that_units_come_back_or_are_gone() {
        for state in [PlaceState::Missed, PlaceState::Left] {
            let place = Place { state, ..Place::none() };
            let told = |over_ms| asking(50.0, 1.0, over_ms).again_after_ms(&place);
            assert_eq!([None, Some(1_500)].map(told), [POLL_MS_MAX, 1_500], "{state:?}");
        }
    }

    #[test]
    fn while_the_draw_is_awaited_no_more_ask_than_can_be_answered() {
        let told = |waiting| {
            let (phase, until_opening_ms) = (Phase::Drawing, 0);
            let (rate, stride, over_ms) = (Rate::whole(50), 0.0, None);
            let asking = Asking { phase, until_opening_ms, rate, stride, waiting, over_ms };
            asking.again_after_ms(&Place { state: PlaceState::Entered, ..Place::none() })
        };
        assert_eq!([10, 70_000].map(told), [POLL_MS_MIN; 2]);
        for waiting in [140_000, 200_000, 350_000] {
            let asked_per_second = waiting * 1_000 / told(waiting);
            assert!(asked_per_second < ASKED_PER_SECOND + 100, "{waiting}: {asked_per_second}");
        }
        // With what pages add, and by way of another node, all are heard before silence counts.
        assert!(told(10_000_000) * 13 / 10 + 1_000 < KNOWN_AFTER_MS);
    }

    #[test]
    fn the_stride_is_that_of_the_last_seconds() {
        let (mut stride, rate) = (Stride::default(), Rate::whole(10));
        let mut at = |tick: u64, passed| stride.observe(tick * 100, passed, rate, Some(0.0));
        let slow = (0..100).map(|tick| at(tick, tick)).last().unwrap();
        assert!((slow - 1.0).abs() < 0.1, "{slow}");
        let fast = (100..200).map(|tick| at(tick, 100 + (tick - 100) * 12)).last().unwrap();
        assert!((fast - 12.0).abs() < 0.5, "{fast}");
        assert!(at(200, 3) < 1.0, "a line that was lost is another");
    }
}

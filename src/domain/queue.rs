//! The line: what a number means for the visitor who has it.

use serde::{Deserialize, Serialize};

use super::draw::Draw;
use super::left::Left;
use super::rate::Rate;
use super::sale::Phase;
use super::ticket::Cohort;

/// The shortest poll interval told, to the front of the line, in milliseconds.
pub const POLL_MS_MIN: u64 = 1_000;
/// The longest poll interval told, in milliseconds.
pub const POLL_MS_MAX: u64 = 15_000;

/// So few of those ahead may turn up.
const SOONEST_SHARE: f64 = 0.2;

/// Where a visitor stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlaceState {
    /// No valid ticket.
    None,
    /// Has an entry to the draw.
    Entered,
    /// In line.
    Waiting,
    /// May claim.
    Called,
    /// Has claimed, or brought the pass.
    Admitted,
    /// Was called and did not claim in time.
    Missed,
    /// Gave the place up.
    Left,
}

/// What the visitor sees of the place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Where the visitor stands.
    pub state: PlaceState,
    /// The number of the lobby join; nothing for latecomers.
    pub entry: Option<u64>,
    /// The fixed 0-based number in line; nothing before the draw.
    pub position: Option<u64>,
    /// How many are still to be called before; it never grows.
    pub ahead: Option<u64>,
    /// The slot of a claim, RFC 3339.
    pub admitted_at: Option<String>,
}

impl Place {
    /// A visitor without a valid ticket.
    pub fn none() -> Self {
        let state = PlaceState::None;
        Self { state, entry: None, position: None, ahead: None, admitted_at: None }
    }

    /// The place of a number. `draw` is there once the sale has opened.
    pub fn of(cohort: Cohort, draw: Option<&Draw>, cursor: u64) -> Self {
        let entry = match cohort {
            Cohort::Entry(entry) => Some(entry),
            Cohort::Late(_) => None,
        };
        let position = draw.and_then(|draw| cohort.position(draw));
        let state = match position {
            None => PlaceState::Entered,
            Some(position) if position < cursor => PlaceState::Called,
            Some(_) => PlaceState::Waiting,
        };
        let ahead = position.map(|position| position.saturating_sub(cursor));
        Self { state, entry, position, ahead, admitted_at: None }
    }

    /// The same, where some places were given up: this one, or some of those ahead.
    #[must_use]
    pub fn among(mut self, left: &Left, number: Cohort, cursor: u64) -> Self {
        if left.contains(number) {
            (self.state, self.ahead) = (PlaceState::Left, None);
        } else if let (Some(position), Some(ahead)) = (self.position, self.ahead) {
            self.ahead = Some(ahead.saturating_sub(left.between(cursor, position)));
        }
        self
    }
}

/// The chance of getting a unit, in words that do not pretend to more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Odds {
    /// Enough for everybody before who may still come, in full.
    Certain,
    /// Enough for what those before are expected to take.
    Likely,
    /// About as much as that, or nobody knows yet.
    Even,
    /// Less.
    Unlikely,
    /// Every unit is sold.
    None,
}

/// A range of wait, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eta {
    /// Hardly sooner.
    pub low: u64,
    /// Hardly later.
    pub high: u64,
}

/// When to ask again. The front polls often, so that a call is answered within the meter's lead;
/// everybody else by the distance, and nobody must poll to keep a place.
pub fn poll_after_ms(phase: Phase, place: &Place, rate: Rate, until_opening_ms: u64) -> u64 {
    let ms = match phase {
        Phase::Upcoming | Phase::Lobby => until_opening_ms / 2,
        Phase::Drawing => POLL_MS_MIN,
        Phase::Closed => POLL_MS_MAX,
        Phase::Open => match (place.state, place.ahead) {
            (PlaceState::Waiting, Some(ahead)) => soonest_seconds(ahead, rate) * 1000 / 2,
            (PlaceState::Left | PlaceState::Missed, _) => POLL_MS_MAX,
            _ => POLL_MS_MIN,
        },
    };
    ms.clamp(POLL_MS_MIN, POLL_MS_MAX)
}

/// Whole seconds until somebody behind `ahead` others may be called, if one in five turns up.
fn soonest_seconds(ahead: u64, rate: Rate) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate; float casts saturate"
    )]
    let seconds = (ahead as f64 / rate.get() * SOONEST_SHARE) as u64;
    seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_entered_before_the_draw_and_called_below_the_cursor() {
        let draw = Draw::new(10, [1; 32]);
        let late = |cursor| Place::of(Cohort::Late(0), Some(&draw), cursor);
        assert_eq!(Place::of(Cohort::Entry(3), None, 0).state, PlaceState::Entered);
        assert_eq!(late(10).state, PlaceState::Waiting);
        assert_eq!(late(10).ahead, Some(0));
        assert_eq!(late(11).state, PlaceState::Called);
        assert_eq!(late(4).ahead, Some(6));
    }

    #[test]
    fn wr_34_who_left_has_left_and_the_others_are_that_much_nearer() {
        let draw = Draw::new(0, [1; 32]);
        let gone = Left::default().with(&[Cohort::Late(1)], Some(&draw));
        let of = |n| Place::of(Cohort::Late(n), Some(&draw), 0).among(&gone, Cohort::Late(n), 0);
        assert_eq!((of(1).state, of(1).ahead), (PlaceState::Left, None));
        assert_eq!([0, 2, 3].map(|n| of(n).ahead), [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn the_front_is_told_to_ask_each_second_and_the_far_end_seldom() {
        let rate = Rate::per_second(100.0).unwrap();
        let place =
            |ahead| Place { state: PlaceState::Waiting, ahead: Some(ahead), ..Place::none() };
        assert_eq!(poll_after_ms(Phase::Open, &place(10), rate, 0), POLL_MS_MIN);
        assert!(poll_after_ms(Phase::Open, &place(3_000), rate, 0) > 2_000);
        assert_eq!(poll_after_ms(Phase::Open, &place(900_000), rate, 0), POLL_MS_MAX);
        assert_eq!(poll_after_ms(Phase::Lobby, &Place::none(), rate, 600), POLL_MS_MIN);
    }
}

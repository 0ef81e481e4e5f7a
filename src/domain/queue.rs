//! The line: what a number means for the visitor who has it.

use serde::{Deserialize, Serialize};

use super::draw::Draw;
use super::left::Left;
use super::ticket::Cohort;

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

impl PlaceState {
    /// As it is told.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Entered => "entered",
            Self::Waiting => "waiting",
            Self::Called => "called",
            Self::Admitted => "admitted",
            Self::Missed => "missed",
            Self::Left => "left",
        }
    }
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
    /// Called, and the first window to go in is over: the second is the last.
    pub lapsed: bool,
}

impl Place {
    /// A visitor without a valid ticket.
    pub fn none() -> Self {
        let state = PlaceState::None;
        Self { state, entry: None, position: None, ahead: None, admitted_at: None, lapsed: false }
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
        Self { state, entry, position, ahead, ..Self::none() }
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

impl Odds {
    /// As they are told.
    pub fn word(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Even => "even",
            Self::Unlikely => "unlikely",
            Self::None => "none",
        }
    }

    /// The worse of the two.
    #[must_use]
    pub fn at_most(self, most: Self) -> Self {
        if self as u8 >= most as u8 { self } else { most }
    }
}

/// A range of wait, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eta {
    /// Hardly sooner.
    pub low: u64,
    /// Hardly later.
    pub high: u64,
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
}

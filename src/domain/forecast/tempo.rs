//! How fast the line moves: people passed for each slot that the rate offers, absentees and unused
//! slots included. A change of the rate changes the wait at once and this not at all.

use std::collections::VecDeque;

use super::real;
use crate::domain::rate::Rate;

/// After standing the line first gets going, in milliseconds: it calls as many as it wants to have
/// booked ahead, and learns how many of them come.
const SETTLE_MS: u64 = 10_000;
/// How many marks are kept, each a second or a slot after the one before, whichever is longer.
const MARKS_MAX: usize = 21;
/// So many say something.
const MARKS_MIN: usize = 5;

/// What one look at the room shows.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Redis' clock.
    pub now_ms: u64,
    /// People called so far.
    pub passed: u64,
    /// Whether the line is to move: people wait, and neither an order nor the stock holds it up.
    pub is_moving: bool,
    /// Admissions per second.
    pub rate: Rate,
}

/// How the line moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// People passed for a slot that the rate offers.
    pub people: f64,
    /// How long that was watched, of what is looked back on: above 0, at most 1.
    pub trust: f64,
}

/// Measures the pace; each node for itself.
#[derive(Debug, Default)]
pub struct Tempo {
    last: Option<(u64, u64)>,
    /// For how long the line has moved since it stood, in milliseconds.
    moving_ms: u64,
    /// Slots offered and people passed while it was moving.
    slots: f64,
    passed: u64,
    marks: VecDeque<(f64, u64)>,
}

impl Tempo {
    /// Takes a look.
    pub fn observe(&mut self, look: Look) {
        let before = self.last.replace((look.now_ms, look.passed));
        let Some((at_ms, passed)) = before.filter(|(at_ms, passed)| {
            look.is_moving && look.passed >= *passed && look.now_ms >= *at_ms
        }) else {
            self.moving_ms = 0;
            return;
        };
        let took_ms = look.now_ms - at_ms;
        self.moving_ms = self.moving_ms.saturating_add(took_ms);
        if self.moving_ms < SETTLE_MS {
            return;
        }
        self.slots += look.rate.get() * real(took_ms) / 1_000.0;
        self.passed = self.passed.saturating_add(look.passed - passed);
        let apart = look.rate.get().max(1.0);
        if self.marks.back().is_none_or(|(slots, _)| self.slots - slots >= apart) {
            self.marks.push_back((self.slots, self.passed));
            if self.marks.len() > MARKS_MAX {
                self.marks.pop_front();
            }
        }
    }

    /// What the line has shown lately; nothing until that says something.
    pub fn pace(&self) -> Option<Pace> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        (self.marks.len() >= MARKS_MIN).then(|| Pace {
            people: real(last.1.saturating_sub(first.1)) / (last.0 - first.0),
            trust: real(self.marks.len() as u64) / real(MARKS_MAX as u64),
        })
    }
}

//! How fast the line moves: people passed for each slot that the rate offers, absentees and unused
//! slots included. A change of the rate changes the wait at once and this not at all.

use std::collections::VecDeque;

use crate::domain::number::real;
use crate::domain::rate::Rate;

/// After standing the line first gets going, in milliseconds: it calls as many as it wants to have
/// booked ahead, and learns how many of them come.
const SETTLE_MS: u64 = 10_000;
/// After standing for longer, in milliseconds, other people are there, and the pace is not known.
const FORGET_MS: u64 = 60_000;
/// How many marks are kept, each a second or a slot after the one before, whichever is longer.
const MARKS_MAX: usize = 21;
/// So many say something.
const MARKS_MIN: usize = 5;

/// What one look at the room shows.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Redis' clock.
    pub now_ms: u64,
    /// The run of the sale: after a reset it is another line.
    pub run: u64,
    /// Positions below it have been called.
    pub cursor: u64,
    /// The people among them, without those who gave their place up.
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
    last: Option<Look>,
    /// When the line was last to move.
    moved_ms: u64,
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
        if self.last.is_some_and(|last| last.run != look.run) {
            *self = Self::default();
        }
        if look.now_ms.saturating_sub(self.moved_ms) > FORGET_MS {
            self.marks.clear();
        }
        if look.is_moving {
            self.moved_ms = look.now_ms;
        }
        let before = self.last.replace(look);
        let Some(before) = before.filter(|before| {
            look.is_moving && look.cursor >= before.cursor && look.now_ms >= before.now_ms
        }) else {
            self.moving_ms = 0;
            return;
        };
        let took_ms = look.now_ms - before.now_ms;
        self.moving_ms = self.moving_ms.saturating_add(took_ms);
        if self.moving_ms < SETTLE_MS {
            return;
        }
        self.slots += look.rate.get() * real(took_ms) / 1_000.0;
        // Somebody called long ago who leaves makes them fewer; the line goes on.
        let passed = look.passed.saturating_sub(before.passed);
        self.passed = self.passed.saturating_add(passed);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_and_more_than_a_minute_of_standing_make_the_pace_unknown() {
        let rate = Rate::whole(10);
        let moves = |tick: u64, run| Look {
            now_ms: tick * 100,
            run,
            cursor: tick * 2,
            passed: tick * 2,
            is_moving: true,
            rate,
        };
        let watched = || {
            let mut tempo = Tempo::default();
            (0..300).for_each(|tick| tempo.observe(moves(tick, 1)));
            tempo
        };
        let mut reset = watched();
        assert!(reset.pace().is_some());
        (300..400).for_each(|tick| reset.observe(moves(tick, 2)));
        assert_eq!(reset.pace(), None, "another line");
        (400..600).for_each(|tick| reset.observe(moves(tick, 2)));
        assert!(reset.pace().is_some(), "which shows its own");

        let mut stood = watched();
        (300..899).for_each(|tick| stood.observe(Look { is_moving: false, ..moves(tick, 1) }));
        assert!(stood.pace().is_some());
        (899..901).for_each(|tick| stood.observe(Look { is_moving: false, ..moves(tick, 1) }));
        assert_eq!(stood.pace(), None);
    }

    #[test]
    fn somebody_called_who_leaves_does_not_let_the_line_settle_anew_but_a_cursor_that_falls_does() {
        let mut tempo = Tempo::default();
        let mut look = |tick: u64, cursor: u64, left: u64| {
            let (now_ms, passed, rate) = (tick * 100, cursor.saturating_sub(left), Rate::whole(10));
            tempo.observe(Look { now_ms, run: 1, cursor, passed, is_moving: true, rate });
            tempo.pace().map(|pace| pace.people)
        };
        // Twenty are called each second, and one of them leaves each five, between two calls.
        let paces: Vec<_> =
            (0..300).map(|tick| look(tick, tick / 10 * 20, (tick + 25) / 50)).collect();
        let pace = paces[299].expect("it is known while they leave");
        assert!((pace - 2.0).abs() < 0.05, "{pace}");
        let anew: Vec<_> = (300..390).map(|tick| look(tick, (tick - 300) * 50, 0)).collect();
        assert_eq!(anew[89], Some(pace), "a lost store calls a crowd to get going");
    }
}

//! The people in line: who asks when, by the rules of the page.

use rand::RngExt;
use rand::rngs::SmallRng;

use crate::domain::asking::Asking;
use crate::domain::queue::{Place, PlaceState};

/// How often a stream of events looks for what must not wait.
const LOOK_MS: u64 = 1_000;
/// A round trip.
const TRIP_MS: u64 = 30;

/// How somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Asks as told, a little later by chance.
    Poll,
    /// Keeps a stream open.
    Stream,
    /// Asks as told and never claims.
    Mute,
    /// Looks at another tab between these instants, in which nothing is asked.
    Hidden { from_ms: u64, to_ms: u64 },
}

/// How far somebody has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stage {
    /// In line, or called and without a slot.
    Waits,
    /// A slot is booked.
    Booked,
    In,
    /// Both windows are over.
    Missed,
    /// Was told that nothing is left.
    SoldOut,
}

/// Somebody with a place.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    pub(super) kind: Kind,
    /// Who has the least go first when people go away: 0 to 1.
    pub(super) rank: f64,
    pub(super) is_away: bool,
    /// Was away at some time before being let in.
    pub(super) was_away: bool,
    pub(super) stage: Stage,
    /// How often this one was let in: again after a stop.
    pub(super) admissions: u32,
    /// Asks with another number are of an earlier life.
    pub(super) life: u32,
    /// When the place was asked for last.
    pub(super) asked_ms: u64,
    /// A stream's next frame.
    due_ms: u64,
}

impl Visitor {
    pub(super) fn new(kind: Kind, rank: f64) -> Self {
        Self {
            kind,
            rank,
            is_away: false,
            was_away: false,
            stage: Stage::Waits,
            admissions: 0,
            life: 0,
            asked_ms: 0,
            due_ms: 0,
        }
    }

    /// Whether this one would claim if called.
    pub(super) fn is_present(&self, now_ms: u64) -> bool {
        let waits = matches!(self.stage, Stage::Waits | Stage::Booked);
        waits && !self.is_away && self.kind != Kind::Mute && !self.is_hidden(now_ms)
    }

    pub(super) fn is_hidden(&self, now_ms: u64) -> bool {
        match self.kind {
            Kind::Hidden { from_ms, to_ms } => (from_ms..to_ms).contains(&now_ms),
            Kind::Poll | Kind::Stream | Kind::Mute => false,
        }
    }

    /// Whether this answer counts as heard: all do, but looks of a stream between two frames.
    pub(super) fn is_heard(&self, now_ms: u64) -> bool {
        self.kind != Kind::Stream || now_ms >= self.due_ms
    }

    /// When to ask again, for somebody with so many ahead.
    pub(super) fn next_ms(
        &mut self,
        now_ms: u64,
        ahead: u64,
        asking: &Asking,
        rng: &mut SmallRng,
    ) -> u64 {
        let state = if ahead == 0 { PlaceState::Called } else { PlaceState::Waiting };
        let place = Place { state, ahead: Some(ahead), ..Place::none() };
        let told = asking.again_after_ms(&place);
        let at = match self.kind {
            Kind::Stream => {
                if now_ms >= self.due_ms {
                    self.due_ms = now_ms + told;
                }
                now_ms + LOOK_MS
            }
            Kind::Poll | Kind::Mute | Kind::Hidden { .. } => {
                // The page's own: told × (1 + 0.3 × chance).
                now_ms + TRIP_MS + told + rng.random_range(0..=told * 3 / 10)
            }
        };
        match self.kind {
            Kind::Hidden { from_ms, to_ms } if (from_ms..to_ms).contains(&at) => to_ms,
            _ => at,
        }
    }
}

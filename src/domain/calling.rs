//! How far a node would call the line on, from what it sees of the room.

use super::demand::Demand;
use super::holes::Gaps;
use super::meter::Meter;
use super::pacer::{Observation, Pacer, Step};
use super::presence::Presence;
use super::rate::Rate;

/// What a node sees at one instant.
#[derive(Debug, Clone, Copy)]
pub struct View<'room> {
    /// Redis' clock.
    pub now_ms: u64,
    /// Since when this node has seen an order in this room: the draw, or a restore.
    pub ordered_ms: u64,
    /// Positions below it have been called.
    pub cursor: u64,
    /// Positions handed out.
    pub line: u64,
    /// Called positions that have claimed in this epoch.
    pub claimed: u64,
    /// Positions that nobody has.
    pub gaps: &'room Gaps,
    /// Who was heard from lately.
    pub presence: &'room Presence,
    /// The meter, for its lead.
    pub meter: &'room Meter,
    /// Admissions per second.
    pub rate: Rate,
    /// What is left to call for; nothing if the sale does not look at its stock.
    pub demand: Option<Demand>,
    /// How many more may be inside at once; nothing if there is no cap.
    pub places: Option<u64>,
}

/// The pacer, and the people it has seen called.
#[derive(Debug, Default)]
pub struct Calling {
    pacer: Pacer,
    /// People called, those before the first look included.
    called: u64,
    /// Where the cursor was at the last look.
    cursor: Option<u64>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Where the cursor should go; where it is if nobody is to be called.
    pub to: u64,
    /// How many more might be called for the stock that is left.
    pub spare: u64,
}

impl Calling {
    /// Decides.
    pub fn decide(&mut self, seen: &View<'_>) -> Call {
        self.count(seen);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
        let lead_ms = seen.meter.lead_ms(seen.now_ms as f64);
        let Step { call, spare } = self.pacer.step(Observation {
            now_ms: seen.now_ms,
            ordered_ms: seen.ordered_ms,
            called: self.called,
            claimed: seen.claimed,
            unclaimed: seen.gaps.people_below(seen.cursor).saturating_sub(seen.claimed),
            waiting: seen.cursor < seen.line,
            lead_ms,
            rate: seen.rate,
            demand: seen.demand,
            places: seen.places,
        });
        let to = match call {
            0 => seen.cursor,
            call => seen.presence.position_after(seen.gaps, seen.cursor, call, seen.line),
        };
        Call { to, spare }
    }

    /// Dead places and numbers that nobody has are not counted, so nobody waits for them to come.
    fn count(&mut self, seen: &View<'_>) {
        match self.cursor.replace(seen.cursor) {
            Some(before) if before <= seen.cursor => {
                let people = seen.presence.people_between(seen.gaps, before, seen.cursor);
                self.called = self.called.saturating_add(people);
            }
            Some(_) | None => {
                let called = seen.gaps.people_below(seen.cursor);
                *self = Self { pacer: Pacer::default(), called, cursor: Some(seen.cursor) };
            }
        }
    }
}

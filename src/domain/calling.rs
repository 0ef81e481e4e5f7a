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

/// The pacer, as it looks at a line.
#[derive(Debug, Default)]
pub struct Calling(Pacer);

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
        #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
        let lead_ms = seen.meter.lead_ms(seen.now_ms as f64);
        let now = Observation {
            now_ms: seen.now_ms,
            ordered_ms: seen.ordered_ms,
            cursor: seen.cursor,
            claimed: seen.claimed,
            unclaimed: seen.gaps.people_below(seen.cursor).saturating_sub(seen.claimed),
            waiting: seen.cursor < seen.line,
            lead_ms,
            rate: seen.rate,
            demand: seen.demand,
            places: seen.places,
        };
        // Dead places and numbers that nobody has are not counted: nobody waits for them to come.
        let people = |from, to| seen.presence.people_between(seen.gaps, from, to);
        let Step { call, spare } = self.0.step(now, people);
        let to = match call {
            0 => seen.cursor,
            call => seen.presence.position_after(seen.gaps, seen.cursor, call, seen.line),
        };
        Call { to, spare }
    }
}

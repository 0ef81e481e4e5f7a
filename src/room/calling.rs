//! How far this node would call the line on, from what it sees.

use super::Snapshot;
use crate::domain::pacer::{Observation, Pacer, Step};

/// The pacer, and the people it has seen called.
#[derive(Debug, Default)]
pub(super) struct Calling {
    pacer: Pacer,
    /// People called, those before the first look included.
    called: u64,
    /// Where the cursor was at the last look.
    cursor: Option<u64>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// Where the cursor should go; where it is if nobody is to be called.
    pub(super) to: u64,
    /// How many more might be called for the stock that is left.
    pub(super) spare: u64,
}

impl Calling {
    /// Decides. `stock_aware`: nobody is called for units that others will take.
    pub(super) fn decide(&mut self, seen: &Snapshot, now_ms: u64, stock_aware: bool) -> Call {
        self.count(seen);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
        let lead_ms = seen.meter.lead_ms(now_ms as f64);
        let Step { call, spare } = self.pacer.step(Observation {
            now_ms,
            called: self.called,
            claimed: seen.claimed,
            unclaimed: seen.gaps.people_below(seen.cursor).saturating_sub(seen.claimed),
            waiting: seen.cursor < seen.line,
            lead_ms,
            rate: seen.control.rate,
            demand: stock_aware.then(|| seen.demand()),
        });
        let to = match call {
            0 => seen.cursor,
            call => seen.presence.position_after(&seen.gaps, seen.cursor, call, seen.line),
        };
        Call { to, spare }
    }

    /// Dead places and numbers that nobody has are not counted, so nobody waits for them to come.
    fn count(&mut self, seen: &Snapshot) {
        match self.cursor.replace(seen.cursor) {
            Some(before) if before <= seen.cursor => {
                let people = seen.presence.people_between(&seen.gaps, before, seen.cursor);
                self.called = self.called.saturating_add(people);
            }
            Some(_) | None => {
                let called = seen.gaps.people_below(seen.cursor);
                *self = Self { pacer: Pacer::default(), called, cursor: Some(seen.cursor) };
            }
        }
    }
}

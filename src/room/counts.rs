//! The room in numbers, as its snapshot shows it.

use super::{Room, Snapshot};
use crate::domain::calling::View;
use crate::domain::demand::Demand;
use crate::domain::forecast;
use crate::domain::line::{self, LineCounts};

impl Snapshot {
    /// Since when this node has seen an order in this server's room; nothing before the draw.
    pub(super) fn ordered_ms(&self) -> Option<u64> {
        self.order.since_ms()
    }

    /// What the rules of calling go by. `stock_aware`: nobody is called for units that others will
    /// take.
    pub(super) fn view(&self, now_ms: u64, stock_aware: bool) -> View<'_> {
        let cap = self.control.max_active;
        View {
            now_ms,
            ordered_ms: self.ordered_ms().unwrap_or(0),
            cursor: self.cursor,
            line: self.line,
            claimed: self.claimed,
            gaps: &self.gaps,
            presence: &self.presence,
            meter: &self.meter,
            rate: self.control.rate,
            demand: stock_aware.then(|| self.demand()),
            places: (cap > 0).then(|| u64::from(cap).saturating_sub(self.open.all)),
        }
    }

    /// The line in numbers.
    pub fn line_counts(&self) -> LineCounts {
        let (waiting, called) = if self.draw.is_some() {
            let waiting = line::waiting(&self.gaps, &self.left, self.cursor, self.line);
            (waiting, self.gaps.people_below(self.cursor))
        } else {
            (self.people_joined().saturating_sub(self.left.count()), 0)
        };
        LineCounts {
            joined: self.people_joined(),
            waiting,
            present: self.presence.heard_between(self.cursor, self.line),
            called,
            admitted: self.admitted,
            missed: self.lapses.missed(&self.gaps, &self.left),
            open_admissions: self.open.all,
            undecided: self.open.booked.saturating_add(self.open.undecided),
        }
    }

    /// How many of those called may be about to claim.
    pub(super) fn coming(&self) -> u64 {
        let called = self.gaps.people_below(self.cursor).saturating_sub(self.claimed);
        // After a stop everybody who was called may claim anew.
        let has_stopped = self.lapses.stopped > 0;
        if has_stopped { called } else { forecast::coming(called, self.control.rate) }
    }

    fn people_joined(&self) -> u64 {
        self.line.saturating_sub(self.holes.count())
    }

    /// What is left to call for; nothing is while nobody knows the stock.
    pub(super) fn demand(&self) -> Demand {
        let available = self.figures.as_ref().map(|of| of.available_still(self.units_told));
        Demand {
            available: available.unwrap_or(0),
            undecided: self.open.booked.saturating_add(self.open.undecided),
            decisions: self.decisions,
        }
    }
}

impl Room {
    /// Whether the line waits because those called and let in may take all that is left.
    pub fn is_spoken_for(&self) -> bool {
        self.waits_for_stock(&self.snapshot.load())
    }

    pub(super) fn waits_for_stock(&self, seen: &Snapshot) -> bool {
        self.options.stock_aware && seen.demand().is_met()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::sale::Control;
    use crate::domain::sale::tests::control;

    #[test]
    fn a_stop_of_an_earlier_run_makes_nobody_claim_anew_in_this_one() {
        let coming = |epoch, stopped| {
            let mut seen = Snapshot::unseen(Control { run: 2, epoch, ..control() });
            seen.cursor = 1_000;
            seen.lapses.stopped = stopped;
            seen.coming()
        };
        // A reset raises both, a stop the epoch alone.
        assert_eq!(coming(3, 0), coming(2, 0), "a stop before the reset");
        assert!(coming(2, 0) < 100, "most of those called are away");
        assert_eq!(coming(3, 1_000), 1_000, "a stop of this run");
    }
}

//! The line in numbers: the same on the operators' page, in their API and in the metrics.

use serde::Serialize;

use super::holes::Gaps;
use super::left::Left;

/// Admissions that have not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenAdmissions {
    /// All, as `max_active` counts them: signed or booked.
    pub all: u64,
    /// Numbers booked and not collected yet.
    pub booked: u64,
    /// Signed, and the buyer has neither taken a hold nor been refused for stock.
    pub undecided: u64,
}

/// The calls whose first window is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lapses {
    /// Positions below it were called before this server had the room: nothing is known of them.
    pub from: u64,
    /// The windows of the positions below it are over.
    pub to: u64,
    /// Who was admitted of those between.
    pub admitted: u64,
    /// Positions below it were called before the last stop: whoever had claimed has a new window.
    pub stopped: u64,
}

/// The line in numbers. Numbers that were skipped when a store was lost are nobody, and who gave a
/// place up waits for nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LineCounts {
    /// People with a place, now or once.
    pub joined: u64,
    /// In line and not called yet.
    pub waiting: u64,
    /// Those near the front of them that were heard from lately.
    pub present: u64,
    /// Called so far.
    pub called: u64,
    /// Let in since the last stop.
    pub admitted: u64,
    /// Called, and not let in within their window.
    pub missed: u64,
    /// Admissions that have not ended.
    pub open_admissions: u64,
    /// Those that may still take units: neither a hold nor a refusal for stock yet.
    pub undecided: u64,
}

impl Lapses {
    /// Whether the window that began with the call is known to be over, so that a claim begins the
    /// second and last one.
    pub fn has_lapsed(&self, position: u64) -> bool {
        (self.from.max(self.stopped)..self.to).contains(&position)
    }

    /// How many people have let their window lapse.
    pub fn missed(&self, gaps: &Gaps, left: &Left) -> u64 {
        let people = gaps.people_between(self.from, self.to.max(self.from));
        people.saturating_sub(self.admitted).saturating_sub(left.between(self.from, self.to))
    }
}

/// How many wait from the cursor to the end of the line.
pub fn waiting(gaps: &Gaps, left: &Left, cursor: u64, line: u64) -> u64 {
    gaps.people_between(cursor, line).saturating_sub(left.between(cursor, line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::draw::Draw;
    use crate::domain::holes::Holes;
    use crate::domain::ticket::Cohort;

    #[test]
    fn holes_and_those_who_left_neither_wait_nor_miss_anything() {
        let draw = Draw::new(0, [1; 32]);
        let holes = Holes::of(vec![], vec![2..5, 20..1_020]);
        let gaps = Gaps::new(&holes, &draw);
        let left = Left::default().with(&[Cohort::Late(1), Cohort::Late(1_025)], Some(&draw));
        assert_eq!(waiting(&gaps, &left, 10, 1_030), 10 + 10 - 1);
        let lapses = Lapses { from: 0, to: 10, admitted: 4, stopped: 0 };
        assert_eq!(lapses.missed(&gaps, &left), 10 - 3 - 1 - 4);
        let restored = Lapses { from: 10, to: 10, admitted: 0, stopped: 0 };
        assert_eq!(restored.missed(&gaps, &left), 0, "nothing is known of what was before");
    }

    #[test]
    fn wr_28_a_window_counts_as_lapsed_only_where_it_is_known_when_it_began() {
        let lapses = Lapses { from: 3, to: 10, admitted: 4, stopped: 0 };
        assert_eq!([2, 3, 9, 10].map(|at| lapses.has_lapsed(at)), [false, true, true, false]);
        let stopped = Lapses { stopped: 8, ..lapses };
        assert_eq!([3, 7, 8].map(|at| stopped.has_lapsed(at)), [false, false, true]);
    }
}

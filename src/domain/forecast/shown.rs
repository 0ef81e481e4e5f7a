//! Whether waits turned out as they were first told: a sample of the ranges that a node has shown,
//! kept until their places are passed. Nothing is written for a visitor.

use std::collections::BTreeMap;

use crate::domain::queue::Eta;

/// How many places are looked at.
const SAMPLE_MAX: u64 = 1_024;

/// How many waits turned out how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Sooner than told.
    pub before: u64,
    /// Within the range.
    pub inside: u64,
    /// Later than told.
    pub after: u64,
}

/// The ranges first told, by position.
#[derive(Debug, Default)]
pub struct Shown {
    ranges: BTreeMap<u64, (u64, u64)>,
    kept: Kept,
}

impl Shown {
    /// Whether a place of a line of `line` is one of those looked at. As the line grows they only
    /// become fewer, so that a range told later is never taken for the first.
    pub fn samples(position: u64, line: u64) -> bool {
        let apart = line.div_ceil(SAMPLE_MAX).max(1).checked_next_power_of_two();
        apart.is_some_and(|apart| position.is_multiple_of(apart))
    }

    /// A range that is told; only the first one of a place counts.
    pub fn note(&mut self, position: u64, now_ms: u64, wait: Eta) {
        let at = |seconds: u64| now_ms.saturating_add(seconds.saturating_mul(1_000));
        // Lines of few become lines of many before they are thinned out.
        if self.ranges.len() as u64 <= 2 * SAMPLE_MAX {
            self.ranges.entry(position).or_insert((at(wait.low), at(wait.high)));
        }
    }

    /// The positions below `cursor` go in at `in_ms`.
    pub fn passed(&mut self, cursor: u64, in_ms: u64) {
        let ahead = self.ranges.split_off(&cursor);
        for (low_ms, high_ms) in std::mem::replace(&mut self.ranges, ahead).into_values() {
            let outcome = match in_ms {
                _ if in_ms < low_ms => &mut self.kept.before,
                _ if in_ms > high_ms => &mut self.kept.after,
                _ => &mut self.kept.inside,
            };
            *outcome = outcome.saturating_add(1);
        }
    }

    /// Whatever was told no longer holds: the rate is another, or the line stands.
    pub fn forget(&mut self) {
        self.ranges.clear();
    }

    /// How the waits turned out so far.
    pub fn kept(&self) -> Kept {
        self.kept
    }
}

//! Presence: which of those near the front were heard from lately, as bits by position. Dead places
//! cost the line nothing; whoever cannot be known yet counts as present.

use std::ops::Range;

use super::holes::Gaps;
use super::number::{real, whole};

/// One bitmap stands for so long, in milliseconds.
pub const SLICE_MS: u64 = 4_000;
/// So many are looked at: whoever was heard from in the last 8 to 12 s is present.
pub const SLICES: u64 = 3;
/// Of those so many seconds ahead of the fastest line it is noted that they were heard from.
const NOTED_SECONDS: f64 = 60.0;
/// From then on silence means something, in milliseconds: until whoever is near has been heard, and
/// the nodes have told each other.
pub const KNOWN_AFTER_MS: u64 = 8_000;
/// The most that is noted, in positions: 8 KB a bitmap.
const NOTED_MAX: u64 = 65_536;

/// How many positions from the cursor on are noted, if so many are called in a second at the most.
pub fn noted(fastest: f64) -> u64 {
    whole(fastest * NOTED_SECONDS).min(NOTED_MAX)
}

/// Positions heard from lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Presence {
    /// Position of the first bit; a multiple of 8.
    base: u64,
    /// The highest bit of a byte comes first, as Redis keeps them.
    bits: Vec<u8>,
    /// Silence means something from here on …
    from: u64,
    /// … to below here.
    to: u64,
}

impl Presence {
    /// Whoever is set in one of the bitmaps, which begin at byte `first`. Of the positions `judged`
    /// silence means something.
    pub fn new(first: u64, bitmaps: &[Vec<u8>], judged: Range<u64>) -> Self {
        let mut bits: Vec<u8> = Vec::new();
        for bitmap in bitmaps {
            if bits.len() < bitmap.len() {
                bits.resize(bitmap.len(), 0);
            }
            for (all, byte) in bits.iter_mut().zip(bitmap) {
                *all |= byte;
            }
        }
        let Range { start: from, end: to } = judged;
        Self { base: first.saturating_mul(8), bits, from, to }
    }

    /// Whether a position was heard from.
    pub fn heard(&self, position: u64) -> bool {
        let Some(bit) = position.checked_sub(self.base) else { return false };
        let byte = usize::try_from(bit / 8).ok().and_then(|at| self.bits.get(at));
        byte.is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0)
    }

    /// How many positions from one to below another were heard from.
    pub fn heard_between(&self, from: u64, to: u64) -> u64 {
        let bit = |position: u64| position.saturating_sub(self.base);
        let (from, to) = (bit(from), bit(to));
        if from >= to {
            return 0;
        }
        let byte = |bit: u64| usize::try_from(bit / 8).unwrap_or(usize::MAX).min(self.bits.len());
        let ones =
            |bytes: &[u8]| bytes.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        let before = |bit: u64| {
            let part = self.bits.get(byte(bit)).map_or(0, |byte| byte & !(0xff_u8 >> (bit % 8)));
            u64::from(part.count_ones())
        };
        let whole = self.bits.get(byte(from)..byte(to)).map_or(0, ones);
        whole + before(to) - before(from)
    }

    /// How many may come of those from one position to below another: who was heard from, and
    /// everybody of whom nothing can be known.
    pub fn people_between(&self, gaps: &Gaps, from: u64, to: u64) -> u64 {
        if self.from >= self.to {
            return gaps.people_between(from, to);
        }
        let unknown_before = gaps.people_between(from, to.min(self.from));
        let heard = self.heard_between(from.max(self.from), to.min(self.to));
        let unknown_after = gaps.people_between(from.max(self.to), to);
        unknown_before.saturating_add(heard).saturating_add(unknown_after)
    }

    /// How many positions there are for each of the next so many people, from one position on; nothing
    /// where silence means nothing there.
    pub fn sparsity(&self, gaps: &Gaps, from: u64, people: u64, line: u64) -> Option<f64> {
        let is_known = (self.from..self.to).contains(&from);
        let to = is_known.then(|| self.position_after(gaps, from, people, line))?;
        Some(real(to - from) / real(people.max(1)))
    }

    /// The least position, at most `line`, up to which so many may come from `from` on.
    pub fn position_after(&self, gaps: &Gaps, from: u64, people: u64, line: u64) -> u64 {
        let (mut low, mut high) = (from, line.max(from));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.people_between(gaps, from, middle) < people {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::draw::Draw;
    use crate::domain::holes::Holes;

    #[test]
    fn who_was_heard_in_any_of_the_bitmaps_is_present_and_far_away_nobody_is_absent() {
        // Bytes 1 and 2: positions 8 to 23.
        let maps = [vec![0b1000_0000], vec![0, 0b0000_0001]];
        let seen = Presence::new(1, &maps, 8..20);
        assert!(seen.heard(8) && seen.heard(23) && !seen.heard(9) && !seen.heard(7));
        assert_eq!(seen.heard_between(0, 100), 2);
        let people = |from, to| seen.people_between(&Gaps::default(), from, to);
        assert_eq!(people(8, 20), 1, "silence near the front");
        assert_eq!(people(0, 100), 8 + 1 + 80, "who cannot be known yet counts");
        let nothing = Presence::default();
        assert_eq!(nothing.people_between(&Gaps::default(), 3, 100), 97);
    }

    proptest! {
        #[test]
        fn counts_are_those_of_the_positions_one_by_one(
            maps in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4),
            first in 0_u64..5, known in (0_u64..200, 0_u64..200), asked in (0_u64..200, 0_u64..200),
            hole in 0_u64..180, people in 0_u64..200,
        ) {
            let holes = Holes::of(vec![], std::iter::once(hole..hole + 9).collect());
            let gaps = Gaps::new(&holes, &Draw::new(0, [7; 32]));
            let is_hole = |at: u64| (hole..hole + 9).contains(&at);
            let seen = Presence::new(first, &maps, known.0..known.1);
            let counts = |at: u64| {
                if (known.0..known.1).contains(&at) { seen.heard(at) } else { !is_hole(at) }
            };
            let count = |to: u64| (asked.0..to).map(|at| u64::from(counts(at))).sum::<u64>();
            let told = |to: u64| seen.people_between(&gaps, asked.0, to);
            prop_assert_eq!(told(asked.1), count(asked.1));
            let line = asked.1.max(asked.0);
            let at = seen.position_after(&gaps, asked.0, people, line);
            prop_assert!(at == line || count(at) >= people);
            prop_assert!(at == asked.0 || count(at - 1) < people);
        }
    }
}

//! Holes: numbers that were skipped when a store was lost. Nobody has them, so nobody waits for
//! them: they are left out of what is ahead and cost the line no time.

use std::fmt;
use std::ops::Range;

use super::draw::Draw;

/// The most drawn holes whose positions are worked out; the draw takes microseconds for each.
const DRAWN_MAX: u64 = 200_000;

/// Skipped numbers of one run; ranges in order, none touching another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holes {
    entries: Vec<Range<u64>>,
    late: Vec<Range<u64>>,
}

impl Holes {
    /// Holes among the entries and among the latecomers, in any order, overlapping or not.
    pub fn of(entries: Vec<Range<u64>>, late: Vec<Range<u64>>) -> Self {
        Self { entries: merged(entries), late: merged(late) }
    }

    /// These and others.
    #[must_use]
    pub fn with(mut self, entries: Range<u64>, late: Range<u64>) -> Self {
        self.entries.push(entries);
        self.late.push(late);
        Self::of(self.entries, self.late)
    }

    /// How many numbers they are.
    pub fn count(&self) -> u64 {
        let all = self.entries.iter().chain(&self.late);
        all.map(|hole| hole.end.saturating_sub(hole.start)).fold(0, u64::saturating_add)
    }

    /// Reads the form that Redis keeps; what is not understood is no hole.
    pub fn parse(raw: &str) -> Self {
        let of = |cohort: char| {
            let range = |part: &str| {
                let (first, past) = part.strip_prefix(cohort)?.split_once('-')?;
                Some(first.parse().ok()?..past.parse().ok()?)
            };
            raw.split(' ').filter_map(range).collect()
        };
        Self::of(of('e'), of('l'))
    }
}

impl fmt::Display for Holes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.iter().map(|range| ('e', range));
        let all = entries.chain(self.late.iter().map(|range| ('l', range)));
        for (index, (cohort, Range { start, end })) in all.enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{cohort}{start}-{end}")?;
        }
        Ok(())
    }
}

fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by_key(|range| range.start);
    let mut out: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

/// The positions that are holes, once the draw is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    /// In order; each once.
    drawn: Vec<u64>,
    /// In order, above all that were drawn.
    late: Vec<Range<u64>>,
}

impl Gaps {
    /// Works the positions out: microseconds for each skipped entry.
    pub fn new(holes: &Holes, draw: &Draw) -> Self {
        let entries = holes.entries.iter().cloned().flatten();
        let bounded = entries.zip(0..DRAWN_MAX).map(|(entry, _)| entry);
        let mut drawn: Vec<_> = bounded.filter_map(|entry| draw.position(entry)).collect();
        drawn.sort_unstable();
        let position = |late: u64| draw.n().saturating_add(late);
        let late = holes.late.iter().map(|hole| position(hole.start)..position(hole.end));
        Self { drawn, late: late.collect() }
    }

    /// How many people stand below a position: the positions there that are no holes.
    pub fn people_below(&self, position: u64) -> u64 {
        let drawn = self.drawn.partition_point(|hole| *hole < position);
        let late = self.late.iter().map(|hole| hole.end.min(position).saturating_sub(hole.start));
        let holes = late.fold(u64::try_from(drawn).unwrap_or(u64::MAX), u64::saturating_add);
        position.saturating_sub(holes)
    }

    /// How many people stand from one position to below another.
    pub fn people_between(&self, from: u64, to: u64) -> u64 {
        self.people_below(to).saturating_sub(self.people_below(from))
    }

    /// The least position, at most `line`, that has so many people below it.
    pub fn position_above(&self, people: u64, line: u64) -> u64 {
        let (mut low, mut high) = (people.min(line), line);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.people_below(middle) < people {
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

    #[test]
    fn holes_read_back_as_they_were_written_and_touching_ones_are_one() {
        let holes = Holes::of(vec![1_000..2_000, 17..1_000, 5..5], vec![3..9, 20..30]);
        assert_eq!(holes.to_string(), "e17-2000 l3-9 l20-30");
        assert_eq!(holes.count(), 1_983 + 6 + 10);
        assert_eq!(Holes::parse(&holes.to_string()), holes);
        assert_eq!(Holes::parse(""), Holes::default());
        assert_eq!(Holes::parse("e1-2-3 x4-5 e9 l7-6"), Holes::default());
    }

    #[test]
    fn without_holes_everybody_below_is_ahead() {
        let gaps = Gaps::default();
        assert_eq!(gaps.people_between(10, 45), 35);
        assert_eq!(gaps.position_above(12, 100), 12);
        assert_eq!(gaps.position_above(120, 100), 100);
    }

    proptest! {
        #[test]
        fn what_is_ahead_counts_people_and_never_rises_as_the_line_moves(
            n in 1_u64..400, skipped in 0_u64..400, length in 0_u64..300,
            late in 0_u64..50, late_length in 0_u64..50,
        ) {
            let holes = Holes::of(
                std::iter::once(skipped..skipped + length).collect(),
                std::iter::once(late..late + late_length).collect(),
            );
            let draw = Draw::new(n, [7; 32]);
            let gaps = Gaps::new(&holes, &draw);
            let line = n + late + late_length + 10;
            let drawn = (skipped..skipped + length).filter_map(|entry| draw.position(entry));
            let late = (late..late + late_length).map(|number| n + number);
            let skipped: std::collections::HashSet<u64> = drawn.chain(late).collect();
            let people = |to: u64| (0..to).map(|at| u64::from(!skipped.contains(&at))).sum::<u64>();
            let mine = line - 1;
            let mut ahead = u64::MAX;
            for cursor in 0..line {
                prop_assert_eq!(gaps.people_below(cursor), people(cursor));
                let now = gaps.people_between(cursor, mine);
                prop_assert!(now <= ahead);
                ahead = now;
                let at = gaps.position_above(people(cursor), line);
                prop_assert!(at <= cursor && gaps.people_below(at) == people(cursor));
            }
        }
    }
}

//! Places given up: they hold nobody up, so nobody counts them as ahead.

use std::collections::HashSet;

use super::draw::Draw;
use super::ticket::Cohort;

/// So many positions are computed at a time: each costs some microseconds.
const POSITIONS_MAX: usize = 1_000;

/// The numbers of one run that were given up, as far as they are known here. Only ever more.
#[derive(Debug, Clone, Default)]
pub struct Left {
    numbers: HashSet<Cohort>,
    /// Numbers that have no position yet.
    undrawn: Vec<Cohort>,
    /// Sorted.
    positions: Vec<u64>,
}

impl Left {
    /// Whether this number was given up.
    pub fn contains(&self, number: Cohort) -> bool {
        self.numbers.contains(&number)
    }

    /// How many numbers were given up.
    pub fn count(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// How many of the positions from `from` to below `to` were given up.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        let below = |bound| self.positions.partition_point(|position| *position < bound);
        below(to).saturating_sub(below(from)) as u64
    }

    /// Whether [`Left::with`] would change nothing.
    pub fn is_settled(&self, news: &[Cohort], draw: Option<&Draw>) -> bool {
        news.is_empty() && (draw.is_none() || self.undrawn.is_empty())
    }

    /// With more numbers, and with the positions of some that had none.
    #[must_use]
    pub fn with(mut self, news: &[Cohort], draw: Option<&Draw>) -> Self {
        for number in news {
            if self.numbers.insert(*number) {
                self.undrawn.push(*number);
            }
        }
        if let Some(draw) = draw {
            let rest = self.undrawn.len().saturating_sub(POSITIONS_MAX);
            let next = self.undrawn.drain(rest..);
            self.positions.extend(next.filter_map(|number| number.position(draw)));
            self.positions.sort_unstable();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_given_up_before_the_draw_gets_its_position_with_it() {
        let draw = Draw::new(10, [1; 32]);
        let before = Left::default().with(&[Cohort::Entry(3)], None);
        assert!(before.contains(Cohort::Entry(3)) && !before.contains(Cohort::Late(3)));
        assert_eq!(before.between(0, 10), 0);
        assert!(!before.is_settled(&[], Some(&draw)));

        let after = before.with(&[Cohort::Late(2), Cohort::Late(2)], Some(&draw));

        assert!(after.is_settled(&[], Some(&draw)));
        let position = draw.position(3).unwrap();
        assert_eq!(after.between(0, 13), 2);
        assert_eq!(after.between(position, position + 1), 1);
        assert_eq!(after.between(position + 1, 12), 0);
    }

    #[test]
    fn ahead_never_rises_while_the_cursor_passes_those_who_left() {
        let draw = Draw::new(0, [1; 32]);
        let left = Left::default().with(&[Cohort::Late(2), Cohort::Late(5)], Some(&draw));
        let ahead = |cursor: u64| 9_u64.saturating_sub(cursor) - left.between(cursor, 9);
        let seen: Vec<_> = (0..=9).map(ahead).collect();
        assert_eq!(seen, [7, 6, 5, 5, 4, 3, 3, 2, 1, 0]);
    }
}

//! What those who were called and let in will still take: with `stock_aware` nobody is called for
//! units that they will.

use super::number::{real, whole};

/// The least share of the undecided that is believed to take something.
const SHARE_MIN: f64 = 0.05;
/// Below a thousandth of a person nobody is meant.
const NOBODY: f64 = 0.001;

/// What the admissions that were decided last say of those to come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Decisions {
    /// How many they are, at most 200: holds, refusals for stock, and ends without an order.
    pub count: u64,
    /// Those that took a hold.
    pub took: u64,
    /// The units that those took.
    pub units: u64,
}

impl Decisions {
    /// The part that took a hold: 1 until something is known, and never believed to be nothing.
    pub fn share(&self) -> f64 {
        match self.count {
            0 => 1.0,
            count => (real(self.took) / real(count)).clamp(SHARE_MIN, 1.0),
        }
    }

    /// The units that a hold takes, at least 1.
    pub fn mean_quantity(&self) -> f64 {
        match self.took {
            0 => 1.0,
            took => (real(self.units) / real(took)).max(1.0),
        }
    }
}

/// Stock, and who may still take of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demand {
    /// Units that can be held now.
    pub available: u64,
    /// Open admissions whose buyer has neither taken a hold nor been refused for stock.
    pub undecided: u64,
    /// What became of those before them.
    pub decisions: Decisions,
}

impl Demand {
    /// How many more may be called, while `answering` people were called and may be about to claim:
    /// people are called while undecided × share × mean quantity < available.
    pub fn may_call(&self, answering: f64) -> u64 {
        if self.available == 0 {
            return 0;
        }
        let each = self.decisions.share() * self.decisions.mean_quantity();
        let served = real(self.available) / each;
        let undecided = real(self.undecided) + answering;
        // However much each of them takes: while units are free and nobody is asked, one is called.
        let least = u64::from(self.undecided == 0 && answering < 1.0);
        whole((served - undecided - NOBODY).max(0.0).ceil()).max(least)
    }

    /// Whether the undecided are believed to take all that is left.
    pub fn is_met(&self) -> bool {
        self.may_call(0.0) == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn demand(available: u64, undecided: u64, decisions: (u64, u64, u64)) -> Demand {
        let (count, took, units) = decisions;
        Demand { available, undecided, decisions: Decisions { count, took, units } }
    }

    #[test]
    fn people_are_called_while_the_undecided_will_leave_something() {
        assert_eq!(demand(12, 0, (0, 0, 0)).may_call(0.0), 12, "one unit each until more is known");
        assert_eq!(demand(12, 5, (0, 0, 0)).may_call(3.0), 4);
        assert_eq!(demand(12, 0, (10, 10, 20)).may_call(0.0), 6, "two units each");
        assert_eq!(demand(12, 0, (10, 5, 5)).may_call(0.0), 24, "every other one takes none");
        assert_eq!(demand(5, 0, (200, 200, 400)).may_call(0.0), 3, "half a buyer is one");
        assert_eq!(demand(0, 0, (10, 5, 5)).may_call(0.0), 0, "the line waits");
        assert_eq!(demand(3, 3, (0, 0, 0)).may_call(0.0), 0);
        assert!(demand(3, 3, (0, 0, 0)).is_met() && !demand(4, 3, (0, 0, 0)).is_met());
    }

    #[test]
    fn the_share_is_one_at_first_and_never_nothing() {
        assert_eq!(demand(1, 0, (200, 0, 0)).may_call(0.0), 20);
        assert!((Decisions::default().share() - 1.0).abs() < f64::EPSILON);
    }

    proptest! {
        #[test]
        fn what_is_called_is_just_enough(
            available in 1_u64..5_000, undecided in 0_u64..5_000, count in 0_u64..=200,
            took in 0_u64..=200, each in 1_u64..10, answering in 0_u64..100,
        ) {
            let took = took.min(count);
            let demand = demand(available, undecided, (count, took, took * each));
            let rate = demand.decisions.share() * demand.decisions.mean_quantity();
            let more = demand.may_call(real(answering));
            let taken = |people: u64| real(people) * rate;
            let all = undecided + answering + more;
            prop_assert!(taken(all) + 0.01 * rate >= real(available), "all will be taken");
            if more > 0 {
                prop_assert!(taken(all - 1) < real(available), "and the last one called was needed");
            }
        }

        #[test]
        fn more_stock_never_calls_fewer_and_more_undecided_never_more(
            available in 0_u64..500, undecided in 0_u64..500, count in 0_u64..=200, took in 0_u64..=200,
        ) {
            let of = |available, undecided| {
                demand(available, undecided, (count, took.min(count), took.min(count))).may_call(0.0)
            };
            prop_assert!(of(available + 1, undecided) >= of(available, undecided));
            prop_assert!(of(available, undecided + 1) <= of(available, undecided));
        }
    }

    /// A sale sold by the rule alone: each who is called takes a hold or does not, after a while.
    #[test]
    fn all_is_sold_and_few_are_called_for_nothing_at_any_share_of_buyers() {
        for (seed, share) in [(1_u64, 1.0), (2, 0.7), (3, 0.3), (4, 0.1)] {
            let mut rng = SmallRng::seed_from_u64(seed);
            let (mut available, mut called, mut late) = (500_u64, 0_u64, 0_u64);
            let mut inside: Vec<u64> = Vec::new();
            let mut last: Vec<u64> = Vec::new();
            for now in 0..20_000_u64 {
                let mut decided = 0;
                inside.retain(|at| {
                    decided += u64::from(*at <= now);
                    *at > now
                });
                for _ in 0..decided {
                    let wants = rng.random_bool(share);
                    late += u64::from(wants && available == 0);
                    let takes = u64::from(wants && available > 0);
                    available -= takes;
                    last.insert(0, takes);
                    last.truncate(200);
                }
                let took: u64 = last.iter().sum();
                let demand =
                    demand(available, inside.len() as u64, (last.len() as u64, took, took));
                // The meter lets in ten at a time.
                for _ in 0..demand.may_call(0.0).min(10) {
                    inside.push(now + rng.random_range(1..60));
                    called += 1;
                }
            }
            assert_eq!(available, 0, "share {share}, seed {seed}: {called} called");
            assert!(late <= 50, "share {share}, seed {seed}: {late} came for nothing");
        }
    }
}

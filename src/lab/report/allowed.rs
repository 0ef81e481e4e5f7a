//! How many admissions a sale was allowed by any instant, as its rate was changed.

use super::evidence::RateSet;
use crate::lab::crowd::{Act, Steering};

/// How long a change may take to be in effect everywhere.
pub(super) const EFFECT_MS: u64 = 1_000;

/// The rate over time: the highest that may have been in force at each instant.
pub(super) struct Allowed {
    /// From when, which rate; ascending, the first from the beginning of time.
    pieces: Vec<(u64, f64)>,
}

impl Allowed {
    /// The rate that is set at the end, and the steps that led there: until a second after a step
    /// was acknowledged what was before it may still be in force.
    pub(super) fn of(set: RateSet, steering: Option<&Steering>) -> Self {
        let Some(steering) = steering.filter(|steering| !steering.steps.is_empty()) else {
            return Self { pieces: vec![(0, set.per_second)] };
        };
        let mut rate = steering.rate_before;
        let mut spans = vec![(0, rate)];
        let mut ends = Vec::new();
        for step in &steering.steps {
            let now = match step.act {
                Act::Rate(changed) => {
                    rate = changed;
                    changed
                }
                Act::Pause | Act::Stop => 0.0,
                Act::Resume => rate,
            };
            spans.push((step.sent_ms, now));
            ends.push(step.acked_ms.saturating_add(EFFECT_MS));
        }
        ends.push(u64::MAX);
        let mut changes: Vec<u64> = spans.iter().map(|(from, _)| *from).collect();
        changes.extend(&ends);
        changes.sort_unstable();
        changes.dedup();
        let in_force = |at: u64| {
            let open = spans.iter().zip(&ends).filter(|((from, _), end)| *from <= at && at < **end);
            open.map(|((_, rate), _)| *rate).fold(0.0, f64::max)
        };
        Self { pieces: changes.into_iter().map(|at| (at, in_force(at))).collect() }
    }

    /// How many slots there may have been from the beginning of the steering, or of time, to `ms`.
    pub(super) fn until(&self, ms: u64) -> f64 {
        let mut sum = 0.0;
        for (number, (from, rate)) in self.pieces.iter().enumerate() {
            let to = self.pieces.get(number + 1).map_or(u64::MAX, |(next, _)| *next);
            #[expect(clippy::cast_precision_loss, reason = "2^53 ms are beyond any sale")]
            let length = ms.min(to).saturating_sub(*from) as f64;
            sum += rate / 1_000.0 * length;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::super::rate::first_excess;
    use super::*;
    use crate::lab::crowd::Step;

    const T0: u64 = 1_800_000_000_000;

    fn step(act: Act, at: u64) -> Step {
        Step { act, sent_ms: T0 + at, acked_ms: T0 + at + 10, nodes: Vec::new() }
    }

    fn allowed(steps: Vec<Step>) -> Allowed {
        let steering = Steering { steps, rate_before: 10.0, trouble: None };
        Allowed::of(RateSet { per_second: 10.0, burst: 1, max_active: 0 }, Some(&steering))
    }

    fn slots(from: u64, to: u64, every: usize) -> impl Iterator<Item = u64> {
        (T0 + from..T0 + to).step_by(every)
    }

    #[test]
    fn the_rate_is_summed_as_it_was_changed() {
        let allowed = allowed(vec![step(Act::Rate(5.0), 2_000), step(Act::Rate(10.0), 6_000)]);
        let followed: Vec<_> = slots(0, 2_000, 100)
            .chain(slots(2_200, 6_000, 200))
            .chain(slots(6_100, 9_000, 100))
            .collect();
        assert_eq!(first_excess(&followed, &allowed, 1), None);

        // A second of grace, no more.
        let deaf: Vec<_> = slots(0, 9_000, 100).collect();
        let found = first_excess(&deaf, &allowed, 1).unwrap();
        assert!((T0 + 3_000..T0 + 3_500).contains(&found), "{}", found - T0);
    }

    #[test]
    fn a_pause_allows_nothing_a_second_after_it() {
        let paused = || vec![step(Act::Pause, 1_000), step(Act::Resume, 4_000)];
        let good: Vec<_> = slots(0, 1_000, 100).chain(slots(4_100, 5_000, 100)).collect();
        assert_eq!(first_excess(&good, &allowed(paused()), 1), None);
        let bad: Vec<_> = slots(0, 2_900, 100).collect();
        assert!(first_excess(&bad, &allowed(paused()), 1).is_some());
    }
}

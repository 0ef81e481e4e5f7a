//! Turnout: the part of those called who claim, by who came of those who were to be expected.

use super::number::real;

/// How far off a share may be, as a part of it: (1 − share) ÷ share ÷ error² people tell it so well,
/// by the variance of who comes. So where all come, a few who do not are believed at once.
const ERROR: f64 = 0.15;
/// The fewest who are remembered, in those of them who come.
const CAME_MIN: f64 = 3.0;
/// Nobody is forgotten sooner than this, in milliseconds: a poll interval, in any part of which many
/// may ask at once.
const MEMORY_MS_MIN: f64 = 1_300.0;
/// So many are believed to be there before anybody was seen, or a few late ones would look like many
/// absentees …
const TRUSTED: f64 = 3.0;
/// … of whom all but one are believed in half when so many were expected, or many absentees would
/// look like fewer. The one stays: that none of a few came says little.
const TRUSTED_HALF: f64 = 3.0;
/// The least that is believed: mute bots and closed tabs are passed at up to 64 times the rate.
const SHARE_MIN: f64 = 1.0 / 64.0;

/// What is remembered. It fades with what comes after it, and not while nobody is expected: a line
/// that has called enough for a while knows afterwards what it knew before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Turnout {
    expected: f64,
    came: f64,
}

impl Turnout {
    /// In so many milliseconds so many were to be expected, and so many came; `coming` are expected
    /// later and may come early.
    pub(super) fn learn(&mut self, took_ms: u64, expected: f64, came: u64, coming: f64) {
        let share = self.share();
        let enough = ((1.0 - share) / (ERROR * ERROR) + CAME_MIN) / share;
        let fades = (expected / enough).min(real(took_ms) / MEMORY_MS_MIN);
        let kept = (-fades).exp();
        self.expected = self.expected * kept + expected;
        // Many who were called long ago and come back at once say nothing of those called now.
        self.came = (self.came * kept + real(came)).min(self.expected + coming);
    }

    /// The share of the called who claim. Whoever cannot be known yet counts as present.
    pub(super) fn share(&self) -> f64 {
        let trusted = 1.0 + (TRUSTED - 1.0) / (1.0 + self.expected / TRUSTED_HALF);
        ((self.came + trusted) / (self.expected + trusted)).clamp(SHARE_MIN, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many ticks of 100 ms in which so many were expected, and a share of them came.
    fn after(mut turnout: Turnout, ticks: u64, people: u64, one_in: u64) -> Turnout {
        for tick in 0..ticks {
            turnout.learn(100, real(people), (tick % one_in == 0).into(), 0.0);
        }
        turnout
    }

    #[test]
    fn a_tenth_that_turns_up_is_found_in_seconds_and_everybody_counts_as_present_before() {
        assert!((Turnout::default().share() - 1.0).abs() < f64::EPSILON);
        let all = after(Turnout::default(), 100, 1, 1);
        assert!(all.share() > 0.99, "{}", all.share());
        let few = after(all, 60, 1, 10);
        assert!((0.09..0.2).contains(&few.share()), "{}", few.share());
        let none = after(few, 1_000, 1, 2_000);
        assert!(none.share() < 0.05 && none.share() >= SHARE_MIN, "{}", none.share());
    }

    #[test]
    fn while_nobody_is_expected_nothing_is_forgotten() {
        let few = after(Turnout::default(), 100, 2, 10);
        let rested = after(few, 600, 0, 1_000);
        assert!((rested.share() - few.share()).abs() < 0.05, "{} {}", rested.share(), few.share());
    }

    #[test]
    fn a_crowd_that_comes_back_makes_the_line_believe_in_everybody_and_no_longer_than_that() {
        let mut turnout = after(Turnout::default(), 100, 2, 20);
        turnout.learn(100, 2.0, 5_000, 4.0);
        assert!((turnout.share() - 1.0).abs() < f64::EPSILON);
        let later = after(turnout, 60, 2, 20);
        assert!(later.share() < 0.2, "{}", later.share());
    }
}

//! When silence means absence: how far back in the line a node may judge those it has not heard.

use std::collections::VecDeque;

use super::presence::KNOWN_AFTER_MS;
use super::rate::Rate;

/// After a rise of the rate those farther back go by what they were told for so long, in
/// milliseconds.
const TOLD_MS: u64 = 20_000;
/// By then every node has told whom it heard in the lobby, in milliseconds after it
/// was seen that the draw is made.
const LOBBY_TOLD_MS: u64 = 500;

/// Exchanges are close together for so long after that.
const FIRST_MS: u64 = 3_000;
/// How long nodes wait from one exchange to the next at first, in milliseconds.
pub const EXCHANGE_MS_MIN: u64 = 250;
/// The same later on.
pub const EXCHANGE_MS_MAX: u64 = 1_000;

/// How far back silence can be judged: the line as it was at each exchange of an unbroken row.
#[derive(Debug, Default)]
pub struct Silence {
    row: VecDeque<(u64, u64)>,
    /// Positions below it were given in the lobby, and this node has listened to it.
    lobby: u64,
    /// Which order it is about.
    ordered_ms: Option<u64>,
}

/// How long to wait for the next exchange, in milliseconds: seldom, but often at first.
pub fn exchange_after_ms(now_ms: u64, ordered_ms: Option<u64>) -> u64 {
    let is_new = ordered_ms.is_some_and(|at_ms| now_ms.saturating_sub(at_ms) < FIRST_MS);
    if is_new { EXCHANGE_MS_MIN } else { EXCHANGE_MS_MAX }
}

impl Silence {
    /// Of a node that has listened to a lobby for long enough, and has told who of the first so
    /// many in line was heard there.
    pub fn after_lobby(positions: u64) -> Self {
        Self { lobby: positions, ..Self::default() }
    }

    /// Notes the line; below which position silence means absence. `near` is up to where people are
    /// told to ask often enough, `ordered_ms` since when this node has seen an order.
    pub fn below(&mut self, now_ms: u64, line: u64, near: u64, ordered_ms: Option<u64>) -> u64 {
        if self.ordered_ms != ordered_ms {
            // A room that was restored has lost who was heard, those of the lobby among them.
            if self.ordered_ms.is_some() {
                *self = Self::default();
            }
            self.ordered_ms = ordered_ms;
        }
        self.row.push_back((now_ms, line));
        let is_past = |at_ms: u64, for_ms| now_ms.saturating_sub(at_ms) >= for_ms;
        let heard_since = |at_ms: u64| is_past(at_ms, KNOWN_AFTER_MS);
        while self.row.get(1).is_some_and(|(at_ms, _)| heard_since(*at_ms)) {
            self.row.pop_front();
        }
        let is_ordered = ordered_ms.is_some_and(heard_since);
        match self.row.front() {
            Some((at_ms, line)) if is_ordered && heard_since(*at_ms) => near.min(*line),
            Some(_) | None if ordered_ms.is_some_and(|at_ms| is_past(at_ms, LOBBY_TOLD_MS)) => {
                self.lobby
            }
            Some(_) | None => 0,
        }
    }
}

/// The rates of late: how often people ask follows from the rate that they were told by.
#[derive(Debug, Default)]
pub struct Rates(VecDeque<(u64, Rate)>);

impl Rates {
    /// Notes the rate; the lowest of late.
    pub fn lowest(&mut self, now_ms: u64, rate: Rate) -> Rate {
        self.0.retain(|(at_ms, _)| now_ms.saturating_sub(*at_ms) < TOLD_MS);
        self.0.push_back((now_ms, rate));
        self.0.iter().map(|(_, rate)| *rate).fold(rate, |low, of| if of < low { of } else { low })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_means_something_after_eight_seconds_or_at_once_for_those_of_a_lobby_listened_to() {
        let mut new = Silence::default();
        assert_eq!(new.below(1_000, 50, 100, Some(900)), 0);
        assert_eq!(new.below(8_500, 60, 100, Some(900)), 0, "the first of the row is too young");
        assert_eq!(new.below(9_000, 60, 100, Some(900)), 50, "who came since may not have asked");
        assert_eq!(new.below(9_050, 60, 30, Some(900)), 30, "farther back people ask seldom");
        assert_eq!(new.below(9_100, 60, 100, Some(2_000)), 0, "no order for long enough");
        assert_eq!(new.below(9_200, 60, 100, None), 0);

        let mut old = Silence::after_lobby(40);
        assert_eq!(old.below(1_000, 50, 100, Some(900)), 0, "other nodes have not told yet");
        assert_eq!(old.below(1_400, 50, 30, Some(900)), 40);
        assert_eq!(old.below(9_000, 60, 100, Some(900)), 50);
    }

    #[test]
    fn in_a_room_that_was_restored_between_two_looks_nobody_is_absent_for_a_lobby_long_gone() {
        for restored_ms in [3_000, 20_000] {
            let mut old = Silence::after_lobby(40);
            for now_ms in (1_000..restored_ms).step_by(250) {
                old.below(now_ms, 50, 100, Some(1_000));
            }
            for now_ms in (restored_ms..restored_ms + 8_000).step_by(250) {
                assert_eq!(old.below(now_ms, 50, 100, Some(restored_ms)), 0, "{now_ms}");
            }
            assert_eq!(old.below(restored_ms + 8_000, 60, 100, Some(restored_ms)), 50);
        }
    }

    #[test]
    fn after_a_rise_silence_is_judged_by_the_rate_that_people_were_told_by() {
        let (mut rates, slow, fast) = (Rates::default(), Rate::whole(1), Rate::whole(100));
        assert_eq!(rates.lowest(1_000, slow), slow);
        assert_eq!(rates.lowest(2_000, fast), slow);
        assert_eq!(rates.lowest(20_999, fast), slow);
        assert_eq!(rates.lowest(21_000, fast), fast);
        assert_eq!(rates.lowest(22_000, slow), slow, "a fall counts at once");
    }
}

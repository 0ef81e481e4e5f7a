//! When silence means absence: how far back in the line a node may judge those it has not heard.

use std::collections::VecDeque;
use std::ops::Range;

use super::asking::{ASKS_WITHIN_MS, asks_to};
use super::presence::{KNOWN_AFTER_MS, noted};

/// By then every node has told whom it heard in the lobby, in milliseconds after it
/// was seen that the draw is made.
const LOBBY_TOLD_MS: u64 = 500;

/// Exchanges are close together for so long after that.
const FIRST_MS: u64 = 3_000;
/// How long nodes wait from one exchange to the next at first, in milliseconds.
pub const EXCHANGE_MS_MIN: u64 = 250;
/// The same later on.
pub const EXCHANGE_MS_MAX: u64 = 1_000;

/// How far back silence can be judged: up to where people were told to ask often enough at each
/// exchange of an unbroken row.
#[derive(Debug, Default)]
pub struct Silence {
    row: VecDeque<(u64, Seen)>,
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

/// The line at an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Positions handed out.
    pub line: u64,
    /// Positions below it have been called.
    pub cursor: u64,
    /// The most that may be called in a second, by which people are told when to ask again.
    pub fastest: f64,
}

impl Seen {
    /// Up to where whoever is there and asked then, or later, has been heard since, so long after.
    fn heard_to(&self, past_ms: u64) -> u64 {
        let noted = self.cursor.saturating_add(noted(self.fastest));
        if past_ms < KNOWN_AFTER_MS {
            return noted;
        }
        // Who joined since may not have asked.
        noted.min(self.line).min(self.cursor.saturating_add(asks_to(self.fastest, past_ms)))
    }
}

impl Silence {
    /// Of a node that has listened to a lobby for long enough, and has told who of the first so
    /// many in line was heard there.
    pub fn after_lobby(positions: u64) -> Self {
        Self { lobby: positions, ..Self::default() }
    }

    /// Notes the line; the positions of which silence means absence, those called lately among them.
    pub fn judged(&mut self, now_ms: u64, seen: Seen, ordered_ms: Option<u64>) -> Range<u64> {
        let to = self.below(now_ms, seen, ordered_ms);
        let from = self.row.front().map_or(seen.cursor, |(_, first)| first.cursor);
        from..to
    }

    fn below(&mut self, now_ms: u64, seen: Seen, ordered_ms: Option<u64>) -> u64 {
        if self.ordered_ms != ordered_ms {
            // A room that was restored has lost who was heard, those of the lobby among them.
            if self.ordered_ms.is_some() {
                *self = Self::default();
            }
            self.ordered_ms = ordered_ms;
        }
        self.row.push_back((now_ms, seen));
        let past_ms = |at_ms: u64| now_ms.saturating_sub(at_ms);
        while self.row.get(1).is_some_and(|(at_ms, _)| past_ms(*at_ms) >= ASKS_WITHIN_MS) {
            self.row.pop_front();
        }
        let is_heard = |at_ms: u64| past_ms(at_ms) >= KNOWN_AFTER_MS;
        let is_long = self.row.front().is_some_and(|(at_ms, _)| is_heard(*at_ms));
        if is_long && ordered_ms.is_some_and(is_heard) {
            let reaches = self.row.iter().map(|(at_ms, seen)| seen.heard_to(past_ms(*at_ms)));
            return reaches.min().unwrap_or(0);
        }
        let is_told = ordered_ms.is_some_and(|at_ms| past_ms(at_ms) >= LOBBY_TOLD_MS);
        if is_told { self.lobby } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::domain::number::{real, whole};

    /// A line that has not moved.
    fn seen(line: u64, fastest: f64) -> Seen {
        Seen { line, cursor: 0, fastest }
    }

    #[test]
    fn silence_means_something_after_eight_seconds_or_at_once_for_those_of_a_lobby_listened_to() {
        let mut new = Silence::default();
        assert_eq!(new.below(1_000, seen(50, 10.0), Some(900)), 0);
        assert_eq!(new.below(8_500, seen(60, 10.0), Some(900)), 0, "the row is too young");
        assert_eq!(
            new.below(9_000, seen(60, 10.0), Some(900)),
            50,
            "who came since may not have asked"
        );
        assert_eq!(new.below(9_100, seen(60, 10.0), Some(2_000)), 0, "no order for long enough");
        assert_eq!(new.below(9_200, seen(60, 10.0), None), 0);

        let mut old = Silence::after_lobby(40);
        assert_eq!(old.below(1_000, seen(50, 10.0), Some(900)), 0, "other nodes have not told yet");
        assert_eq!(old.below(1_400, seen(50, 10.0), Some(900)), 40);
        assert_eq!(old.below(9_000, seen(60, 10.0), Some(900)), 50);
    }

    #[test]
    fn in_a_room_that_was_restored_between_two_looks_nobody_is_absent_for_a_lobby_long_gone() {
        for restored_ms in [3_000, 20_000] {
            let mut old = Silence::after_lobby(40);
            for now_ms in (1_000..restored_ms).step_by(250) {
                old.below(now_ms, seen(50, 10.0), Some(1_000));
            }
            for now_ms in (restored_ms..restored_ms + 8_000).step_by(250) {
                assert_eq!(old.below(now_ms, seen(50, 10.0), Some(restored_ms)), 0, "{now_ms}");
            }
            assert_eq!(old.below(restored_ms + 8_000, seen(60, 10.0), Some(restored_ms)), 50);
        }
    }

    /// Somebody asks as told, from any instant on, while the line and its speed go as they like.
    #[test]
    fn nobody_who_asks_as_told_is_ever_taken_for_absent() {
        for seed in 0..400 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let position = rng.random_range(0..4_000);
            let (mut silence, mut cursor, mut fastest) = (Silence::default(), 0_u64, 10.0);
            let mut asks_ms = rng.random_range(0..2_300);
            let (mut heard_ms, mut line) = (None, Seen { line: 10_000, cursor, fastest });
            for now_ms in (0..60_000_u64).step_by(100) {
                if rng.random_bool(0.02) {
                    fastest = rng.random_range(1.0..2_000.0_f64);
                }
                cursor += rng.random_range(0..=whole(fastest / 10.0).max(1));
                line = Seen { cursor, fastest, ..line };
                if now_ms >= asks_ms {
                    if position < cursor.saturating_add(noted(fastest)) {
                        heard_ms = Some(now_ms);
                    }
                    let ahead = position.saturating_sub(cursor);
                    let told = (whole(real(ahead) / fastest * 500.0)).clamp(1_000, 15_000);
                    asks_ms = now_ms + told + rng.random_range(0..=told * 3 / 10);
                }
                if now_ms % 1_000 == 0 {
                    let below = silence.below(now_ms, line, Some(0));
                    let is_heard = heard_ms.is_some_and(|at_ms| now_ms - at_ms <= KNOWN_AFTER_MS);
                    // Between two looks the line has gone on.
                    assert!(position >= below || is_heard, "seed {seed}: {now_ms}");
                }
            }
        }
    }
}

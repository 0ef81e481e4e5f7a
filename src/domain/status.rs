//! The status body: what a page, a script or an app is told about sale and place.

use serde::{Deserialize, Serialize};

use super::id::SaleId;
use super::queue::{Eta, Odds, Place};
use super::sale::Phase;
use super::stock::StockSum;

/// `GET /_stanchion/{sale}/status`. Times are RFC 3339 on the room's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The sale's id.
    pub sale: SaleId,
    /// Where the sale stands.
    pub phase: Phase,
    /// The line stands still, or figures are stale.
    pub paused: bool,
    /// Nothing is available; `stock.held` > 0: may come back.
    pub sold_out: bool,
    /// One drawing of the sale.
    pub run: u64,
    /// Raised by stop.
    pub epoch: u64,
    /// The visitor's place.
    pub place: Place,
    /// Admissions per second.
    pub rate: f64,
    /// Nothing when paused or unknown.
    pub eta_seconds: Option<Eta>,
    /// Nothing without a place in line, or while figures are stale.
    pub odds: Option<Odds>,
    /// Nothing while figures are stale.
    pub stock: Option<StockSum>,
    /// When the draw is made.
    pub opens_at: String,
    /// The room's clock now.
    pub server_time: String,
    /// When to ask again.
    pub poll_after_ms: u64,
}

/// The fields of [`Status`] that are one visitor's; all others are everybody's.
#[derive(Debug, Clone, PartialEq)]
pub struct Own {
    /// The visitor's place.
    pub place: Place,
    /// Nothing when paused or unknown.
    pub eta_seconds: Option<Eta>,
    /// Nothing without a place in line, or while figures are stale.
    pub odds: Option<Odds>,
    /// The room's clock now, Unix milliseconds.
    pub server_ms: u64,
    /// When to ask again.
    pub poll_after_ms: u64,
}

impl Own {
    /// Appends the fields as those of a JSON object, without its braces. Every poll is told them:
    /// written by hand they take a quarter of the time.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Self { place, eta_seconds, odds, server_ms, poll_after_ms } = self;
        let mut text = Text(out);
        text.field("\"place\":{\"state\":").word(Some(place.state.word()));
        text.field(",\"entry\":").number(place.entry);
        text.field(",\"position\":").number(place.position);
        text.field(",\"ahead\":").number(place.ahead);
        text.field(",\"admitted_at\":").word(place.admitted_at.as_deref());
        text.field(if place.lapsed { ",\"lapsed\":true" } else { ",\"lapsed\":false" });
        match eta_seconds {
            Some(Eta { low, high }) => {
                text.field("},\"eta_seconds\":{\"low\":").number(Some(*low));
                text.field(",\"high\":").number(Some(*high));
                text.field("}");
            }
            None => drop(text.field("},\"eta_seconds\":null")),
        }
        text.field(",\"odds\":").word(odds.map(Odds::word));
        text.field(",\"server_time\":\"").0.extend(written(*server_ms).iter().flatten());
        text.field("\",\"poll_after_ms\":").number(Some(*poll_after_ms));
    }
}

/// JSON being written.
struct Text<'a>(&'a mut Vec<u8>);

impl Text<'_> {
    fn field(&mut self, name: &str) -> &mut Self {
        self.0.extend_from_slice(name.as_bytes());
        self
    }

    fn number(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.field(itoa::Buffer::new().format(number)),
            None => self.field("null"),
        };
    }

    /// A word of ours, in which nothing has to be escaped.
    fn word(&mut self, word: Option<&str>) {
        match word {
            Some(word) => self.field("\"").field(word).field("\""),
            None => self.field("null"),
        };
    }
}

/// The last instant that has a text: the end of the year 9999.
const LAST_MS: u64 = 253_402_300_799_999;

/// RFC 3339 with milliseconds, in UTC.
pub fn rfc3339(ms: u64) -> String {
    written(ms).iter().flatten().copied().map(char::from).collect()
}

/// The same in bytes; nothing from the year 10000 on. Every poll is told one, so it is worked out
/// here and not by a library that knows all calendars.
fn written(ms: u64) -> Option<[u8; 24]> {
    if ms > LAST_MS {
        return None;
    }
    let (year, month, day) = date(ms / 86_400_000);
    let digit = |number: u64| b'0' + u8::try_from(number % 10).unwrap_or(0);
    let two = |number: u64| [digit(number / 10), digit(number)];
    let ([y1, y2], [y3, y4], [m1, m2]) = (two(year / 100), two(year), two(month));
    let ([d1, d2], [h1, h2]) = (two(day), two(ms / 3_600_000 % 24));
    let ([i1, i2], [s1, s2]) = (two(ms / 60_000 % 60), two(ms / 1_000 % 60));
    let (f1, [f2, f3]) = (digit(ms / 100), two(ms));
    Some([
        y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', i1, i2, b':', s1, s2, b'.',
        f1, f2, f3, b'Z',
    ])
}

/// Year, month and day of a day since 1970: years that begin in March end with the leap day, and
/// 400 of them are always as long.
fn date(day: u64) -> (u64, u64, u64) {
    let since_march = day + 719_468;
    let (era, day) = (since_march / 146_097, since_march % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (of_month, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    (400 * era + year + u64::from(month <= 2), month, of_month)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::queue::PlaceState;

    #[test]
    fn times_are_told_in_utc_with_milliseconds() {
        assert_eq!(rfc3339(1_803_902_405_120), "2027-03-01T12:00:05.120Z");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(LAST_MS), "9999-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(u64::MAX), "");
    }

    fn place() -> impl Strategy<Value = Place> {
        use PlaceState::{Admitted, Called, Entered, Left, Missed, None as Nobody, Waiting};
        let state =
            prop::sample::select(&[Nobody, Entered, Waiting, Called, Admitted, Missed, Left]);
        let number = || prop::option::of(any::<u64>());
        let admitted_ms = prop::option::of(0..=LAST_MS);
        (state, number(), number(), number(), admitted_ms, any::<bool>()).prop_map(
            |(state, entry, position, ahead, admitted_ms, lapsed)| Place {
                state,
                entry,
                position,
                ahead,
                admitted_at: admitted_ms.map(rfc3339),
                lapsed,
            },
        )
    }

    fn odds() -> impl Strategy<Value = Option<Odds>> {
        let odds = &[Odds::Certain, Odds::Likely, Odds::Even, Odds::Unlikely, Odds::None];
        prop::option::of(prop::sample::select(odds))
    }

    proptest! {
        #[test]
        fn every_time_is_told_as_a_library_of_calendars_tells_it(ms in 0..LAST_MS - 86_400_000) {
            let at = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
            prop_assert_eq!(rfc3339(ms), format!("{at:.3}"));
        }

        #[test]
        fn what_is_written_by_hand_reads_as_what_a_library_writes(
            place in place(),
            eta_seconds in prop::option::of(any::<(u64, u64)>()),
            odds in odds(),
            server_ms in 0..=LAST_MS,
            poll_after_ms in any::<u64>(),
        ) {
            let eta_seconds = eta_seconds.map(|(low, high)| Eta { low, high });
            let by_library = serde_json::json!({
                "place": place,
                "eta_seconds": eta_seconds,
                "odds": odds,
                "server_time": rfc3339(server_ms),
                "poll_after_ms": poll_after_ms,
            });
            let mut by_hand = b"{".to_vec();
            Own { place, eta_seconds, odds, server_ms, poll_after_ms }.write(&mut by_hand);
            by_hand.push(b'}');
            prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(&by_hand).unwrap(), by_library);
        }
    }
}

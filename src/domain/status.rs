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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Own {
    /// The visitor's place.
    pub place: Place,
    /// Nothing when paused or unknown.
    pub eta_seconds: Option<Eta>,
    /// Nothing without a place in line, or while figures are stale.
    pub odds: Option<Odds>,
    /// The room's clock now.
    pub server_time: String,
    /// When to ask again.
    pub poll_after_ms: u64,
}

/// The last instant that has a text: the end of the year 9999.
const LAST_MS: u64 = 253_402_300_799_999;

/// RFC 3339 with milliseconds, in UTC. Every poll is told one, so it is worked out here and not by
/// a library that knows all calendars.
pub fn rfc3339(ms: u64) -> String {
    if ms > LAST_MS {
        return String::new();
    }
    let (year, month, day) = date(ms / 86_400_000);
    let digit = |number: u64| char::from(b'0' + u8::try_from(number % 10).unwrap_or(0));
    let two = |number: u64| [digit(number / 10), digit(number)];
    let ([y1, y2], [y3, y4], [m1, m2]) = (two(year / 100), two(year), two(month));
    let ([d1, d2], [h1, h2]) = (two(day), two(ms / 3_600_000 % 24));
    let ([i1, i2], [s1, s2]) = (two(ms / 60_000 % 60), two(ms / 1_000 % 60));
    let (f1, [f2, f3]) = (digit(ms / 100), two(ms));
    let mut text = String::with_capacity(24);
    text.extend([y1, y2, y3, y4, '-', m1, m2, '-', d1, d2, 'T', h1, h2, ':', i1, i2, ':', s1, s2]);
    text.extend(['.', f1, f2, f3, 'Z']);
    text
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

    #[test]
    fn times_are_told_in_utc_with_milliseconds() {
        assert_eq!(rfc3339(1_803_902_405_120), "2027-03-01T12:00:05.120Z");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(LAST_MS), "9999-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(u64::MAX), "");
    }

    proptest! {
        #[test]
        fn every_time_is_told_as_a_library_of_calendars_tells_it(ms in 0..LAST_MS - 86_400_000) {
            let at = jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
            prop_assert_eq!(rfc3339(ms), format!("{at:.3}"));
        }
    }
}

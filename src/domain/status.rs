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

/// RFC 3339 with milliseconds, in UTC.
pub fn rfc3339(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| String::new(), |at| format!("{at:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc_with_milliseconds() {
        assert_eq!(rfc3339(1_803_902_405_120), "2027-03-01T12:00:05.120Z");
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
    }
}

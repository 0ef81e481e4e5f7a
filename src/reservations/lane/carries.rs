//! What one stock row can carry: worked out from the calls that lanes make, for an alarm.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::store::postgres::BATCH_MAX;

/// How much a new call counts.
const NEWS: f64 = 0.1;
/// What an order more costs a call, in seconds: writing its rows.
const ORDER_SECONDS: f64 = 17e-6;

/// How long calls take, and how many orders they have, of late; clones share it.
#[derive(Clone, Default)]
pub(super) struct Carries(Arc<Mutex<Option<(f64, f64)>>>);

impl Carries {
    /// Notes a call; the takes a second that one row can carry in full calls.
    pub(super) fn after(&self, orders: f64, took: Duration) -> f64 {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let news = (orders, took.as_secs_f64());
        let (orders, seconds) = known.map_or(news, |(orders, seconds)| {
            (orders + NEWS * (news.0 - orders), seconds + NEWS * (news.1 - seconds))
        });
        *known = Some((orders, seconds));
        let full = f64::from(u32::try_from(BATCH_MAX).unwrap_or(u32::MAX));
        full / (seconds + ORDER_SECONDS * (full - orders)).max(1e-6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_carries_tens_of_thousands_with_quick_flushes_and_hundreds_with_slow_ones() {
        let quick = Carries::default();
        let small = quick.after(1.0, Duration::from_micros(1_087));
        assert!((45_000.0..60_000.0).contains(&small), "{small}");
        let full = Carries::default().after(512.0, Duration::from_micros(9_774));
        assert!((full - small).abs() < 0.05 * full, "whatever the size of the calls: {full}");
        for _ in 0..100 {
            quick.after(1.0, Duration::from_secs(1));
        }
        let slow = quick.after(1.0, Duration::from_secs(1));
        assert!((450.0..560.0).contains(&slow), "{slow}");
    }
}

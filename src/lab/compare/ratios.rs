//! How many times faster ours is, and whether that is what was promised.

use serde::Serialize;

use super::approach::Approach;
use super::row::Row;

/// One comparison with its bar.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Ratio {
    pub(super) name: String,
    pub(super) times: f64,
    pub(super) bar: Bar,
    pub(super) holds: bool,
}

/// What a ratio is held to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

impl Ratio {
    fn new(name: String, times: f64, bar: Bar) -> Self {
        let holds = match bar {
            Bar::AtLeast(least) => times >= least,
            Bar::AtMost(most) => times <= most,
        };
        Self { name, times, bar, holds }
    }
}

/// Those that the rows allow, measured with so many clients.
pub(super) fn ratios(rows: &[Row], clients: u16) -> Vec<Ratio> {
    let of = |approach, clients| {
        rows.iter().find(move |row| row.approach == approach && row.clients == clients)
    };
    let best = |approach| {
        let rows = rows.iter().filter(move |row| row.approach == approach);
        rows.max_by(|a, b| a.takes_per_second.total_cmp(&b.takes_per_second))
    };
    let (lanes, single) = (Approach::Lanes, Approach::OneRoundTrip);
    let mut found = vec![];
    let mut say = |name: String, ours: f64, theirs: f64, bar| {
        if theirs > 0.0 {
            found.push(Ratio::new(name, ours / theirs, bar));
        }
    };
    if let (Some(ours), Some(article)) = (of(lanes, clients), of(Approach::ReservationTtl, clients))
    {
        let name = format!("takes/s, lanes : reservation-ttl, {clients} clients each");
        say(name, ours.takes_per_second, article.takes_per_second, Bar::AtLeast(40.0));
    }
    if let (Some(ours), Some(theirs)) = (best(lanes), best(single)) {
        let (at, best_at) = (ours.clients, theirs.clients);
        let name = format!("takes/s, best of lanes ({at}) : best of one-round-trip ({best_at})");
        say(name, ours.takes_per_second, theirs.takes_per_second, Bar::AtLeast(10.0));
    }
    if let (Some(ours), Some(theirs)) = (of(lanes, clients), of(single, clients)) {
        let name = format!("p99, lanes : one-round-trip, {clients} clients each");
        say(name, ours.p99_ms, theirs.p99_ms, Bar::AtMost(0.1));
    }
    if let (Some(ours), Some(theirs)) = (of(lanes, 1), of(single, 1)) {
        let name = "takes/s, lanes : one-round-trip, 1 client each".to_owned();
        say(name, ours.takes_per_second, theirs.takes_per_second, Bar::AtLeast(1.0));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(approach: Approach, clients: u16, takes_per_second: f64, p99_ms: f64) -> Row {
        Row {
            approach,
            clients,
            takes_per_second,
            p50_ms: 1.0,
            p99_ms,
            oversold: 0,
            lost_updates: 0,
            lock_hold_us: None,
            ceiling_per_second: None,
            lock_waiters: 0.0,
            failure: None,
        }
    }

    #[test]
    fn each_ratio_is_of_like_with_like_and_held_to_its_bar() {
        let rows = [
            row(Approach::ReservationTtl, 64, 500.0, 600.0),
            row(Approach::OneRoundTrip, 64, 2_000.0, 200.0),
            row(Approach::OneRoundTrip, 1, 5_000.0, 1.0),
            row(Approach::Lanes, 64, 40_000.0, 30.0),
            row(Approach::Lanes, 1, 5_100.0, 1.0),
            row(Approach::Lanes, 256, 60_000.0, 9.0),
        ];
        let found: Vec<_> =
            ratios(&rows, 64).iter().map(|r| ((r.times * 100.0).round(), r.holds)).collect();
        assert_eq!(found, [(8_000.0, true), (1_200.0, true), (15.0, false), (102.0, true)]);
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
        assert_eq!(ratios(&[row(Approach::Lanes, 64, 1.0, 1.0)], 64), []);
    }
}

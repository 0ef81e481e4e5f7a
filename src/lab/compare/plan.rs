//! What is run, with how many clients and how long.

use std::time::Duration;

use super::approach::Approach;
use super::drive::Until;

/// One-round-trip is best somewhere here.
const SINGLE_CLIENTS: [u16; 6] = [1, 4, 8, 16, 32, 64];
const LANES_CLIENTS: [u16; 3] = [1, 64, 256];
/// With slow flushes only these are told apart.
const SLOW: [(Approach, &[u16]); 2] =
    [(Approach::OneRoundTrip, &[1, 8, 32]), (Approach::Lanes, &[256])];
/// Takes in a batch, as measured one batch after the other.
pub(super) const BATCHES: [u16; 5] = [1, 16, 64, 256, 512];

/// No correctness run is longer, or grants more times its units: approaches that lose updates
/// would sell for ever.
const CORRECTNESS: Duration = Duration::from_secs(2);
const CORRECTNESS_TIMES: u64 = 10;
/// Far more than is taken in a minute; an `integer` of the article holds it.
pub(super) const PLENTY: i32 = 1_000_000_000;
const TAKES_MAX: u64 = 20_000_000;

/// As asked for on the command line.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) approaches: Vec<Approach>,
    pub(super) clients: u16,
    pub(super) seconds: u32,
    pub(super) units: u16,
    pub(super) shards: u16,
    /// How much longer flushes take in a last round.
    pub(super) slow_flush: Option<Duration>,
}

impl Plan {
    pub(super) fn has(&self, approach: Approach) -> bool {
        self.approaches.contains(&approach)
    }

    /// How many clients an approach is measured with; the number asked for comes first.
    pub(super) fn counts(&self, approach: Approach) -> Vec<u16> {
        let more: &[u16] = match approach {
            Approach::OneRoundTrip => &SINGLE_CLIENTS,
            Approach::Lanes => &LANES_CLIENTS,
            _ => &[],
        };
        self.first_and(more)
    }

    /// The same with slow flushes; none for most.
    pub(super) fn slow_counts(&self, approach: Approach) -> Vec<u16> {
        match (approach, SLOW.iter().find(|(slow, _)| *slow == approach)) {
            (_, Some((_, more))) => self.first_and(more),
            (Approach::ReservationTtl, None) => vec![self.clients],
            _ => vec![],
        }
    }

    fn first_and(&self, more: &[u16]) -> Vec<u16> {
        let others = more.iter().copied().filter(|count| *count != self.clients);
        std::iter::once(self.clients).chain(others).collect()
    }

    /// The most clients at once, for connections.
    pub(super) fn clients_max(&self) -> u16 {
        self.clients.max(SINGLE_CLIENTS.into_iter().max().unwrap_or_default())
    }

    /// A run for the table; with other numbers of clients than asked for, half as long.
    pub(super) fn speed(&self, clients: u16) -> Until {
        let whole = Duration::from_secs(u64::from(self.seconds));
        let time = if clients == self.clients { whole } else { whole / 2 };
        Until { warm_up: time / 5, time, takes: TAKES_MAX }
    }

    /// A run beside the table.
    pub(super) fn aside(&self) -> Until {
        let time = Duration::from_secs(u64::from(self.seconds)) / 2;
        Until { warm_up: time / 5, time, takes: TAKES_MAX }
    }

    /// A run to the last unit.
    pub(super) fn correctness(&self) -> Until {
        let takes = u64::from(self.units) * CORRECTNESS_TIMES;
        Until { warm_up: Duration::ZERO, time: CORRECTNESS, takes }
    }

    /// How many runs there are, to tell how far we are.
    pub(super) fn runs(&self) -> usize {
        let speeds: usize = self.approaches.iter().map(|a| self.counts(*a).len()).sum();
        let slow: usize = self.approaches.iter().map(|a| self.slow_counts(*a).len()).sum();
        let aside = if self.has(Approach::Lanes) { BATCHES.len() + 1 } else { 0 };
        self.approaches.len() + speeds + aside + if self.slow_flush.is_some() { slow } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn plan(clients: u16, seconds: u32) -> Plan {
        let approaches = Approach::value_variants().to_vec();
        Plan { approaches, clients, seconds, units: 100, shards: 5, slow_flush: None }
    }

    #[test]
    fn the_number_asked_for_comes_first_and_once() {
        assert_eq!(plan(64, 3).counts(Approach::OneRoundTrip), [64, 1, 4, 8, 16, 32]);
        assert_eq!(plan(8, 3).counts(Approach::Lanes), [8, 1, 64, 256]);
        assert_eq!(plan(8, 3).counts(Approach::Shards), [8]);
        assert_eq!(plan(8, 3).slow_counts(Approach::OneRoundTrip), [8, 1, 32]);
    }

    #[test]
    fn a_default_run_is_over_in_ninety_seconds_and_a_quick_one_in_forty() {
        for (seconds, most) in [(3, 75.0), (1, 30.0)] {
            let plan = plan(64, seconds);
            let counts = plan.approaches.iter().flat_map(|a| plan.counts(*a));
            let whole = |until: Until| (until.warm_up + until.time).as_secs_f64();
            let speeds: f64 = counts.map(|clients| whole(plan.speed(clients))).sum();
            let aside = whole(plan.aside()) * 6.0;
            assert!(speeds + aside < most, "{seconds} s: {speeds} + {aside}");
        }
    }
}

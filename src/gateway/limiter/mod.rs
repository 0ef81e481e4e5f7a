//! Quotas of this node: who asks too often is told when to come back, and not all at the same time.
//!
//! They are per node: two nodes let twice as much through. Places, the meter and caps on units are
//! counted once for all nodes, in the stores.

mod cells;
mod keyed;
mod metrics;
mod standing;

use std::time::Duration;

use crate::config::settings::Limits;
use crate::domain::limits::{Quota, Subject};
use crate::domain::rate::Rate;
use crate::domain::refusal::{Problem, Refusal, spread};
use crate::telemetry::Metrics;
use governor::clock::{Clock, DefaultClock};
use keyed::Keyed;
use metrics::LimitMetrics;
pub(super) use standing::Standing;

const POLL: &str = "poll";

/// The quotas of this node, by the names of the settings.
pub(super) struct Limiter<C: Clock + Clone = DefaultClock> {
    per_ip: Keyed<C>,
    per_account: Keyed<C>,
    poll: Keyed<C>,
    per_admission: Keyed<C>,
    recovery: Keyed<C>,
    metrics: LimitMetrics,
}

impl Limiter {
    /// The quotas of the settings, nothing of them used yet.
    pub(super) fn new(settings: &Limits, metrics: &Metrics) -> Self {
        Self::with_clock(settings, LimitMetrics::new(metrics), &DefaultClock::default())
    }

    /// Another one for changed settings; none if the quotas are the same.
    pub(super) fn changed(&self, settings: &Limits) -> Option<Self> {
        let new = Self::with_clock(settings, self.metrics.clone(), &DefaultClock::default());
        let differ = self
            .keyed()
            .iter()
            .zip(new.keyed())
            .any(|((_, old), (_, new))| old.quota() != new.quota());
        differ.then_some(new)
    }
}

impl<C: Clock + Clone> Limiter<C> {
    fn with_clock(settings: &Limits, metrics: LimitMetrics, clock: &C) -> Self {
        let keyed = |quota| Keyed::new(quota, clock.clone());
        Self {
            per_ip: keyed(settings.per_ip.into()),
            per_account: keyed(settings.per_account.into()),
            poll: keyed(settings.poll.into()),
            per_admission: keyed(settings.per_admission.into()),
            recovery: keyed(recovery()),
            metrics,
        }
    }

    fn keyed(&self) -> [(&'static str, &Keyed<C>); 5] {
        [
            ("per_ip", &self.per_ip),
            ("per_account", &self.per_account),
            (POLL, &self.poll),
            ("per_admission", &self.per_admission),
            ("recovery", &self.recovery),
        ]
    }

    /// Counts one request about a sale ("" = about none); how its subject stands then. A storm of
    /// one sale uses up nothing of what the same people may do in another.
    pub(super) fn count(
        &self,
        sale: &str,
        subject: Subject<'_>,
    ) -> Result<Standing, (Standing, Refusal)> {
        let (limit, who, keyed) = match subject {
            Subject::Admission(_) => ("per_admission", "this visitor", &self.per_admission),
            Subject::Passer(..) => ("per_admission", "your network", &self.per_admission),
            Subject::Poll(_) => (POLL, "this place in line", &self.poll),
            Subject::Account(_) => ("per_account", "this account", &self.per_account),
            Subject::Address(_) => ("per_ip", "your network", &self.per_ip),
            Subject::Recovery(_) => ("recovery", "your network", &self.recovery),
        };
        let quota = keyed.quota();
        keyed.check(&(sale, subject)).map(|left| Standing::served(limit, quota, left)).map_err(
            |wait| {
                self.metrics.refused(limit);
                (Standing::refused(limit, quota, wait), refusal(who, wait))
            },
        )
    }

    /// Counts one poll if it is within its quota, as [`Limiter::count`] does; nothing otherwise.
    pub(super) fn poll(&self, sale: &str, sub: &str) -> Option<Standing> {
        let left = self.poll.check(&(sale, Subject::Poll(sub))).ok()?;
        Some(Standing::served(POLL, self.poll.quota(), left))
    }

    /// Drops keys that have all of their quota again, which is as if they had never come.
    pub(super) fn sweep(&self) {
        for (limit, keyed) in self.keyed() {
            keyed.sweep();
            self.metrics.keys(limit, keyed.len());
        }
    }
}

/// Recovery codes tried, right or wrong: five a minute. Guessing one takes ages.
fn recovery() -> Quota {
    #[expect(clippy::expect_used, reason = "a constant within the bounds")]
    let rate = Rate::per_second(5.0 / 60.0).expect("a constant within the bounds");
    Quota { rate, burst: 5 }
}

/// Sign-in is not asked about ever new cookies of one address.
pub(super) fn too_many_cookies(wait: Duration) -> Refusal {
    refusal("your network with cookies that nobody is signed in with", wait)
}

fn refusal(who: &str, wait: Duration) -> Refusal {
    // Rounded up, so that whoever waits as told is served.
    let ms = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let ms = spread(ms, rand::random());
    let detail = format!("too many requests from {who}; try again in {ms} ms");
    Refusal::new(Problem::RateLimited, detail).retry_after_ms(ms)
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;
    use crate::domain::id::AccountId;
    use crate::domain::limits::AddressKey;

    const DROP: &str = "spring-drop";

    fn address(last: u8) -> Subject<'static> {
        Subject::Address(AddressKey::of(std::net::IpAddr::from([10, 0, 0, last])))
    }

    fn limiter(clock: &FakeRelativeClock) -> Limiter<FakeRelativeClock> {
        let metrics = LimitMetrics::new(&Metrics::new("gateway"));
        Limiter::with_clock(&Limits::default(), metrics, clock)
    }

    #[test]
    fn sixty_at_once_pass_and_the_next_is_told_a_wait_that_is_true_or_a_little_more() {
        let clock = FakeRelativeClock::default();
        let limiter = limiter(&clock);
        for _ in 0..60 {
            limiter.count(DROP, address(1)).unwrap();
        }

        let (_, refused) = limiter.count(DROP, address(1)).unwrap_err();
        let told = refused.retry_after_ms.unwrap();
        assert!((50..=60).contains(&told), "{told}");
        assert_eq!(refused.retry_after_seconds(), Some(1));

        clock.advance(Duration::from_millis(49));
        assert!(limiter.count(DROP, address(1)).is_err());
        clock.advance(Duration::from_millis(1));
        assert!(limiter.count(DROP, address(1)).is_ok());
    }

    #[test]
    fn neighbours_who_are_refused_together_are_not_told_to_come_back_together() {
        let limiter = limiter(&FakeRelativeClock::default());
        let guess = || limiter.count(DROP, Subject::Recovery(AddressKey::of([10, 0, 0, 1].into())));
        while guess().is_ok() {}

        let told: Vec<_> =
            (0..100).map(|_| guess().unwrap_err().1.retry_after_ms.unwrap()).collect();
        let (first, last) = (told.iter().min().unwrap(), told.iter().max().unwrap());
        assert!(*first >= 12_000 && *last <= 14_400, "{first} to {last}");
        assert!(last - first > 1_000, "all within {first} to {last}");
    }

    #[test]
    fn one_address_used_up_leaves_others_and_accounts_alone() {
        let clock = FakeRelativeClock::default();
        let limiter = limiter(&clock);
        while limiter.count(DROP, address(1)).is_ok() {}

        assert!(limiter.count(DROP, address(2)).is_ok());
        assert!(limiter.count("other-drop", address(1)).is_ok());
        let account = AccountId::parse("ann").unwrap();
        assert!(limiter.count(DROP, Subject::Account(&account)).is_ok());
        assert!(limiter.count(DROP, Subject::Poll("ann")).is_ok());
        assert!(limiter.count(DROP, Subject::Admission("ann")).is_ok());
    }

    #[test]
    fn changed_quotas_are_another_limiter_and_the_same_are_none() {
        let settings = Limits::default();
        let limiter = Limiter::new(&settings, &Metrics::new("gateway"));
        assert!(limiter.changed(&settings).is_none());

        let mut more = settings;
        more.poll.burst = 7;
        let changed = limiter.changed(&more).unwrap();
        let standing = changed.count(DROP, Subject::Poll("ann")).unwrap();
        assert_eq!(standing, Standing::served("poll", more.poll.into(), 6));
    }

    #[test]
    fn wr_58_two_thousand_behind_one_address_poll_as_told_for_a_minute_and_nobody_is_refused() {
        let clock = FakeRelativeClock::default();
        let limiter = limiter(&clock);
        let subjects: Vec<_> = (0..2_000).map(|n| format!("{n:032x}")).collect();
        let mut joins = (0, 0);

        // The shortest interval told is a second; pages and reloads come on top.
        for second in 0..60 {
            for subject in &subjects {
                limiter.count(DROP, Subject::Poll(subject)).unwrap();
            }
            // A neighbour at the same address tries to join all the time.
            for _ in 0..100 {
                match limiter.count(DROP, address(1)) {
                    Ok(_) => joins.0 += 1,
                    Err(_) => joins.1 += 1,
                }
            }
            limiter.sweep();
            assert!(limiter.poll.len() <= 2_000, "in second {second}");
            clock.advance(Duration::from_secs(1));
        }

        assert!((60 + 59 * 20..=60 + 60 * 20).contains(&joins.0), "{joins:?}");
        clock.advance(Duration::from_secs(1));
        limiter.sweep();
        assert_eq!(limiter.poll.len(), 0, "who has gone is forgotten");
    }

    #[test]
    fn ed_76_a_million_addresses_do_not_grow_it_and_one_more_is_still_served() {
        let clock = FakeRelativeClock::default();
        let limiter = limiter(&clock);
        let network = |n: u64| {
            let address = std::net::Ipv6Addr::from(u128::from(0x2001_0db8_0000_0000 + n) << 64);
            Subject::Address(AddressKey::of(address.into()))
        };
        let (flood, seconds) = (1_000_000, 30);
        let mut refused = 0;
        for n in 0..flood {
            refused += usize::from(limiter.count(DROP, network(n)).is_err());
            if n % (flood / seconds) == 0 {
                clock.advance(Duration::from_secs(1));
            }
        }

        assert!(limiter.per_ip.len() <= cells::KEYS_MAX);
        assert!(limiter.count(DROP, network(flood)).is_ok(), "{refused} of the flood were refused");
        clock.advance(Duration::from_mins(1));
        limiter.sweep();
        assert_eq!(limiter.per_ip.len(), 0);
    }
}

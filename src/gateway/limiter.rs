//! Quotas of this node: who asks too often is told exactly when to come back.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::{DashMapStateStore, ShrinkableKeyedStateStore};
use governor::state::{InMemoryState, NotKeyed, StateStore};
use governor::{Quota, RateLimiter};

use crate::config::settings::Limits;
use crate::domain::id::AccountId;
use crate::domain::limits::{self, AddressKey};
use crate::domain::refusal::{Problem, Refusal};

/// Keys remembered for each quota; more share one count.
const KEYS_MAX: usize = 200_000;
/// Idle keys are dropped every so many checks.
const SWEEP_EVERY: u64 = 4_096;

/// The quotas of this node.
pub(super) struct Limiter<C: Clock + Clone = DefaultClock> {
    per_ip: Keyed<AddressKey, C>,
    per_account: Keyed<AccountId, C>,
    poll: Keyed<String, C>,
    per_admission: Keyed<String, C>,
}

impl Limiter {
    /// The quotas of the settings.
    pub(super) fn new(settings: &Limits) -> Self {
        Self::with_clock(settings, &DefaultClock::default())
    }
}

impl<C: Clock + Clone> Limiter<C> {
    fn with_clock(settings: &Limits, clock: &C) -> Self {
        Self {
            per_ip: Keyed::new(settings.per_ip.into(), clock.clone()),
            per_account: Keyed::new(settings.per_account.into(), clock.clone()),
            poll: Keyed::new(settings.poll.into(), clock.clone()),
            per_admission: Keyed::new(settings.per_admission.into(), clock.clone()),
        }
    }

    /// An anonymous visitor on a gated path, or joining.
    pub(super) fn address(&self, key: AddressKey) -> Result<(), Refusal> {
        self.per_ip.check(&key).map_err(|wait| refusal("your network", wait))
    }

    /// A signed-in account; its address is not asked.
    pub(super) fn account(&self, account: &AccountId) -> Result<(), Refusal> {
        self.per_account.check(account).map_err(|wait| refusal("this account", wait))
    }

    /// A poll by a ticket holder; neither is its address.
    pub(super) fn poll(&self, subject: &str) -> Result<(), Refusal> {
        self.poll.check(&subject.to_owned()).map_err(|wait| refusal("this place in line", wait))
    }

    /// A claim or an order by one visitor.
    pub(super) fn admission(&self, subject: &str) -> Result<(), Refusal> {
        self.per_admission.check(&subject.to_owned()).map_err(|wait| refusal("this visitor", wait))
    }
}

/// Sign-in is not asked about ever new cookies of one address.
pub(super) fn too_many_cookies(wait: Duration) -> Refusal {
    refusal("your network with cookies that nobody is signed in with", wait)
}

fn refusal(who: &str, wait: Duration) -> Refusal {
    // Rounded up, so that whoever waits as told is served.
    let ms = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let detail = format!("too many requests from {who}; try again in {ms} ms");
    Refusal::new(Problem::RateLimited, detail).retry_after_ms(ms)
}

struct Keyed<K: Hash + Eq + Clone, C: Clock + Clone> {
    limiter: RateLimiter<K, Capped<K>, C, NoOpMiddleware<C::Instant>>,
    clock: C,
    checks: AtomicU64,
}

impl<K: Hash + Eq + Clone, C: Clock + Clone> Keyed<K, C> {
    fn new(quota: limits::Quota, clock: C) -> Self {
        let store =
            Capped { keys: DashMapStateStore::default(), overflow: InMemoryState::default() };
        let limiter = RateLimiter::new(governor_quota(quota), store, clock.clone());
        Self { limiter, clock, checks: AtomicU64::new(0) }
    }

    /// The wait, if the quota is used up.
    fn check(&self, key: &K) -> Result<(), Duration> {
        if self.checks.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
            self.limiter.retain_recent();
            self.limiter.shrink_to_fit();
        }
        self.limiter.check_key(key).map_err(|until| until.wait_time_from(self.clock.now()))
    }
}

fn governor_quota(quota: limits::Quota) -> Quota {
    let burst = NonZeroU32::new(quota.burst).unwrap_or(NonZeroU32::MIN);
    let interval = Duration::from_secs_f64(quota.rate.interval_ms() / 1000.0);
    // The period is zero only below a nanosecond, which no accepted rate reaches.
    Quota::with_period(interval).unwrap_or(Quota::per_second(NonZeroU32::MAX)).allow_burst(burst)
}

/// A map of keys that stops growing: when it is full, newcomers share one count, so that a flood of
/// made-up keys costs them and nobody who was there before.
struct Capped<K: Hash + Eq + Clone> {
    keys: DashMapStateStore<K>,
    overflow: InMemoryState,
}

impl<K: Hash + Eq + Clone> StateStore for Capped<K> {
    type Key = K;

    fn measure_and_replace<T, F, E>(&self, key: &K, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        if self.keys.len() >= KEYS_MAX && !self.keys.contains_key(key) {
            return self.overflow.measure_and_replace(&NotKeyed::NonKey, measure);
        }
        self.keys.measure_and_replace(key, measure)
    }
}

impl<K: Hash + Eq + Clone> ShrinkableKeyedStateStore<K> for Capped<K> {
    fn retain_recent(&self, drop_below: Nanos) {
        ShrinkableKeyedStateStore::retain_recent(&self.keys, drop_below);
    }

    fn shrink_to_fit(&self) {
        self.keys.shrink_to_fit();
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn address(last: u8) -> AddressKey {
        AddressKey::of(std::net::IpAddr::from([10, 0, 0, last]))
    }

    fn limiter(clock: &FakeRelativeClock) -> Limiter<FakeRelativeClock> {
        Limiter::with_clock(&Limits::default(), clock)
    }

    #[test]
    fn sixty_at_once_pass_and_the_next_is_told_a_wait_that_is_exactly_true() {
        let clock = FakeRelativeClock::default();
        let limiter = limiter(&clock);
        for _ in 0..60 {
            limiter.address(address(1)).unwrap();
        }

        let refused = limiter.address(address(1)).unwrap_err();
        assert_eq!(refused.retry_after_ms, Some(50));
        assert_eq!(refused.retry_after_seconds(), Some(1));

        clock.advance(Duration::from_millis(49));
        assert!(limiter.address(address(1)).is_err());
        clock.advance(Duration::from_millis(1));
        assert!(limiter.address(address(1)).is_ok());
    }

    #[test]
    fn one_address_used_up_leaves_others_and_accounts_alone() {
        let clock = FakeRelativeClock::default();
        let limiter = limiter(&clock);
        while limiter.address(address(1)).is_ok() {}

        assert!(limiter.address(address(2)).is_ok());
        assert!(limiter.account(&AccountId::parse("ann").unwrap()).is_ok());
    }

    #[test]
    fn ed_76_idle_keys_are_dropped() {
        let clock = FakeRelativeClock::default();
        let limiter = limiter(&clock);
        for n in 0..SWEEP_EVERY - 1 {
            limiter.poll(&n.to_string()).unwrap();
        }
        clock.advance(Duration::from_mins(10));

        limiter.poll("one more").unwrap();

        assert_eq!(limiter.poll.limiter.len(), 1);
    }
}

//! One quota for each of many subjects, in bounded memory.

use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::StateInformationMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::{DashMapStateStore, ShrinkableKeyedStateStore};
use governor::state::{InMemoryState, NotKeyed, StateStore};
use governor::{Quota, RateLimiter};

use crate::domain::limits;

/// Subjects remembered for each quota; more share a few counts.
pub(super) const KEYS_MAX: usize = 200_000;
/// Counts that the rest shares, so that a flood of subjects leaves room for an honest one.
const STRIPES: usize = 4_096;

/// A quota of each subject; a subject is known by a hash that nobody outside can compute.
pub(super) struct Keyed<C: Clock + Clone> {
    quota: limits::Quota,
    limiter: RateLimiter<u64, Capped, C, StateInformationMiddleware>,
    hasher: RandomState,
    clock: C,
}

impl<C: Clock + Clone> Keyed<C> {
    pub(super) fn new(quota: limits::Quota, clock: C) -> Self {
        let limiter = RateLimiter::new(governor_quota(quota), Capped::default(), clock.clone());
        Self { quota, limiter, hasher: RandomState::new(), clock }
    }

    pub(super) fn quota(&self) -> limits::Quota {
        self.quota
    }

    /// How many more may come at once, or the wait if the quota is used up.
    pub(super) fn check(&self, subject: &impl Hash) -> Result<u32, Duration> {
        let key = self.hasher.hash_one(subject);
        match self.limiter.check_key(&key) {
            Ok(state) => Ok(state.remaining_burst_capacity()),
            Err(until) => Err(until.wait_time_from(self.clock.now())),
        }
    }

    /// Drops subjects that have all of their quota again.
    pub(super) fn sweep(&self) {
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
    }

    pub(super) fn len(&self) -> usize {
        self.limiter.len()
    }
}

fn governor_quota(quota: limits::Quota) -> Quota {
    let burst = NonZeroU32::new(quota.burst).unwrap_or(NonZeroU32::MIN);
    let interval = Duration::from_secs_f64(quota.rate.interval_ms() / 1000.0);
    // The period is zero only below a nanosecond, which no accepted rate reaches.
    Quota::with_period(interval).unwrap_or(Quota::per_second(NonZeroU32::MAX)).allow_burst(burst)
}

/// A map of keys that stops growing: when it is full, newcomers share a fixed number of counts, so
/// that a flood costs its own kind most and whoever was there before nothing.
struct Capped {
    keys: DashMapStateStore<u64>,
    stripes: Box<[InMemoryState]>,
}

impl Default for Capped {
    fn default() -> Self {
        let stripes = std::iter::repeat_with(InMemoryState::default).take(STRIPES).collect();
        Self { keys: DashMapStateStore::default(), stripes }
    }
}

impl StateStore for Capped {
    type Key = u64;

    fn measure_and_replace<T, F, E>(&self, key: &u64, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        if self.keys.len() >= KEYS_MAX && !self.keys.contains_key(key) {
            // Keys are hashes already.
            let stripe = usize::try_from(*key % STRIPES as u64).unwrap_or(0);
            return self.stripes[stripe].measure_and_replace(&NotKeyed::NonKey, measure);
        }
        self.keys.measure_and_replace(key, measure)
    }
}

impl ShrinkableKeyedStateStore<u64> for Capped {
    fn retain_recent(&self, drop_below: Nanos) {
        ShrinkableKeyedStateStore::retain_recent(&self.keys, drop_below);
    }

    fn shrink_to_fit(&self) {
        // Only after a flood: to shrink is to move everything.
        if self.keys.capacity() > 4 * self.keys.len() + 4_096 {
            self.keys.shrink_to_fit();
        }
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

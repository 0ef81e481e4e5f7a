//! One quota for each of many subjects, in bounded memory.

use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::StateInformationMiddleware;
use governor::{Quota, RateLimiter};

use super::cells::Cells;
use crate::domain::limits;

/// A quota of each subject; a subject is known by a hash that nobody outside can compute.
pub(super) struct Keyed<C: Clock + Clone> {
    quota: limits::Quota,
    limiter: RateLimiter<u64, Cells<C>, C, StateInformationMiddleware>,
    hasher: RandomState,
    clock: C,
}

impl<C: Clock + Clone> Keyed<C> {
    pub(super) fn new(quota: limits::Quota, clock: C) -> Self {
        let cells = Cells::new(clock.clone());
        let limiter = RateLimiter::new(governor_quota(quota), cells, clock.clone());
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

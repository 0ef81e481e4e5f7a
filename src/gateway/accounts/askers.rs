//! Who makes us ask the shop: questions that no account answered, counted by address, so that a
//! new cookie on each request is paid for by whoever makes them up, and not by the shop.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::domain::limits::{AddressKey, Quota};

/// Addresses remembered; more share one count.
const ADDRESSES_MAX: usize = 50_000;
/// Questions of one address at once; more wait.
const SEATS: usize = 32;

/// Questions in vain, by address.
pub(super) struct Askers {
    quota: ArcSwap<Quota>,
    known: Mutex<HashMap<AddressKey, Arc<Asker>>>,
    /// Those who came when the map was full.
    crowd: Arc<Asker>,
}

/// One address.
pub(super) struct Asker {
    /// Its questions under way.
    pub(super) seats: Semaphore,
    vain: Mutex<Vain>,
}

/// Questions in vain, which the quota's rate makes good again.
#[derive(Debug, Clone, Copy)]
struct Vain {
    level: f64,
    at: Instant,
}

impl Vain {
    fn now(self, quota: &Quota, now: Instant) -> f64 {
        let good_again = now.saturating_duration_since(self.at).as_secs_f64() * quota.rate.get();
        (self.level - good_again).max(0.0)
    }

    /// How long until one more may be asked; nothing if it may be now.
    fn wait(self, quota: &Quota, now: Instant) -> Option<Duration> {
        let over = self.now(quota, now) + 1.0 - f64::from(quota.burst.max(1));
        (over > 0.0).then(|| Duration::from_secs_f64(over / quota.rate.get()))
    }

    fn one_more(self, quota: &Quota, now: Instant) -> Self {
        Self { level: self.now(quota, now) + 1.0, at: now }
    }
}

impl Askers {
    /// Nobody has asked yet.
    pub(super) fn new(quota: Quota) -> Self {
        let quota = ArcSwap::from_pointee(quota);
        Self { quota, known: Mutex::default(), crowd: Arc::new(Asker::new()) }
    }

    /// Counts go on under another quota.
    pub(super) fn allow(&self, quota: Quota) {
        self.quota.store(Arc::new(quota));
    }

    /// The count of an address.
    pub(super) fn of(&self, address: IpAddr) -> Arc<Asker> {
        let address = AddressKey::of(address);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asker) = known.get(&address) {
            return Arc::clone(asker);
        }
        if known.len() >= ADDRESSES_MAX {
            let now = Instant::now();
            known.retain(|_, asker| !asker.is_idle(&self.quota.load(), now));
        }
        if known.len() >= ADDRESSES_MAX {
            return Arc::clone(&self.crowd);
        }
        let asker = Arc::new(Asker::new());
        known.insert(address, Arc::clone(&asker));
        asker
    }

    /// How long an address has to wait before it may make us ask; nothing if it need not.
    pub(super) fn wait(&self, asker: &Asker) -> Option<Duration> {
        asker.vain().wait(&self.quota.load(), Instant::now())
    }

    /// Counts a question that no account answered.
    pub(super) fn was_in_vain(&self, asker: &Asker) {
        let mut vain = asker.vain.lock().unwrap_or_else(PoisonError::into_inner);
        *vain = vain.one_more(&self.quota.load(), Instant::now());
    }
}

impl Asker {
    fn new() -> Self {
        let vain = Vain { level: 0.0, at: Instant::now() };
        Self { seats: Semaphore::new(SEATS), vain: Mutex::new(vain) }
    }

    fn vain(&self) -> Vain {
        *self.vain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle(self: &Arc<Self>, quota: &Quota, now: Instant) -> bool {
        Arc::strong_count(self) == 1 && self.vain().now(quota, now) <= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rate::Rate;

    fn quota() -> Quota {
        Quota { rate: Rate::whole(2), burst: 3 }
    }

    #[test]
    fn three_in_vain_are_free_and_the_next_waits_exactly_as_told() {
        let (quota, start) = (quota(), Instant::now());
        let mut vain = Vain { level: 0.0, at: start };
        for _ in 0..3 {
            assert_eq!(vain.wait(&quota, start), None);
            vain = vain.one_more(&quota, start);
        }
        let wait = vain.wait(&quota, start).unwrap();
        assert_eq!(wait, Duration::from_millis(500));
        assert!(vain.wait(&quota, start + wait - Duration::from_millis(1)).is_some());
        assert_eq!(vain.wait(&quota, start + wait), None);
    }

    #[test]
    fn one_address_in_vain_leaves_another_alone() {
        let askers = Askers::new(quota());
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let guesser = askers.of(address(1));
        for _ in 0..3 {
            askers.was_in_vain(&guesser);
        }
        assert!(askers.wait(&askers.of(address(1))).is_some());
        assert!(askers.wait(&askers.of(address(2))).is_none());

        askers.allow(Quota { burst: 5, ..quota() });
        assert!(askers.wait(&askers.of(address(1))).is_none(), "two more under the new quota");
    }

    #[test]
    fn a_full_map_drops_the_idle_and_then_lets_newcomers_share() {
        let askers = Askers::new(quota());
        let address = |n: u32| IpAddr::from(n.to_be_bytes());
        for n in 0..ADDRESSES_MAX + 10 {
            askers.of(address(u32::try_from(n).unwrap()));
        }
        assert_eq!(askers.known.lock().unwrap().len(), 10);

        for n in 0..ADDRESSES_MAX {
            let asker = askers.of(address(u32::try_from(n).unwrap()));
            for _ in 0..3 {
                askers.was_in_vain(&asker);
            }
        }
        askers.of(address(u32::MAX));
        assert!(askers.known.lock().unwrap().len() <= ADDRESSES_MAX);
        assert!(Arc::ptr_eq(&askers.of(address(u32::MAX)), &askers.crowd));
    }
}

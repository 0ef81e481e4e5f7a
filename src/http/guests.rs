//! How many connections one address may have: all that are open, and those that have not asked
//! for anything yet.
//!
//! An address may be a household or a town behind one IPv4, so this only bounds what a single one
//! can take from the others. Whoever proves to hold a place is not counted any more, and a
//! connection over the smaller number waits a moment for its turn before it is closed: people who
//! all come in the same second are not a flood.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a connection waits for one of its address to have asked its first.
const TURN_MAX: Duration = Duration::from_secs(2);

/// How many of one address.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Open connections, but for those that proved to be of somebody known.
    pub connections: usize,
    /// Connections whose first request has not been read.
    pub handshakes: usize,
}

/// Counts of all addresses that are connected now; it holds no other.
#[derive(Debug)]
pub struct Guests {
    caps: Caps,
    /// What an address counts as.
    network: fn(IpAddr) -> IpAddr,
    counts: Mutex<HashMap<IpAddr, Count>>,
}

#[derive(Debug)]
struct Count {
    /// All of this address: the entry lives as long as they do.
    present: usize,
    /// Those that count.
    strangers: usize,
    handshakes: Arc<Semaphore>,
}

/// Why a connection is closed at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Crowded {
    /// Too many are open.
    #[error("its address has too many connections open")]
    Connections,
    /// Too many have not asked for anything.
    #[error("its address has too many connections that ask for nothing")]
    Handshakes,
}

impl Guests {
    /// Nobody is here yet. `network` says what an address counts as.
    pub fn new(caps: Caps, network: fn(IpAddr) -> IpAddr) -> Arc<Self> {
        Arc::new(Self { caps, network, counts: Mutex::default() })
    }

    /// Counts a connection in; it counts out when the guest is dropped.
    pub(super) async fn enter(self: &Arc<Self>, address: IpAddr) -> Result<Guest, Crowded> {
        let network = (self.network)(address);
        let handshakes = self.count_in(network)?;
        let guest = Guest::of(Some(Counted { guests: Arc::clone(self), network }));
        let turn = tokio::time::timeout(TURN_MAX, handshakes.acquire_owned());
        let Ok(Ok(turn)) = turn.await else { return Err(Crowded::Handshakes) };
        guest.handshake.lock().unwrap_or_else(PoisonError::into_inner).replace(turn);
        Ok(guest)
    }

    fn count_in(&self, network: IpAddr) -> Result<Arc<Semaphore>, Crowded> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(network).or_insert_with(|| Count {
            present: 0,
            strangers: 0,
            handshakes: Arc::new(Semaphore::new(self.caps.handshakes)),
        });
        if count.strangers >= self.caps.connections {
            return Err(Crowded::Connections);
        }
        count.present += 1;
        count.strangers += 1;
        Ok(Arc::clone(&count.handshakes))
    }

    fn know(&self, network: IpAddr) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&network) {
            count.strangers = count.strangers.saturating_sub(1);
        }
    }

    fn count_out(&self, network: IpAddr, stranger: bool) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = counts.get_mut(&network) else { return };
        count.present = count.present.saturating_sub(1);
        count.strangers = count.strangers.saturating_sub(usize::from(stranger));
        if count.present == 0 {
            counts.remove(&network);
        }
    }
}

#[derive(Debug)]
struct Counted {
    guests: Arc<Guests>,
    network: IpAddr,
}

/// One connection.
#[derive(Debug)]
pub struct Guest {
    counted: Option<Counted>,
    handshake: Mutex<Option<OwnedSemaphorePermit>>,
    has_asked: AtomicBool,
    is_known: AtomicBool,
}

impl Guest {
    /// One that is not counted: of a trusted proxy, or at a private door.
    pub(super) fn uncounted() -> Self {
        Self::of(None)
    }

    fn of(counted: Option<Counted>) -> Self {
        Self {
            counted,
            handshake: Mutex::default(),
            has_asked: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
        }
    }

    /// A whole request has come.
    pub(super) fn ask(&self) {
        if !self.has_asked.swap(true, Ordering::Relaxed) {
            self.handshake.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Whether it has asked for anything yet.
    pub(super) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Relaxed)
    }

    /// It is of somebody who holds a place: not its address' any more.
    pub fn know(&self) {
        if let Some(counted) = &self.counted
            && !self.is_known.swap(true, Ordering::Relaxed)
        {
            counted.guests.know(counted.network);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(counted) = &self.counted {
            let stranger = !self.is_known.load(Ordering::Relaxed);
            counted.guests.count_out(counted.network, stranger);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps { connections: 3, handshakes: 2 };

    fn guests() -> Arc<Guests> {
        Guests::new(CAPS, |address| address)
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[tokio::test]
    async fn ed_78_an_address_with_too_many_that_ask_nothing_waits_and_is_then_refused() {
        let guests = guests();
        let (first, _second) = (guests.enter(ip(5)).await.unwrap(), guests.enter(ip(5)).await);

        assert_eq!(guests.enter(ip(5)).await.unwrap_err(), Crowded::Handshakes);
        assert!(guests.enter(ip(6)).await.is_ok());

        let (third, ()) = tokio::join!(guests.enter(ip(5)), async { first.ask() });
        assert!(third.is_ok(), "one has asked, so it is the next one's turn");
    }

    #[tokio::test]
    async fn who_holds_a_place_does_not_count_and_who_leaves_does_not_either() {
        let guests = guests();
        let mut inside = vec![];
        for _ in 0..3 {
            let guest = guests.enter(ip(5)).await.unwrap();
            guest.ask();
            inside.push(guest);
        }
        assert_eq!(guests.enter(ip(5)).await.unwrap_err(), Crowded::Connections);

        inside[0].know();
        inside[0].know();
        let fourth = guests.enter(ip(5)).await.unwrap();
        assert_eq!(guests.enter(ip(5)).await.unwrap_err(), Crowded::Connections);

        drop(fourth);
        assert!(guests.enter(ip(5)).await.is_ok());
        inside.clear();
        assert!(guests.counts.lock().unwrap().is_empty(), "nobody here, nothing kept");
    }
}

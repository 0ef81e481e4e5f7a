//! How many connections one address may have: all that are open, those in a TLS handshake, and
//! spare ones that have not asked for anything.
//!
//! An address may be a household or a town behind one IPv4, so this only bounds what a single one
//! can take from the others. Whoever proves to hold a place is not counted any more. A connection
//! over the number of handshakes waits for its turn before it is closed: people who all come in the
//! same second are not a flood. Browsers open spare connections, so of these the one that has asked
//! nothing for longest gives way to the newest, which a browser hardly notices; a refusal it would.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How many of one address.
#[derive(Debug, Clone, Copy)]
pub struct Caps {
    /// Open connections, but for those that proved to be of somebody known.
    pub connections: usize,
    /// Connections in a TLS handshake.
    pub handshakes: usize,
    /// Connections past it whose first request has not been read.
    pub spare: usize,
    /// How long a connection waits for its turn to shake hands; shorter than a handshake may take,
    /// so that those who never finish theirs keep others out and not in.
    pub turn: Duration,
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
    /// The number of the next spare one.
    next: u64,
    /// Those that have asked nothing, the oldest first.
    spare: BTreeMap<u64, Arc<Notify>>,
}

/// Why a connection is closed at the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Crowded {
    /// Too many are open.
    #[error("its address has too many connections open")]
    Connections,
    /// Too many are in a handshake.
    #[error("its address has too many connections in a handshake")]
    Handshakes,
}

impl Guests {
    /// Nobody is here yet. `network` says what an address counts as.
    pub fn new(caps: Caps, network: fn(IpAddr) -> IpAddr) -> Arc<Self> {
        Arc::new(Self { caps, network, counts: Mutex::default() })
    }

    /// Counts a connection in; it counts out when the guest is dropped.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Result<Guest, Crowded> {
        let network = (self.network)(address);
        let mut counts = self.counts();
        let count = counts.entry(network).or_insert_with(|| Count {
            present: 0,
            strangers: 0,
            handshakes: Arc::new(Semaphore::new(self.caps.handshakes)),
            next: 0,
            spare: BTreeMap::new(),
        });
        if count.strangers >= self.caps.connections {
            return Err(Crowded::Connections);
        }
        count.present += 1;
        count.strangers += 1;
        let handshakes = Arc::clone(&count.handshakes);
        drop(counts);
        Ok(Guest::of(Some(Counted { guests: Arc::clone(self), network, handshakes })))
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn know(&self, network: IpAddr) {
        if let Some(count) = self.counts().get_mut(&network) {
            count.strangers = count.strangers.saturating_sub(1);
        }
    }

    /// One more asks nothing; who has done so for longest goes if they are too many.
    fn spare(&self, network: IpAddr, leave: &Arc<Notify>) -> Option<u64> {
        let mut counts = self.counts();
        let count = counts.get_mut(&network)?;
        let number = count.next;
        count.next += 1;
        count.spare.insert(number, Arc::clone(leave));
        if count.spare.len() > self.caps.spare
            && let Some((_, oldest)) = count.spare.pop_first()
        {
            oldest.notify_one();
        }
        Some(number)
    }

    fn not_spare(&self, network: IpAddr, number: u64) {
        if let Some(count) = self.counts().get_mut(&network) {
            count.spare.remove(&number);
        }
    }

    fn count_out(&self, network: IpAddr, stranger: bool, spare: Option<u64>) {
        let mut counts = self.counts();
        let Some(count) = counts.get_mut(&network) else { return };
        count.present = count.present.saturating_sub(1);
        count.strangers = count.strangers.saturating_sub(usize::from(stranger));
        if let Some(number) = spare {
            count.spare.remove(&number);
        }
        if count.present == 0 {
            counts.remove(&network);
        }
    }
}

#[derive(Debug)]
struct Counted {
    guests: Arc<Guests>,
    network: IpAddr,
    handshakes: Arc<Semaphore>,
}

/// One connection.
#[derive(Debug)]
pub struct Guest {
    counted: Option<Counted>,
    /// Its number among the spare ones.
    spare: Mutex<Option<u64>>,
    leave: Arc<Notify>,
    has_asked: AtomicBool,
    is_known: AtomicBool,
}

impl Guest {
    /// One that is not counted: of a trusted proxy, or at a private door.
    pub fn uncounted() -> Self {
        Self::of(None)
    }

    fn of(counted: Option<Counted>) -> Self {
        Self {
            counted,
            spare: Mutex::default(),
            leave: Arc::default(),
            has_asked: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
        }
    }

    /// Waits until a handshake of its address may begin; the turn is over when it is dropped.
    pub(super) async fn turn(&self) -> Result<Option<OwnedSemaphorePermit>, Crowded> {
        let Some(counted) = &self.counted else { return Ok(None) };
        let turn = Arc::clone(&counted.handshakes).acquire_owned();
        match tokio::time::timeout(counted.guests.caps.turn, turn).await {
            Ok(Ok(turn)) => Ok(Some(turn)),
            Ok(Err(_)) | Err(_) => Err(Crowded::Handshakes),
        }
    }

    /// It is ready to ask.
    pub(super) fn settle(&self) {
        if let Some(counted) = &self.counted {
            *self.own_spare() = counted.guests.spare(counted.network, &self.leave);
        }
    }

    /// Comes when it is to make room for another of its address, having asked nothing.
    pub(super) async fn dismissed(&self) {
        self.leave.notified().await;
    }

    /// A whole request has come.
    pub(super) fn ask(&self) {
        if self.has_asked.load(Ordering::Relaxed) || self.has_asked.swap(true, Ordering::Relaxed) {
            return;
        }
        let number = self.own_spare().take();
        if let (Some(counted), Some(number)) = (&self.counted, number) {
            counted.guests.not_spare(counted.network, number);
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

    fn own_spare(&self) -> std::sync::MutexGuard<'_, Option<u64>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let spare = self.own_spare().take();
        if let Some(counted) = &self.counted {
            let stranger = !self.is_known.load(Ordering::Relaxed);
            counted.guests.count_out(counted.network, stranger, spare);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps =
        Caps { connections: 3, handshakes: 2, spare: 2, turn: Duration::from_millis(20) };

    fn guests() -> Arc<Guests> {
        Guests::new(CAPS, |address| address)
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    async fn is_dismissed(guest: &Guest) -> bool {
        tokio::time::timeout(Duration::ZERO, guest.dismissed()).await.is_ok()
    }

    #[tokio::test]
    async fn ed_78_an_address_with_too_many_in_a_handshake_waits_and_is_then_refused() {
        let guests = guests();
        let inside: Vec<_> = (0..3).map(|_| guests.enter(ip(5)).unwrap()).collect();
        let first = inside[0].turn().await.unwrap();
        let _second = inside[1].turn().await.unwrap();

        assert_eq!(inside[2].turn().await.unwrap_err(), Crowded::Handshakes);
        assert!(guests.enter(ip(6)).unwrap().turn().await.is_ok());

        let (third, ()) = tokio::join!(inside[2].turn(), async { drop(first) });
        assert!(third.is_ok(), "one is done, so it is the next one's turn");
    }

    #[tokio::test]
    async fn of_those_that_ask_nothing_the_oldest_gives_way_and_whoever_has_asked_never() {
        let guests = guests();
        let enter = || {
            let guest = guests.enter(ip(5)).unwrap();
            guest.settle();
            guest
        };
        let (asking, idle) = (enter(), enter());
        asking.ask();
        let newer = enter();
        assert!(!is_dismissed(&idle).await, "two spare ones may be");
        drop(newer);

        asking.know();
        let (newer, newest) = (enter(), guests.enter(ip(5)));
        assert!(!is_dismissed(&idle).await, "who has left has made room");
        newest.unwrap().settle();

        assert!(is_dismissed(&idle).await);
        assert!(!is_dismissed(&asking).await && !is_dismissed(&newer).await);
    }

    #[tokio::test]
    async fn who_holds_a_place_does_not_count_and_who_leaves_does_not_either() {
        let guests = guests();
        let mut inside: Vec<_> = (0..3).map(|_| guests.enter(ip(5)).unwrap()).collect();
        assert_eq!(guests.enter(ip(5)).unwrap_err(), Crowded::Connections);

        inside[0].know();
        inside[0].know();
        let fourth = guests.enter(ip(5)).unwrap();
        assert_eq!(guests.enter(ip(5)).unwrap_err(), Crowded::Connections);

        drop(fourth);
        assert!(guests.enter(ip(5)).is_ok());
        inside.clear();
        assert!(guests.counts.lock().unwrap().is_empty(), "nobody here, nothing kept");
    }
}

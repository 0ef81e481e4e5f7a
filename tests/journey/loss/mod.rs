//! A Redis that is emptied, restarted, or replaced by an older copy of itself, with people waiting.

mod journal;
mod lobby;
mod mid_sale;
mod unwritten;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stanchion::config::settings::RedisMode;
use stanchion::domain::id::AccountId;
use stanchion::domain::queue::PlaceState;
use stanchion::domain::refusal::Problem;
use stanchion::domain::ticket::Ticket;
use stanchion::room::{JoinRequest, Room};
use stanchion::servers::{PrivateCluster, PrivateRedis, PrivateSentinel};
use stanchion::store::redis::room::RoomState;
use stanchion::store::redis::{RedisStore, connect_as};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, anonymous, joined, until};

/// Ways to lose what Redis has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// `FLUSHALL`: the same process, empty.
    Flush,
    /// Killed and started again, empty.
    Restart,
    /// Killed, and started again with the copy of a while ago.
    OlderCopy,
    /// Killed for good: a replica takes over.
    FailOver,
}

/// What Redis is made of.
enum Servers {
    Single(PrivateRedis),
    Sentinel(Box<PrivateSentinel>),
    Cluster(PrivateCluster),
}

impl Servers {
    fn single() -> Self {
        Self::Single(PrivateRedis::start().unwrap())
    }

    fn connect(&self) -> RedisStore {
        let (mode, urls) = match self {
            Self::Single(redis) => (RedisMode::Single, redis.url()),
            Self::Sentinel(redis) => (RedisMode::Sentinel, redis.urls().unwrap()),
            Self::Cluster(redis) => (RedisMode::Cluster, redis.urls()),
        };
        connect_as(mode, &urls, PrivateSentinel::MASTER).unwrap()
    }

    /// A room on them whose lobby is open.
    async fn ground(&self, topic: &str, per_second: f64) -> RoomGround {
        RoomGround::with(self.connect(), topic, 3_600_000, per_second).await
    }
}

impl Loss {
    /// Takes the copy that an older one will be of; what comes after is lost.
    async fn prepare(self, ground: &RoomGround) {
        if self == Self::OlderCopy {
            let patient = ground.redis.patient().unwrap();
            patient.command::<()>(&redis::cmd("SAVE")).await.unwrap();
        }
    }

    async fn strike(self, ground: &RoomGround, servers: &Servers) {
        match (self, servers) {
            (Self::Flush, _) => {
                let patient = ground.redis.patient().unwrap();
                patient.command::<()>(&redis::cmd("FLUSHALL")).await.unwrap();
            }
            (Self::Restart | Self::OlderCopy, Servers::Single(redis)) => {
                tokio::task::block_in_place(|| redis.restart()).unwrap();
            }
            (Self::FailOver, Servers::Sentinel(redis)) => {
                tokio::task::block_in_place(|| redis.fail_over()).unwrap();
            }
            (Self::FailOver, Servers::Cluster(redis)) => {
                let room = format!("stanchion:{{{}}}:room", ground.sale);
                tokio::task::block_in_place(|| redis.fail_over(&room)).unwrap();
            }
            _ => panic!("these servers cannot be lost so"),
        }
    }
}

fn signed_in(key: &str, account: &str) -> JoinRequest {
    let account = AccountId::parse(account).unwrap();
    JoinRequest { account: Some(account), address: None, ..anonymous(key) }
}

async fn join(room: &Room, request: JoinRequest) -> Ticket {
    joined(room, request).await.ticket
}

/// Brings the opening forward to this moment, in both stores.
async fn open_now(ground: &RoomGround) {
    let database = ground.ledger.database();
    let mut control = database.control(&ground.sale).await.unwrap().unwrap();
    control.version += 1;
    control.opens_ms = now_ms();
    database.merge_control(&ground.sale, &control).await.unwrap();
    ground.store().adopt(&control).await.unwrap();
}

/// Waits until the journal has so many accounts.
async fn until_journalled(ground: &RoomGround, accounts: usize) {
    let database = ground.ledger.database();
    let since = now_ms();
    while database.places_after(&ground.sale, 1, "", 100_000).await.unwrap().len() != accounts {
        assert!(now_ms() < since + 60_000, "the journal never had {accounts} accounts");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until Postgres knows that so many numbers were handed out.
async fn until_noted(ground: &RoomGround, name: &str, given: u64) {
    let database = ground.ledger.database();
    let since = now_ms();
    loop {
        let kept = database.ceilings(&ground.sale, 1).await.unwrap();
        if kept.iter().any(|(kept, value)| kept == name && *value == given) {
            return;
        }
        assert!(now_ms() < since + 60_000, "never noted {given} of {name}: {kept:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// While the room is away: places stay on the page, and nobody joins or is admitted.
async fn nothing_moves(room: &Room, ticket: &Ticket) {
    until("the room is gone", || !room.snapshot().is_live(room.now_ms())).await;
    let status = room.status(Some(ticket), None);
    assert!(status.paused && status.place.state != PlaceState::None, "{:?}", status.place);
    assert_eq!(room.join(anonymous("meanwhile")).await.unwrap_err().problem, Problem::Paused);
    if room.snapshot().draw.is_some() {
        assert_eq!(room.claim(ticket).await.unwrap_err().problem, Problem::Paused);
    }
}

/// Waits until this server has the room; the state at that look.
async fn loaded(ground: &RoomGround, not_at_ms: u64) -> RoomState {
    let since = now_ms();
    loop {
        let seen = ground.store().look().await;
        let why = match seen {
            Ok((_, Some(state))) if state.loaded_ms != not_at_ms => return state,
            Ok((_, state)) => format!("it is as at {:?}", state.map(|state| state.loaded_ms)),
            Err(error) => error.to_string(),
        };
        assert!(now_ms() < since + 60_000, "the room was never restored: {why}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a node sees the restored room.
async fn until_back(ground: &RoomGround, room: &Room, not_at_ms: u64) -> RoomState {
    let state = loaded(ground, not_at_ms).await;
    until("the room is back", || room.snapshot().is_live(room.now_ms())).await;
    state
}

fn all_different(tickets: &[Ticket]) {
    let numbers: HashSet<_> = tickets.iter().map(|ticket| ticket.cohort).collect();
    assert_eq!(numbers.len(), tickets.len(), "a number was given twice");
}

fn position(room: &Room, ticket: &Ticket) -> u64 {
    room.status(Some(ticket), None).place.position.unwrap()
}

/// Everybody has a place of their own, and what is ahead counts people: 0, 1, 2, … once nobody
/// has been called.
fn nobody_is_behind_a_hole(room: &Room, tickets: &[Ticket]) {
    let positions: HashSet<_> = tickets.iter().map(|ticket| position(room, ticket)).collect();
    assert_eq!(positions.len(), tickets.len(), "two have one position");
    let ahead = |ticket: &Ticket| room.status(Some(ticket), None).place.ahead.unwrap();
    let mut ahead: Vec<_> = tickets.iter().map(ahead).collect();
    ahead.sort_unstable();
    let people = u64::try_from(tickets.len()).unwrap();
    assert!(ahead.iter().copied().eq(0..people), "holes are ahead of somebody: {ahead:?}");
}

/// Watches what some people see, as often as it changes: `ahead` may only fall.
struct Watch {
    seen: Arc<Mutex<Vec<String>>>,
    _until_dropped: DropGuard,
}

impl Watch {
    fn over(room: &Arc<Room>, tickets: &[Ticket]) -> Self {
        let (stop, seen) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
        let (room, tickets, found) = (Arc::clone(room), tickets.to_vec(), Arc::clone(&seen));
        let mut last = vec![u64::MAX; tickets.len()];
        let watching = async move {
            loop {
                for (ticket, last) in tickets.iter().zip(&mut last) {
                    let place = room.status(Some(ticket), None).place;
                    let Some(ahead) = place.ahead else { continue };
                    if ahead > *last {
                        let rose = format!("{} saw {last}, then {ahead}", ticket.cohort);
                        found.lock().unwrap().push(rose);
                    }
                    *last = ahead;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(watching));
        Self { seen, _until_dropped: stop.drop_guard() }
    }

    fn nobody_fell_back(&self) {
        let seen = self.seen.lock().unwrap();
        assert!(seen.is_empty(), "ahead rose: {seen:?}");
    }
}

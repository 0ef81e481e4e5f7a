//! A waiting room without its edge: the real room and keeper on the shared stores.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stanchion::clock::{Clock, RoomClock, SystemClock};
use stanchion::config::settings::Sale;
use stanchion::domain::id::{SaleId, Sku};
use stanchion::domain::limits::AddressKey;
use stanchion::domain::rate::Rate;
use stanchion::domain::refusal::Problem;
use stanchion::domain::sale::Control;
use stanchion::domain::ticket::Ticket;
use stanchion::keeper::Keeper;
use stanchion::reservations::Reservations;
use stanchion::room::keys::Keys;
use stanchion::room::{Claimed, JoinRequest, Place, Room, RoomOptions};
use stanchion::store::postgres::{Database, Ledger, Options, SkuLoad};
use stanchion::store::redis::RedisStore;
use stanchion::store::redis::gate::Gate;
use stanchion::store::redis::room::RoomStore;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::fixture::{Ground, core, now_ms};

/// How long anything may take before a journey counts as stuck.
const PATIENCE: Duration = Duration::from_mins(1);
/// Units of a sale that does not run out.
const PLENTY: u64 = 100_000;

/// One sale's stores and keys; what runs on it ends with it.
pub(crate) struct RoomGround {
    pub(crate) sale: SaleId,
    pub(crate) file: Control,
    pub(crate) redis: RedisStore,
    pub(crate) ledger: Ledger,
    pub(crate) keys: Arc<Keys>,
    pub(crate) token_ttl_ms: u64,
    pub(crate) places_per_ip: u32,
    pub(crate) max_places: u64,
    pub(crate) joins_waiting_max: usize,
    pub(crate) beacon_round: u64,
    pub(crate) stock_aware: bool,
    running: CancellationToken,
    _until_dropped: DropGuard,
}

/// A control record whose lobby is open and whose sale opens `in_ms` from now.
fn opening_in(in_ms: u64, per_second: f64) -> Control {
    let now_ms = now_ms();
    Control {
        version: 1,
        author: "config@test".into(),
        run: 1,
        epoch: 1,
        paused: false,
        rate: Rate::per_second(per_second).unwrap(),
        burst: 1,
        max_active: 0,
        claim_window_ms: 120_000,
        lobby_opens_ms: now_ms - 60_000,
        opens_ms: now_ms + in_ms,
        closes_ms: now_ms + 3_600_000,
        bypass_until_ms: 0,
    }
}

impl RoomGround {
    /// A fresh sale of more units than anybody here asks for, that opens `in_ms` from now.
    pub(crate) async fn new(topic: &str, in_ms: u64, per_second: f64) -> Self {
        Self::on(None, topic, in_ms, per_second).await
    }

    /// The same with so many units.
    pub(crate) async fn stocked(topic: &str, in_ms: u64, per_second: f64, units: u64) -> Self {
        let ground = Ground::new(topic);
        let redis = stanchion::store::redis::connect(&ground.redis_url).unwrap();
        Self::of(&ground, redis, (in_ms, per_second), units).await
    }

    /// The same on another Redis than the shared one.
    pub(crate) async fn on(
        redis_url: Option<String>,
        topic: &str,
        in_ms: u64,
        per_second: f64,
    ) -> Self {
        let ground = Ground::new(topic);
        let redis_url = redis_url.as_deref().unwrap_or(&ground.redis_url);
        let redis = stanchion::store::redis::connect(redis_url).unwrap();
        Self::of(&ground, redis, (in_ms, per_second), PLENTY).await
    }

    /// The same on a Redis of any mode.
    pub(crate) async fn with(redis: RedisStore, topic: &str, in_ms: u64, per_second: f64) -> Self {
        Self::of(&Ground::new(topic), redis, (in_ms, per_second), PLENTY).await
    }

    async fn of(
        ground: &Ground,
        redis: RedisStore,
        (in_ms, per_second): (u64, f64),
        units: u64,
    ) -> Self {
        let sale = SaleId::parse(&ground.sale).unwrap();
        let database = Database::open(&ground.database_url, Options::default()).await.unwrap();
        let ledger = Ledger::new(database);
        let load = SkuLoad {
            sku: Sku::parse("SKU-1").unwrap(),
            sale: sale.clone(),
            units,
            units_per_buyer: 0,
            hold_ms: 60_000,
            shards: 1,
        };
        ledger.load_sku(&load).await.unwrap();
        let keys = Keys::generate(&Path::new(&ground.folder).join("keys")).unwrap();
        let running = CancellationToken::new();
        Self {
            sale,
            file: opening_in(in_ms, per_second),
            redis,
            ledger,
            keys: Arc::new(keys),
            token_ttl_ms: 600_000,
            places_per_ip: 0,
            max_places: 0,
            joins_waiting_max: 8_192,
            beacon_round: 0,
            stock_aware: true,
            _until_dropped: running.clone().drop_guard(),
            running,
        }
    }

    /// Sets fields of one of the sale's hashes, as no step of ours would.
    pub(crate) async fn set(&self, key: &str, fields: &[(&str, String)]) {
        let mut command = redis::cmd("HSET");
        command.arg(format!("stanchion:{{{}}}:{key}", self.sale));
        for (name, value) in fields {
            command.arg(name).arg(value);
        }
        let () = self.redis.command(&command).await.unwrap();
    }

    /// The room's steps, without a node.
    pub(crate) fn store(&self) -> RoomStore {
        RoomStore::new(self.redis.clone(), &self.sale)
    }

    pub(crate) fn keeper(&self) -> Keeper {
        Keeper {
            sale: self.sale.clone(),
            file: self.file.clone(),
            room: self.store(),
            wake: RoomStore::new(self.redis.patient().unwrap(), &self.sale),
            number: rand::random(),
            ledger: self.ledger.clone(),
            beacon_round: self.beacon_round,
            seal_key: *self.keys.seal_key(),
            clock: RoomClock::new(Arc::new(SystemClock)),
        }
    }

    /// A core's orders, at work: the room hears of them, until the ground ends.
    pub(crate) async fn orders(&self) -> Arc<Reservations> {
        let orders = self.deaf_orders().await;
        let rooms = vec![(self.sale.clone(), self.store())];
        tokio::spawn(orders.clone().keep_telling(rooms, self.running.child_token()));
        orders
    }

    /// The same, and nobody tells the room.
    pub(crate) async fn deaf_orders(&self) -> Arc<Reservations> {
        let at = |ms: u64| jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
        let (lobby, opens) = (at(self.file.lobby_opens_ms), at(self.file.opens_ms));
        let sale = format!(
            "id = \"{}\"\nlobby_opens = \"{lobby}\"\nopens = \"{opens}\"\ncloses = \"{}\"\n\
             paths = [\"/checkout\"]\nrate = \"1/s\"\n\
             [[sku]]\nsku = \"SKU-1\"\nunits = 1\nunits_per_buyer = 0\n",
            self.sale,
            at(self.file.closes_ms)
        );
        let sale: Sale = toml::from_str(&sale).unwrap();
        let gate = Gate::new(self.redis.clone());
        core::another(&self.ledger, &gate, &sale).await
    }

    /// A core's keeper, at work; ends with the token given back or with the ground.
    pub(crate) async fn keep(&self) -> CancellationToken {
        let keeper = self.keeper();
        keeper.boot().await.unwrap();
        let running = self.running.child_token();
        tokio::spawn(keeper.run(running.clone()));
        running
    }

    /// A gateway's room, at work, once it has seen Redis.
    pub(crate) async fn room(&self) -> Arc<Room> {
        self.room_by(Arc::new(SystemClock)).await
    }

    /// The same on a machine whose clock may be off.
    pub(crate) async fn room_by(&self, clock: Arc<dyn Clock>) -> Arc<Room> {
        let options = RoomOptions {
            sale: self.sale.clone(),
            control: self.file.clone(),
            token_ttl_ms: self.token_ttl_ms,
            places_per_ip: self.places_per_ip,
            max_places: self.max_places,
            joins_waiting_max: self.joins_waiting_max,
            units_per_buyer: 1,
            stock_aware: self.stock_aware,
        };
        let clock = RoomClock::new(clock);
        let room = Room::new(self.redis.clone(), self.keys.clone(), clock, options);
        tokio::spawn(room.clone().run(self.running.child_token()));
        let seen = room.clone();
        until("the room is loaded", || seen.snapshot().is_live(seen.now_ms())).await;
        room
    }
}

/// Waits until a core has raised the ceilings: from here on joins need no core.
pub(crate) async fn until_raised(ground: &RoomGround) {
    let since = Instant::now();
    loop {
        if let Ok((_, Some(state))) = ground.store().look().await
            && state.ceilings.entries > state.counters.entries
        {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "never: the ceilings are raised");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until something is true.
pub(crate) async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_true() {
        assert!(since.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the room is open.
pub(crate) async fn until_open(room: &Room) {
    until("the room opens", || room.snapshot().draw.is_some()).await;
}

/// An anonymous join.
pub(crate) fn anonymous(key: &str) -> JoinRequest {
    let address = AddressKey::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    JoinRequest {
        key: key.into(),
        account: None,
        address: Some(address),
        ticket: None,
        lapsed: None,
    }
}

/// `count` joins at once, in the order of their keys.
pub(crate) async fn join_all(room: &Room, prefix: &str, count: usize) -> Vec<Place> {
    let joins = (0..count).map(|i| joined(room, anonymous(&format!("{prefix}-{i}"))));
    futures_util::future::join_all(joins).await
}

/// Joins; on a busy machine a step may come too late, and its retry gets the same place.
pub(crate) async fn joined(room: &Room, request: JoinRequest) -> Place {
    let since = Instant::now();
    loop {
        match room.join(request.clone()).await {
            Ok(place) => return place,
            Err(refusal) => {
                let passes = [Problem::Paused, Problem::Overloaded].contains(&refusal.problem);
                assert!(passes && since.elapsed() < PATIENCE, "{refusal:?}");
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Claims until the admission is signed; the slot.
pub(crate) async fn admitted_at(room: &Room, ticket: &Ticket) -> u64 {
    let since = Instant::now();
    loop {
        assert!(since.elapsed() < PATIENCE, "not admitted");
        let wait_ms = match room.claim(ticket).await {
            Ok(Claimed::Admitted { admission, .. }) => return admission.since_ms(),
            Ok(Claimed::Wait { retry_after_ms, .. }) => retry_after_ms.unwrap_or(50),
            Err(refusal) => refusal.retry_after_ms.unwrap_or(50).min(50),
        };
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
}

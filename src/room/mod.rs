//! The waiting room: the rules of `domain` above, Redis below.
//!
//! One [`Room`] per sale and process. Waiting visitors are answered from its [`Snapshot`];
//! only joins and claims reach Redis.

mod admitter;
mod claim;
mod counts;
mod forecast;
mod glance;
mod join;
pub mod keys;
mod leave;
mod lobby;
pub mod metrics;
mod outside;
mod place;
mod presence;
mod replies;
mod snapshot;
mod ticket_token;
pub mod token;
mod verified;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

pub use claim::{Claimed, Turn, ended, given_up, missed};
pub use join::{JoinRequest, Place};
pub use place::Moment;
pub use snapshot::{Reach, Snapshot};

use crate::clock::{Clock, RoomClock};
use crate::domain::admission::{Admission, LEEWAY_MS};
use crate::domain::comeback::Comebacks;
use crate::domain::id::SaleId;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::sale::Control;
use crate::domain::ticket::Ticket;
use crate::store::redis::room::RoomStore;
pub use crate::store::redis::room::{ControlChange, ControlNo, Publish};
use crate::store::redis::{RedisFailure, RedisStore};
use keys::Keys;

/// What a room is told by the settings; what may change during a sale is in its control record.
#[derive(Debug, Clone)]
pub struct RoomOptions {
    /// The sale.
    pub sale: SaleId,
    /// The file's control record, in force until Redis has been seen.
    pub control: Control,
    /// How long an admission lasts.
    pub token_ttl_ms: u64,
    /// Anonymous places per address; 0 = no cap.
    pub places_per_ip: u32,
    /// Cap on places; 0 = none.
    pub max_places: u64,
    /// Joins that may wait for a step; whoever is one too many is told when to come again.
    pub joins_waiting_max: usize,
    /// The most units that one buyer may have, for the odds; 0 = no cap.
    pub units_per_buyer: u32,
    /// Nobody is called for units that those before will take.
    pub stock_aware: bool,
}

/// One sale's waiting room on this node.
pub struct Room {
    store: RoomStore,
    keys: Arc<Keys>,
    clock: RoomClock,
    options: RoomOptions,
    snapshot: ArcSwap<Snapshot>,
    /// The last step found no Redis.
    out_of_reach: AtomicBool,
    /// How many more than the pacer wants may be called for the stock that is left.
    spare: AtomicU64,
    heard: presence::Heard,
    forecast: forecast::Forecast,
    lobby: Arc<lobby::Lobby>,
    joins: mpsc::Sender<join::Waiting>,
    comebacks: Mutex<Comebacks>,
    joins_refused: AtomicU64,
    /// Until [`Room::run`] takes it.
    waiting: Mutex<Option<mpsc::Receiver<join::Waiting>>>,
    /// One look at a time: each reads on from where the one before ended. The number of the last
    /// that came to its end.
    looking: tokio::sync::Mutex<u64>,
    /// Looks begun.
    looks: AtomicU64,
}

impl Room {
    /// A room that has not seen Redis yet; [`Room::run`] brings it to life.
    pub fn new(
        redis: RedisStore,
        keys: Arc<Keys>,
        clock: RoomClock,
        options: RoomOptions,
    ) -> Arc<Self> {
        let (joins, waiting) =
            mpsc::channel(options.joins_waiting_max.clamp(1, Semaphore::MAX_PERMITS));
        Arc::new(Self {
            store: RoomStore::new(redis, &options.sale),
            keys,
            clock,
            snapshot: ArcSwap::from_pointee(Snapshot::unseen(options.control.clone())),
            comebacks: Mutex::new(Comebacks::new(options.joins_waiting_max)),
            joins_refused: AtomicU64::new(0),
            options,
            out_of_reach: AtomicBool::new(false),
            spare: AtomicU64::new(0),
            heard: presence::Heard::default(),
            forecast: forecast::Forecast::default(),
            lobby: Arc::default(),
            joins,
            waiting: Mutex::new(Some(waiting)),
            looking: tokio::sync::Mutex::default(),
            looks: AtomicU64::new(0),
        })
    }

    /// Polls the snapshot, paces the line and sends joins, until cancelled. Runs once.
    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        let waiting = self.waiting.lock().ok().and_then(|mut waiting| waiting.take());
        let Some(waiting) = waiting else { return };
        let work =
            async { tokio::join!(self.pace(), self.keep_presence(), self.send_joins(waiting)) };
        // Joins still waiting then are refused: their reply channels close.
        cancel.run_until_cancelled(work).await;
    }

    /// Polls the snapshot alone, until cancelled.
    pub async fn watch(self: Arc<Self>, cancel: CancellationToken) {
        let work = async { tokio::join!(self.look_on(), self.keep_presence()) };
        cancel.run_until_cancelled(work).await;
    }

    /// Whether the core should be asked what is in force, since Redis does not tell.
    pub fn needs_core(&self) -> bool {
        self.out_of_reach.load(Ordering::Relaxed)
            || self.snapshot.load().reach(self.now_ms()) != Reach::Redis
    }

    /// The sale's id.
    pub fn sale(&self) -> &SaleId {
        &self.options.sale
    }

    /// The signing keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The room's clock, Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// The room as last seen, at most about 100 ms old while Redis answers.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The same for the length of a look, which waits for no other core.
    pub fn glance(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// While this node sees the shop down, it calls and admits nobody; others may.
    pub fn shop_is_down(&self, is_down: bool) {
        if self.snapshot.load().shop_is_down != is_down {
            self.snapshot.rcu(|seen| seen.with_shop(!is_down));
        }
    }

    /// While orders of this node wait in vain, it calls nobody; others may.
    pub fn core_is_slow(&self, is_slow: bool) {
        if self.snapshot.load().core_is_slow() != is_slow {
            self.snapshot.rcu(|seen| seen.with_core(is_slow));
        }
    }

    /// Whether protected paths are gated now.
    pub fn gates(&self) -> bool {
        self.snapshot.load().control.gates(self.now_ms())
    }

    /// The ticket of a token, if it is one of this sale and run.
    pub fn ticket(&self, raw: &str) -> Option<Ticket> {
        let ticket = self.keys.read_ticket(raw, &self.options.sale)?;
        (ticket.run == self.snapshot.load().control.run).then_some(ticket)
    }

    /// The admission of a token, if it counts here and now.
    pub fn admission(&self, raw: &str) -> Option<Arc<Admission>> {
        let admission = self.keys.read_admission(raw)?;
        let epoch = self.snapshot.load().control.epoch;
        let holds = admission.holds(&self.options.sale, epoch, self.now_ms(), LEEWAY_MS);
        holds.then_some(admission)
    }

    /// Changes the control record; what is as asked already changes nothing.
    pub async fn publish(
        &self,
        author: &str,
        change: &ControlChange,
    ) -> Result<Publish, RedisFailure> {
        self.store.publish(author, change).await
    }

    /// What a visitor is told of a step that failed. An outage is logged by the heartbeat, once;
    /// anything else is a fault of ours.
    fn failed(&self, step: &'static str, error: &RedisFailure) -> Refusal {
        if error.is_outage() {
            tracing::debug!(sale = %self.options.sale, %error, "{step} got no answer");
        } else {
            tracing::warn!(sale = %self.options.sale, %error, "{step} failed");
        }
        out_of_reach()
    }
}

/// The refusal while the room cannot be reached or is not loaded.
fn out_of_reach() -> Refusal {
    let detail = "The line is paused for a moment. Your place is kept; please try again.";
    // Spread out, so that not everybody comes back in the same instant.
    Refusal::new(Problem::Paused, detail).retry_after_ms(rand::random_range(1_000..3_000))
}

//! The core's side of the room: Postgres the truth, Redis the mirror.
//!
//! One [`Keeper`] per sale and core. No leader: whatever must happen once is a statement or a
//! step that only the first can win, so every core may try.

mod ceilings;
mod control;
mod core_records;
mod desk;
mod figures;
mod journal;
mod opening;
mod restore;
mod seal;

use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::clock::RoomClock;
use crate::domain::id::SaleId;
use crate::domain::sale::Control;
use crate::store::postgres::{DatabaseError, Ledger};
use crate::store::redis::RedisFailure;
use crate::store::redis::room::{Inside, RoomState, RoomStore};
use ceilings::Leads;
pub use core_records::CoreRecords;
pub use desk::{Applied, ControlDesk};

/// How often the room is looked after.
const WATCH_EVERY: Duration = Duration::from_millis(100);
/// How long one wait for whoever reaches a ceiling lasts.
const WAKE_MAX: Duration = Duration::from_secs(2);
/// The control records of both stores are compared every so many looks.
const LOOKS_PER_CONTROL: u32 = 2;

/// Why the keeper could not do its work; it tries again at the next look.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// Postgres.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Redis.
    #[error(transparent)]
    Redis(#[from] RedisFailure),
    /// The seed cannot be read with this key.
    #[error(
        "the draw of {0} was sealed with another seal.key: copy the keys folder from the node that \
         made it"
    )]
    Sealed(SaleId),
    /// Who joins could know the round before entries are closed.
    #[error(
        "beacon_round of {sale}: round {round} is published too early for the opening of run {run}; \
         the first that may be committed to is {first}: write it (or a later one, or 0 for none) \
         into the settings and restart the cores"
    )]
    BeaconEarly {
        /// The sale.
        sale: SaleId,
        /// The file's round.
        round: u64,
        /// The run that waits for a draw.
        run: u64,
        /// The first round that may decide it.
        first: u64,
    },
    /// The ledger is older than what the room has published.
    #[error(
        "the room of {0} in Redis has published a commitment for run {1} that the ledger does not \
         have: the ledger is from an older backup; restore a newer one, or begin another run with \
         `stanchion sale reset`"
    )]
    OtherDraw(SaleId, u64),
    /// The system gives no randomness, or sealing failed.
    #[error("no randomness to make a seed from")]
    NoSeed,
    /// The ledger took too long to be believed.
    #[error("the ledger's figures came too late")]
    Late,
}

/// Looks after one sale's room.
pub struct Keeper {
    /// The sale.
    pub sale: SaleId,
    /// The file's control record, for a sale that was never seen.
    pub file: Control,
    /// The sale's room in Redis.
    pub room: RoomStore,
    /// The same on a connection of its own, which waits for whoever reaches a ceiling.
    pub wake: RoomStore,
    /// Any number that no other core has.
    pub number: u64,
    /// The ledger.
    pub ledger: Ledger,
    /// Mixed into the draw of a run that was never seen; 0 = no beacon.
    pub beacon_round: u64,
    /// Seals the seed.
    pub seal_key: [u8; 32],
    /// Told of Redis' time at each look.
    pub clock: RoomClock,
}

impl Keeper {
    /// Makes control record and seed durable, and checks that the seed can be read: what is wrong
    /// here would be found too late at the opening.
    pub async fn boot(&self) -> Result<(), KeeperError> {
        let control = self.control().await?;
        let round = match self.secret(&control).await {
            Err(error @ KeeperError::OtherDraw(..)) => {
                // Its cure is a command, which takes a core to carry it out.
                tracing::error!(sale = %self.sale, %error, "keeper.boot");
                return Ok(());
            }
            secret => secret?.round,
        };
        if round != self.beacon_round {
            tracing::warn!(
                sale = %self.sale,
                committed = round,
                file = self.beacon_round,
                "beacon_round differs from what this run has committed to, which goes on; \
                 `stanchion sale reset` begins another run"
            );
        }
        Ok(())
    }

    /// Keeps room and figures until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let work = async { tokio::join!(self.watch(), self.tell_figures(), self.keep_journal()) };
        // Large: three loops over two stores.
        cancel.run_until_cancelled(Box::pin(work)).await;
    }

    async fn watch(&self) {
        let mut looks = ticks(WATCH_EVERY);
        let mut memory = Memory::default();
        let mut failing = Failing::new(&self.sale, "keeper.watch");
        let mut woken = std::pin::pin!(self.woken());
        for look in 0_u32.. {
            tokio::select! {
                _ = looks.tick() => {}
                () = &mut woken => woken.set(self.woken()),
            }
            failing.note(self.look_after(&mut memory, look).await);
        }
    }

    /// Ends when somebody has reached a ceiling. Redis out of reach is the looks' concern.
    async fn woken(&self) {
        loop {
            match self.wake.woken(WAKE_MAX).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(_) => tokio::time::sleep(WATCH_EVERY).await,
            }
        }
    }

    async fn look_after(&self, memory: &mut Memory, look: u32) -> Result<(), KeeperError> {
        let mut seen = self.look().await?;
        if seen.1.is_none() && self.restore(memory).await? {
            // Nothing is handed out before the ceilings are raised: at once.
            seen = self.look().await?;
        }
        let (now_ms, Some(state)) = seen else { return Ok(()) };
        self.raise_ceilings(&mut memory.leads, now_ms, &state).await?;
        self.open_when_due(now_ms, &state).await?;
        if let Some(opening) = &state.opening
            && memory.carried_ms != state.loaded_ms
        {
            self.carry_opening(&state, opening).await?;
            memory.carried_ms = state.loaded_ms;
        }
        if look.is_multiple_of(LOOKS_PER_CONTROL) {
            self.carry_control(&state.control).await?;
            if state.control.max_active > 0
                && let Some(inside) = self.room.inside().await?
            {
                memory.inside = (state.control.epoch, inside);
            }
        }
        Ok(())
    }

    async fn look(&self) -> Result<(u64, Option<RoomState>), KeeperError> {
        let asked_ms = self.clock.local_ms();
        let (now_ms, state) = self.room.look().await?;
        self.clock.heard(now_ms, asked_ms);
        Ok((now_ms, state))
    }
}

/// What a core remembers from one look at a room to the next.
#[derive(Default)]
struct Memory {
    leads: Leads,
    /// Of the room loaded then the ledger is known to have the opening.
    carried_ms: u64,
    /// Who was inside in which epoch, where only so many may be.
    inside: (u64, Inside),
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// Tells of failures once at each change, not ten times a second.
struct Failing<'a> {
    sale: &'a SaleId,
    what: &'static str,
    fails: bool,
}

impl<'a> Failing<'a> {
    fn new(sale: &'a SaleId, what: &'static str) -> Self {
        Self { sale, what, fails: false }
    }

    fn note(&mut self, outcome: Result<(), KeeperError>) {
        let fails = outcome.is_err();
        match outcome {
            Err(error) if !self.fails => {
                tracing::warn!(sale = %self.sale, %error, "{} fails", self.what);
            }
            Ok(()) if self.fails => tracing::info!(sale = %self.sale, "{} again", self.what),
            Err(_) | Ok(()) => {}
        }
        self.fails = fails;
    }
}

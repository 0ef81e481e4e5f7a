//! Where a change of a sale's control record is handed in, on any node: Redis takes it, or without
//! Redis the core.

use std::time::Duration;

use super::core_records::CoreRecords;
use crate::clock::{Clock, RoomClock};
use crate::domain::control::{ControlChange, Moment};
use crate::domain::id::SaleId;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::sale::Control;
use crate::store::redis::room::{Publish, RoomStore};
use crate::store::redis::{RedisFailure, RedisStore};

/// How often a change is made anew on a record that somebody else has just changed.
const TRIES_MAX: usize = 5;
/// How often a room that is not loaded is waited for, and how long each time.
const LOADS_MAX: usize = 8;
const LOAD_WAIT: Duration = Duration::from_millis(50);
/// When to try again after both stores refused, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// Applies changes to the sales' control records.
pub struct ControlDesk {
    redis: RedisStore,
    cores: CoreRecords,
    clock: RoomClock,
}

/// A change that a store has taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The record in force.
    pub control: Control,
    /// Whether it differs from the one before.
    pub changed: bool,
}

impl ControlDesk {
    /// A desk; nothing is asked of either store yet.
    pub fn new(redis: RedisStore, cores: CoreRecords, clock: RoomClock) -> Self {
        Self { redis, cores, clock }
    }

    /// The cores' private API.
    pub fn cores(&self) -> &CoreRecords {
        &self.cores
    }

    /// The control record in force: Redis', or without Redis the core's.
    pub async fn control(&self, sale: &SaleId) -> Result<Control, Refusal> {
        match RoomStore::new(self.redis.clone(), sale).control().await {
            Ok(Some(control)) => Ok(control),
            Ok(None) | Err(_) => self.cores.control(sale).await,
        }
    }

    /// Applies a change; it holds as soon as this returns. What is as asked already changes
    /// nothing.
    ///
    /// # Errors
    /// What the rules are against (400, 409), or 503 if neither store takes it: it may have
    /// reached Redis all the same, and to apply it again does no harm.
    pub async fn apply(
        &self,
        sale: &SaleId,
        author: &str,
        change: &ControlChange,
    ) -> Result<Applied, Refusal> {
        let room = RoomStore::new(self.redis.clone(), sale);
        let mut mirrored = None;
        let why = match self.change(&room, author, change).await {
            Ok((Publish::Changed(version), Some(control))) => {
                tracing::info!(%sale, version, author, action = ?change, "control.changed");
                return Ok(Applied { control, changed: true });
            }
            Ok((Publish::Same(_), Some(control))) => {
                return Ok(Applied { control, changed: false });
            }
            Ok((Publish::Refused(no), _)) => return Err(no.refusal()),
            Ok((Publish::Changed(_) | Publish::Same(_) | Publish::Unloaded, control)) => {
                mirrored = control;
                "Redis does not have the sale's room".to_owned()
            }
            Err(RedisFailure::Garbled(what)) => {
                tracing::error!(%sale, what, "the control record in Redis is unreadable");
                "the record in Redis is unreadable".to_owned()
            }
            Err(error) => error.to_string(),
        };
        self.apply_at_core(sale, author, change, mirrored).await.map_err(|refusal| {
            if refusal.http_status() == 503 {
                let detail = format!("{why}; and {}", refusal.detail);
                return Refusal::new(Problem::CoreUnavailable, detail).retry_after_ms(RETRY_MS);
            }
            refusal
        })
    }

    /// A room that a reset or a restart has taken away is back in a moment, as long as a core is
    /// there.
    async fn change(
        &self,
        room: &RoomStore,
        author: &str,
        change: &ControlChange,
    ) -> Result<(Publish, Option<Control>), RedisFailure> {
        for _ in 0..LOADS_MAX {
            let answer = room.change(author, change).await?;
            if answer.0 != Publish::Unloaded {
                return Ok(answer);
            }
            tokio::time::sleep(LOAD_WAIT).await;
        }
        room.change(author, change).await
    }

    /// `mirrored`: what Redis says, though it does not have the room.
    async fn apply_at_core(
        &self,
        sale: &SaleId,
        author: &str,
        change: &ControlChange,
        mirrored: Option<Control>,
    ) -> Result<Applied, Refusal> {
        let mut before = self.cores.control(sale).await?;
        if let Some(mirrored) = mirrored {
            // No core may have seen yet what Redis took last.
            before = before.merged(&mirrored);
        }
        for _ in 0..TRIES_MAX {
            // Whether the entries are closed, and the round, are for the core to say.
            let at = Moment { now_ms: self.clock.now_ms(), frozen: false, round: 0 };
            let next = match before.changed(change, author, at) {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(Applied { control: before, changed: false }),
                Err(no) => return Err(no.refusal()),
            };
            let stored = self.cores.put_control(sale, &next).await?;
            if stored == next {
                tracing::info!(
                    %sale, version = next.version, author, action = ?change,
                    "control.changed at the core"
                );
                return Ok(Applied { control: stored, changed: true });
            }
            // Somebody else's change of the same version was first: this one goes on top of it.
            before = stored;
        }
        let detail = "others change this sale all the time; try again";
        Err(Refusal::new(Problem::Overloaded, detail).retry_after_ms(RETRY_MS))
    }
}

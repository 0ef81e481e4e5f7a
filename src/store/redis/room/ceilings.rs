//! Ceilings: no number at or above them is handed out.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, script};

static CEILINGS: LazyLock<Script> = script!("prelude.lua", "ceilings.lua");

/// One number for each of the room's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ceilings {
    /// Of the lobby.
    pub entries: u64,
    /// Of the latecomers.
    pub late: u64,
    /// Of the calls.
    pub cursor: u64,
}

impl Ceilings {
    /// The higher of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            entries: self.entries.max(other.entries),
            late: self.late.max(other.late),
            cursor: self.cursor.max(other.cursor),
        }
    }
}

impl RoomStore {
    /// Raises the ceilings to what is durable by now; never lowers one.
    pub async fn raise_ceilings(&self, to: Ceilings) -> Result<(), RedisFailure> {
        let mut call = CEILINGS.prepare_invoke();
        call.key(self.keys.room()).arg("entries_ceiling").arg(to.entries);
        call.arg("late_ceiling").arg(to.late).arg("cursor_ceiling").arg(to.cursor);
        self.store.run(&call).await
    }

    /// Waits until somebody has reached a ceiling, at most `max`; says whether somebody has. On a
    /// connection of its own, which it blocks.
    pub async fn woken(&self, max: Duration) -> Result<bool, RedisFailure> {
        let mut wait = redis::cmd("BLPOP");
        wait.arg(self.keys.wake()).arg(max.as_secs_f64());
        let woken: Option<(String, String)> = self.store.command(&wait).await?;
        Ok(woken.is_some())
    }
}

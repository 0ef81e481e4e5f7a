//! Ceilings: no number at or above them is handed out.

use std::sync::LazyLock;

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

impl RoomStore {
    /// Raises the ceilings to what is durable by now; never lowers one.
    pub async fn raise_ceilings(&self, to: Ceilings) -> Result<(), RedisFailure> {
        let mut call = CEILINGS.prepare_invoke();
        call.key(self.keys.room()).arg("entries_ceiling").arg(to.entries);
        call.arg("late_ceiling").arg(to.late).arg("cursor_ceiling").arg(to.cursor);
        self.store.run(&call).await
    }
}

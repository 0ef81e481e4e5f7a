//! The cursor's step.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, garbled, script};

static ADVANCE: LazyLock<Script> =
    script!("prelude.lua", "meter.lua", "admissions.lua", "lapses.lua", "advance.lua");

/// What became of a step; all carry the cursor as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// This call moved it.
    Moved(u64),
    /// There was nothing to move, or the line stands still.
    Still(u64),
    /// Another node was first in this tick.
    Taken(u64),
    /// The room is not loaded.
    Unloaded,
}

impl RoomStore {
    /// Calls everybody from cursor `from` to below `to`; and lets sale time pass.
    pub async fn advance(&self, from: u64, to: u64) -> Result<Advance, RedisFailure> {
        let keys = &self.keys;
        let mut call = ADVANCE.prepare_invoke();
        call.key(keys.control()).key(keys.room()).key(keys.calls()).key(keys.active());
        call.key(keys.wake()).key(keys.claims());
        call.key(keys.booked()).key(keys.undecided()).key(keys.decisions());
        call.key(keys.second()).key(keys.missed()).key(keys.meter());
        let (outcome, cursor): (String, u64) = self.store.run(call.arg(from).arg(to)).await?;
        Ok(match outcome.as_str() {
            "moved" => Advance::Moved(cursor),
            "still" => Advance::Still(cursor),
            "taken" => Advance::Taken(cursor),
            "unloaded" => Advance::Unloaded,
            other => return Err(garbled(other)),
        })
    }
}

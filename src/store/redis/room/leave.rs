//! Leaving the line.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, garbled, script};
use crate::domain::ticket::Cohort;

static LEAVE: LazyLock<Script> = script!("prelude.lua", "goes_on.lua", "leave.lua");

/// What became of giving a place up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// It is given up, now or before.
    Left,
    /// The ticket is of another run.
    Void,
    /// The room is not loaded.
    Unloaded,
}

impl RoomStore {
    /// Gives a number up. `address`: blinded, whose count of anonymous places falls, for as many
    /// leaves as it may have places.
    pub async fn leave(
        &self,
        run: u64,
        cohort: Cohort,
        address: Option<&str>,
        places_per_ip: u32,
    ) -> Result<Leave, RedisFailure> {
        let keys = &self.keys;
        let mut call = LEAVE.prepare_invoke();
        call.key(keys.control()).key(keys.room()).key(keys.left()).key(keys.addresses());
        call.key(keys.joins());
        call.arg(run).arg(cohort.to_string()).arg(address.unwrap_or_default());
        call.arg(places_per_ip);
        let outcome: String = self.store.run(&call).await?;
        match outcome.as_str() {
            "left" => Ok(Leave::Left),
            "void" => Ok(Leave::Void),
            "unloaded" => Ok(Leave::Unloaded),
            other => Err(garbled(other)),
        }
    }
}

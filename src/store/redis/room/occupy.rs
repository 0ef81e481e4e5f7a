//! Admissions from outside the meter: they count among the open ones.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, script};
use crate::domain::id::BuyerId;

static OCCUPY: LazyLock<Script> = script!("prelude.lua", "admissions.lua", "occupy.lua");

impl RoomStore {
    /// Counts a buyer's admission as open until `end_ms` (Unix milliseconds).
    pub async fn occupy(&self, buyer: &BuyerId, end_ms: u64) -> Result<(), RedisFailure> {
        let mut call = OCCUPY.prepare_invoke();
        let keys = &self.keys;
        call.key(keys.room()).key(keys.active()).key(keys.booked());
        call.key(keys.undecided()).key(keys.decisions()).arg(buyer.as_str()).arg(end_ms);
        self.store.run(&call).await
    }
}

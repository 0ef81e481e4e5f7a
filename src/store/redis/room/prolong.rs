//! The step that follows a renewed admission.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, script};
use crate::domain::id::BuyerId;

static PROLONG: LazyLock<Script> = script!("prolong.lua");

impl RoomStore {
    /// Counts a buyer among the open admissions until `ends_ms`, Unix milliseconds, unless that
    /// epoch is over.
    pub async fn prolong(
        &self,
        epoch: u64,
        buyer: &BuyerId,
        ends_ms: u64,
    ) -> Result<(), RedisFailure> {
        let mut call = PROLONG.prepare_invoke();
        call.key(self.keys.control()).key(self.keys.active());
        call.arg(epoch).arg(buyer.as_str()).arg(ends_ms);
        self.store.run(&call).await
    }
}

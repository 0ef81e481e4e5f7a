//! The figures that a healthy core writes.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, garbled, script};
use crate::domain::stock::SkuFigures;

static FIGURES: LazyLock<Script> = script!("prelude.lua", "figures.lua");

impl RoomStore {
    /// Units that this room was told were taken: whatever is among them is in figures read from
    /// now on.
    pub async fn units_told(&self) -> Result<u64, RedisFailure> {
        let told = redis::Cmd::hget(self.keys.room(), "units_told");
        Ok(self.store.command::<Option<u64>>(&told).await?.unwrap_or(0))
    }

    /// Writes the figures with Redis' time: the core is healthy. Their reading began `age_ms` ago,
    /// when the room had been told of `units_told`; `holders` buyers have a live hold.
    pub async fn write_figures(
        &self,
        skus: &[SkuFigures],
        age_ms: u64,
        units_told: u64,
        holders: u64,
    ) -> Result<(), RedisFailure> {
        let json = serde_json::to_string(skus).map_err(|error| garbled(error.to_string()))?;
        let mut call = FIGURES.prepare_invoke();
        call.key(self.keys.room()).key(self.keys.figures()).arg(json).arg(age_ms);
        call.arg(units_told).arg(holders);
        self.store.run(&call).await
    }
}

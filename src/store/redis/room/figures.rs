//! The figures that a healthy core writes.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, garbled, script};
use crate::domain::stock::SkuFigures;

static FIGURES: LazyLock<Script> = script!("prelude.lua", "figures.lua");

impl RoomStore {
    /// Writes the figures, whose reading began `age_ms` ago, with Redis' time: the core is healthy.
    pub async fn write_figures(
        &self,
        skus: &[SkuFigures],
        age_ms: u64,
    ) -> Result<(), RedisFailure> {
        let json = serde_json::to_string(skus).map_err(|error| garbled(error.to_string()))?;
        let mut call = FIGURES.prepare_invoke();
        call.key(self.keys.room()).key(self.keys.figures()).arg(json).arg(age_ms);
        self.store.run(&call).await
    }
}

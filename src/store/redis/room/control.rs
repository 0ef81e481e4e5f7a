//! Changes of the control record.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::record;
use super::{RoomStore, garbled, script};
use crate::domain::rate::Rate;
use crate::domain::sale::Control;

static CONTROL: LazyLock<Script> = script!("prelude.lua", "meter.lua", "control.lua");

/// What to change; what is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ControlChange {
    /// Pause or resume.
    pub paused: Option<bool>,
    /// Admissions per second.
    pub rate: Option<Rate>,
    /// Admissions at once after an idle moment.
    pub burst: Option<u32>,
    /// Cap on open admissions; 0 = none.
    pub max_active: Option<u32>,
    /// How long a called visitor may take to claim.
    pub claim_window_ms: Option<u64>,
    /// Unix milliseconds.
    pub lobby_opens_ms: Option<u64>,
    /// Unix milliseconds.
    pub opens_ms: Option<u64>,
    /// Unix milliseconds.
    pub closes_ms: Option<u64>,
    /// Unix milliseconds; 0 = no bypass.
    pub bypass_until_ms: Option<u64>,
    /// Raise the epoch: all admissions are void.
    pub next_epoch: bool,
}

impl ControlChange {
    fn fields(&self) -> Vec<(&'static str, String)> {
        let whole = |name, value: Option<u64>| value.map(|value| (name, value.to_string()));
        [
            self.paused.map(|paused| ("paused", record::flag(paused))),
            self.rate.map(|rate| ("rate", record::rate(rate))),
            whole("burst", self.burst.map(|burst| burst.max(1).into())),
            whole("max_active", self.max_active.map(u64::from)),
            whole("claim_window_ms", self.claim_window_ms),
            whole("lobby_opens_ms", self.lobby_opens_ms),
            whole("opens_ms", self.opens_ms),
            whole("closes_ms", self.closes_ms),
            whole("bypass_until_ms", self.bypass_until_ms),
            self.next_epoch.then(|| ("epoch", "+1".to_owned())),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// What became of a change; both carry the record's version as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    /// The record changed, and the meter with it.
    Changed(u64),
    /// Nothing differed.
    Same(u64),
    /// The room is not loaded.
    Unloaded,
}

impl RoomStore {
    /// Changes the given fields; what is as asked already changes nothing.
    pub async fn publish(
        &self,
        author: &str,
        change: &ControlChange,
    ) -> Result<Publish, RedisFailure> {
        self.control_step("publish", author, change.fields()).await
    }

    /// Merges a record from the other store: the higher version wins, of equal versions the
    /// paused one, and always the highest epoch.
    pub async fn adopt(&self, control: &Control) -> Result<Publish, RedisFailure> {
        self.control_step("adopt", "", record::fields(control)).await
    }

    async fn control_step(
        &self,
        mode: &str,
        author: &str,
        fields: Vec<(&'static str, String)>,
    ) -> Result<Publish, RedisFailure> {
        let keys = &self.keys;
        let mut call = CONTROL.prepare_invoke();
        call.key(keys.control()).key(keys.room()).key(keys.meter()).arg(mode).arg(author);
        for (field, value) in fields {
            call.arg(field).arg(value);
        }
        let (outcome, version): (String, u64) = self.store.run(&call).await?;
        match outcome.as_str() {
            "changed" => Ok(Publish::Changed(version)),
            "same" => Ok(Publish::Same(version)),
            "unloaded" => Ok(Publish::Unloaded),
            other => Err(garbled(other)),
        }
    }
}

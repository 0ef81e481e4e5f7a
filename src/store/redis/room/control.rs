//! Changes of the control record.

use std::collections::HashMap;
use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::record;
use super::{RoomStore, garbled, script};
pub use crate::domain::control::{ControlChange, ControlNo};
use crate::domain::sale::Control;

static CONTROL: LazyLock<Script> = script!("prelude.lua", "meter.lua", "control.lua");

/// Field and value of what a change asks for.
fn fields(change: &ControlChange) -> Vec<(&'static str, String)> {
    let whole = |name, value: Option<u64>| value.map(|value| (name, value.to_string()));
    let closes = whole("closes_ms", change.closes_ms);
    let bypass = |for_ms| match for_ms {
        0 => ("bypass_until_ms", "0".to_owned()),
        for_ms => ("bypass_until_ms", format!("+{for_ms}")),
    };
    let raised = |name| (name, "+1".to_owned());
    [
        change.paused.map(|paused| ("paused", record::flag(paused))),
        change.rate.map(|rate| ("rate", record::rate(rate))),
        whole("burst", change.burst.map(|burst| burst.max(1).into())),
        whole("max_active", change.max_active.map(u64::from)),
        whole("claim_window_ms", change.claim_window_ms),
        whole("lobby_opens_ms", change.lobby_opens_ms),
        whole("opens_ms", change.opens_ms),
        if change.close { Some(("closes_ms", "now".to_owned())) } else { closes },
        change.bypass_for_ms.map(bypass),
        (change.next_epoch || change.next_run).then(|| raised("epoch")),
        change.next_run.then(|| raised("run")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What became of a change; versions are the record's as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    /// The record changed, and the meter with it.
    Changed(u64),
    /// Nothing differed.
    Same(u64),
    /// The rules are against it.
    Refused(ControlNo),
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
        Ok(self.control_step("publish", author, fields(change)).await?.0)
    }

    /// The same, with the record as it is after the change.
    pub async fn change(
        &self,
        author: &str,
        change: &ControlChange,
    ) -> Result<(Publish, Option<Control>), RedisFailure> {
        self.control_step("publish", author, fields(change)).await
    }

    /// Merges a record from the other store: the higher version wins, of equal versions the
    /// paused one, and always the highest epoch and run.
    pub async fn adopt(&self, control: &Control) -> Result<Publish, RedisFailure> {
        Ok(self.control_step("adopt", "", record::fields(control)).await?.0)
    }

    /// The record, if there is one, though the room may not be loaded.
    pub async fn control(&self) -> Result<Option<Control>, RedisFailure> {
        let mut command = redis::cmd("HGETALL");
        let raw = self.store.command(command.arg(self.keys.control())).await?;
        known(&raw)
    }

    async fn control_step(
        &self,
        mode: &str,
        author: &str,
        fields: Vec<(&'static str, String)>,
    ) -> Result<(Publish, Option<Control>), RedisFailure> {
        let keys = &self.keys;
        let mut call = CONTROL.prepare_invoke();
        call.key(keys.control()).key(keys.room()).key(keys.meter());
        call.key(keys.trail()).key(keys.active()).key(keys.booked()).key(keys.undecided());
        call.key(keys.second()).key(keys.missed()).arg(mode).arg(author);
        for (field, value) in fields {
            call.arg(field).arg(value);
        }
        let (outcome, why, raw): (String, String, HashMap<String, String>) =
            self.store.run(&call).await?;
        let control = known(&raw)?;
        let version = control.as_ref().map_or(0, |control| control.version);
        let outcome = match outcome.as_str() {
            "changed" => Publish::Changed(version),
            "same" => Publish::Same(version),
            "refused" => Publish::Refused(ControlNo::named(&why).ok_or_else(|| garbled(why))?),
            "unloaded" => Publish::Unloaded,
            other => return Err(garbled(other)),
        };
        Ok((outcome, control))
    }
}

fn known(raw: &HashMap<String, String>) -> Result<Option<Control>, RedisFailure> {
    if raw.is_empty() { Ok(None) } else { record::parse(raw).map(Some) }
}

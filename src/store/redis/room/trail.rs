//! Changes of the control record made in Redis, waiting for a core to write them down.

use std::collections::HashMap;

use redis::cmd;
use serde::Deserialize;

use super::super::RedisFailure;
use super::{RoomStore, garbled, instant_ms, record};
use crate::domain::sale::Control;

/// How many are read at once.
const READ_MAX: i64 = 200;

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// As it is kept; names it when it is taken off the list.
    pub raw: String,
    /// Redis' clock, Unix milliseconds.
    pub at_ms: u64,
    /// The record before.
    pub old: Control,
    /// The record after.
    pub new: Control,
}

#[derive(Deserialize)]
struct Kept {
    at: String,
    old: HashMap<String, String>,
    new: HashMap<String, String>,
}

impl RoomStore {
    /// The oldest changes that are not taken off yet.
    pub async fn traced(&self) -> Result<Vec<Traced>, RedisFailure> {
        let mut range = cmd("LRANGE");
        let kept: Vec<String> =
            self.store.command(range.arg(self.keys.trail()).arg(0).arg(READ_MAX - 1)).await?;
        let mut traced = Vec::with_capacity(kept.len());
        for raw in kept {
            match read(&raw) {
                Ok(change) => traced.push(change),
                Err(error) => {
                    // It must not stand in the way of those that can be read.
                    tracing::error!(%error, raw, "a change of the control record is unreadable");
                    self.untrace(&raw).await?;
                }
            }
        }
        Ok(traced)
    }

    /// Takes a change off, which is written down by now.
    pub async fn untrace(&self, raw: &str) -> Result<(), RedisFailure> {
        let mut remove = cmd("LREM");
        self.store.command(remove.arg(self.keys.trail()).arg(1).arg(raw)).await
    }
}

fn read(raw: &str) -> Result<Traced, RedisFailure> {
    let kept: Kept = serde_json::from_str(raw).map_err(|_| garbled("trail"))?;
    let mut new = kept.old.clone();
    new.extend(kept.new);
    let (old, new) = (record::parse(&kept.old)?, record::parse(&new)?);
    Ok(Traced { at_ms: instant_ms(&kept.at)?, old, new, raw: raw.to_owned() })
}

//! Loading a room from Postgres' records.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::record;
use super::{Ceilings, Opening, RoomStore, garbled, script};
use crate::domain::sale::Control;

static LOAD: LazyLock<Script> = script!("prelude.lua", "meter.lua", "load.lua");

/// What a room is loaded with.
#[derive(Debug, Clone)]
pub struct Loading {
    /// The control record.
    pub control: Control,
    /// The published hash of the run's seed.
    pub commitment: [u8; 32],
    /// The opening, if there was one.
    pub opening: Option<Opening>,
    /// Where the counters resume: nothing at or above was handed out.
    pub counters: Ceilings,
    /// The new ceilings, durable by now.
    pub ceilings: Ceilings,
}

impl Loading {
    fn room(&self) -> BTreeMap<&'static str, String> {
        let (counters, ceilings) = (self.counters, self.ceilings);
        let mut room = BTreeMap::from([
            ("run", self.control.run.to_string()),
            ("commitment", hex::encode(self.commitment)),
            ("entries", counters.entries.to_string()),
            ("late", counters.late.to_string()),
            ("cursor", counters.cursor.to_string()),
            ("entries_ceiling", ceilings.entries.to_string()),
            ("late_ceiling", ceilings.late.to_string()),
            ("cursor_ceiling", ceilings.cursor.to_string()),
        ]);
        if let Some(opening) = self.opening {
            room.insert("entries", opening.n.to_string());
            room.insert("n", opening.n.to_string());
            room.insert("seed", hex::encode(opening.seed));
            room.insert("key", hex::encode(opening.key));
            room.insert("opened_at_ms", opening.opened_at_ms.to_string());
            room.insert("frozen", opening.opened_at_ms.to_string());
        }
        room
    }
}

impl RoomStore {
    /// Loads the room if this server does not have it; says whether this call did.
    pub async fn load(&self, loading: &Loading) -> Result<bool, RedisFailure> {
        let control: BTreeMap<_, _> = record::fields(&loading.control).into_iter().collect();
        let json = |record| {
            serde_json::to_string::<BTreeMap<&str, String>>(&record)
                .map_err(|error| garbled(error.to_string()))
        };
        let keys = &self.keys;
        let mut call = LOAD.prepare_invoke();
        call.key(keys.control()).key(keys.room()).key(keys.meter());
        call.key(keys.claims()).key(keys.active()).key(keys.calls());
        call.key(keys.joins()).key(keys.accounts()).key(keys.addresses()).key(keys.left());
        call.arg(json(control)?).arg(json(loading.room())?);
        self.store.run(&call).await
    }
}

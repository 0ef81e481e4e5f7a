//! Loading a room from Postgres' records: begun, gathered, done in one step.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::super::RedisFailure;
use super::record;
use super::{Ceilings, Inside, Opening, RoomStore, garbled, number, script};
use crate::domain::holes::Holes;
use crate::domain::id::{AccountId, Sku};
use crate::domain::sale::Control;
use crate::domain::ticket::Cohort;

static BEGIN: LazyLock<Script> = script!("prelude.lua", "restoring.lua", "restore_begin.lua");
static ACCOUNTS: LazyLock<Script> = script!("prelude.lua", "restoring.lua", "restore_accounts.lua");
static LOAD: LazyLock<Script> = script!("prelude.lua", "meter.lua", "restoring.lua", "load.lua");

/// The most accounts of one step: a few milliseconds of Redis' time.
pub const ACCOUNTS_MAX: usize = 2_000;
/// What a core that died had gathered goes after this.
const GATHERED_KEPT: Duration = Duration::from_mins(10);

/// What a room is loaded with.
#[derive(Debug, Clone)]
pub struct Loading {
    /// The control record.
    pub control: Control,
    /// The published hash of the run's seed.
    pub commitment: [u8; 32],
    /// The beacon round committed to; 0 = none.
    pub round: u64,
    /// When entries were closed, though the draw may wait for its beacon; Unix milliseconds.
    pub frozen_ms: Option<u64>,
    /// The opening, if there was one.
    pub opening: Option<Opening>,
    /// Where the counters resume: nothing at or above was handed out.
    pub counters: Ceilings,
    /// The new ceilings, durable by now.
    pub ceilings: Ceilings,
    /// Numbers that nobody has.
    pub holes: Holes,
    /// Who was inside when a core last looked.
    pub inside: Inside,
    /// Whose gates are to be loaded anew.
    pub skus: Vec<Sku>,
}

/// What the server knew when a restore began.
#[derive(Debug, Clone, Default)]
pub struct OlderCopy {
    /// The run that its counters are of; 0 for an empty server.
    pub run: u64,
    /// Numbers that it has handed out; others may be handed out above.
    pub counters: Ceilings,
    /// Its control record.
    pub control: Option<Control>,
}

/// What became of a step of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restore {
    /// Done.
    Done,
    /// Another core has loaded the room.
    Loaded,
    /// The server is another by now, or was emptied again.
    Lost,
}

impl Loading {
    /// Whoever has a number has a place; of those who gave theirs up nothing is known any more.
    fn places(&self) -> u64 {
        let entries = self.opening.map_or(self.counters.entries, |opening| opening.n);
        entries.saturating_add(self.counters.late).saturating_sub(self.holes.count())
    }

    fn room(&self) -> BTreeMap<&'static str, String> {
        let (counters, ceilings) = (self.counters, self.ceilings);
        let mut room = BTreeMap::from([
            ("run", self.control.run.to_string()),
            ("commitment", hex::encode(self.commitment)),
            ("round", self.round.to_string()),
            ("entries", counters.entries.to_string()),
            ("late", counters.late.to_string()),
            ("cursor", counters.cursor.to_string()),
            ("entries_ceiling", ceilings.entries.to_string()),
            ("late_ceiling", ceilings.late.to_string()),
            ("cursor_ceiling", ceilings.cursor.to_string()),
            ("holes", self.holes.to_string()),
            ("places", self.places().to_string()),
        ]);
        if let Some(opening) = self.opening {
            room.insert("entries", opening.n.to_string());
            room.insert("n", opening.n.to_string());
            room.insert("seed", hex::encode(opening.seed));
            room.insert("key", hex::encode(opening.key));
            room.insert("signature", opening.signature_hex());
            room.insert("opened_at_ms", opening.opened_at_ms.to_string());
        }
        if let Some(frozen_ms) = self.frozen_ms {
            room.insert("frozen", frozen_ms.to_string());
        }
        room
    }
}

impl RoomStore {
    /// Begins a restore under a number of one's own; nothing if the room is loaded.
    pub async fn begin_restore(&self, whose: u64) -> Result<Option<OlderCopy>, RedisFailure> {
        let mut call = BEGIN.prepare_invoke();
        call.key(self.keys.control()).key(self.keys.room()).key(self.keys.restoring(whose));
        call.arg(GATHERED_KEPT.as_millis().to_string());
        let raw: (bool, String, String, String, HashMap<String, String>) =
            self.store.run(&call).await?;
        let (begun, run, entries, late, control) = raw;
        if !begun {
            return Ok(None);
        }
        Ok(Some(OlderCopy {
            run: number(&run)?,
            counters: Ceilings { entries: number(&entries)?, late: number(&late)?, cursor: 0 },
            // A record that an older program wrote may lack a field: Postgres' goes.
            control: record::parse(&control).ok(),
        }))
    }

    /// Gathers up to [`ACCOUNTS_MAX`] accounts with their numbers; false if the restore must begin
    /// anew.
    pub async fn restore_accounts(
        &self,
        whose: u64,
        accounts: &[(AccountId, Cohort)],
    ) -> Result<bool, RedisFailure> {
        let mut call = ACCOUNTS.prepare_invoke();
        call.key(self.keys.restoring(whose));
        for (account, number) in accounts {
            call.arg(account.as_str()).arg(number.to_string());
        }
        self.store.run(&call).await
    }

    /// Loads the room if this server does not have it.
    pub async fn load(&self, whose: u64, loading: &Loading) -> Result<Restore, RedisFailure> {
        let control: BTreeMap<_, _> = record::fields(&loading.control).into_iter().collect();
        let json = |record| {
            serde_json::to_string::<BTreeMap<&str, String>>(&record)
                .map_err(|error| garbled(error.to_string()))
        };
        let inside = loading.inside.0.iter().map(|(buyer, ends)| (buyer.as_str(), ends.clone()));
        let keys = &self.keys;
        let mut call = LOAD.prepare_invoke();
        call.key(keys.control()).key(keys.room()).key(keys.calls());
        call.key(keys.joins()).key(keys.accounts()).key(keys.addresses()).key(keys.left());
        call.key(keys.restoring(whose)).key(keys.meter()).key(keys.active()).key(keys.undecided());
        call.key(keys.claims()).key(keys.booked()).key(keys.decisions());
        call.key(keys.second()).key(keys.missed());
        for sku in &loading.skus {
            call.key(keys.stock(sku)).key(keys.takes(sku));
        }
        call.arg(json(control)?).arg(json(loading.room())?).arg(json(inside.collect())?);
        Ok(match self.store.run::<i64>(&call).await? {
            1 => Restore::Done,
            0 => Restore::Loaded,
            _ => Restore::Lost,
        })
    }
}

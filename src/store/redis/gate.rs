//! The gate: each SKU's counter in Redis and its scripts. It only advises; the ledger decides.

use std::collections::HashMap;
use std::sync::Arc;

use redis::Script;
use uuid::Uuid;

use super::connection::{RedisFailure, RedisStore};
use super::keys::SaleKeys;
use crate::domain::id::{SaleId, Sku};
use crate::domain::reservation::Line;

/// Markers outlive the sale by this, so that a late retry still finds the ledger.
const MARKERS_KEPT_S: u64 = 24 * 3600;
/// Orders in one call: a millisecond of Redis' time at most.
pub const PASSES_MAX: usize = 128;
/// Units beyond this would lose precision in Lua.
pub const UNITS_MAX: u64 = 999_999_999_999_999;

/// The gates of all SKUs; a clone shares the connection.
#[derive(Clone)]
pub struct Gate {
    pub(super) redis: RedisStore,
    pub(super) scripts: Arc<Scripts>,
}

pub(super) struct Scripts {
    take: Script,
    give_back: Script,
    push: Script,
    mark: Script,
    load: Script,
    forget: Script,
    pub(super) read: Script,
    pub(super) correct: Script,
}

/// One order at the gate.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The sale, whose close sets the markers' end.
    pub sale: SaleId,
    /// Unix milliseconds.
    pub closes_ms: u64,
    /// The order's marker field.
    pub marker: String,
    /// The id that the reservation gets if this order makes it.
    pub id: Uuid,
    /// What it asks for, each with the generation of the SKU's gate that is expected.
    pub lines: Vec<(Line, u64)>,
}

/// What the gate says. A line's index is into the order's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The units are set aside: try the ledger.
    Try,
    /// This order was here: the ledger knows. The mark's units and id.
    Seen(u32, Uuid),
    /// The gate must be loaded first.
    NotLoaded(usize),
    /// The gate was frozen or thawed since.
    OtherGeneration(usize),
    /// None left.
    SoldOut(usize),
    /// Fewer left than asked for.
    Insufficient(usize, u64),
}

impl Gate {
    /// The gates in this Redis.
    pub fn new(redis: RedisStore) -> Self {
        let scripts = Scripts {
            take: Script::new(include_str!("gate_take.lua")),
            give_back: Script::new(include_str!("gate_give_back.lua")),
            push: Script::new(include_str!("gate_push.lua")),
            mark: Script::new(include_str!("gate_mark.lua")),
            load: Script::new(include_str!("gate_load.lua")),
            forget: Script::new(include_str!("gate_forget.lua")),
            read: Script::new(include_str!("gate_read.lua")),
            correct: Script::new(include_str!("gate_correct.lua")),
        };
        Self { redis, scripts: Arc::new(scripts) }
    }

    /// Asks for the units of an order. After a failure it is unknown whether they were set aside.
    pub async fn take(&self, pass: &Pass) -> Result<Word, RedisFailure> {
        let words = self.take_all(&[pass]).await?;
        words.into_iter().next().ok_or_else(|| RedisFailure::Garbled("no word".into()))
    }

    /// Asks for the units of orders of one sale, one after the other in one call; at most
    /// [`PASSES_MAX`]. After a failure it is unknown of each whether they were set aside.
    pub async fn take_all(&self, passes: &[&Pass]) -> Result<Vec<Word>, RedisFailure> {
        let Some(last) = passes.last() else { return Ok(vec![]) };
        let keys = SaleKeys::new(&last.sale);
        let mut call = self.scripts.take.prepare_invoke();
        let mut places: HashMap<&Sku, usize> = HashMap::new();
        call.arg(expiry(last.closes_ms));
        for pass in passes {
            call.arg(&pass.marker).arg(pass.id.to_string()).arg(pass.lines.len());
            for (line, generation) in &pass.lines {
                let next = places.len() + 1;
                let place = *places.entry(&line.sku).or_insert_with(|| {
                    call.key(keys.stock(&line.sku)).key(keys.takes(&line.sku));
                    next
                });
                call.arg(place).arg(generation).arg(line.qty.get());
            }
        }
        let said: Vec<(i64, usize, String)> = self.redis.run(&call).await?;
        if said.len() != passes.len() {
            return Err(RedisFailure::Garbled(format!("{} words", said.len())));
        }
        said.into_iter().map(word).collect()
    }

    /// Gives an order's units back after a certain no, once. `stands_for`: the reservation that
    /// the key turned out to belong to; without one the key is free again.
    pub async fn give_back(
        &self,
        pass: &Pass,
        stands_for: Option<Uuid>,
    ) -> Result<u64, RedisFailure> {
        let mut call = self.scripts.give_back.prepare_invoke();
        call.arg(&pass.marker)
            .arg(pass.id.to_string())
            .arg(stands_for.map(|id| id.to_string()).unwrap_or_default());
        for (key, (_, generation)) in pass.keys().zip(&pass.lines) {
            call.key(&key[0]).key(&key[1]).arg(generation);
        }
        self.redis.run(&call).await
    }

    /// Tells the running total of units put back to one stock row; the gate adds what is new.
    pub async fn push(
        &self,
        sale: &SaleId,
        sku: &Sku,
        shard: i32,
        returned: i64,
    ) -> Result<u64, RedisFailure> {
        let mut call = self.scripts.push.prepare_invoke();
        call.key(SaleKeys::new(sale).stock(sku)).arg(shard).arg(returned);
        self.redis.run(&call).await
    }

    /// Marks orders that the ledger knows: (marker field, reservation id).
    pub async fn mark(
        &self,
        sale: &SaleId,
        sku: &Sku,
        closes_ms: u64,
        orders: &[(String, Uuid)],
    ) -> Result<(), RedisFailure> {
        if orders.is_empty() {
            return Ok(());
        }
        let mut call = self.scripts.mark.prepare_invoke();
        call.key(SaleKeys::new(sale).takes(sku)).arg(expiry(closes_ms));
        for (field, id) in orders {
            call.arg(field).arg(id.to_string());
        }
        self.redis.run::<u64>(&call).await.map(|_| ())
    }

    /// Forgets a gate of a generation, and its markers: it is not loaded then. One that is of another
    /// generation by now stays.
    pub async fn forget(
        &self,
        sale: &SaleId,
        sku: &Sku,
        generation: u64,
    ) -> Result<(), RedisFailure> {
        let keys = SaleKeys::new(sale);
        let mut call = self.scripts.forget.prepare_invoke();
        call.key(keys.stock(sku)).key(keys.takes(sku)).arg(generation);
        self.redis.run::<u64>(&call).await.map(|_| ())
    }

    /// Loads a gate, unless it is loaded in this generation already. Markers come before it.
    pub async fn load(
        &self,
        sale: &SaleId,
        sku: &Sku,
        (generation, available): (u64, u64),
        returned: &[(i32, i64)],
    ) -> Result<bool, RedisFailure> {
        let mut call = self.scripts.load.prepare_invoke();
        call.key(SaleKeys::new(sale).stock(sku)).arg(generation).arg(available);
        for (shard, total) in returned {
            call.arg(shard).arg(total);
        }
        self.redis.run(&call).await
    }
}

impl Pass {
    /// Stock and takes key of each line.
    fn keys(&self) -> impl Iterator<Item = [String; 2]> {
        let keys = SaleKeys::new(&self.sale);
        self.lines.iter().map(move |(line, _)| [keys.stock(&line.sku), keys.takes(&line.sku)])
    }
}

fn word((code, line, detail): (i64, usize, String)) -> Result<Word, RedisFailure> {
    let line = line.saturating_sub(1);
    Ok(match code {
        0.. => Word::Try,
        -1 => Word::SoldOut(line),
        -2 => {
            let mark = detail.split_once(':');
            let mark = mark.and_then(|(qty, id)| Some((qty.parse().ok()?, id.parse().ok()?)));
            let (qty, id) = mark.ok_or_else(|| RedisFailure::Garbled(format!("mark {detail}")))?;
            Word::Seen(qty, id)
        }
        -3 => Word::NotLoaded(line),
        -4 => Word::OtherGeneration(line),
        -5 => Word::Insufficient(line, detail.parse().unwrap_or(0)),
        _ => return Err(RedisFailure::Garbled(format!("gate code {code}"))),
    })
}

/// Unix seconds.
fn expiry(closes_ms: u64) -> u64 {
    closes_ms / 1000 + MARKERS_KEPT_S
}

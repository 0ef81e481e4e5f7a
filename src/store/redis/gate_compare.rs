//! Reading a gate whole, and shifting it by what a comparison with the ledger found.

use std::collections::HashMap;

use uuid::Uuid;

use super::connection::RedisFailure;
use super::gate::Gate;
use super::keys::SaleKeys;
use crate::domain::id::{SaleId, Sku};

/// A gate's counter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counter {
    /// Raised by freeze and thaw.
    pub generation: u64,
    /// Units left; below zero while more takes are under way than there are units.
    pub count: i64,
    /// Whether it says "sold out".
    pub flag: bool,
    /// What the last comparison remembered of a gap.
    pub gap: Option<String>,
}

/// An order's mark at a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The marker field.
    pub field: String,
    /// Units set aside at the gate for it; 0 once the ledger was asked about it.
    pub qty: u64,
    /// Its reservation's id, if it became one.
    pub id: Uuid,
}

/// What to do to a gate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Correction {
    /// The generation that was compared.
    pub generation: u64,
    /// Added to the counter.
    pub shift: i64,
    /// Remembered until the next comparison.
    pub gap: Option<String>,
    /// Marks that stand for nothing and go.
    pub drop: Vec<Mark>,
}

impl Gate {
    /// The counter; nothing while the gate is not loaded.
    pub async fn counter(&self, sale: &SaleId, sku: &Sku) -> Result<Option<Counter>, RedisFailure> {
        let key = SaleKeys::new(sale).stock(sku);
        let fields = self.redis.command(redis::cmd("HGETALL").arg(key)).await?;
        Ok(counter(&fields))
    }

    /// Counter and marks at one instant.
    pub async fn read(
        &self,
        sale: &SaleId,
        sku: &Sku,
    ) -> Result<Option<(Counter, Vec<Mark>)>, RedisFailure> {
        let keys = SaleKeys::new(sale);
        let mut call = self.scripts.read.prepare_invoke();
        call.key(keys.stock(sku)).key(keys.takes(sku));
        let (stock, takes): (HashMap<String, String>, HashMap<String, String>) =
            self.redis.run(&call).await?;
        let marks = takes.into_iter().filter_map(|(field, value)| {
            let (qty, id) = value.split_once(':')?;
            Some(Mark { field, qty: qty.parse().ok()?, id: id.parse().ok()? })
        });
        Ok(counter(&stock).map(|counter| (counter, marks.collect())))
    }

    /// Shifts the counter; false if the gate is of another generation by now.
    pub async fn correct(
        &self,
        sale: &SaleId,
        sku: &Sku,
        correction: &Correction,
    ) -> Result<bool, RedisFailure> {
        let keys = SaleKeys::new(sale);
        let mut call = self.scripts.correct.prepare_invoke();
        call.key(keys.stock(sku))
            .key(keys.takes(sku))
            .arg(correction.generation)
            .arg(correction.shift)
            .arg(correction.gap.as_deref().unwrap_or_default());
        for Mark { field, qty, id } in &correction.drop {
            call.arg(field).arg(format!("{qty}:{id}"));
        }
        self.redis.run(&call).await
    }
}

fn counter(fields: &HashMap<String, String>) -> Option<Counter> {
    Some(Counter {
        generation: fields.get("gen")?.parse().ok()?,
        count: fields.get("count")?.parse().ok()?,
        flag: fields.contains_key("flag"),
        gap: fields.get("gap").cloned(),
    })
}

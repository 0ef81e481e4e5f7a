//! The claim step.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, garbled, instant_ms, number, script};
use crate::domain::id::BuyerId;
use crate::domain::ticket::Cohort;

static CLAIM: LazyLock<Script> =
    script!("prelude.lua", "meter.lua", "admissions.lua", "lapses.lua", "claim.lua");

/// A claim.
#[derive(Debug, Clone)]
pub struct ClaimStep<'a> {
    /// The ticket's run.
    pub run: u64,
    /// Position in line.
    pub position: u64,
    /// The number that stands there.
    pub cohort: Cohort,
    /// Who may order: counted by `max_active`, and as undecided until an order.
    pub buyer: &'a BuyerId,
    /// How long the admission lasts.
    pub token_ttl_ms: u64,
    /// Nobody may be let in from this node: the step only looks.
    pub halted: bool,
}

/// A slot that was collected. Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collected {
    /// The meter's slot.
    pub slot_ms: u64,
    /// When the admission ends.
    pub ends_ms: u64,
    /// The epoch it is for.
    pub epoch: u64,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Sign it.
    Admitted(Collected),
    /// Booked, to be collected at the slot; without one while the line stands still.
    Wait {
        /// The slot as things stand.
        slot_ms: Option<u64>,
        /// Redis' clock.
        now_ms: u64,
    },
    /// The cursor has not passed the position.
    NotCalled,
    /// Both windows have lapsed.
    Missed,
    /// The place was given up.
    Left,
    /// Admitted then, and the admission has run out.
    Spent(Collected),
    /// The draw is not made yet.
    NotOpen,
    /// The sale is over.
    Closed,
    /// The ticket is of another run.
    Void,
    /// The room is not loaded.
    Unloaded,
}

impl RoomStore {
    /// Claims for a called position.
    pub async fn claim(&self, step: &ClaimStep<'_>) -> Result<Claim, RedisFailure> {
        let keys = &self.keys;
        let mut call = CLAIM.prepare_invoke();
        call.key(keys.control()).key(keys.room()).key(keys.meter());
        call.key(keys.claims()).key(keys.active()).key(keys.calls());
        call.key(keys.left()).key(keys.booked()).key(keys.undecided()).key(keys.decisions());
        call.key(keys.second()).key(keys.missed());
        call.arg(step.run).arg(step.position).arg(step.buyer.as_str()).arg(step.token_ttl_ms);
        call.arg(step.cohort.to_string()).arg(u8::from(step.halted));
        let raw: (String, String, String, String, String) = self.store.run(&call).await?;
        let (outcome, slot, epoch, now, ends) = raw;
        let collected = || {
            let (slot_ms, ends_ms) = (instant_ms(&slot)?, instant_ms(&ends)?);
            Ok::<_, RedisFailure>(Collected { slot_ms, ends_ms, epoch: number(&epoch)? })
        };
        Ok(match outcome.as_str() {
            "admitted" => Claim::Admitted(collected()?),
            "wait" => Claim::Wait { slot_ms: due_ms(&slot)?, now_ms: instant_ms(&now)? },
            "not-called" => Claim::NotCalled,
            "missed" => Claim::Missed,
            "left" => Claim::Left,
            "spent" => Claim::Spent(collected()?),
            "not-open" => Claim::NotOpen,
            "closed" => Claim::Closed,
            "void" => Claim::Void,
            "unloaded" => Claim::Unloaded,
            other => return Err(garbled(other)),
        })
    }
}

/// Rounded up: who comes back at that instant is not told to wait a fraction more.
fn due_ms(slot: &str) -> Result<Option<u64>, RedisFailure> {
    if slot.is_empty() {
        return Ok(None);
    }
    let slot: f64 = number(slot)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate"
    )]
    Ok(Some(slot.ceil() as u64))
}

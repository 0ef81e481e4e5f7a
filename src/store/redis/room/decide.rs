//! What becomes of open admissions at the core.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, script};
use crate::domain::id::BuyerId;

static DECIDE: LazyLock<Script> = script!("prelude.lua", "admissions.lua", "decide.lua");

/// The most pieces of news in one step.
pub const NEWS_MAX: usize = 512;

/// What a buyer has done with an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Taken so many units.
    Took(u64),
    /// The same, by an order that is known already.
    HadTaken(u64),
    /// Been refused for stock.
    Refused,
    /// Paid: out of the checkout.
    Paid,
}

impl Decision {
    fn word(self) -> String {
        match self {
            Self::Took(units) => format!("+{units}"),
            Self::HadTaken(units) => format!("={units}"),
            Self::Refused => "no".to_owned(),
            Self::Paid => "paid".to_owned(),
        }
    }
}

impl RoomStore {
    /// Tells the room of up to [`NEWS_MAX`] decisions, in order. Telling again does no harm.
    pub async fn decided(&self, news: &[(BuyerId, Decision)]) -> Result<(), RedisFailure> {
        let keys = &self.keys;
        let mut call = DECIDE.prepare_invoke();
        call.key(keys.room()).key(keys.active()).key(keys.booked());
        call.key(keys.undecided()).key(keys.decisions());
        for (buyer, decision) in news {
            call.arg(buyer.as_str()).arg(decision.word());
        }
        self.store.run(&call).await
    }
}

//! The room's steps: each one script on Redis' own clock, each refusing while the room is not
//! loaded, so that an emptied Redis changes nothing until a core has restored it.

mod advance;
mod ceilings;
mod claim;
mod control;
mod decide;
mod figures;
mod inside;
mod join;
mod journal;
mod leave;
mod load;
mod nodes;
mod occupy;
mod opening;
mod presence;
mod prolong;
mod record;
mod sent_on;
mod snapshot;
mod trail;

pub use advance::Advance;
pub use ceilings::Ceilings;
pub use claim::{Claim, ClaimStep, Collected};
pub use control::{ControlChange, ControlNo, Publish};
pub use decide::{Decision, NEWS_MAX};
pub use inside::Inside;
pub use join::{JOINS_MAX, JoinAnswer, JoinStep, Joined, Joins, Lapsed};
pub use journal::{JournalEntry, JournalPage};
pub use leave::Leave;
pub use load::{ACCOUNTS_MAX, Loading, OlderCopy, Restore};
pub use opening::{Freeze, Opening};
pub use presence::HEARD_MAX;
pub use sent_on::SentOn;
pub use snapshot::{Known, News, RoomState};
pub use trail::Traced;

use super::keys::SaleKeys;
use super::{RedisFailure, RedisStore};
use crate::domain::id::SaleId;

/// One sale's room in Redis.
#[derive(Clone)]
pub struct RoomStore {
    store: RedisStore,
    keys: SaleKeys,
}

impl RoomStore {
    /// The room of a sale.
    pub fn new(store: RedisStore, sale: &SaleId) -> Self {
        Self { store, keys: SaleKeys::new(sale) }
    }
}

/// A script of ours: the named pieces, one after the other.
macro_rules! script {
    ($($piece:literal),+) => {
        std::sync::LazyLock::new(|| redis::Script::new(concat!($(include_str!($piece), "\n"),+)))
    };
}
use script;

/// A number that a script wrote with all its digits.
fn number<T: std::str::FromStr>(raw: &str) -> Result<T, RedisFailure> {
    raw.parse().map_err(|_| garbled(raw))
}

/// An instant as whole milliseconds, rounded down.
fn instant_ms(raw: &str) -> Result<u64, RedisFailure> {
    let ms: f64 = number(raw)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate"
    )]
    Ok(ms as u64)
}

fn garbled(what: impl Into<String>) -> RedisFailure {
    RedisFailure::Garbled(what.into())
}

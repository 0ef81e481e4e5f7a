//! Who is inside, as a core remembers it: a server that lost it would let as many in once more.

use super::super::RedisFailure;
use super::RoomStore;

/// The most that are remembered, those who stay longest: more than a checkout is capped at.
const INSIDE_MAX: i64 = 20_000;

/// Buyers with an open admission, and when it ends, as Redis writes it.
#[derive(Debug, Clone, Default)]
pub struct Inside(pub(super) Vec<(String, String)>);

impl RoomStore {
    /// Who is inside now.
    pub async fn inside(&self) -> Result<Inside, RedisFailure> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(self.keys.active()).arg(0).arg(INSIDE_MAX - 1).arg("REV").arg("WITHSCORES");
        Ok(Inside(self.store.command(&command).await?))
    }
}

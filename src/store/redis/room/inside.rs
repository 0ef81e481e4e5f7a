//! Who is inside, as a core remembers it: a server that lost it would let as many in once more.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, script};

static INSIDE: LazyLock<Script> = script!("prelude.lua", "inside.lua");

/// The most that are remembered, those who stay longest: more than a checkout is capped at.
const INSIDE_MAX: usize = 20_000;

/// Buyers with an open admission, and when it ends, as Redis writes it.
#[derive(Debug, Clone, Default)]
pub struct Inside(pub(super) Vec<(String, String)>);

impl RoomStore {
    /// Who is inside now; nothing while the room is not loaded.
    pub async fn inside(&self) -> Result<Option<Inside>, RedisFailure> {
        let mut call = INSIDE.prepare_invoke();
        call.key(self.keys.room()).key(self.keys.active()).arg(INSIDE_MAX);
        let raw: Option<Vec<String>> = self.store.run(&call).await?;
        let pairs = |raw: Vec<String>| {
            let mut raw = raw.into_iter();
            std::iter::from_fn(move || raw.next().zip(raw.next())).collect()
        };
        Ok(raw.map(|raw| Inside(pairs(raw))))
    }
}

//! The two steps of the opening.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, garbled, instant_ms, script};
use crate::domain::beacon::SignatureBytes;

static FREEZE: LazyLock<Script> = script!("prelude.lua", "freeze.lua");
static OPEN: LazyLock<Script> = script!("prelude.lua", "open.lua");

/// What the first step found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freeze {
    /// Before the opening second.
    Early,
    /// Entries are closed; n is to be made durable.
    Frozen {
        /// Entries given.
        n: u64,
        /// When, Unix milliseconds.
        at_ms: u64,
    },
    /// Opened already.
    Open,
    /// The room is at another run.
    Void,
    /// The room is not loaded.
    Unloaded,
}

/// A draw with its key: what opens a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// How many entries are drawn.
    pub n: u64,
    /// Unix milliseconds.
    pub opened_at_ms: u64,
    /// The seed that was committed to.
    pub seed: [u8; 32],
    /// The permutation's key.
    pub key: [u8; 32],
    /// The beacon's signature, if the draw has one.
    pub signature: Option<SignatureBytes>,
}

impl Opening {
    /// The beacon's signature in hex, "" without one.
    pub fn signature_hex(&self) -> String {
        self.signature.map(hex::encode).unwrap_or_default()
    }
}

impl RoomStore {
    /// Closes the entries if the opening second has come.
    pub async fn freeze(&self, run: u64) -> Result<Freeze, RedisFailure> {
        let mut call = FREEZE.prepare_invoke();
        call.key(self.keys.control()).key(self.keys.room()).arg(run);
        let (outcome, n, at): (String, u64, String) = self.store.run(&call).await?;
        Ok(match outcome.as_str() {
            "early" => Freeze::Early,
            "frozen" => Freeze::Frozen { n, at_ms: instant_ms(&at)? },
            "open" => Freeze::Open,
            "void" => Freeze::Void,
            "unloaded" => Freeze::Unloaded,
            other => return Err(garbled(other)),
        })
    }

    /// Opens a frozen room, once; says whether this call did.
    pub async fn open(&self, run: u64, opening: &Opening) -> Result<bool, RedisFailure> {
        let mut call = OPEN.prepare_invoke();
        call.key(self.keys.control()).key(self.keys.room()).arg(run).arg(opening.n);
        call.arg(hex::encode(opening.seed)).arg(hex::encode(opening.key));
        call.arg(opening.opened_at_ms).arg(opening.signature_hex());
        self.store.run(&call).await
    }
}

//! How often the same request may be answered by a redirect.

use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, script};

static SENT_ON: LazyLock<Script> = script!("prelude.lua", "sent_on.lua");

/// Redirects of one browser to one page.
#[derive(Debug, Clone, Copy)]
pub struct SentOn {
    /// At least so long between two of them, in milliseconds.
    pub pause_ms: u64,
    /// So many of them …
    pub most: u32,
    /// … in such a time, in milliseconds.
    pub within_ms: u64,
}

impl RoomStore {
    /// Counts one more, if it is allowed. `whose` is a hash that says nothing by itself.
    pub async fn may_send_on(&self, whose: &str, bounds: SentOn) -> Result<bool, RedisFailure> {
        let mut call = SENT_ON.prepare_invoke();
        call.key(self.keys.sent(whose));
        call.arg(bounds.pause_ms).arg(bounds.most).arg(bounds.within_ms);
        self.store.run(&call).await
    }
}

//! Who was heard from lately, exchanged between nodes.

use std::ops::Range;
use std::sync::LazyLock;

use redis::Script;

use super::super::RedisFailure;
use super::{RoomStore, script};
use crate::domain::presence::{Presence, SLICE_MS, SLICES};

static PRESENCE: LazyLock<Script> = script!("presence.lua");

/// The most positions told in one step: about a millisecond of Redis' time.
pub const HEARD_MAX: usize = 2_000;

impl RoomStore {
    /// Tells up to [`HEARD_MAX`] positions heard from at `now_ms` of Redis' clock, and hears who is
    /// present from where silence is judged to below `to`.
    pub async fn presence(
        &self,
        now_ms: u64,
        heard: &[u64],
        judged: Range<u64>,
        to: u64,
    ) -> Result<Presence, RedisFailure> {
        let slice = now_ms / SLICE_MS;
        let mut call = PRESENCE.prepare_invoke();
        for ago in 0..SLICES {
            call.key(self.keys.heard(slice.saturating_sub(ago).saturating_mul(SLICE_MS) / 1_000));
        }
        call.arg(SLICE_MS * (SLICES + 1)).arg(judged.start / 8).arg(to / 8);
        for position in heard {
            call.arg(*position);
        }
        let bitmaps: Vec<Vec<u8>> = self.store.run(&call).await?;
        // Nobody was asked for beyond, so silence there says nothing.
        Ok(Presence::new(judged.start / 8, &bitmaps, judged.start..judged.end.min(to)))
    }
}

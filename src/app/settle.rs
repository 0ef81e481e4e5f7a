//! What a gateway waits for before it says that it is ready.

use std::sync::Arc;
use std::time::Duration;

use crate::room::Room;

/// How long the start waits for rooms that a core has yet to load.
const SETTLE_MAX: Duration = Duration::from_secs(2);
const SETTLE_POLL: Duration = Duration::from_millis(20);

/// Waits until the lines could move. A node whose core or Redis is down starts all the same: its
/// pages say "paused".
pub(super) async fn settle(rooms: &[Arc<Room>]) {
    let moving = async {
        for room in rooms {
            while !is_settled(room) {
                tokio::time::sleep(SETTLE_POLL).await;
            }
        }
    };
    if tokio::time::timeout(SETTLE_MAX, moving).await.is_err() {
        tracing::warn!("starting although no healthy core keeps every sale in Redis");
    }
}

fn is_settled(room: &Room) -> bool {
    let (now_ms, seen) = (room.now_ms(), room.snapshot());
    seen.is_live(now_ms) && (seen.control.paused || !seen.is_paused(now_ms))
}

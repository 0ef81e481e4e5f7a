//! What a gateway waits for before it says that it is ready, and what it says about its file.

use std::sync::Arc;
use std::time::Duration;

use super::core::CONFIG;
use crate::config::settings::Sale;
use crate::domain::sale::Control;
use crate::room::Room;

/// How long the start waits for rooms that a core has yet to load.
const SETTLE_MAX: Duration = Duration::from_secs(2);
const SETTLE_POLL: Duration = Duration::from_millis(20);

/// Waits until the lines could move, and says where a sale runs otherwise than its file says. A
/// node whose core or Redis is down starts all the same: its pages say "paused".
pub(super) async fn settle(rooms: &[Arc<Room>], sales: &[Sale]) {
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
    for (room, sale) in rooms.iter().zip(sales) {
        let seen = room.snapshot();
        if seen.is_live(room.now_ms()) {
            tell_differences(sale, &seen.control);
        }
    }
}

fn is_settled(room: &Room) -> bool {
    let (now_ms, seen) = (room.now_ms(), room.snapshot());
    seen.is_live(now_ms) && (seen.control.paused || !seen.is_paused(now_ms))
}

/// The record goes before the file: it is what all nodes run with.
fn tell_differences(sale: &Sale, record: &Control) {
    let mut file = sale.control(CONFIG);
    (file.version, file.run, file.epoch) = (record.version, record.run, record.epoch);
    (file.author, file.bypass_until_ms) = (record.author.clone(), record.bypass_until_ms);
    if file != *record {
        tracing::warn!(
            sale = %sale.id, ?record, ?file,
            "the sale was changed since this file was written: the record in force is adopted"
        );
    }
}

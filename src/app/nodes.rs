//! This node tells the others of itself, and hears of them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::serve::{Parts, Role};
use crate::config::reload::ReloadState;
use crate::domain::node::NodeReport;
use crate::ops::Roster;
use crate::room::Room;
use crate::room::keys::Keys;
use crate::store::redis::room::RoomStore;

const EVERY: Duration = Duration::from_secs(1);
/// How long a node that ends tells the others so.
const FAREWELL_MAX: Duration = Duration::from_millis(500);

/// Starts telling and hearing.
pub(super) fn start(parts: &Parts, role: Role, node: &str, rooms: &[Arc<Room>]) -> Arc<Roster> {
    let roster = Arc::new(parts.metrics.register(Roster::new));
    let teller = Teller {
        node: node.to_owned(),
        role: role.name(),
        rooms: rooms
            .iter()
            .map(|room| (Arc::clone(room), RoomStore::new(parts.redis.clone(), room.sale())))
            .collect(),
        keys: Arc::clone(&parts.keys),
        reload: Arc::clone(&parts.reload),
        roster: Arc::clone(&roster),
        is_foreign: false,
    };
    parts.life.background("nodes", teller.run(parts.life.ending()));
    roster
}

struct Teller {
    node: String,
    role: &'static str,
    rooms: Vec<(Arc<Room>, RoomStore)>,
    keys: Arc<Keys>,
    reload: Arc<ReloadState>,
    roster: Arc<Roster>,
    is_foreign: bool,
}

impl Teller {
    async fn run(mut self, ending: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while ending.run_until_cancelled(ticks.tick()).await.is_some() {
            if ending.run_until_cancelled(self.tell()).await.is_none() {
                break;
            }
        }
        self.leave().await;
    }

    /// Whoever ends by intent is no node that a stop cannot reach.
    async fn leave(&self) {
        let farewells = self.rooms.iter().map(|(_, store)| store.farewell(&self.node));
        // Redis away: the others forget it within a minute.
        drop(tokio::time::timeout(FAREWELL_MAX, join_all(farewells)).await);
    }

    /// Every sale lives in a slot of its own, so each is told; any of them knows all nodes.
    async fn tell(&mut self) {
        for (at, (room, store)) in self.rooms.iter().enumerate() {
            let report = self.report(room);
            match store.report(&self.node, &report).await {
                Ok(nodes) if at == 0 => {
                    let is_ours = self.roster.heard(nodes, &report.identity);
                    if !is_ours && !self.is_foreign {
                        tracing::error!(
                            "keys.foreign: this node's place.key is not the one of the other \
                             nodes: places and passes of one are nothing to the other; copy the \
                             keys folder from a node that was here before"
                        );
                    }
                    self.is_foreign = !is_ours;
                }
                Ok(_) => {}
                // The rooms' heartbeat says so already.
                Err(error) => tracing::debug!(%error, "the nodes could not be told"),
            }
        }
    }

    fn report(&self, room: &Room) -> NodeReport {
        let (seen, file) = (room.snapshot(), self.reload.get());
        NodeReport {
            role: self.role.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            control: seen.control.version,
            reach: seen.reach(room.now_ms()).as_str().to_owned(),
            settings: file.version.clone(),
            settings_refused: file.error.is_some(),
            settings_differ: !file.restart.is_empty()
                || !file.refused.is_empty()
                || !file.differs.is_empty(),
            keys: self.keys.fingerprint().to_string(),
            identity: self.keys.identity(),
        }
    }
}

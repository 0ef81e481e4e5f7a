//! Follows the settings file: what may change while a sale runs is published to all nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::serve::Parts;
use crate::clock::{Clock, SystemClock};
use crate::config::load::Loaded;
use crate::config::reload::{Change, Diff, Look, Watcher};
use crate::config::span::Span;
use crate::domain::id::SaleId;
use crate::store::redis::RedisStore;
use crate::store::redis::room::{ControlChange, Publish, RoomStore};

/// How often the file is read.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long new bytes must stand before they are believed.
const SETTLE: Duration = Duration::from_millis(50);

/// Starts following the file that was loaded.
pub(super) fn start(parts: &Parts, loaded: &Loaded) -> anyhow::Result<()> {
    let follower = Follower {
        watcher: Watcher::new(loaded),
        redis: parts.redis.clone(),
        author: format!("config@{}", std::process::id()),
        unpublished: BTreeMap::new(),
        metrics: parts.metrics.clone(),
    };
    let hang_up = signal(SignalKind::hangup())?;
    parts.life.background("settings reload", follower.run(hang_up, parts.life.ending()));
    Ok(())
}

struct Follower {
    watcher: Watcher,
    redis: RedisStore,
    author: String,
    /// What Redis has not taken yet; a later change of the same key replaces an earlier one.
    unpublished: BTreeMap<SaleId, Change>,
    metrics: std::sync::Arc<crate::telemetry::Metrics>,
}

impl Follower {
    async fn run(mut self, mut hang_up: tokio::signal::unix::Signal, ending: CancellationToken) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = ending.cancelled() => return,
                _ = tick.tick() => {}
                _ = hang_up.recv() => tracing::info!("SIGHUP: reading the settings again"),
            }
            self.follow().await;
        }
    }

    async fn follow(&mut self) {
        let look = match self.watcher.look(now()) {
            Look::Unsettled => {
                tokio::time::sleep(SETTLE).await;
                self.watcher.look(now())
            }
            settled => settled,
        };
        match look {
            Look::Same | Look::Unsettled => {}
            Look::Refused(refused) => {
                self.metrics.config_reloaded(false);
                tracing::error!("settings refused, the old ones stay:\n{refused}");
            }
            Look::Good(diff) => {
                self.metrics.config_reloaded(true);
                self.note(*diff);
            }
        }
        self.publish().await;
    }

    fn note(&mut self, diff: Diff) {
        let file = self.watcher.file().display();
        if !diff.restart_only.is_empty() {
            let keys = diff.restart_only.join(", ");
            tracing::warn!(%file, %keys, "these keys differ and are read only at the start");
        }
        for change in diff.changes {
            tracing::info!(%file, ?change, "settings changed");
            let change = match self.unpublished.remove(&change.sale) {
                Some(earlier) => earlier.then(change),
                None => change,
            };
            self.unpublished.insert(change.sale.clone(), change);
        }
    }

    /// Publishes what is due; what cannot be published is tried again at the next tick.
    async fn publish(&mut self) {
        for (sale, change) in std::mem::take(&mut self.unpublished) {
            let room = RoomStore::new(self.redis.clone(), &sale);
            match room.publish(&self.author, &control_change(&change)).await {
                Ok(Publish::Changed(version)) => tracing::info!(%sale, version, "change published"),
                Ok(Publish::Same(version)) => {
                    tracing::debug!(%sale, version, "another node published the change");
                }
                Ok(Publish::Unloaded) => {
                    self.unpublished.insert(sale, change);
                }
                Err(error) => {
                    tracing::warn!(%sale, %error, "a change waits for Redis");
                    self.unpublished.insert(sale, change);
                }
            }
        }
    }
}

fn control_change(change: &Change) -> ControlChange {
    ControlChange {
        paused: change.paused,
        rate: change.rate,
        burst: change.burst,
        max_active: change.max_active,
        claim_window_ms: change.claim_window.map(Span::ms),
        ..ControlChange::default()
    }
}

fn now() -> jiff::Timestamp {
    let ms = i64::try_from(SystemClock.now_ms()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).unwrap_or_default()
}

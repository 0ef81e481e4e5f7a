//! Follows the settings file: what may change while a sale runs is published to all nodes, the
//! rest is named.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::metrics::gauge::Gauge;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::serve::Parts;
use crate::clock::{Clock, SystemClock};
use crate::config::Settings;
use crate::config::keys::Effect;
use crate::config::load::Loaded;
use crate::config::reload::{Change, Diff, Look, ReloadState, Watcher, differing, version};
use crate::config::span::Span;
use crate::domain::control::ControlChange;
use crate::domain::id::SaleId;
use crate::keeper::ControlDesk;
use crate::store::redis::RedisStore;
use crate::store::redis::room::RoomStore;

/// How often the file is read.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long new bytes must stand before they are believed.
const SETTLE: Duration = Duration::from_millis(50);
/// How long a resume is tried: one that comes later might undo a stop that was ordered since.
const RESUME_MAX: Duration = Duration::from_secs(5);
/// Records in force are compared with the file every so many looks.
const LOOKS_PER_COMPARISON: u64 = 4;

/// Starts following the file that was loaded.
pub(super) fn start(
    parts: &Parts,
    loaded: &Loaded,
    desk: Arc<ControlDesk>,
    node: &str,
) -> anyhow::Result<()> {
    let follower = Follower {
        watcher: Watcher::new(loaded),
        redis: parts.redis.clone(),
        desk,
        author: format!("config@{node}"),
        unpublished: BTreeMap::new(),
        metrics: parts.metrics.clone(),
        waiting: Waiting::register(parts),
        state: Arc::clone(&parts.reload),
        running: parts.running.clone(),
    };
    let hang_up = signal(SignalKind::hangup())?;
    parts.life.background("settings reload", follower.run(hang_up, parts.life.ending()));
    Ok(())
}

/// How many keys are not as the file says.
struct Waiting {
    restart: Gauge,
    refused: Gauge,
    differs: Gauge,
}

impl Waiting {
    fn register(parts: &Parts) -> Self {
        let waiting = Self {
            restart: Gauge::default(),
            refused: Gauge::default(),
            differs: Gauge::default(),
        };
        parts.metrics.register(|registry| {
            let rows = [
                (
                    "config_keys_waiting",
                    "Keys of the file that wait for a restart",
                    &waiting.restart,
                ),
                (
                    "config_keys_refused",
                    "Keys of the file that are refused while their sale is on",
                    &waiting.refused,
                ),
                (
                    "config_keys_differing",
                    "Keys of sales that run otherwise than the file says",
                    &waiting.differs,
                ),
            ];
            for (name, help, gauge) in rows {
                registry.register(name, help, gauge.clone());
            }
        });
        waiting
    }

    fn set(gauge: &Gauge, keys: &[String]) {
        gauge.set(i64::try_from(keys.len()).unwrap_or(i64::MAX));
    }
}

struct Follower {
    watcher: Watcher,
    redis: RedisStore,
    desk: Arc<ControlDesk>,
    author: String,
    /// What no store has taken yet; a later change of the same key replaces an earlier one.
    unpublished: BTreeMap<SaleId, (Change, Instant)>,
    metrics: Arc<crate::telemetry::Metrics>,
    waiting: Waiting,
    state: Arc<ReloadState>,
    running: watch::Sender<Arc<Settings>>,
}

impl Follower {
    async fn run(mut self, mut hang_up: Signal, ending: CancellationToken) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for look in 0_u64.. {
            let asked = tokio::select! {
                () = ending.cancelled() => return,
                _ = tick.tick() => false,
                _ = hang_up.recv() => true,
            };
            self.follow(asked).await;
            if look.is_multiple_of(LOOKS_PER_COMPARISON) {
                self.compare().await;
            }
        }
    }

    /// `asked`: somebody wants to hear what became of the file.
    async fn follow(&mut self, asked: bool) {
        let look = match self.watcher.look(now()) {
            Look::Unsettled => {
                tokio::time::sleep(SETTLE).await;
                self.watcher.look(now())
            }
            settled => settled,
        };
        match look {
            Look::Same if asked => self.say_again(),
            Look::Same | Look::Unsettled => {}
            Look::Refused(refused) => {
                self.metrics.config_reloaded(false);
                tracing::error!("settings refused, the old ones stay:\n{refused}");
                self.state.update(|state| state.error = Some(refused.to_string()));
            }
            Look::Good(diff) => {
                self.metrics.config_reloaded(true);
                self.note(*diff);
            }
        }
        self.publish().await;
    }

    fn say_again(&self) {
        if let Some(error) = &self.state.get().error {
            tracing::error!("settings refused as before, the old ones stay:\n{error}");
        } else {
            tracing::info!(file = %self.watcher.file().display(), "settings: no change");
        }
    }

    fn note(&mut self, diff: Diff) {
        let file = self.watcher.file().display();
        let (restart, refused) = (diff.keys(Effect::Restart), diff.keys(Effect::Refused));
        if diff.is_empty() {
            tracing::info!(%file, "settings: no change");
        }
        if !restart.is_empty() {
            let keys = restart.join(", ");
            tracing::warn!(%file, %keys, "these keys differ and are read only at the start");
        }
        if !refused.is_empty() {
            let keys = refused.join(", ");
            tracing::error!(%file, %keys, "these keys are refused while their sale is on");
        }
        Waiting::set(&self.waiting.restart, &restart);
        Waiting::set(&self.waiting.refused, &refused);
        let version = version(self.watcher.settings());
        self.state.update(|state| {
            (state.error, state.version) = (None, version);
            (state.restart, state.refused) = (restart, refused);
        });
        if diff.node {
            let keys = diff.keys(Effect::Hot).join(", ");
            tracing::info!(%keys, "settings changed on this node");
            self.running.send_replace(Arc::new(self.watcher.settings().clone()));
        }
        for change in diff.changes {
            tracing::info!(?change, "settings changed");
            let change = match self.unpublished.remove(&change.sale) {
                Some((earlier, _)) => earlier.then(change),
                None => change,
            };
            self.unpublished.insert(change.sale.clone(), (change, Instant::now()));
        }
    }

    /// Publishes what is due; what cannot be published is tried again at the next tick.
    async fn publish(&mut self) {
        for (sale, (mut change, noted)) in std::mem::take(&mut self.unpublished) {
            let mut applied = self.desk.apply(&sale, &self.author, &control_change(&change)).await;
            if let Err(refusal) = &applied
                && refusal.http_status() < 500
                && let Some(rest) = self.without_times(&change, &refusal.detail)
            {
                applied = self.desk.apply(&sale, &self.author, &control_change(&rest)).await;
            }
            match applied {
                Ok(applied) => {
                    let version = applied.control.version;
                    tracing::debug!(%sale, version, changed = applied.changed, "change published");
                }
                Err(refusal) if refusal.http_status() < 500 => {
                    tracing::error!(%sale, error = refusal.detail, "a change is refused");
                }
                Err(refusal) => {
                    tracing::warn!(%sale, error = refusal.detail, "a change waits for a store");
                    if change.paused == Some(false) && noted.elapsed() > RESUME_MAX {
                        change.paused = None;
                        tracing::error!(%sale, "a resume came to no store in time and is dropped: \
                            somebody may have stopped the sale since; `stanchion sale resume`");
                    }
                    self.unpublished.insert(sale, (change, noted));
                }
            }
        }
    }

    /// The change without its times, which are refused; nothing if there are none.
    fn without_times(&self, change: &Change, why: &str) -> Option<Change> {
        let (times, rest) = change.clone().split_times();
        if times.is_none() {
            return None;
        }
        let named = |key: &&str| format!("{} {key}", times.sale);
        let refused: Vec<_> = times.keys().iter().map(named).collect();
        let keys = refused.join(", ");
        tracing::error!(%keys, why, "these keys are refused");
        self.state.update(|state| state.refused.extend(refused));
        Waiting::set(&self.waiting.refused, &self.state.get().refused);
        Some(rest)
    }

    /// The record goes before the file: it is what all nodes run with. Where they differ is named,
    /// at the start and whenever it changes.
    async fn compare(&mut self) {
        let mut differs = vec![];
        for sale in &self.watcher.settings().sales {
            if self.unpublished.contains_key(&sale.id) {
                return;
            }
            let room = RoomStore::new(self.redis.clone(), &sale.id);
            let Ok((_, Some(seen))) = room.look().await else { return };
            differs.extend(differing(sale, &seen.control));
        }
        if differs == self.state.get().differs {
            return;
        }
        if differs.is_empty() {
            tracing::info!("every sale runs as the file says again");
        } else {
            let keys = differs.join("; ");
            tracing::warn!(%keys, "file differs: the records in force are kept");
        }
        Waiting::set(&self.waiting.differs, &differs);
        self.state.update(|state| state.differs = differs);
    }
}

fn control_change(change: &Change) -> ControlChange {
    let ms = |at: jiff::Timestamp| u64::try_from(at.as_millisecond()).unwrap_or(0);
    ControlChange {
        paused: change.paused,
        rate: change.rate,
        burst: change.burst,
        max_active: change.max_active,
        claim_window_ms: change.claim_window.map(Span::ms),
        lobby_opens_ms: change.lobby_opens.map(ms),
        opens_ms: change.opens.map(ms),
        closes_ms: change.closes.map(ms),
        ..ControlChange::default()
    }
}

fn now() -> jiff::Timestamp {
    let ms = i64::try_from(SystemClock.now_ms()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).unwrap_or_default()
}

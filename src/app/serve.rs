//! One process from its start to its end.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use secrecy::ExposeSecret;
use tokio::sync::watch;

use super::inherited::Inherited;
use super::listeners::Doors;
use super::secrets::Secrets;
use super::{core, eviction, gateway, keys, limits, nodes, probes, reload, settle, steer};
use crate::clock::{Clock, RoomClock, SystemClock};
use crate::config::Settings;
use crate::config::load::Loaded;
use crate::config::reload::ReloadState;
use crate::lifecycle::{Lifecycle, Signals};
use crate::ops::health::Health;
use crate::ops::pulse::Pulse;
use crate::ops::{self, Dash, DashParts, Ops, OpsKey, Roster};
use crate::room::keys::Keys;
use crate::store::redis::{RedisStore, connect_as};
use crate::telemetry::Metrics;

/// After the longest drain, whatever still runs is cut.
const HARD_STOP_AFTER: Duration = Duration::from_secs(15);

/// What a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Gateway and core in one process.
    All,
    /// The public edge: queue pages, admissions, the way to the shop.
    Gateway,
    /// Stock and reservations, on Postgres.
    Core,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Gateway => "gateway",
            Self::Core => "core",
        }
    }

    pub(super) fn has_core(self) -> bool {
        matches!(self, Self::All | Self::Core)
    }

    fn has_gateway(self) -> bool {
        matches!(self, Self::All | Self::Gateway)
    }
}

/// What every part of a process is given.
pub(super) struct Parts {
    /// As at the start.
    pub(super) settings: Arc<Settings>,
    /// With the hot keys of this node as they are now; every value is news.
    pub(super) running: watch::Sender<Arc<Settings>>,
    /// What became of the file since.
    pub(super) reload: Arc<ReloadState>,
    pub(super) life: Lifecycle,
    pub(super) metrics: Arc<Metrics>,
    pub(super) keys: Arc<Keys>,
    /// The room's clock as this process knows it.
    pub(super) clock: RoomClock,
    pub(super) redis: RedisStore,
    pub(super) secrets: Secrets,
}

/// Runs until it is told to stop, or until a part of it dies.
pub async fn serve(loaded: Loaded, role: Role, secrets: Secrets) -> anyhow::Result<()> {
    let inherited = Inherited::take()?;
    let mut settings = loaded.settings.clone();
    limits::raise(&mut settings.limits.max_connections);
    let signals = Signals::listen().context("listening for SIGTERM and SIGINT")?;
    let life = Lifecycle::new();
    let reload = Arc::new(ReloadState::new(&loaded.file, &loaded.settings));
    let parts = parts(settings, reload, role, secrets, life.clone()).await?;
    let doors =
        Doors::bind(&parts.settings, role.has_gateway(), role.has_core(), inherited).await?;
    doors.announce()?;
    eviction::refuse(&parts).await?;
    let desk = steer::desk(&parts, &steer::core_urls(&doors, &parts.settings))?;
    let node = steer::node_name(&doors);
    reload::start(&parts, &loaded, Arc::clone(&desk), &node)?;
    keys::watch(&parts);

    let mut health = Health::new(life.draining());
    let redis = parts.redis.clone();
    health.add("redis", role.has_gateway(), move || probes::redis(redis.clone()));
    let core_url = doors.core_url(&parts.settings);
    if let Some(listener) = doors.core {
        core::start(&parts, listener, &mut health).await?;
    }
    let rooms = if role.has_gateway() {
        gateway::start(&parts, doors.public, &core_url, &mut health)?
    } else {
        gateway::watch(&parts)
    };
    steer::ask_cores(&parts, &desk, &rooms);

    let ops_key = OpsKey::new(parts.secrets.ops_key.as_ref(), &parts.settings.ops.key_env);
    let roster = nodes::start(&parts, role, &node, &rooms);
    let ops = Arc::new(Ops { key: ops_key, node, desk, rooms: rooms.clone() });
    let health = Arc::new(health);
    let dash = dash(&parts, Arc::clone(&ops), roster, Arc::clone(&health));
    let routes = ops::router(health, Arc::clone(&parts.metrics), ops, dash);
    parts.serve_router("ops listener", doors.ops, routes);
    if role.has_gateway() {
        settle::settle(&rooms).await;
    }
    writeln!(std::io::stdout(), "ready").context("saying that we are ready")?;
    tracing::info!(role = role.name(), "ready");
    let drain = parts.settings.public.stream_drain_timeout.duration();
    life.run(signals, drain + HARD_STOP_AFTER).await
}

/// The operators' page, and the pulse that it shows.
fn dash(parts: &Parts, ops: Arc<Ops>, roster: Arc<Roster>, health: Arc<Health>) -> Arc<Dash> {
    let pulse = parts.metrics.register(|registry| Pulse::new(&ops.rooms, registry));
    let pulse = Arc::new(pulse);
    parts.life.background("pulse", Arc::clone(&pulse).run(parts.life.ending()));
    Dash::new(DashParts {
        ops,
        pulse,
        roster,
        reload: Arc::clone(&parts.reload),
        health,
        now_ms: || SystemClock.now_ms(),
        draining: parts.life.draining(),
    })
}

async fn parts(
    settings: Settings,
    reload: Arc<ReloadState>,
    role: Role,
    secrets: Secrets,
    life: Lifecycle,
) -> anyhow::Result<Parts> {
    let (mode, master) = (settings.redis.mode, &settings.redis.master);
    let redis = connect_as(mode, secrets.redis_url.expose_secret(), master);
    let redis = redis.context("redis.urls_env")?;
    Ok(Parts {
        life,
        metrics: Arc::new(Metrics::new(role.name())),
        keys: Arc::new(keys::load(&settings, role, &redis).await?),
        clock: RoomClock::new(Arc::new(SystemClock)),
        redis,
        secrets,
        running: watch::Sender::new(Arc::new(settings.clone())),
        settings: Arc::new(settings),
        reload,
    })
}

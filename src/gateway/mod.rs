//! The public edge: thin, one pipeline from request to response.
//!
//! [`Gateway::handle`] is the whole of it. `route` decides on canonical path and method alone,
//! `identify` on verified tokens alone, and `forward` cannot be called without the one or the other.

mod accounts;
mod answers;
mod asked;
pub mod assets;
mod auth;
pub mod bounds;
mod breaker;
mod broken;
mod bypass;
mod checkout;
mod cookies;
mod core_client;
mod counted;
mod crowd;
mod door;
mod draw;
mod events;
mod express;
mod fields;
mod first_name;
mod forward;
mod freshness;
mod gone;
mod headers;
mod https;
mod identify;
mod leaving;
mod limit;
mod limiter;
mod newcomer;
mod own;
pub mod pages;
mod pipeline;
mod queue_page;
mod quick;
mod reader;
mod reading;
mod remembered;
mod renewal;
mod respond;
mod route;
mod sale;
mod shelf;
mod shop_watch;
mod showing;
mod stencil;
mod tie;
mod told;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use secrecy::SecretString;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use accounts::AccountsError;
pub use sale::SaleError;

use crate::clock::{Clock, RoomClock};
use crate::config::Settings;
use crate::http::guard::Sizes;
use crate::http::proxy::Proxy;
use crate::http::trusted::{Cdn, Trusted};
use crate::http::upstream::{OriginError, Times, Upstream};
use crate::room::Room;
use crate::room::keys::Keys;
use crate::telemetry::Metrics;
use accounts::Accounts;
use core_client::CoreClient;
use counted::Counted;
use crowd::Crowd;
use events::{Streams, TELL_EVERY};
use first_name::FirstName;
use forward::Shop;
use gone::Gone;
use https::Https;
use limiter::Limiter;
use renewal::Holds;
use sale::SaleGate;

/// How often quotas drop their idle keys.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What a gateway is made from.
pub struct GatewayParts<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// One room per sale of the settings, in their order.
    pub rooms: Vec<Arc<Room>>,
    /// Signing keys.
    pub keys: Arc<Keys>,
    /// The room's clock.
    pub clock: RoomClock,
    /// The core's address; several separated by commas.
    pub core_url: String,
    /// The core's bearer key.
    pub core_key: SecretString,
    /// Sent to the shop as `Stanchion-Origin-Key`.
    pub shop_secret: Option<SecretString>,
    /// Turns `/_stanchion/health` to 503, and ends upgraded connections.
    pub draining: CancellationToken,
    /// Where upgraded connections run.
    pub connections: TaskTracker,
    /// Where the edge's counters go.
    pub metrics: &'a Metrics,
}

/// Why a gateway cannot be made; the text names the key.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// An address of the shop.
    #[error("shop.origins: {0}")]
    Shop(OriginError),
    /// The core's address.
    #[error("core.url: {0}")]
    Core(OriginError),
    /// The account source.
    #[error(transparent)]
    Accounts(#[from] AccountsError),
    /// A sale's patterns.
    #[error(transparent)]
    Sale(#[from] SaleError),
}

/// The public edge of one process; it owns nothing of value but caches and counts.
pub struct Gateway {
    sales: Vec<SaleGate>,
    shop: Shop,
    core: Arc<CoreClient>,
    accounts: Accounts,
    limiter: ArcSwap<Limiter>,
    https: Https,
    streams: Streams,
    crowd: Arc<Crowd>,
    gone: Gone,
    counted: Counted,
    keys: Arc<Keys>,
    clock: RoomClock,
    trusted: Trusted,
    sizes: Sizes,
    /// Lower case, without port.
    hostnames: Vec<String>,
    first_name: FirstName,
    cors_origins: ArcSwap<Vec<String>>,
    login_url: String,
    draining: CancellationToken,
}

impl Gateway {
    /// Builds it; nothing is spoken to yet.
    pub fn new(parts: GatewayParts<'_>) -> Result<Self, GatewayError> {
        let settings = parts.settings;
        let times = Times {
            connect: settings.shop.connect_timeout.duration(),
            response: settings.shop.response_timeout.duration(),
            body_idle: settings.shop.body_idle_timeout.duration(),
            pool_idle: settings.shop.pool_idle.duration(),
            in_flight: settings.shop.max_requests,
            ..Times::default()
        };
        let upstream = Upstream::new(&settings.shop.origins, times).map_err(GatewayError::Shop)?;
        let upstream = if settings.shop.http2 { upstream.over_http2() } else { upstream };
        let allowance = bounds::of_proxying(settings);
        let (draining, connections) = (parts.draining.clone(), parts.connections);
        let proxy = Proxy::new(upstream, allowance, draining, connections);
        let core = CoreClient::new(&parts.core_url, &parts.core_key).map_err(GatewayError::Core)?;
        let core = Arc::new(core);
        let holds = Arc::new(Holds::new(Arc::clone(&core)));
        let sales = settings.sales.iter().cloned().zip(parts.rooms);
        let sales = sales.map(|(sale, room)| SaleGate::new(sale, room, Arc::clone(&holds)));
        let hostnames = settings.public.hostnames.iter();
        let hostnames: Vec<_> =
            hostnames.map(|name| name.trim_end_matches('.').to_ascii_lowercase()).collect();
        let crowd = Crowd::new(&settings.limits, parts.metrics);
        Ok(Self {
            sales: sales.collect::<Result<_, _>>()?,
            shop: Shop::new(proxy, Arc::clone(&crowd), parts.shop_secret),
            core,
            accounts: Accounts::new(settings)?,
            limiter: ArcSwap::from_pointee(Limiter::new(&settings.limits, parts.metrics)),
            https: Https::new(&settings.public),
            streams: Streams::new(settings.limits.max_connections, parts.draining.clone()),
            crowd,
            gone: Gone::new(parts.metrics),
            counted: Counted::new(parts.metrics),
            keys: parts.keys,
            clock: parts.clock,
            trusted: Trusted::new(settings.public.trusted_proxies.clone(), cdns(settings)),
            sizes: bounds::sizes(&settings.limits.client),
            first_name: FirstName::new(hostnames.first().cloned().unwrap_or_default()),
            hostnames,
            cors_origins: ArcSwap::from_pointee(settings.public.cors_origins.clone()),
            login_url: settings.account.login_url.clone(),
            draining: parts.draining,
        })
    }

    /// Takes over the hot keys that are this node's own.
    pub fn reload(&self, settings: &Settings) {
        self.trusted.replace(settings.public.trusted_proxies.clone(), cdns(settings));
        self.cors_origins.store(Arc::new(settings.public.cors_origins.clone()));
        if let Some(limiter) = self.limiter.load().changed(&settings.limits) {
            self.limiter.store(Arc::new(limiter));
        }
        self.accounts.reload(settings);
    }

    /// Whose forwarding headers are believed; listeners keep their idle connections longer.
    pub fn trusted(&self) -> Trusted {
        self.trusted.clone()
    }

    /// Keeps what vouches for accounts up to date, until cancelled.
    pub async fn follow_accounts(self: Arc<Self>, ending: CancellationToken) {
        self.accounts.follow(ending).await;
    }

    /// Forgets who has not asked for a while, until `ending`.
    pub async fn upkeep(self: Arc<Self>, ending: CancellationToken) {
        while !ending.is_cancelled() {
            tokio::select! {
                () = ending.cancelled() => return,
                () = tokio::time::sleep(SWEEP_EVERY) => self.limiter.load().sweep(),
            }
        }
    }

    /// Tells all event streams of what concerns everybody, until `ending`.
    pub async fn tell(self: Arc<Self>, ending: CancellationToken) {
        let mut ticks = tokio::time::interval(TELL_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while ending.run_until_cancelled(ticks.tick()).await.is_some() {
            self.sales.iter().for_each(|sale| sale.told.look());
        }
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }
}

/// The CDNs of the settings, whose headers were checked with them.
fn cdns(settings: &Settings) -> Vec<Cdn> {
    let cdns = settings.public.cdns.iter();
    cdns.filter_map(|cdn| {
        let header = cdn.header.parse().ok()?;
        Some(Cdn { networks: cdn.networks.clone(), header })
    })
    .collect()
}

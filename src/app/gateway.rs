//! The public edge: rooms, the way to the core, the way to the shop.

use std::sync::Arc;

use anyhow::Context;
use hyper::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::core::CONFIG;
use super::probes;
use super::serve::Parts;
use crate::clock::{Clock, SystemClock};
use crate::config::secret::secret;
use crate::config::settings::{Certificate, Listener, Sale};
use crate::domain::limits::AddressKey;
use crate::gateway::{Gateway, GatewayParts, bounds};
use crate::http::cores::Core;
use crate::http::guests::{Caps, Guests};
use crate::http::listener::{self, Options, Peer};
use crate::http::quick::Quick;
use crate::http::received::Received;
use crate::http::tls::{Certificates, PairFiles};
use crate::ops::health::Health;
use crate::room::metrics::RoomMetrics;
use crate::room::{Room, RoomOptions};

/// Starts everything of the role; the rooms are for whoever waits for them.
pub(super) fn start(
    parts: &Parts,
    public: Vec<(TcpListener, Listener)>,
    core_url: &str,
    health: &mut Health,
) -> anyhow::Result<Vec<Arc<Room>>> {
    let settings = &parts.settings;
    let rooms: Vec<_> = settings.sales.iter().map(|sale| room(parts, sale)).collect();
    for room in &rooms {
        parts.life.background("room", Arc::clone(room).run(parts.life.ending()));
    }
    parts.metrics.register(|registry| RoomMetrics::register(registry, rooms.clone()));
    let shop_secret = match settings.shop.secret_env.as_str() {
        "" => None,
        variable => Some(secret("shop.secret_env", variable, "set it, or leave the key out")?),
    };
    let gateway = Gateway::new(GatewayParts {
        settings,
        rooms: rooms.clone(),
        keys: Arc::clone(&parts.keys),
        clock: parts.clock.clone(),
        core_url: core_url.to_owned(),
        core_key: parts.secrets.core_key.clone(),
        shop_secret,
        draining: parts.life.draining(),
        connections: parts.life.public().tasks(),
        metrics: &parts.metrics,
    })?;
    let gateway = Arc::new(gateway);
    let accounts = Arc::clone(&gateway).follow_accounts(parts.life.ending());
    parts.life.background("account keys", accounts);
    parts.life.background("limits", Arc::clone(&gateway).upkeep(parts.life.ending()));
    parts.life.background("streams", Arc::clone(&gateway).tell(parts.life.ending()));
    let certificates = certificates(parts)?;
    serve(parts, &gateway, certificates.as_ref(), public)?;
    follow(parts, Arc::clone(&gateway), certificates);
    let ending = parts.life.ending();
    parts.life.background("shop watch", async move {
        ending.run_until_cancelled(gateway.watch_shop()).await;
    });

    let core: Vec<String> = core_url.split(',').map(|url| url.trim().to_owned()).collect();
    health.add("core", false, move || probes::any_listens(core.clone()));
    let shop = settings.shop.origins.clone();
    health.add("shop", false, move || probes::any_listens(shop.clone()));
    Ok(rooms)
}

/// The edge follows the hot keys of its node.
fn follow(parts: &Parts, gateway: Arc<Gateway>, certificates: Option<Arc<Certificates>>) {
    let (mut running, ending) = (parts.running.subscribe(), parts.life.ending());
    parts.life.background("hot settings", async move {
        while let Some(Ok(())) = ending.run_until_cancelled(running.changed()).await {
            let settings = Arc::clone(&running.borrow_and_update());
            gateway.reload(&settings);
            if let Some(certificates) = &certificates {
                certificates.want(pair_files(&settings.public.certificates));
            }
        }
    });
}

/// The rooms of a node without a gateway: it only shows them.
pub(super) fn watch(parts: &Parts) -> Vec<Arc<Room>> {
    let rooms: Vec<_> = parts.settings.sales.iter().map(|sale| room(parts, sale)).collect();
    for room in &rooms {
        parts.life.background("room", Arc::clone(room).watch(parts.life.ending()));
    }
    rooms
}

fn room(parts: &Parts, sale: &Sale) -> Arc<Room> {
    let options = RoomOptions {
        sale: sale.id.clone(),
        control: sale.control(CONFIG),
        token_ttl_ms: sale.token_ttl.ms(),
        places_per_ip: sale.places_per_ip,
        max_places: sale.max_places,
        joins_waiting_max: parts.settings.limits.max_joins_waiting,
        units_per_buyer: cap(sale),
        stock_aware: sale.stock_aware,
    };
    let keys = Arc::clone(&parts.keys);
    Room::new(parts.redis.clone(), keys, parts.clock.clone(), options)
}

/// The most units that one buyer may have of all SKUs together; 0 = no cap.
fn cap(sale: &Sale) -> u32 {
    let caps = sale.skus.iter().map(|item| item.units_per_buyer);
    let capped = caps.clone().all(|cap| cap > 0);
    if capped { caps.fold(0, u32::saturating_add) } else { 0 }
}

fn serve(
    parts: &Parts,
    gateway: &Arc<Gateway>,
    certificates: Option<&Arc<Certificates>>,
    public: Vec<(TcpListener, Listener)>,
) -> anyhow::Result<()> {
    let cores = Core::start_all(&parts.life.ending()).context("starting a thread for each core")?;
    let limits = &parts.settings.limits;
    let caps = Caps {
        connections: limits.max_connections_per_ip,
        handshakes: limits.max_handshakes_per_ip,
        spare: limits.max_spare_per_ip,
        turn: limits.client.handshake_timeout.duration() / 2,
    };
    let guests = Guests::new(caps, AddressKey::network);
    let seats = Arc::new(Semaphore::new(limits.max_connections));
    for (socket, listener) in public {
        let options = Options {
            seats: Arc::clone(&seats),
            certificates: certificates.filter(|_| listener.tls).cloned(),
            proxy_protocol: listener.proxy_protocol,
            guests: Some(Arc::clone(&guests)),
            trusted: gateway.trusted(),
            quick: Some(Arc::clone(gateway) as Arc<dyn Quick>),
            bounds: bounds::of_connections(&limits.client),
            drain: parts.settings.public.drain_timeout.duration(),
            stream_drain: parts.settings.public.stream_drain_timeout.duration(),
        };
        let gateway = Arc::clone(gateway);
        let handler = move |request: Request<Incoming>, peer: Peer| {
            gateway.handle(request.map(Received::from), peer)
        };
        let socket = socket.into_std()?;
        let stage = parts.life.public();
        for core in &cores {
            let (stop, tasks) = (stage.closing(), stage.tasks());
            let (options, handler) = (options.clone(), handler.clone());
            // All cores accept from the one queue of the kernel.
            let socket = socket.try_clone()?;
            let accepting = core.run(async move {
                match TcpListener::from_std(socket) {
                    Ok(socket) => listener::serve(socket, options, stop, tasks, handler).await,
                    Err(error) => tracing::error!(%error, "a public listener cannot be used"),
                }
            });
            parts.life.serve(stage, "public listener", accepting);
        }
    }
    Ok(())
}

/// The certificates of all TLS listeners, followed from now on; none if no listener needs any.
fn certificates(parts: &Parts) -> anyhow::Result<Option<Arc<Certificates>>> {
    let public = &parts.settings.public;
    if !public.listeners.iter().any(|listener| listener.tls) {
        return Ok(None);
    }
    let files = pair_files(&public.certificates);
    let loaded = Certificates::load(files, SystemClock.now_ms(), &parts.metrics);
    let certificates = loaded.context("public.certificates")?;
    let follow = Arc::clone(&certificates).follow(Arc::new(SystemClock), parts.life.ending());
    parts.life.background("certificates", follow);
    Ok(Some(certificates))
}

fn pair_files(certificates: &[Certificate]) -> Vec<PairFiles> {
    let files =
        |one: &Certificate| PairFiles { cert: one.cert_file.clone(), key: one.key_file.clone() };
    certificates.iter().map(files).collect()
}

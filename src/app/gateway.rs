//! The public edge: rooms, the way to the core, the way to the shop.

use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;

use super::probes;
use super::serve::Parts;
use crate::clock::{RoomClock, SystemClock};
use crate::config::secret::secret;
use crate::config::settings::{Listener, Sale};
use crate::gateway::{Gateway, GatewayParts};
use crate::http::listener::{self, Options, Peer};
use crate::http::tls;
use crate::ops::health::Health;
use crate::room::{Room, RoomOptions};

/// Starts everything of the role.
pub(super) fn start(
    parts: &Parts,
    public: Vec<(TcpListener, Listener)>,
    core_url: &str,
    health: &mut Health,
) -> anyhow::Result<()> {
    let core = vec![core_url.to_owned()];
    health.add("core", false, move || probes::any_listens(core.clone()));
    let shop = parts.settings.shop.origins.clone();
    health.add("shop", false, move || probes::any_listens(shop.clone()));

    let clock = RoomClock::new(Arc::new(SystemClock));
    let rooms = parts.settings.sales.iter().map(|sale| room(parts, &clock, sale)).collect();
    let gateway = Arc::new(Gateway::new(GatewayParts {
        settings: &parts.settings,
        rooms,
        keys: Arc::clone(&parts.keys),
        clock,
        core_url: core_url.to_owned(),
        core_key: parts.core_key.clone(),
        shop_secret: shop_secret(&parts.settings.shop.secret_env)?,
        draining: parts.life.draining(),
        connections: parts.life.connections(),
        metrics: &parts.metrics,
    })?);
    for (socket, settings) in public {
        open(parts, &gateway, socket, &settings)?;
    }
    Ok(())
}

/// A sale's room, looking at Redis from now on.
fn room(parts: &Parts, clock: &RoomClock, sale: &Sale) -> Arc<Room> {
    let options = RoomOptions {
        sale: sale.id.clone(),
        control: sale.control("file"),
        token_ttl_ms: sale.token_ttl.ms(),
        places_per_ip: sale.places_per_ip,
        max_places: sale.max_places,
        units_per_buyer: sale.skus.iter().map(|sku| sku.units_per_buyer).max().unwrap_or(0),
    };
    let (redis, keys) = (parts.redis.clone(), Arc::clone(&parts.keys));
    let room = Room::new(redis, keys, clock.clone(), options);
    parts.life.background("room", Arc::clone(&room).run(parts.life.ending()));
    room
}

fn shop_secret(variable: &str) -> anyhow::Result<Option<secrecy::SecretString>> {
    match variable {
        "" => Ok(None),
        _ => Ok(Some(secret("shop.secret_env", variable, "set it, or leave the key out")?)),
    }
}

/// Opens a public listener.
fn open(
    parts: &Parts,
    gateway: &Arc<Gateway>,
    socket: TcpListener,
    settings: &Listener,
) -> anyhow::Result<()> {
    let tls = match (settings.tls, parts.settings.public.certificates.first()) {
        (false, _) => None,
        (true, Some(pair)) => {
            let loaded = tls::load(&pair.cert_file, &pair.key_file);
            Some(loaded.context("public.certificates")?)
        }
        (true, None) => anyhow::bail!("public.certificates: a TLS listener needs one"),
    };
    let options = Options {
        connections_max: parts.settings.limits.max_connections,
        tls,
        trusted: gateway.trusted(),
        ..Options::default()
    };
    let gateway = Arc::clone(gateway);
    let handler = move |request, peer: Peer| {
        let gateway = Arc::clone(&gateway);
        async move { gateway.handle(request, peer).await }
    };
    let (stop, tasks) = (parts.life.draining(), parts.life.connections());
    let serve = listener::serve(socket, options, stop, tasks, handler);
    parts.life.serve("public listener", serve);
    Ok(())
}

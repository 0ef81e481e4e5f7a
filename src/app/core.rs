//! The owner of stock: Postgres, the gate, the core API and the loops that keep them true.

use std::sync::Arc;

use anyhow::Context;
use secrecy::ExposeSecret;
use tokio::net::TcpListener;

use super::probes;
use super::serve::Parts;
use crate::clock::RoomClock;
use crate::config::secret::secret;
use crate::config::settings::Sale;
use crate::keeper::Keeper;
use crate::ops::health::Health;
use crate::reservations::retention::keep_forgetting;
use crate::reservations::webhook::{Signer, Webhook, WebhookMetrics};
use crate::reservations::{Reservations, api};
use crate::store::postgres::{Database, Ledger, Options};
use crate::store::redis::gate::Gate;
use crate::store::redis::room::RoomStore;

/// Who wrote a control record that nobody has changed yet.
pub(super) const CONFIG: &str = "config";

/// Starts everything of the role.
pub(super) async fn start(
    parts: &Parts,
    listener: TcpListener,
    health: &mut Health,
) -> anyhow::Result<()> {
    let url = parts.secrets.database_url.as_ref().context("core.database_url_env: no URL")?;
    let accept_lost_commits = parts.settings.core.accept_lost_commits;
    let options = Options { accept_lost_commits, ..Options::default() };
    let database =
        Database::open(url.expose_secret(), options).await.context("core.database_url_env")?;
    let asked = database.clone();
    health.add("postgres", true, move || probes::postgres(asked.clone()));

    let forgetting =
        keep_forgetting(database.clone(), parts.settings.sales.clone(), parts.life.ending());
    let ledger = Ledger::new(database);
    // Stock first: figures of a sale without its units would say "sold out".
    // Admissions are judged by Redis' clock, which signed them.
    let clock = parts.clock.clone();
    let reservations = reservations(parts, ledger.clone(), clock.clone()).await?;
    for sale in &parts.settings.sales {
        keep(parts, &ledger, &clock, sale).await?;
    }
    // Now every sale has a record: nobody is told that his is unknown.
    reservations.refresh_controls().await.context("reading the control records")?;
    // After the control records: a sale's close is read from its own.
    parts.life.background("retention", forgetting);
    webhooks(parts, &ledger)?;
    let keys = Arc::clone(&parts.keys);
    let read_admission = Arc::new(move |raw: &str| keys.read_admission(raw));
    let router = api::router(
        reservations,
        read_admission,
        &parts.secrets.core_key,
        parts.secrets.ops_key.as_ref(),
    );
    parts.serve_router("core listener", listener, router);
    Ok(())
}

/// Delivers events to whoever wants to hear of them.
fn webhooks(parts: &Parts, ledger: &Ledger) -> anyhow::Result<()> {
    let metrics = WebhookMetrics::default();
    parts.metrics.register(|registry| metrics.register(registry));
    for webhook in &parts.settings.core.webhooks {
        let cure = "set it to the receiver's signing secret, whsec_… or any text";
        let signer = Signer::new(&secret("core.webhook.secret_env", &webhook.secret_env, cure)?);
        let webhook = Webhook::new(ledger.clone(), &webhook.url, signer, metrics.clone())
            .context("core.webhook.url")?;
        parts.life.background("webhook", webhook.run(parts.life.ending()));
    }
    Ok(())
}

/// Looks after a sale's room.
async fn keep(
    parts: &Parts,
    ledger: &Ledger,
    clock: &RoomClock,
    sale: &Sale,
) -> anyhow::Result<()> {
    let keeper = Keeper {
        sale: sale.id.clone(),
        file: sale.control(CONFIG),
        room: RoomStore::new(parts.redis.clone(), &sale.id),
        wake: RoomStore::new(parts.redis.patient()?, &sale.id),
        number: rand::random(),
        ledger: ledger.clone(),
        beacon_round: sale.beacon_round,
        seal_key: *parts.keys.seal_key(),
        clock: clock.clone(),
    };
    keeper.boot().await.with_context(|| format!("sale {}", sale.id))?;
    parts.life.background("keeper", keeper.run(parts.life.ending()));
    Ok(())
}

/// Stock loaded, and the loops that sweep, reconcile and keep what is remembered fresh.
async fn reservations(
    parts: &Parts,
    ledger: Ledger,
    clock: RoomClock,
) -> anyhow::Result<Arc<Reservations>> {
    let (life, settings) = (&parts.life, &parts.settings);
    let reservations = Arc::new(Reservations::new(
        ledger,
        Gate::new(parts.redis.clone()),
        &settings.sales,
        Arc::new(clock),
        life.private().tasks(),
    ));
    reservations.prepare().await?;
    parts.metrics.register(|registry| reservations.metrics().register(registry));
    let (sweep, reconcile) = (settings.core.sweep_every, settings.core.reconcile_every);
    let each = || (Arc::clone(&reservations), life.ending());
    let (this, stop) = each();
    let room = |sale: &Sale| (sale.id.clone(), RoomStore::new(parts.redis.clone(), &sale.id));
    let rooms: Vec<_> = settings.sales.iter().map(room).collect();
    life.background("control records", this.watch_controls(rooms.clone(), stop));
    let (this, stop) = each();
    life.background("news to the rooms", this.keep_telling(rooms, stop));
    let (this, stop) = each();
    life.background("shelves", this.watch_shelves(stop));
    let (this, stop) = each();
    life.background("sweep", this.keep_sweeping(sweep.duration(), stop));
    let (this, stop) = each();
    life.background("reconcile", this.keep_reconciling(reconcile.duration(), stop));
    Ok(reservations)
}

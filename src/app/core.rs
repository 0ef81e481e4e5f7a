//! The owner of stock: Postgres, the gate, the core API and the loops that keep them true.

use anyhow::Context;
use secrecy::ExposeSecret;
use tokio::net::TcpListener;

use super::probes;
use super::serve::Parts;
use crate::config::secret::secret;
use crate::config::settings::Sale;
use crate::keeper::Keeper;
use crate::ops::health::Health;
use crate::store::postgres::{Database, Ledger, Options};
use crate::store::redis::room::RoomStore;

/// Who wrote a control record that nobody has changed yet.
pub(super) const CONFIG: &str = "config";

/// Starts everything of the role.
pub(super) async fn start(
    parts: &Parts,
    _listener: TcpListener,
    health: &mut Health,
) -> anyhow::Result<()> {
    let url = secret(
        "core.database_url_env",
        &parts.settings.core.database_url_env,
        "set it to postgres://USER@HOST:PORT/DATABASE of your Postgres",
    )?;
    let database = Database::open(url.expose_secret(), Options::default())
        .await
        .context("core.database_url_env")?;
    let asked = database.clone();
    health.add("postgres", true, move || probes::postgres(asked.clone()));

    let ledger = Ledger::new(database);
    for sale in &parts.settings.sales {
        keep(parts, &ledger, sale).await?;
    }
    Ok(())
}

/// Looks after a sale's room.
async fn keep(parts: &Parts, ledger: &Ledger, sale: &Sale) -> anyhow::Result<()> {
    let keeper = Keeper {
        sale: sale.id.clone(),
        file: sale.control(CONFIG),
        room: RoomStore::new(parts.redis.clone(), &sale.id),
        ledger: ledger.clone(),
        seal_key: *parts.keys.seal_key(),
    };
    keeper.boot().await.with_context(|| format!("sale {}", sale.id))?;
    parts.life.background("keeper", keeper.run(parts.life.ending()));
    Ok(())
}

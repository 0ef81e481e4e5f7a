//! The owner of stock: Postgres, the gate, the core API and the loops that keep them true.

use tokio::net::TcpListener;

use super::probes;
use super::serve::Parts;
use crate::config::secret::secret;
use crate::ops::health::Health;
use crate::store::postgres::{Database, Options};
use anyhow::Context;
use secrecy::ExposeSecret;

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
    Ok(())
}

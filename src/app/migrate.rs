//! The ledger's schema, brought up to date without starting anything else.

use anyhow::Context;
use secrecy::ExposeSecret;

use super::secrets::database_url;
use crate::config::Settings;
use crate::store::postgres::{Database, Options};

/// Migrates the ledger that the settings name. Every core does the same when it starts.
pub async fn migrate(settings: &Settings) -> anyhow::Result<()> {
    let url = database_url(settings)?;
    let options = Options { connections: 1, lane_connections: 1, ..Options::default() };
    Database::open(url.expose_secret(), options).await.context("core.database_url_env")?;
    Ok(())
}

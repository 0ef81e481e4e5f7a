//! `stanchion serve`: the program itself, on stores that are given or of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{read, runtime};
use crate::app::{Role, Secrets, Stores};
use crate::config::Settings;
use crate::servers::DurableStores;

/// Where our own stores live, unless said otherwise.
pub(super) const DATA: &str = "stanchion-data";

/// Arguments of `serve`.
#[derive(Args)]
pub(super) struct Serve {
    /// The settings file; else ./config/stanchion.toml, then /etc/stanchion/stanchion.toml.
    #[arg(short, long, value_name = "FILE", env = "STANCHION_CONFIG")]
    config: Option<PathBuf>,
    /// What this process is: the public edge, the owner of stock, or both in one.
    #[arg(long, value_enum, default_value_t = Role::All)]
    role: Role,
    /// With no URL of a Postgres nor of a Redis set, role `all` runs its own, durable, in this
    /// folder [default: stanchion-data].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Runs until it is told to stop.
pub(super) fn run(serve: &Serve) -> anyhow::Result<ExitCode> {
    let loaded = read(serve.config.as_deref())?;
    crate::telemetry::start_logs(loaded.settings.log.format);
    for warning in &loaded.warnings {
        tracing::warn!(file = %loaded.file.display(), "{warning}");
    }
    // Dropped, and with them the servers stopped, after the program itself has ended.
    let (secrets, _own) = secrets(serve, &loaded.settings)?;
    runtime()?.block_on(crate::app::serve(loaded, serve.role, secrets))?;
    Ok(ExitCode::SUCCESS)
}

fn secrets(serve: &Serve, settings: &Settings) -> anyhow::Result<(Secrets, Option<DurableStores>)> {
    match Stores::wanted(settings, serve.role)? {
        Stores::Given => {
            if serve.data.is_some() {
                let (redis, core) = (&settings.redis.urls_env, &settings.core.database_url_env);
                anyhow::bail!(
                    "--data is for stores of our own, but URLs of others are set: unset {redis} \
                     and {core}, or leave --data out"
                );
            }
            Ok((Secrets::from_environment(settings, serve.role)?, None))
        }
        Stores::Own => {
            let folder = serve.data.clone().unwrap_or_else(|| DATA.into());
            let own = DurableStores::open(&folder)?;
            let (path, (database, redis)) = (own.path(), (own.database_url(), own.redis_url()));
            let secrets = Secrets::with_own_stores(settings, path, database, redis)?;
            tracing::info!(
                data = %path.display(),
                "no store's URL is set: running our own Postgres and Redis; keys for the shop's \
                 back end and for you are in core.key and ops.key there"
            );
            Ok((secrets, Some(own)))
        }
    }
}

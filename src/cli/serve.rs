//! `stanchion serve`: the program itself.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{read, runtime};
use crate::app::Role;

/// Arguments of `serve`.
#[derive(Args)]
pub(super) struct Serve {
    /// The settings file; else ./config/stanchion.toml, then /etc/stanchion/stanchion.toml.
    #[arg(short, long, value_name = "FILE", env = "STANCHION_CONFIG")]
    config: Option<PathBuf>,
    /// What this process is: the public edge, the owner of stock, or both in one.
    #[arg(long, value_enum, default_value_t = Role::All)]
    role: Role,
}

/// Runs until it is told to stop.
pub(super) fn run(serve: &Serve) -> anyhow::Result<ExitCode> {
    let loaded = read(serve.config.as_deref())?;
    crate::telemetry::start_logs(loaded.settings.log.format);
    for warning in &loaded.warnings {
        tracing::warn!(file = %loaded.file.display(), "{warning}");
    }
    runtime()?.block_on(crate::app::serve(loaded, serve.role))?;
    Ok(ExitCode::SUCCESS)
}

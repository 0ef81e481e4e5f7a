//! `stanchion migrate`: brings the ledger's schema up to this program's version.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{read, runtime, say};

/// Which ledger.
#[derive(Args)]
pub(super) struct Migrate {
    /// The settings file; else ./config/stanchion.toml, then /etc/stanchion/stanchion.toml.
    #[arg(short, long, value_name = "FILE", env = "STANCHION_CONFIG")]
    config: Option<PathBuf>,
}

/// Runs it.
pub(super) fn run(args: &Migrate) -> anyhow::Result<ExitCode> {
    let loaded = read(args.config.as_deref())?;
    runtime()?.block_on(crate::app::migrate(&loaded.settings))?;
    say("the ledger is up to date\n");
    Ok(ExitCode::SUCCESS)
}

//! `stanchion keys`: what tickets and admissions are signed with.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;

use super::say;
use crate::room::keys::Keys;

/// What can be done with keys.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Make a folder of fresh keys; copy it to every node. Refuses a folder that has keys.
    #[command(after_help = "Example:\n  stanchion keys new --dir keys")]
    New {
        /// Where to put them: the `keys.dir` of the settings.
        #[arg(long, value_name = "DIR", default_value = "keys")]
        dir: PathBuf,
    },
}

/// Runs one of them.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::New { dir } => new(&dir),
    }
}

fn new(dir: &std::path::Path) -> anyhow::Result<ExitCode> {
    Keys::generate(dir).context("making keys")?;
    say(&format!("keys made in {}; the same folder belongs on every node\n", dir.display()));
    Ok(ExitCode::SUCCESS)
}

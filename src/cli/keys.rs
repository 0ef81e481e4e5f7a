//! `stanchion keys`: what tickets and admissions are signed with.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use serde::Serialize;

use super::say;
use crate::config::span::Span;
use crate::room::keys::{self, Keys};

/// What can be done with keys.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Make a folder of fresh keys; copy it to every node. Refuses a folder that has keys.
    #[command(after_help = "Example:\n  stanchion keys new --dir keys")]
    New(At),
    /// Put new keys beside the old ones; running nodes take them over by themselves.
    ///
    /// A new key verifies at once and signs later, so that there is time to copy the folder to
    /// every node. Old keys verify until --keep has passed, which must be longer than the longest
    /// sale from its lobby to its close; then the next rotation takes them away. Places are kept.
    #[command(
        after_help = "Example:\n  stanchion keys rotate --dir keys && rsync -a keys/ node2:/etc/stanchion/keys/"
    )]
    Rotate {
        #[command(flatten)]
        at: At,
        /// When the new keys begin to sign.
        #[arg(long, value_name = "SPAN", default_value = "60s", value_parser = Span::parse)]
        sign_after: Span,
        /// How long replaced keys go on verifying.
        #[arg(long, value_name = "SPAN", default_value = "30d", value_parser = Span::parse)]
        keep: Span,
    },
    /// List the keys of a folder, and which of them sign.
    #[command(after_help = "Example:\n  stanchion keys list --dir keys --json")]
    List(At),
}

/// Where, and how it is told.
#[derive(clap::Args)]
pub(super) struct At {
    /// The `keys.dir` of the settings.
    #[arg(long, value_name = "DIR", default_value = "keys")]
    dir: PathBuf,
    /// For programs.
    #[arg(long)]
    json: bool,
}

/// Runs one of them.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::New(at) => new(&at),
        Command::Rotate { at, sign_after, keep } => rotate(&at, sign_after, keep),
        Command::List(at) => list(&at),
    }
}

#[derive(Serialize)]
struct Set<'a> {
    fingerprint: &'a str,
    keys: Vec<keys::Listed>,
}

fn new(at: &At) -> anyhow::Result<ExitCode> {
    let made = Keys::generate(&at.dir).context("making keys")?;
    if at.json {
        return tell_set(&at.dir, &made);
    }
    say(&format!("keys made in {}; the same folder belongs on every node\n", at.dir.display()));
    Ok(ExitCode::SUCCESS)
}

fn rotate(at: &At, sign_after: Span, keep: Span) -> anyhow::Result<ExitCode> {
    let rotated = keys::rotate(&at.dir, sign_after.ms(), keep.ms()).context("rotating keys")?;
    if at.json {
        return tell(&rotated);
    }
    let mut text = format!(
        "made {}; they sign from {}: copy the folder to every node before that\n",
        rotated.made.join(" and "),
        rotated.signs_from
    );
    if !rotated.removed.is_empty() {
        let _infallible = writeln!(text, "took away {}", rotated.removed.join(" and "));
    }
    say(&text);
    Ok(ExitCode::SUCCESS)
}

fn list(at: &At) -> anyhow::Result<ExitCode> {
    let loaded = Keys::load(&at.dir).context("reading keys")?;
    if at.json {
        return tell_set(&at.dir, &loaded);
    }
    let mut text = format!("fingerprint {}\n", loaded.fingerprint());
    for key in keys::list(&at.dir)? {
        let from = key.signs_from.map(|from| format!("  from {from}")).unwrap_or_default();
        let state = key.state.as_str();
        let _infallible = writeln!(text, "{:<20} {state:<9} {}{from}", key.file, key.id);
    }
    say(&text);
    Ok(ExitCode::SUCCESS)
}

fn tell_set(dir: &Path, loaded: &Keys) -> anyhow::Result<ExitCode> {
    tell(&Set { fingerprint: &loaded.fingerprint(), keys: keys::list(dir)? })
}

fn tell(what: &impl Serialize) -> anyhow::Result<ExitCode> {
    say(&format!("{}\n", serde_json::to_string_pretty(what)?));
    Ok(ExitCode::SUCCESS)
}

//! `stanchion draw`: a sale's draw, checked by anybody.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;

use super::say;
use crate::domain::draw::Proof;

/// What can be done with a draw.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Recompute a draw from its published proof; names the step that fails, if one does.
    #[command(
        after_help = "Example:\n  curl -s https://shop.example/_stanchion/spring-drop/draw > proof.json\n  stanchion draw verify proof.json --entry 17"
    )]
    Verify {
        /// The proof, as served at /_stanchion/SALE/draw.
        #[arg(value_name = "PROOF")]
        proof: PathBuf,
        /// Say the position of this entry too.
        #[arg(long, value_name = "ENTRY")]
        entry: Option<u64>,
        /// Say it as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs one of them.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Verify { proof, entry, json } => verify(&proof, entry, json),
    }
}

fn verify(file: &Path, entry: Option<u64>, json: bool) -> anyhow::Result<ExitCode> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let proof: Proof = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a draw's proof", file.display()))?;
    let draw = proof.verify()?;
    let n = draw.n();
    let position = entry.map(|entry| {
        let none = || format!("entry {entry} took no part; entries are 0 to n - 1");
        draw.position(entry).with_context(none)
    });
    let position = position.transpose()?;
    if json {
        let found = serde_json::json!({
            "sale": proof.sale, "run": proof.run, "n": n, "entry": entry, "position": position,
        });
        say(&format!("{found}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    say(&format!("the draw of {} follows from the seed committed to; n = {n}\n", proof.sale));
    if let (Some(entry), Some(position)) = (entry, position) {
        say(&format!("entry {entry} has position {position}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

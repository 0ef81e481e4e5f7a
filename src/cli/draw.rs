//! `stanchion draw`: a sale's draw, checked by anybody.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use http::Method;

use super::say;
use super::stock::Core;
use crate::domain::beacon::{self, CHAIN, Published};
use crate::domain::draw::Proof;
use crate::domain::id::SaleId;

/// A published round is some hundred bytes.
const BYTES_MAX: u64 = 64 * 1024;

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
    /// Tell the core the beacon round that a sale waits for, as drand has published it.
    #[command(
        after_help = "Example:\n  curl -s https://api.drand.sh/52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971/public/31000000 | stanchion draw beacon --sale spring-drop -\n\nIt is checked with the public key of drand's quicknet before it is believed, so that it does not\nmatter who brings it."
    )]
    Beacon {
        /// The sale.
        #[arg(long, value_name = "SALE", value_parser = SaleId::parse)]
        sale: SaleId,
        /// The round as JSON: {"round": …, "signature": "…"}; - for standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        core: Core,
    },
    /// Say which beacon round may decide a draw, for `beacon_round`.
    #[command(after_help = "Example:\n  stanchion draw round 2027-03-01T12:00:00Z")]
    Round {
        /// The opening, RFC 3339.
        #[arg(value_name = "OPENS")]
        opens: jiff::Timestamp,
        /// Say it as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs one of them.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Verify { proof, entry, json } => verify(&proof, entry, json),
        Command::Beacon { sale, file, core } => tell(&sale, &file, &core),
        Command::Round { opens, json } => round(opens, json),
    }
}

fn tell(sale: &SaleId, file: &Path, core: &Core) -> anyhow::Result<ExitCode> {
    let from_stdin = file == Path::new("-");
    let named = || if from_stdin { "what came in".to_owned() } else { file.display().to_string() };
    let text = if from_stdin {
        std::io::read_to_string(std::io::stdin().take(BYTES_MAX)).context("reading the round")?
    } else {
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?
    };
    let wanted = "must be JSON with \"round\" and \"signature\", as drand answers it";
    let told: Published =
        serde_json::from_str(&text).with_context(|| format!("{}: {wanted}", named()))?;
    told.verified().with_context(named)?;
    let body = serde_json::to_value(&told)?;
    let path = format!("/v1/draw/{sale}/beacon");
    let kept = core.call(Method::POST, &path, Some(&body))?;
    if core.operator.json {
        say(&format!("{kept}\n"));
    } else {
        say(&format!("the draw of {sale} has its beacon: round {} of {CHAIN}\n", told.round));
    }
    Ok(ExitCode::SUCCESS)
}

fn round(opens: jiff::Timestamp, json: bool) -> anyhow::Result<ExitCode> {
    let opens_ms = u64::try_from(opens.as_millisecond()).context("OPENS is before 1970")?;
    let round = beacon::first_for(opens_ms);
    let published = i64::try_from(beacon::published_at_ms(round))?;
    let published = jiff::Timestamp::from_millisecond(published)?;
    if json {
        let found = serde_json::json!({ "round": round, "published_at": published.to_string() });
        say(&format!("{found}\n"));
    } else {
        say(&format!("beacon_round = {round}   # {CHAIN}, published at {published}\n"));
    }
    Ok(ExitCode::SUCCESS)
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

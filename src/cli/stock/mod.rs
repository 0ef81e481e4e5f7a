//! `stanchion stock`: what is there, and every change of it, by way of a core's private API.

mod change;
mod import;
mod list;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::{Method, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::node::Operator;
use super::{runtime, say};
use crate::domain::stock::SHARDS_MAX;
use crate::domain::stock_file::Mode;

/// What can be done with stock.
#[derive(Subcommand)]
pub(super) enum Command {
    /// List the stock of every SKU.
    #[command(after_help = "Example:\n  stanchion stock list\n  stanchion stock list --json")]
    List(Core),
    /// Add units to a SKU, or take available ones away.
    #[command(
        after_help = "Example:\n  stanchion stock restock SKU-FLASH-01 50\n  stanchion stock restock SKU-FLASH-01 -10 --op-key damaged-2027-03-01"
    )]
    Restock {
        /// The SKU.
        #[arg(value_name = "SKU")]
        sku: String,
        /// How many more; negative for fewer.
        #[arg(value_name = "UNITS", allow_negative_numbers = true)]
        delta: i64,
        /// Names this restock: sent again with the same name, it counts once.
        #[arg(long, value_name = "NAME")]
        op_key: Option<String>,
        #[command(flatten)]
        core: Core,
    },
    /// Set how many units of a SKU were ever loaded, if nobody changed its stock since you looked.
    ///
    /// `stock restock` is the better way unless you counted everything, sold units included.
    #[command(
        after_help = "Example:\n  stanchion stock list\n  stanchion stock set SKU-FLASH-01 --loaded 520 --version 17"
    )]
    Set {
        /// The SKU.
        #[arg(value_name = "SKU")]
        sku: String,
        /// Units ever loaded: those held and sold are part of it.
        #[arg(long, value_name = "UNITS")]
        loaded: u64,
        /// The version that `stock list` showed.
        #[arg(long, value_name = "N")]
        version: u64,
        #[command(flatten)]
        core: Core,
    },
    /// Change the stock of many SKUs from a CSV file: all of it, or nothing if any line is bad.
    ///
    /// The first line names the columns: `sku`, and `units` (or what they mean: `delta`, `loaded`).
    /// Fields are parted by commas, semicolons or tabs. SKUs are exact bytes after trimming: "A-1"
    /// and "a-1" are two SKUs, and you are warned of such a pair.
    #[command(
        after_help = "Example:\n  stanchion stock import delivery.csv --mode delta --dry-run\n  stanchion stock import delivery.csv --mode delta --yes\n  stanchion stock import counted.csv --mode set --op-key stocktaking-2027-03-01 --yes"
    )]
    Import {
        /// The file, in UTF-8.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Whether units are so many more (negative: fewer), or so many ever loaded.
        #[arg(long, value_name = "delta|set", value_parser = mode)]
        mode: Mode,
        /// Names this import: sent again with the same name, it counts once. Else the file's
        /// content and the mode name it, so that the same file counts once.
        #[arg(long, value_name = "NAME")]
        op_key: Option<String>,
        /// Only say what would change.
        #[arg(long)]
        dry_run: bool,
        /// Do it; asked for when you sit at a terminal.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        core: Core,
    },
    /// Spread a frozen SKU's units over so many rows. More rows carry more orders a second, and
    /// the last units take longer to find.
    #[command(
        after_help = "Example:\n  stanchion stock freeze SKU-FLASH-01\n  stanchion stock shards SKU-FLASH-01 4\n  stanchion stock thaw SKU-FLASH-01"
    )]
    Shards {
        /// The SKU; frozen, or it is refused.
        #[arg(value_name = "SKU")]
        sku: String,
        /// How many rows.
        #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(SHARDS_MAX)))]
        count: u32,
        #[command(flatten)]
        core: Core,
    },
    /// Take SKUs out of the sale: no new holds, while payments and releases go on. The gate is
    /// rebuilt from the ledger.
    #[command(
        after_help = "Example:\n  stanchion stock freeze SKU-FLASH-01\n  stanchion stock freeze --sale spring-drop"
    )]
    Freeze(Turned),
    /// Put frozen SKUs back into the sale.
    #[command(
        after_help = "Example:\n  stanchion stock thaw SKU-FLASH-01\n  stanchion stock thaw --sale spring-drop"
    )]
    Thaw(Turned),
}

/// Which SKUs are frozen or thawed.
#[derive(Args)]
pub(super) struct Turned {
    /// The SKUs.
    #[arg(value_name = "SKU", required_unless_present = "sale")]
    skus: Vec<String>,
    /// All SKUs of a sale.
    #[arg(long, value_name = "SALE", conflicts_with = "skus")]
    sale: Option<String>,
    #[command(flatten)]
    core: Core,
}

/// Which core, and who asks.
#[derive(Args)]
pub(super) struct Core {
    /// The private listener of any core.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7070")]
    core: Uri,
    #[command(flatten)]
    pub(super) operator: Operator,
}

/// Runs one of them.
pub(super) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::List(core) => list::list(&core),
        Command::Restock { sku, delta, op_key, core } => {
            change::restock(&core, &sku, delta, op_key)
        }
        Command::Set { sku, loaded, version, core } => change::set(&core, &sku, loaded, version),
        Command::Import { file, mode, op_key, dry_run, yes, core } => {
            let how = import::How { mode, op_key, dry_run, yes };
            import::import(&core, &file, how)
        }
        Command::Shards { sku, count, core } => change::shards(&core, &sku, count),
        Command::Freeze(turned) => change::turn(&turned, "freeze"),
        Command::Thaw(turned) => change::turn(&turned, "thaw"),
    }
}

fn mode(raw: &str) -> Result<Mode, String> {
    Mode::named(raw).ok_or_else(|| "must be delta or set".to_owned())
}

impl Core {
    pub(super) fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let asker = self.operator.asker(self.core.clone())?;
        runtime()?.block_on(asker.call(method, path, body))
    }
}

/// `/v1/stock/{sku}…`
fn path(sku: &str, rest: &str) -> String {
    format!("/v1/stock/{}{rest}", utf8_percent_encode(sku, NON_ALPHANUMERIC))
}

/// One SKU's stock as a core answered it, for programs or for people.
fn show(core: &Core, stock: &Value) {
    if core.operator.json {
        say(&format!("{stock}\n"));
        return;
    }
    let number = |name: &str| stock[name].to_string();
    let (loaded, available) = (number("loaded"), number("available"));
    let rows = if stock["shards"] == 1 {
        String::new()
    } else {
        format!(" in {} shards", number("shards"))
    };
    let frozen = if stock["frozen"] == true { ", frozen" } else { "" };
    say(&format!("{}: {loaded} loaded, {available} available{rows}{frozen}\n", name(stock)));
}

fn name(row: &Value) -> &str {
    row["sku"].as_str().unwrap_or("?")
}

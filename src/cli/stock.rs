//! `stanchion stock`: what is there, and more of it, by way of a core's private API.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::{Method, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::node::Operator;
use super::{runtime, say};

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
        Command::List(core) => list(&core),
        Command::Restock { sku, delta, op_key, core } => restock(&core, &sku, delta, op_key),
    }
}

fn list(core: &Core) -> anyhow::Result<ExitCode> {
    let stock = core.call(Method::GET, "/v1/stock", None)?;
    if core.operator.json {
        say(&format!("{stock}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let none = vec![];
    let rows = stock["skus"].as_array().unwrap_or(&none);
    let width = rows.iter().map(|row| name(row).len()).max().unwrap_or(0).max(3);
    let titles = ["sku", "loaded", "available", "held", "confirmed"].map(str::to_owned);
    let line = |[sku, columns @ ..]: [String; 5]| {
        let columns = columns.map(|column| format!(" {column:>10}"));
        format!("{sku:<width$}{}", columns.concat())
    };
    let rows = rows.iter().map(|row| {
        let [loaded, available, held, confirmed] =
            ["loaded", "available", "held", "confirmed"].map(|column| row[column].to_string());
        let frozen = if row["frozen"] == true { "  frozen" } else { "" };
        line([name(row).to_owned(), loaded, available, held, confirmed]) + frozen + "\n"
    });
    let rows: String = rows.collect();
    let said = format!("{}\n{rows}", line(titles));
    say(&said);
    Ok(ExitCode::SUCCESS)
}

fn restock(core: &Core, sku: &str, delta: i64, op_key: Option<String>) -> anyhow::Result<ExitCode> {
    let op_key = op_key.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let path = format!("/v1/stock/{}/restock", utf8_percent_encode(sku, NON_ALPHANUMERIC));
    let body = json!({ "delta": delta, "op_key": op_key });
    let stock = core.call(Method::POST, &path, Some(&body))?;
    if core.operator.json {
        say(&format!("{stock}\n"));
    } else {
        let (loaded, available) = (&stock["loaded"], &stock["available"]);
        say(&format!("{sku}: {loaded} loaded, {available} available\n"));
    }
    Ok(ExitCode::SUCCESS)
}

impl Core {
    /// Asks it.
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

fn name(row: &Value) -> &str {
    row["sku"].as_str().unwrap_or("?")
}

//! `stanchion stock list`.

use std::process::ExitCode;

use http::Method;

use super::{Core, name};
use crate::cli::say;

const COLUMNS: [&str; 7] =
    ["loaded", "available", "held", "confirmed", "shards", "version", "generation"];

/// Every SKU in a line.
pub(super) fn list(core: &Core) -> anyhow::Result<ExitCode> {
    let stock = core.call(Method::GET, "/v1/stock", None)?;
    if core.operator.json {
        say(&format!("{stock}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let none = vec![];
    let rows = stock["skus"].as_array().unwrap_or(&none);
    let width = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0).max(3);
    let line = |sku: &str, columns: [String; 7]| {
        let columns = columns.map(|column| format!(" {column:>10}"));
        format!("{sku:<width$}{}", columns.concat())
    };
    let rows = rows.iter().map(|row| {
        let frozen = if row["frozen"] == true { "  frozen" } else { "" };
        line(name(row), COLUMNS.map(|column| row[column].to_string())) + frozen + "\n"
    });
    let rows: String = rows.collect();
    say(&format!("{}\n{rows}", line("sku", COLUMNS.map(str::to_owned))));
    Ok(ExitCode::SUCCESS)
}

//! `stanchion simulate`: the rules that pace the line, driven on a clock of their own with people
//! who ask as the page does, several nodes, and what goes wrong with them.
//!
//! Meter, pacer, presence, demand and line are the domain's, the very code that nodes run; only the
//! steps in Redis are retold (`store.rs`). One seed is one run: a failure names it.

mod args;
mod measure;
mod node;
mod people;
mod report;
mod scenario;
mod sets;
mod store;
#[cfg(test)]
mod tests;
mod world;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};

pub(super) use args::Simulate;

/// Exit code 1 if a promise was not kept.
pub(super) fn run(args: &Simulate) -> Result<ExitCode> {
    let report = report::Report::of(&sets::table(), &args.seeds());
    let said =
        if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.table() };
    std::io::stdout().write_all(said.as_bytes()).context("writing to standard output")?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

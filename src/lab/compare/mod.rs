//! `stanchion compare`: the article's approaches to stock and ours, on the same real stores, one
//! after the other, in one table.
//!
//! Each approach gets clean tables, first few units and many clients, to see who sells what is not
//! there, then plenty of units, to see how fast it is. All run here: the load shares the machine
//! with the stores, so ratios tell more than numbers.

mod approach;
mod args;
mod atomic;
mod batches;
mod counter;
mod drive;
mod failure;
mod fit;
mod ground;
mod lanes;
mod link;
mod naive;
mod order;
mod plan;
mod progress;
mod ratios;
mod report;
mod reservation;
mod row;
mod session;
mod single;
mod table;
mod taker;
mod tally;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

pub(super) use args::Compare;

/// As a shell says "ended by Ctrl-C".
const INTERRUPTED: u8 = 130;

/// Exit code 1 if ours oversold or lost a unit.
pub(super) async fn run(args: Compare) -> Result<ExitCode> {
    let plan = args.plan();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Dropped with its clients, and then its stores, if we are told to stop.
    let report = tokio::select! {
        report = Box::pin(session::compare(&plan)) => report?,
        _ = interrupt.recv() => return Ok(INTERRUPTED.into()),
        _ = terminate.recv() => return Ok(INTERRUPTED.into()),
    };
    let said = if args.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        table::table(&report)
    };
    let mut out = std::io::stdout();
    out.write_all(said.as_bytes()).context("writing to standard output")?;
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

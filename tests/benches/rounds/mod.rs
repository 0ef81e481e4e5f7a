//! How the programs here repeat what they measure, and tell it.

use std::io::Write;

use anyhow::{Context, Result};

/// How often each thing is measured; medians are told.
pub(crate) const ROUNDS: usize = 3;

/// The middle one.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Writes a line.
pub(crate) fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{line}").context("writing to standard output")
}

/// A runtime as the program's own.
pub(crate) fn run(work: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

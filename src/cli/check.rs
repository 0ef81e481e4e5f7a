//! `stanchion check`: a settings file, judged without running anything.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{read, say};

/// Arguments of `check`.
#[derive(Args)]
pub(super) struct Check {
    /// The settings file; else ./config/stanchion.toml, then /etc/stanchion/stanchion.toml.
    #[arg(value_name = "FILE", env = "STANCHION_CONFIG")]
    file: Option<PathBuf>,
}

/// Says that the file is good, or what is wrong with it.
pub(super) fn run(check: &Check) -> anyhow::Result<ExitCode> {
    let loaded = read(check.file.as_deref())?;
    let mut said = String::new();
    for warning in &loaded.warnings {
        writeln!(said, "{}:{warning} (warning)", loaded.file.display())?;
    }
    let sales = loaded.settings.sales.iter().map(|sale| {
        let units: u64 = sale.skus.iter().map(|sku| sku.units).sum();
        format!("  {}: opens {}, {} units at {}", sale.id, sale.opens, units, sale.rate)
    });
    writeln!(said, "{}: good", loaded.file.display())?;
    say(&sales.fold(said, |said, sale| said + &sale + "\n"));
    Ok(ExitCode::SUCCESS)
}

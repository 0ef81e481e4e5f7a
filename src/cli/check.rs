//! `stanchion check`: a settings file, judged without running anything; and two of them compared.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::{REFUSED, now, read, say};
use crate::config::Refused;
use crate::config::keys::Effect;
use crate::config::load::{self, Loaded};
use crate::config::problem::explained;
use crate::config::reload::{Difference, diff};

/// Arguments of `check`.
#[derive(Args)]
pub(super) struct Check {
    /// The settings file; else ./config/stanchion.toml, then /etc/stanchion/stanchion.toml.
    #[arg(value_name = "FILE", env = "STANCHION_CONFIG")]
    file: Option<PathBuf>,
    /// What would change between two files, and what a running node would make of it.
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"])]
    diff: Vec<PathBuf>,
    /// For scripts.
    #[arg(long)]
    json: bool,
}

/// Says that the file is good, or what is wrong with it.
pub(super) fn run(check: &Check) -> anyhow::Result<ExitCode> {
    match check.diff.as_slice() {
        [old, new] => compare(old, new, check.json),
        _ if check.json => Ok(as_json(read(check.file.as_deref()))),
        _ => {
            let loaded = read(check.file.as_deref())?;
            say(&good(&loaded)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn good(loaded: &Loaded) -> Result<String, std::fmt::Error> {
    let mut said = String::new();
    for warning in &loaded.warnings {
        said += &explained(&loaded.file, warning, " (warning)");
    }
    let warnings = match loaded.warnings.len() {
        0 => String::new(),
        1 => ", 1 warning".to_owned(),
        many => format!(", {many} warnings"),
    };
    writeln!(said, "{}: good{warnings}", loaded.file.display())?;
    for sale in &loaded.settings.sales {
        let units: u64 = sale.skus.iter().map(|sku| sku.units).sum();
        writeln!(said, "  {}: opens {}, {units} units at {}", sale.id, sale.opens, sale.rate)?;
    }
    Ok(said)
}

fn as_json(read: Result<Loaded, Refused>) -> ExitCode {
    let (said, code) = match read {
        Ok(loaded) => {
            let sales = loaded.settings.sales.iter().map(|sale| {
                let units: u64 = sale.skus.iter().map(|sku| sku.units).sum();
                json!({"id": sale.id, "opens": sale.opens, "units": units, "rate": sale.rate})
            });
            let sales: Vec<_> = sales.collect();
            let file = loaded.file.display().to_string();
            let warnings = loaded.warnings;
            let said = json!({"file": file, "good": true, "problems": [], "warnings": warnings, "sales": sales});
            (said, ExitCode::SUCCESS)
        }
        Err(refused) => {
            let (file, problems) = (refused.file().display().to_string(), refused.problems());
            let said = json!({"file": file, "good": false, "problems": problems, "warnings": []});
            (said, REFUSED.into())
        }
    };
    say(&format!("{said:#}\n"));
    code
}

/// What a node that runs with the old file would make of the new one.
fn compare(old: &Path, new: &Path, as_json: bool) -> anyhow::Result<ExitCode> {
    let now = now();
    let (before, after) = (load::load(old, now)?, load::load(new, now)?);
    let diff = diff(&before.settings, &after.settings, now);
    let refused = diff.differences.iter().any(|change| change.effect == Effect::Refused);
    if as_json {
        let changes: Vec<_> = diff.differences.iter().map(change_json).collect();
        let (old, new) = (old.display().to_string(), new.display().to_string());
        let said = json!({"old": old, "new": new, "refused": refused, "changes": changes});
        say(&format!("{said:#}\n"));
    } else {
        let mut said = String::new();
        for warning in &after.warnings {
            said += &explained(new, warning, " (warning)");
        }
        said += &table(&diff.differences);
        say(&said);
    }
    Ok(if refused { REFUSED.into() } else { ExitCode::SUCCESS })
}

fn change_json(change: &Difference) -> Value {
    json!({
        "key": change.key, "effect": change.listed().words(), "now": becomes(change),
        "old": change.old, "new": change.new,
    })
}

fn table(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "no change\n".to_owned();
    }
    let widest = differences.iter().map(|change| change.key.len()).max().unwrap_or(0);
    let rows = differences.iter().map(|change| {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        let (old, new) = (value(&change.old), value(&change.new));
        let (key, kind) = (&change.key, change.listed().words());
        format!("{key:<widest$}  {old} → {new}\n{:widest$}  {kind}: {}\n", "", becomes(change))
    });
    rows.collect()
}

/// What would happen if a node read it now.
fn becomes(change: &Difference) -> &'static str {
    match (change.effect, change.listed()) {
        (Effect::Hot, _) => "in force on every node within a second",
        (Effect::UntilDraw, _) => {
            "in force on every node within a second, unless the sale has been drawn"
        }
        (Effect::Restart, Effect::Refused) => "the sale is not on: read when nodes start again",
        (Effect::Restart, _) => "read when nodes start again",
        (Effect::Refused, _) if change.key.rsplit('.').next() == Some("units") => {
            "refused, the sale is on; `stanchion stock restock` adds units"
        }
        (Effect::Refused, _) => "refused, the sale is on",
    }
}

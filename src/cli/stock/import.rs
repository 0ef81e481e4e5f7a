//! `stanchion stock import`: looked at first, then done, and only if nothing changed in between.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Core, name};
use crate::cli::{USAGE, runtime, say, say_wrong};
use crate::domain::stock_file::Mode;
use crate::ops::{Asker, Refused};

/// Lines that a person is shown.
const SHOWN_MAX: usize = 40;

/// How it is done.
pub(super) struct How {
    pub(super) mode: Mode,
    pub(super) op_key: Option<String>,
    pub(super) dry_run: bool,
    pub(super) yes: bool,
}

/// Shows what the file would change, and does it unless that was all.
pub(super) fn import(core: &Core, file: &Path, how: How) -> anyhow::Result<ExitCode> {
    let read = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let bytes = Bytes::from(read);
    let op_key = how.op_key.unwrap_or_else(|| named_by_content(&bytes, how.mode));
    let mode = how.mode.as_str();
    let asker = core.operator.asker(core.core.clone())?;
    let runtime = runtime()?;
    let send = |query: String| {
        let path = format!("/v1/stock?mode={mode}{query}");
        told(runtime.block_on(Asker::send_file(&asker, &path, bytes.clone())), core.operator.json)
    };

    let key = encoded(&op_key);
    let Some(seen) = send(format!("&op_key={key}&dry_run=true"))? else {
        return Ok(ExitCode::FAILURE);
    };
    let before = format!("this was imported before, as {op_key}: nothing was changed now\n");
    if seen["replayed"] == true {
        say(&if core.operator.json { format!("{seen}\n") } else { before });
        return Ok(ExitCode::SUCCESS);
    }
    if how.dry_run {
        say(&if core.operator.json { format!("{seen}\n") } else { preview(&seen) });
        return Ok(ExitCode::SUCCESS);
    }
    if !core.operator.json {
        say(&preview(&seen));
    }
    if !how.yes && std::io::stdin().is_terminal() {
        say_wrong("stanchion: nothing was changed; say --yes to do it");
        return Ok(USAGE.into());
    }
    let seen = encoded(seen["seen"].as_str().unwrap_or_default());
    let Some(done) = send(format!("&op_key={key}&seen={seen}"))? else {
        return Ok(ExitCode::FAILURE);
    };
    if core.operator.json {
        say(&format!("{done}\n"));
    } else if done["replayed"] == true {
        say(&before);
    } else {
        say(&format!("done, as {op_key}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The answer; of a refusal every bad line is shown.
fn told(answer: anyhow::Result<Value>, as_json: bool) -> anyhow::Result<Option<Value>> {
    let error = match answer {
        Ok(answer) => return Ok(Some(answer)),
        Err(error) => error,
    };
    let Some(bad) = error.downcast_ref::<Refused>().filter(|no| no.body["rows"].is_array()) else {
        return Err(error);
    };
    if as_json {
        say(&format!("{}\n", bad.body));
        return Ok(None);
    }
    let rows = bad.body["rows"].as_array().into_iter().flatten();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or("?").to_owned();
    let lines = rows.map(|row| {
        format!("line {}: {}: {}\n", row["line"], text(row, "field"), text(row, "detail"))
    });
    let lines: Vec<_> = lines.collect();
    let more = bad.body["bad"].as_u64().unwrap_or(0).saturating_sub(lines.len() as u64);
    let more = if more > 0 { format!("and {more} more bad lines\n") } else { String::new() };
    say_wrong(&format!("{}{more}stanchion: nothing was changed", lines.concat()));
    Ok(None)
}

fn preview(seen: &Value) -> String {
    let none = vec![];
    let list = |name: &str| seen[name].as_array().unwrap_or(&none).iter();
    let mut said = String::new();
    for warning in list("warnings").take(SHOWN_MAX) {
        let detail = warning["detail"].as_str().unwrap_or("?");
        let _infallible = writeln!(said, "line {}: {detail} (warning)", warning["line"]);
    }
    for change in list("changes").take(SHOWN_MAX) {
        let (loaded, delta) =
            (change["loaded"].as_i64().unwrap_or(0), change["delta"].as_i64().unwrap_or(0));
        let becomes = loaded.saturating_add(delta);
        let _infallible =
            writeln!(said, "{}: {delta:+}, {loaded} → {becomes} loaded", name(change));
    }
    let changed = seen["changed"].as_u64().unwrap_or(0);
    let hidden = changed.saturating_sub(SHOWN_MAX as u64);
    if hidden > 0 {
        let _infallible = writeln!(said, "and {hidden} more");
    }
    let (rows, added, removed) = (&seen["rows"], &seen["added"], &seen["removed"]);
    let _infallible =
        writeln!(said, "{rows} lines: {changed} SKUs change, {added} units more, {removed} fewer");
    said
}

/// The same file in the same mode has the same name.
fn named_by_content(bytes: &[u8], mode: Mode) -> String {
    let hash = Sha256::digest(bytes);
    format!("import-{}-{}", mode.as_str(), hex::encode(&hash[..8]))
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

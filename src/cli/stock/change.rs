//! `stanchion stock restock`, `set`, `shards`, `freeze` and `thaw`.

use std::process::ExitCode;

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use super::{Core, Turned, name, path, show};
use crate::cli::say;

/// By difference.
pub(super) fn restock(
    core: &Core,
    sku: &str,
    delta: i64,
    op_key: Option<String>,
) -> anyhow::Result<ExitCode> {
    let op_key = op_key.unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let body = json!({ "delta": delta, "op_key": op_key });
    change(core, Method::POST, &path(sku, "/restock"), Some(&body))
}

/// Compare and set.
pub(super) fn set(core: &Core, sku: &str, loaded: u64, version: u64) -> anyhow::Result<ExitCode> {
    let body = json!({ "loaded": loaded, "version": version });
    change(core, Method::PUT, &path(sku, ""), Some(&body))
}

/// Over other rows.
pub(super) fn shards(core: &Core, sku: &str, count: u32) -> anyhow::Result<ExitCode> {
    change(core, Method::POST, &path(sku, "/shards"), Some(&json!({ "count": count })))
}

/// Freezes or thaws, one SKU after the other; the first that fails ends it.
pub(super) fn turn(turned: &Turned, how: &str) -> anyhow::Result<ExitCode> {
    let Turned { skus, sale, core } = turned;
    let skus = match sale {
        Some(sale) => skus_of(core, sale)?,
        None => skus.clone(),
    };
    let mut done = vec![];
    for sku in &skus {
        let stock = core.call(Method::POST, &path(sku, &format!("/{how}")), None)?;
        if core.operator.json {
            done.push(stock);
        } else {
            show(core, &stock);
        }
    }
    if core.operator.json {
        say(&format!("{}\n", json!({ "skus": done })));
    }
    Ok(ExitCode::SUCCESS)
}

fn skus_of(core: &Core, sale: &str) -> anyhow::Result<Vec<String>> {
    let stock = core.call(Method::GET, "/v1/stock", None)?;
    let all = stock["skus"].as_array().cloned().unwrap_or_default();
    let skus = all.iter().filter(|row| row["sale"] == *sale).map(|row| name(row).to_owned());
    let skus: Vec<_> = skus.collect();
    ensure!(!skus.is_empty(), "--sale: {sale} has no SKU at that core");
    Ok(skus)
}

fn change(
    core: &Core,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> anyhow::Result<ExitCode> {
    show(core, &core.call(method, path, body)?);
    Ok(ExitCode::SUCCESS)
}

//! Stock from a file over HTTP.

use std::sync::Arc;

use axum::extract::FromRequest;
use axum::extract::{RawQuery, Request, State};
use bytes::Bytes;
use serde_json::json;

use super::super::import::{ImportOrder, refused_rows};
use super::Api;
use super::answer::{Answer, ok};
use super::auth::Operator;
use super::body::{parse, query, standard};
use crate::domain::id::OrderKey;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::stock_file::{self, Mode};

/// The largest file, in bytes.
pub(super) const IMPORT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// `POST /v1/stock?mode=&op_key=&dry_run=&seen=`: a CSV file.
pub(super) async fn import(
    State(api): State<Arc<Api>>,
    operator: Operator,
    RawQuery(raw): RawQuery,
    request: Request,
) -> Answer {
    let [mode, op_key, dry_run, seen] =
        query(raw.as_deref(), ["mode", "op_key", "dry_run", "seen"])?;
    let cure = "must be delta (so many more or fewer) or set (so many ever loaded)";
    let mode = parse("mode", mode, |raw| Mode::named(raw).ok_or(cure))?;
    let mode = mode.ok_or_else(|| Refusal::bad_request("mode", cure))?;
    let dry_run: bool = standard("dry_run", dry_run, "must be true or false")?.unwrap_or(false);
    let op_key = parse("op_key", op_key, OrderKey::parse)?.map(|key| key.as_str().to_owned());
    if op_key.is_none() && !dry_run {
        let cure = "is needed: a name of yours, so that the file counts once; or dry_run=true";
        return Err(Refusal::bad_request("op_key", cure).into());
    }
    let bytes = Bytes::from_request(request, &()).await.map_err(|_| {
        let detail = format!("the file must be at most {IMPORT_BYTES_MAX} bytes; send it in parts");
        Refusal::new(Problem::BodyTooLarge, detail)
    })?;
    // A hundred thousand lines are some tens of milliseconds' work.
    let read = tokio::task::spawn_blocking(move || stock_file::read(&bytes, mode)).await;
    let read = read.map_err(|_| Refusal::bad_request("file", "could not be read"))?;
    let file = read.map_err(|bad| refused_rows(&bad))?;

    let order = ImportOrder { mode, op_key: op_key.clone(), look: dry_run, seen };
    let done = api.reservations.import(file, order).await?;
    if let Some(op_key) = op_key.filter(|_| !dry_run) {
        // Named by its key, so that an import sent again is one entry.
        let changes = json!({
            "mode": mode, "rows": done.rows, "changed": done.changed, "added": done.added,
            "removed": done.removed,
        });
        api.note(&operator, format!("import {op_key}"), "import-stock", None, changes).await;
    }
    Ok(ok(&done))
}

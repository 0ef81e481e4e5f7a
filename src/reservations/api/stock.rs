//! Stock over HTTP.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::json;

use super::Api;
use super::answer::{Answer, ok};
use super::auth::{Known, Operator};
use super::body::Body;
use super::noted::fresh;
use crate::domain::id::{OrderKey, Sku};
use crate::domain::refusal::Refusal;
use crate::domain::stock::SHARDS_MAX;
use crate::store::redis::gate::UNITS_MAX;

/// A change by difference.
#[derive(Debug, Deserialize)]
pub(super) struct Restock {
    delta: i64,
    op_key: OrderKey,
}

/// A change to a value, if nobody changed it meanwhile.
#[derive(Debug, Deserialize)]
pub(super) struct Set {
    loaded: u64,
    version: u64,
}

/// Over how many rows.
#[derive(Debug, Deserialize)]
pub(super) struct Shards {
    count: i64,
}

/// `GET /v1/stock`
pub(super) async fn all(State(api): State<Arc<Api>>, _known: Known) -> Answer {
    let skus = api.reservations.ledger().stock(None, None).await?;
    Ok(ok(&json!({ "skus": skus })))
}

/// `GET /v1/stock/{sku}`
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    _known: Known,
    Path(sku): Path<String>,
) -> Answer {
    Ok(ok(&api.reservations.stock_of(&named(&sku)?).await?))
}

/// `POST /v1/stock/{sku}/restock`
pub(super) async fn restock(
    State(api): State<Arc<Api>>,
    operator: Operator,
    Path(sku): Path<String>,
    Body(Restock { delta, op_key }): Body<Restock>,
) -> Answer {
    if delta == 0 || delta.unsigned_abs() > UNITS_MAX {
        let cure = format!("must be a whole number other than 0, at most {UNITS_MAX}");
        return Err(Refusal::bad_request("delta", cure).into());
    }
    let sku = named(&sku)?;
    let done = api.reservations.restock(&sku, delta, op_key.as_str()).await?;
    // Named by its key, so that a restock sent again is one entry.
    let entry = format!("restock {op_key}");
    let changes = json!({ "sku": sku, "delta": delta, "loaded": done.loaded });
    api.note(&operator, entry, "restock", Some(&done.sale), changes).await;
    Ok(ok(&done))
}

/// `PUT /v1/stock/{sku}`
pub(super) async fn set(
    State(api): State<Arc<Api>>,
    operator: Operator,
    Path(sku): Path<String>,
    Body(Set { loaded, version }): Body<Set>,
) -> Answer {
    if loaded > UNITS_MAX {
        let cure = format!("must be at most {UNITS_MAX}");
        return Err(Refusal::bad_request("loaded", cure).into());
    }
    let sku = named(&sku)?;
    let done = api.reservations.set_loaded(&sku, loaded, version).await?;
    let changes = json!({ "sku": sku, "loaded": loaded });
    api.note(&operator, fresh("set-stock"), "set-stock", Some(&done.sale), changes).await;
    Ok(ok(&done))
}

/// `POST /v1/stock/{sku}/freeze`
pub(super) async fn freeze(api: State<Arc<Api>>, operator: Operator, sku: Path<String>) -> Answer {
    turn(api, operator, sku, true).await
}

/// `POST /v1/stock/{sku}/thaw`
pub(super) async fn thaw(api: State<Arc<Api>>, operator: Operator, sku: Path<String>) -> Answer {
    turn(api, operator, sku, false).await
}

async fn turn(
    State(api): State<Arc<Api>>,
    operator: Operator,
    Path(sku): Path<String>,
    frozen: bool,
) -> Answer {
    let sku = named(&sku)?;
    let done = api.reservations.freeze(&sku, frozen).await?;
    let action = if frozen { "freeze-stock" } else { "thaw-stock" };
    let changes = json!({ "sku": sku, "generation": done.generation });
    api.note(&operator, fresh(action), action, Some(&done.sale), changes).await;
    Ok(ok(&done))
}

/// `POST /v1/stock/{sku}/shards`
pub(super) async fn shards(
    State(api): State<Arc<Api>>,
    operator: Operator,
    Path(sku): Path<String>,
    Body(Shards { count }): Body<Shards>,
) -> Answer {
    let in_range = u32::try_from(count).ok().filter(|count| (1..=SHARDS_MAX).contains(count));
    let cure = format!("must be a whole number from 1 to {SHARDS_MAX}");
    let count = in_range.ok_or_else(|| Refusal::bad_request("count", cure))?;
    let sku = named(&sku)?;
    let done = api.reservations.set_shards(&sku, count).await?;
    let changes = json!({ "sku": sku, "shards": count });
    api.note(&operator, fresh("shard-stock"), "shard-stock", Some(&done.sale), changes).await;
    Ok(ok(&done))
}

fn named(raw: &str) -> Result<Sku, Refusal> {
    Sku::parse(raw).map_err(|e| Refusal::bad_request("sku", e))
}

//! Stock over HTTP.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::json;

use super::Api;
use super::answer::{Answer, ok};
use super::auth::{Known, Operator};
use super::body::Body;
use crate::domain::id::{OrderKey, Sku};
use crate::domain::refusal::Refusal;
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
    _operator: Operator,
    Path(sku): Path<String>,
    Body(Restock { delta, op_key }): Body<Restock>,
) -> Answer {
    if delta == 0 || delta.unsigned_abs() > UNITS_MAX {
        let cure = format!("must be a whole number other than 0, at most {UNITS_MAX}");
        return Err(Refusal::bad_request("delta", cure).into());
    }
    let done = api.reservations.restock(&named(&sku)?, delta, op_key.as_str()).await?;
    Ok(ok(&done))
}

/// `PUT /v1/stock/{sku}`
pub(super) async fn set(
    State(api): State<Arc<Api>>,
    _operator: Operator,
    Path(sku): Path<String>,
    Body(Set { loaded, version }): Body<Set>,
) -> Answer {
    if loaded > UNITS_MAX {
        let cure = format!("must be at most {UNITS_MAX}");
        return Err(Refusal::bad_request("loaded", cure).into());
    }
    Ok(ok(&api.reservations.set_loaded(&named(&sku)?, loaded, version).await?))
}

fn named(raw: &str) -> Result<Sku, Refusal> {
    Sku::parse(raw).map_err(|e| Refusal::bad_request("sku", e))
}

//! Audit, sweep, reconcile, events and control records over HTTP.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use serde_json::json;

use super::Api;
use super::answer::{Answer, ok};
use super::auth::{Known, Operator};
use super::body::{Body, parse, query, standard};
use super::noted::fresh;
use crate::domain::control::ControlNo;
use crate::domain::id::SaleId;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::sale::Control;
use crate::store::postgres::EventCursor;

/// `GET /v1/audit`
pub(super) async fn audit(State(api): State<Arc<Api>>, _known: Known) -> Answer {
    Ok(ok(&json!({ "rows": api.reservations.audit().await? })))
}

/// `POST /v1/sweep`
pub(super) async fn sweep(State(api): State<Arc<Api>>, operator: Operator) -> Answer {
    let report = api.reservations.sweep().await?;
    api.note(&operator, fresh("sweep"), "sweep", None, json!(report)).await;
    Ok(ok(&report))
}

/// `POST /v1/reconcile`
pub(super) async fn reconcile(State(api): State<Arc<Api>>, operator: Operator) -> Answer {
    let (rows, skus) = api.reservations.reconcile().await?;
    let changes = json!({ "rows": rows.len(), "skus": skus.len() });
    api.note(&operator, fresh("reconcile"), "reconcile", None, changes).await;
    Ok(ok(&json!({ "rows": rows, "skus": skus })))
}

/// `GET /v1/events?after=`
pub(super) async fn events(
    State(api): State<Arc<Api>>,
    _known: Known,
    RawQuery(raw): RawQuery,
) -> Answer {
    let [after] = query(raw.as_deref(), ["after"])?;
    let cure = "must be the `next` of a page before";
    let after = after.filter(|raw| !raw.is_empty());
    let after = parse("after", after, |raw| EventCursor::parse(raw).ok_or(cure))?;
    Ok(ok(&api.reservations.ledger().events(after.unwrap_or_default()).await?))
}

/// `GET /v1/control/{sale}`
pub(super) async fn control(
    State(api): State<Arc<Api>>,
    _known: Known,
    Path(sale): Path<String>,
) -> Answer {
    let sale = named(&sale)?;
    let record = api.reservations.ledger().database().control(&sale).await?;
    Ok(ok(&record.ok_or_else(|| unknown(&sale))?))
}

/// `PUT /v1/control/{sale}`: merged with the record that is there, which is never lost; what the
/// rules are against at this instant is refused.
pub(super) async fn put_control(
    State(api): State<Arc<Api>>,
    _operator: Operator,
    Path(sale): Path<String>,
    Body(record): Body<Control>,
) -> Answer {
    let sale = named(&sale)?;
    if !api.reservations.knows(&sale) {
        return Err(unknown(&sale).into());
    }
    let at_ms = api.reservations.now_ms();
    let put = api.reservations.ledger().database().put_control(&sale, &record, at_ms).await?;
    let merged = put.map_err(ControlNo::refusal)?;
    api.reservations.refresh_controls().await?;
    Ok(ok(&merged))
}

/// `GET /v1/audit-trail?sale=&after=`
pub(super) async fn audit_trail(
    State(api): State<Arc<Api>>,
    _known: Known,
    RawQuery(raw): RawQuery,
) -> Answer {
    let [sale, after] = query(raw.as_deref(), ["sale", "after"])?;
    let given = |text: &String| !text.is_empty();
    let sale = parse("sale", sale.filter(given), SaleId::parse)?;
    let cure = "must be the `next` of a page before";
    let after: i64 = standard("after", after.filter(given), cure)?.unwrap_or(0);
    let database = api.reservations.ledger().database();
    Ok(ok(&database.audit_trail(sale.as_ref(), after).await?))
}

pub(super) fn named(raw: &str) -> Result<SaleId, Refusal> {
    SaleId::parse(raw).map_err(|e| Refusal::bad_request("sale", e))
}

pub(super) fn unknown(sale: &SaleId) -> Refusal {
    Refusal::new(Problem::UnknownSale, format!("sale {sale} is not known to this core"))
}

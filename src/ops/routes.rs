//! What the ops listener answers: `/livez`, `/readyz`, `/metrics`, and the operators' API.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};

use super::auth::OpsKey;
use super::health::Health;
use super::page::{self, Dash};
use super::{passes, sales};
use crate::keeper::ControlDesk;
use crate::room::Room;
use crate::telemetry::Metrics;

const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
const NO_STORE: (HeaderName, &str) = (CACHE_CONTROL, "no-store");

/// The largest body, in bytes.
const BODY_MAX: usize = 16 * 1024;

/// What the operators' API works on.
pub struct Ops {
    /// Opens it.
    pub key: OpsKey,
    /// This node's name, for the audit trail.
    pub node: String,
    /// Takes changes of the sales' control records.
    pub desk: Arc<ControlDesk>,
    /// The sales' rooms as this node sees them, in the order of the settings.
    pub rooms: Vec<Arc<Room>>,
}

/// What the ops listener answers.
pub fn router(
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    ops: Arc<Ops>,
    dash: Arc<Dash>,
) -> Router {
    Router::new()
        .route("/livez", get(|| async { ([NO_STORE], "ok\n") }))
        .route("/readyz", get(readyz).with_state(health))
        .route("/metrics", get(exposition).with_state(metrics))
        .merge(api(ops))
        .merge(page::router(dash))
}

fn api(ops: Arc<Ops>) -> Router {
    Router::new()
        .route("/v1/sales", get(sales::all))
        .route("/v1/sales/{sale}/reset", post(sales::reset))
        .route("/v1/sales/{sale}/bypass", post(sales::bypass))
        .route("/v1/sales/{sale}/rate", put(sales::rate))
        .route("/v1/sales/{sale}/times", put(sales::times))
        .route("/v1/sales/{sale}/{action}", post(sales::act))
        .route("/v1/audit-trail", get(sales::audit_trail))
        .route("/v1/passes", get(passes::all).post(passes::make))
        .route("/v1/passes/{id}", delete(passes::revoke))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(ops)
}

async fn readyz(State(health): State<Arc<Health>>) -> Response {
    let report = health.report().await;
    let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, [NO_STORE], Json(report.as_ref())).into_response()
}

async fn exposition(State(metrics): State<Arc<Metrics>>) -> Response {
    ([NO_STORE, (CONTENT_TYPE, EXPOSITION)], metrics.text()).into_response()
}

//! `/livez`, `/readyz`, `/metrics`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};

use super::health::Health;
use crate::telemetry::Metrics;

const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
const NO_STORE: (HeaderName, &str) = (CACHE_CONTROL, "no-store");

/// What the ops listener answers.
pub fn router(health: Arc<Health>, metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/livez", get(|| async { ([NO_STORE], "ok\n") }))
        .route("/readyz", get(readyz).with_state(health))
        .route("/metrics", get(exposition).with_state(metrics))
}

async fn readyz(State(health): State<Arc<Health>>) -> Response {
    let report = health.report().await;
    let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, [NO_STORE], Json(report.as_ref())).into_response()
}

async fn exposition(State(metrics): State<Arc<Metrics>>) -> Response {
    ([NO_STORE, (CONTENT_TYPE, EXPOSITION)], metrics.text()).into_response()
}

//! The core API: JSON over the private listener, for gateways, shops and operators.

mod answer;
mod auth;
mod body;
mod draw;
mod import;
mod lookup;
mod noted;
mod orders;
mod passes;
mod payments;
mod stock;
mod upkeep;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post};
use secrecy::SecretString;

use self::auth::Bearers;
use super::state::{ReadAdmission, Reservations};
use crate::domain::refusal::{Problem, Refusal};

/// The largest body, in bytes.
const BODY_MAX: usize = 64 * 1024;

/// What every handler has.
struct Api {
    reservations: Arc<Reservations>,
    read_admission: ReadAdmission,
    bearers: Bearers,
}

/// The routes of the core API. The core key opens reservations and reads; whatever changes stock
/// or control, sweeps or reconciles needs the operators' key, which also opens the rest.
pub fn router(
    reservations: Arc<Reservations>,
    read_admission: ReadAdmission,
    core_key: &SecretString,
    ops_key: Option<&SecretString>,
) -> Router {
    let bearers = Bearers::new(core_key, ops_key);
    let api = Arc::new(Api { reservations, read_admission, bearers });
    let large = DefaultBodyLimit::max(import::IMPORT_BYTES_MAX);
    Router::new()
        .route("/v1/reservations", post(orders::reserve).get(lookup::search))
        .route("/v1/reservations/confirm", post(payments::confirm_key))
        .route("/v1/reservations/release", post(payments::release_key))
        .route("/v1/reservations/{id}", get(lookup::one))
        .route("/v1/reservations/{id}/confirm", post(payments::confirm))
        .route("/v1/reservations/{id}/extend", post(payments::extend))
        .route("/v1/reservations/{id}/release", post(payments::release))
        .route("/v1/reservations/{id}/settle", post(payments::settle))
        .route("/v1/reservations/{id}/cancel", post(payments::cancel))
        .route("/v1/stock", get(stock::all).post(import::import).layer(large))
        .route("/v1/stock/{sku}", get(stock::one).put(stock::set))
        .route("/v1/stock/{sku}/restock", post(stock::restock))
        .route("/v1/stock/{sku}/freeze", post(stock::freeze))
        .route("/v1/stock/{sku}/thaw", post(stock::thaw))
        .route("/v1/stock/{sku}/shards", post(stock::shards))
        .route("/v1/passes", get(passes::all).post(passes::make))
        .route("/v1/passes/{id}", delete(passes::revoke))
        .route("/v1/passes/{id}/redeem", post(passes::redeem))
        .route("/v1/audit", get(upkeep::audit))
        .route("/v1/sweep", post(upkeep::sweep))
        .route("/v1/reconcile", post(upkeep::reconcile))
        .route("/v1/audit-trail", get(upkeep::audit_trail))
        .route("/v1/events", get(upkeep::events))
        .route("/v1/draw/{sale}/beacon", post(draw::beacon))
        .route("/v1/control/{sale}", get(upkeep::control).put(upkeep::put_control))
        .fallback(async || {
            let detail = "no such path; the core API is below /v1/";
            answer::refused(&Refusal::new(Problem::BadRequest, detail).status(404))
        })
        .method_not_allowed_fallback(async || {
            let detail = "this path does not take that method";
            answer::refused(&Refusal::new(Problem::BadRequest, detail).status(405))
        })
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(api)
}

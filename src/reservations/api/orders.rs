//! Taking units over HTTP.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;

use super::super::reserve::{Order, Reserved};
use super::Api;
use super::answer::{Answer, REPLAYED, json};
use super::auth::Known;
use super::body::{Body, order_key};
use crate::domain::id::Sku;
use crate::domain::quantity::Quantity;
use crate::domain::refusal::Refusal;
use crate::domain::reservation::{Cart, Line, OrderRef};

/// What is ordered.
#[derive(Debug, Deserialize)]
pub(super) struct Ordered {
    lines: Vec<OrderedLine>,
    #[serde(default)]
    settle: bool,
}

#[derive(Debug, Deserialize)]
struct OrderedLine {
    sku: Sku,
    qty: Quantity,
}

/// `POST /v1/reservations`
pub(super) async fn reserve(
    State(api): State<Arc<Api>>,
    _known: Known,
    headers: HeaderMap,
    Body(ordered): Body<Ordered>,
) -> Answer {
    let order_key = order_key(&headers)?;
    let lines = ordered.lines.into_iter().map(|line| Line { sku: line.sku, qty: line.qty });
    let cart = Cart::new(lines.collect()).map_err(|e| {
        let detail = e.to_string();
        Refusal::bad_request("lines", detail.trim_start_matches("lines: "))
    })?;
    let admission = api.admission(&headers)?;
    let order = OrderRef { sale: admission.sale.clone(), buyer: admission.buyer(), order_key };
    let order = Order { order, cart, settling: ordered.settle };
    Ok(match api.reservations.reserve(order).await? {
        Reserved::New(reservation) => json(StatusCode::CREATED, &reservation),
        Reserved::Replay(reservation) => {
            let replayed = [(REPLAYED, HeaderValue::from_static("true"))];
            (replayed, json(StatusCode::OK, &reservation)).into_response()
        }
    })
}

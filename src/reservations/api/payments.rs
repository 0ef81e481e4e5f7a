//! Confirm, extend, release, cancel over HTTP.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde::Deserialize;

use super::Api;
use super::answer::{Answer, ok};
use super::auth::Known;
use super::body::{Body, PaymentRef, by_id};
use crate::domain::id::{BuyerId, OrderKey, SaleId};
use crate::domain::reservation::OrderRef;
use crate::store::postgres::Which;

/// A payment.
#[derive(Debug, Deserialize)]
pub(super) struct Paid {
    payment_ref: PaymentRef,
}

/// An order by its key.
#[derive(Debug, Deserialize)]
pub(super) struct Keyed {
    sale: SaleId,
    buyer: BuyerId,
    order_key: OrderKey,
}

/// A payment of an order by its key.
#[derive(Debug, Deserialize)]
pub(super) struct KeyedPaid {
    sale: SaleId,
    buyer: BuyerId,
    order_key: OrderKey,
    payment_ref: PaymentRef,
}

/// `POST /v1/reservations/{id}/confirm`
pub(super) async fn confirm(
    State(api): State<Arc<Api>>,
    _known: Known,
    Path(id): Path<String>,
    Body(paid): Body<Paid>,
) -> Answer {
    Ok(ok(&api.reservations.confirm(&by_id(&id)?, &paid.payment_ref.0).await?))
}

/// `POST /v1/reservations/confirm`
pub(super) async fn confirm_key(
    State(api): State<Arc<Api>>,
    _known: Known,
    Body(KeyedPaid { sale, buyer, order_key, payment_ref }): Body<KeyedPaid>,
) -> Answer {
    let which = Which::Key(OrderRef { sale, buyer, order_key });
    Ok(ok(&api.reservations.confirm(&which, &payment_ref.0).await?))
}

/// `POST /v1/reservations/{id}/release`
pub(super) async fn release(
    State(api): State<Arc<Api>>,
    _known: Known,
    Path(id): Path<String>,
) -> Answer {
    Ok(ok(&api.reservations.release(&by_id(&id)?).await?))
}

/// `POST /v1/reservations/release`
pub(super) async fn release_key(
    State(api): State<Arc<Api>>,
    _known: Known,
    Body(Keyed { sale, buyer, order_key }): Body<Keyed>,
) -> Answer {
    let which = Which::Key(OrderRef { sale, buyer, order_key });
    Ok(ok(&api.reservations.release(&which).await?))
}

/// `POST /v1/reservations/{id}/extend`
pub(super) async fn extend(
    State(api): State<Arc<Api>>,
    _known: Known,
    Path(id): Path<String>,
) -> Answer {
    Ok(ok(&api.reservations.extend(&by_id(&id)?).await?))
}

/// `POST /v1/reservations/{id}/settle`
pub(super) async fn settle(
    State(api): State<Arc<Api>>,
    _known: Known,
    Path(id): Path<String>,
) -> Answer {
    Ok(ok(&api.reservations.settle(&by_id(&id)?).await?))
}

/// `POST /v1/reservations/{id}/cancel`
pub(super) async fn cancel(
    State(api): State<Arc<Api>>,
    _known: Known,
    Path(id): Path<String>,
) -> Answer {
    Ok(ok(&api.reservations.cancel(&by_id(&id)?).await?))
}

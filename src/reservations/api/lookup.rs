//! Looking reservations up over HTTP.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};

use super::super::refuse::unknown_order;
use super::Api;
use super::answer::{Answer, ok};
use super::auth::Known;
use super::body::{by_id, parse, query, standard};
use crate::domain::id::{BuyerId, OrderKey, SaleId};
use crate::domain::reservation::Status;
use crate::store::postgres::{Search, Which};

/// `GET /v1/reservations/{id}`
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    _known: Known,
    Path(id): Path<String>,
) -> Answer {
    let Which::Id(id) = by_id(&id)? else { return Err(unknown_order().into()) };
    let view = api.reservations.ledger().view(id).await?;
    Ok(ok(&view.ok_or_else(unknown_order)?))
}

/// `GET /v1/reservations?sale=&buyer=&order_key=&payment_ref=&status=&after=`
pub(super) async fn search(
    State(api): State<Arc<Api>>,
    _known: Known,
    RawQuery(raw): RawQuery,
) -> Answer {
    const NAMES: [&str; 6] = ["sale", "buyer", "order_key", "payment_ref", "status", "after"];
    const STATUS: &str = "must be held, confirmed, expired, released or cancelled";
    let [sale, buyer, order_key, payment_ref, status, after] = query(raw.as_deref(), NAMES)?;
    let search = Search {
        sale: parse("sale", sale, SaleId::parse)?,
        buyer: parse("buyer", buyer, BuyerId::parse)?,
        order_key: parse("order_key", order_key, OrderKey::parse)?,
        payment_ref: parse("payment_ref", payment_ref, OrderKey::parse)?
            .map(|payment_ref| payment_ref.as_str().to_owned()),
        status: parse("status", status, |raw| Status::named(raw).ok_or(STATUS))?,
        after: standard("after", after, "must be the `next` of a page before")?,
    };
    Ok(ok(&api.reservations.ledger().search(&search).await?))
}

//! The admitted shopper's side of the core: reserve, look, give back, hold longer.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Response, StatusCode};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::asked::{Asked, own_path};
use super::core_client::{CoreAnswer, CoreCall, CoreClient, IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED};
use super::identify::{Pass, Renewal, Visitor};
use super::reading::Wire;
use super::respond::{self, Kind};
use super::sale::SaleGate;
use crate::domain::id::{OrderKey, Sku};
use crate::domain::quantity::Quantity;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::reservation::{Cart, Line, Reservation};
use crate::http::body::Body;

/// The answer's headers that the shopper sees too.
const RELAYED: [hyper::header::HeaderName; 3] =
    [header::CONTENT_TYPE, header::RETRY_AFTER, IDEMPOTENT_REPLAYED];

/// An order as JSON; equal SKUs are summed by the core.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    lines: Vec<Line>,
}

/// An order as a form.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderForm {
    sku: String,
    qty: String,
    order_key: String,
    #[serde(rename = "continue")]
    go_on: Option<String>,
}

/// Where a form goes on to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GoOn {
    #[serde(rename = "continue")]
    go_on: Option<String>,
}

/// The pass, or 403.
fn admitted<'a>(visitor: &'a Visitor, sale: &SaleGate) -> Result<&'a Pass, Refusal> {
    visitor.pass.as_ref().ok_or_else(|| {
        let detail = "an order needs a valid admission; join the line and claim one first";
        Refusal::new(Problem::NotAdmitted, detail).with("queue_url", sale.queue_url())
    })
}

/// `POST …/reservations`.
pub(super) async fn reserve(
    core: &CoreClient,
    asked: &mut Asked,
    sale: &SaleGate,
    visitor: &mut Visitor,
) -> Result<Response<Body>, Refusal> {
    sale.forgive(visitor);
    let token = admitted(visitor, sale)?.token.clone();
    let wire = asked.wire()?;
    let (order, order_key, go_on) = match wire {
        Wire::Form => order_by_form(asked).await?,
        Wire::Json => (asked.read_as::<Order>().await?, key_in_header(asked)?, None),
    };
    // Told here, before a round trip; the core sums equal SKUs for itself.
    Cart::new(order.lines.clone()).map_err(|error| Refusal::bad_request("lines", error))?;
    let body = serde_json::to_vec(&order).map_err(|e| Refusal::bad_request("lines", e))?;
    let call = CoreCall {
        method: Method::POST,
        target: "/v1/reservations".to_owned(),
        admission: Some(&token),
        order_key: Some(&order_key),
        body: body.into(),
    };
    let told = core.call(call).await?;
    follow(sale, visitor, &told).await;
    answer(&told, visitor, wire, go_on.as_deref())
}

/// The pass lasts as long as a hold that was made or extended.
async fn follow(sale: &SaleGate, visitor: &mut Visitor, told: &CoreAnswer) {
    let reservation = serde_json::from_slice::<Reservation>(&told.body);
    if let Ok(reservation) = reservation
        && told.status.is_success()
    {
        sale.holds_now(visitor, &reservation).await;
    }
}

async fn order_by_form(asked: &mut Asked) -> Result<(Order, String, Option<String>), Refusal> {
    let form: OrderForm = asked.read_as().await?;
    let sku = Sku::parse(&form.sku).map_err(|error| Refusal::bad_request("sku", error))?;
    let qty =
        Quantity::parse(form.qty.trim()).map_err(|error| Refusal::bad_request("qty", error))?;
    let key = OrderKey::parse(&form.order_key)
        .map_err(|error| Refusal::bad_request("order_key", error))?;
    let go_on = checked(form.go_on)?;
    Ok((Order { lines: vec![Line { sku, qty }] }, key.as_str().to_owned(), go_on))
}

fn key_in_header(asked: &Asked) -> Result<String, Refusal> {
    let missing = || {
        let cure = "is missing; send a key of your own making, the same one for every retry";
        Refusal::bad_request("Idempotency-Key", cure)
    };
    let raw = asked.headers().get(IDEMPOTENCY_KEY).ok_or_else(missing)?;
    let text = std::str::from_utf8(raw.as_bytes())
        .map_err(|_| Refusal::bad_request("Idempotency-Key", "must be UTF-8"))?;
    let bare = text.trim();
    let bare = bare.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(bare);
    let key =
        OrderKey::parse(bare).map_err(|error| Refusal::bad_request("Idempotency-Key", error))?;
    Ok(key.as_str().to_owned())
}

/// A place to go on to must be a path of this host.
fn checked(go_on: Option<String>) -> Result<Option<String>, Refusal> {
    match go_on {
        Some(raw) if own_path(&raw).is_none() => {
            let cure = "must be a path of this site, like \"/checkout/pay\"";
            Err(Refusal::bad_request("continue", cure))
        }
        other => Ok(other),
    }
}

/// `GET …/reservations`: the shopper's own.
pub(super) async fn own_orders(
    core: &CoreClient,
    sale: &SaleGate,
    visitor: &Visitor,
) -> Result<Response<Body>, Refusal> {
    let pass = admitted(visitor, sale)?;
    let buyer = pass.admission.buyer();
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("sale", sale.id().as_str())
        .append_pair("buyer", buyer.as_str())
        .finish();
    let found = core.call(look(format!("/v1/reservations?{query}"))).await?;
    if !found.status.is_success() {
        return Err(found.refusal());
    }
    let body: serde_json::Value = serde_json::from_slice(&found.body).unwrap_or_default();
    let own = serde_json::json!({ "reservations": body["reservations"] });
    Ok(respond::json(StatusCode::OK, &own, Kind::Own))
}

/// What may be done with a hold.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    /// Give it back.
    Release,
    /// Keep it longer.
    Extend,
}

/// `POST …/reservations/{id}/release` and `/extend`, for the shopper's own only.
pub(super) async fn change(
    core: &CoreClient,
    asked: &mut Asked,
    sale: &SaleGate,
    visitor: &mut Visitor,
    (id, change): (Uuid, Change),
) -> Result<Response<Body>, Refusal> {
    let admission = Arc::clone(&admitted(visitor, sale)?.admission);
    let wire = asked.wire()?;
    let form: GoOn = asked.read_as().await?;
    let go_on = checked(form.go_on)?;
    let found = core.call(look(format!("/v1/reservations/{id}"))).await?;
    let owner: Option<Reservation> = serde_json::from_slice(&found.body).ok();
    let is_own =
        owner.is_some_and(|order| order.sale == *sale.id() && order.buyer == admission.buyer());
    if !is_own {
        let detail = "you have no such reservation in this sale";
        return Err(Refusal::new(Problem::UnknownOrder, detail));
    }
    let verb = match change {
        Change::Release => "release",
        Change::Extend => "extend",
    };
    let call = CoreCall {
        method: Method::POST,
        target: format!("/v1/reservations/{id}/{verb}"),
        admission: None,
        order_key: None,
        body: Bytes::from_static(b"{}"),
    };
    let told = core.call(call).await?;
    match change {
        Change::Release => sale.holds.forget(&admission),
        Change::Extend => follow(sale, visitor, &told).await,
    }
    answer(&told, visitor, wire, go_on.as_deref())
}

fn look(target: String) -> CoreCall<'static> {
    let body = Bytes::new();
    CoreCall { method: Method::GET, target, admission: None, order_key: None, body }
}

/// JSON is passed on as the core wrote it, with the renewed admission for whoever keeps it in a
/// header; a form goes on, or is told why not.
fn answer(
    answer: &CoreAnswer,
    visitor: &Visitor,
    wire: Wire,
    go_on: Option<&str>,
) -> Result<Response<Body>, Refusal> {
    let good = answer.status.is_success();
    match wire {
        Wire::Form if good => Ok(respond::see_other(go_on.unwrap_or("/"))),
        Wire::Form => Err(answer.refusal()),
        Wire::Json => {
            let kind = if good { Kind::Own } else { Kind::Refused };
            let renewed =
                visitor.pass.as_ref().filter(|_| visitor.renewal == Renewal::Done && good);
            let body = match renewed.filter(|_| visitor.pass_by_header) {
                Some(pass) => with_admission(&answer.body, pass),
                None => answer.body.clone(),
            };
            let mut response = respond::bytes(answer.status, "application/json", body, kind);
            relay(&answer.headers, response.headers_mut());
            Ok(response)
        }
    }
}

/// The core's answer with the admission as one more member.
fn with_admission(body: &Bytes, pass: &Pass) -> Bytes {
    let parsed = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body);
    let Ok(mut members) = parsed else { return body.clone() };
    members.insert("admission".to_owned(), pass.token.clone().into());
    serde_json::Value::Object(members).to_string().into()
}

fn relay(from: &HeaderMap, to: &mut HeaderMap) {
    for name in RELAYED {
        let value: Option<&HeaderValue> = from.get(&name);
        if let Some(value) = value {
            to.insert(name, value.clone());
        }
    }
}

//! Joining, asking and claiming: what a visitor does in the waiting room.

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::Gateway;
use super::asked::{Asked, own_path};
use super::bypass::{Brought, admitted, bypass};
use super::cookies::{self, Kind as Token};
use super::core_client::IDEMPOTENCY_KEY;
use super::identify::Visitor;
use super::queue_page;
use super::reader::Reader;
use super::reading::Wire;
use super::respond::{self, Kind};
use super::sale::SaleGate;
use super::showing::NotJoined;
use crate::domain::admission::Admission;
use crate::domain::id::OrderKey;
use crate::domain::limits::AddressKey;
use crate::domain::queue::PlaceState;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::status::{Status, rfc3339};
use crate::domain::ticket::Ticket;
use crate::http::body::Body;
use crate::room::{self, Claimed, JoinRequest, Place};

const DAY_SECONDS: u64 = 86_400;

/// What a join may say, as a form or as JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct JoinBody {
    join_key: Option<String>,
    next: Option<String>,
}

/// What a claim may say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimBody {
    next: Option<String>,
    /// A staff pass: no ticket is needed then.
    pass: Option<String>,
    /// The same for a retry with that pass.
    key: Option<String>,
}

/// What a join is told seldom takes more.
const JOINED_BYTES: usize = 1024;

/// `POST …/join`.
pub(super) async fn join(
    asked: &mut Asked,
    sale: &SaleGate,
    visitor: &Visitor,
    login_url: &str,
) -> Result<Response<Body>, Refusal> {
    let wire = asked.wire()?;
    let body: JoinBody = asked.read_as().await?;
    let key = join_key(asked, &body)?;
    match take_place(asked, sale, visitor, key.clone()).await {
        Ok(place) => Ok(joined(asked, sale, &place, wire, body.next.as_deref())),
        Err(refusal)
            if wire == Wire::Form && asked.reader() == Reader::Person && is_passing(&refusal) =>
        {
            let join = NotJoined { refusal, key, next: body.next };
            Ok(queue_page::not_joined(asked, sale, visitor, join, login_url))
        }
        Err(refusal) => Err(refusal),
    }
}

/// What whoever has a place is told.
pub(super) fn joined(
    asked: &Asked,
    sale: &SaleGate,
    place: &Place,
    wire: Wire,
    next: Option<&str>,
) -> Response<Body> {
    let mut response = match wire {
        Wire::Form => respond::see_other(&way_back(sale, next)),
        Wire::Json => {
            let status = if place.known { StatusCode::OK } else { StatusCode::CREATED };
            respond::told(status, joined_body(sale, place))
        }
    };
    set_cookie(&mut response, Token::Ticket, sale, asked.client.https, &place.token);
    response
}

/// The status, the ticket and its code. A token and a code are of letters that JSON takes as they are.
fn joined_body(sale: &SaleGate, Place { ticket, token, .. }: &Place) -> Vec<u8> {
    let mut body = Vec::with_capacity(JOINED_BYTES);
    sale.told.write_open(&mut body, sale.told.to(Some(ticket.cohort), None));
    for part in [",\"ticket\":\"", token, "\",\"recovery\":"] {
        body.extend_from_slice(part.as_bytes());
    }
    let code = sale.room.recovery_code(ticket).map_or("null".into(), |code| format!("\"{code}\""));
    body.extend_from_slice(code.as_bytes());
    body.push(b'}');
    body
}

/// Whether the same join may be let in a moment later.
pub(super) fn is_passing(refusal: &Refusal) -> bool {
    matches!(refusal.problem, Problem::Overloaded | Problem::Paused)
}

/// The key that makes a double click one place: the header's, the form's, or one for this once.
fn join_key(asked: &Asked, body: &JoinBody) -> Result<String, Refusal> {
    let header = asked.text(IDEMPOTENCY_KEY).map(|raw| raw.trim().trim_matches('"'));
    let (field, raw) = match (header, &body.join_key) {
        (Some(header), _) if !header.is_empty() => ("Idempotency-Key", header),
        (_, Some(field)) if !field.is_empty() => ("join_key", field.as_str()),
        // A page that anybody may have seen gives none to its script.
        _ => return Ok(fresh_key()),
    };
    let key = OrderKey::parse(raw).map_err(|error| Refusal::bad_request(field, error))?;
    Ok(key.as_str().to_owned())
}

/// A key nobody else makes.
pub(super) fn fresh_key() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

/// Takes a place, or finds the one the visitor has. Who was called and has missed it, or has left,
/// gets a new one, behind everybody waiting now.
pub(super) async fn take_place(
    asked: &Asked,
    sale: &SaleGate,
    visitor: &Visitor,
    key: String,
) -> Result<Place, Refusal> {
    if let Some(refusal) = sign_in_is_away(visitor) {
        return Err(refusal);
    }
    let is_signed_out = visitor.account_id().is_none() && !visitor.account_is_unknown();
    if sale.settings.require_account && is_signed_out {
        let detail = "this sale gives one place to each account; sign in at the shop, then join";
        return Err(Refusal::new(Problem::SignInRequired, detail));
    }
    let (ticket, lapsed) = match visitor.ticket.clone() {
        Some(held) if is_over(sale, &held).await => (None, Some(held)),
        held => (held, None),
    };
    let request = JoinRequest {
        key,
        account: visitor.account_id().cloned(),
        address: Some(AddressKey::of(asked.client.ip)),
        ticket,
        lapsed,
    };
    sale.room.join(request).await
}

/// To whoever has no place while nobody tells who is signed in: somebody may be, and an anonymous
/// place would be a second one.
pub(super) fn sign_in_is_away(visitor: &Visitor) -> Option<Refusal> {
    let detail = "the shop's sign-in is not answering; your place, if you have one, is kept";
    let refusal = || Refusal::new(Problem::AccountUnavailable, detail).retry_after_ms(3_000);
    (visitor.account_is_unknown() && visitor.ticket.is_none()).then(refusal)
}

/// Whether the cursor has passed a ticket's position.
pub(super) fn is_called(sale: &SaleGate, ticket: &Ticket) -> bool {
    let seen = sale.room.glance();
    let position = seen.draw.as_ref().and_then(|draw| ticket.cohort.position(draw));
    position.is_some_and(|position| position < seen.cursor)
}

/// Whether a place was given up, or called in vain for the last time: only a new one leads on.
async fn is_over(sale: &SaleGate, ticket: &Ticket) -> bool {
    ended(sale, ticket).await.is_some()
}

/// The same: which of the two.
pub(super) async fn ended(sale: &SaleGate, ticket: &Ticket) -> Option<PlaceState> {
    if sale.room.has_left(ticket) {
        return Some(PlaceState::Left);
    }
    if !is_called(sale, ticket) {
        return None;
    }
    room::ended(&sale.claim(ticket).await.err()?)
}

/// Back to where the shopper was going, if the queue is shown there; else to the queue page.
pub(super) fn way_back(sale: &SaleGate, next: Option<&str>) -> String {
    let next = next.and_then(own_path).map_or_else(|| sale.way_in(), str::to_owned);
    sale.queue_url_to(&next)
}

/// `GET …/status`. No store is touched.
pub(super) fn status(sale: &SaleGate, visitor: &Visitor) -> Response<Body> {
    let pass = visitor.pass.as_ref().map(|pass| pass.admission.as_ref());
    let mut body = Vec::new();
    let number = visitor.ticket.as_ref().map(|ticket| ticket.cohort);
    sale.told.write(&mut body, sale.told.to(number, pass));
    respond::status(body)
}

/// The status body for a visitor.
pub(super) fn told(sale: &SaleGate, visitor: &Visitor) -> Status {
    let pass = visitor.pass.as_ref().map(|pass| pass.admission.as_ref());
    sale.room.status(visitor.ticket.as_ref(), pass)
}

#[derive(Serialize)]
pub(super) struct ClaimAnswer<'a> {
    admission: &'a str,
    slot_ms: u64,
    expires_at: String,
    #[serde(rename = "continue")]
    go_on: String,
}

#[derive(Serialize)]
struct Booked {
    admitted_at: Option<String>,
    retry_after_ms: Option<u64>,
}

impl Gateway {
    /// `POST …/claim`: by a staff pass, past the line while everybody may, else by the ticket.
    pub(super) async fn claim(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        visitor: &Visitor,
    ) -> Result<Response<Body>, Refusal> {
        let wire = asked.wire()?;
        let header = Brought::in_header(asked);
        let body: ClaimBody = asked.read_as().await?;
        if let Some(pass) = header.or(body.pass) {
            let brought = Brought { pass, key: body.key, next: body.next };
            return self.redeem(asked, sale, visitor, wire, brought).await;
        }
        let go_on = body.next.as_deref().and_then(own_path);
        let go_on = go_on.map_or_else(|| sale.way_in(), str::to_owned);
        if visitor.pass.is_none() && sale.room.is_bypassed() {
            let pass = bypass(sale, visitor).await;
            return Ok(admitted(asked, sale, wire, &pass, &go_on));
        }
        claim(asked, sale, visitor, wire, go_on).await
    }
}

async fn claim(
    asked: &Asked,
    sale: &SaleGate,
    visitor: &Visitor,
    wire: Wire,
    go_on: String,
) -> Result<Response<Body>, Refusal> {
    let ticket = visitor.ticket.as_ref().ok_or_else(|| no_ticket(sale))?;
    match (sale.claim(ticket).await?, wire) {
        (Claimed::Admitted { token, .. }, Wire::Form) => {
            Ok(with_pass(respond::see_other(&go_on), asked, sale, &token))
        }
        (Claimed::Admitted { admission, token }, Wire::Json) => {
            let answer = claim_answer(&admission, &token, go_on);
            let response = respond::json(StatusCode::OK, &answer, Kind::Own);
            Ok(with_pass(response, asked, sale, &token))
        }
        (Claimed::Wait { .. }, Wire::Form) => Ok(respond::see_other(&sale.queue_url_to(&go_on))),
        (Claimed::Wait { slot_ms, retry_after_ms }, Wire::Json) => {
            let booked = Booked { admitted_at: slot_ms.map(rfc3339), retry_after_ms };
            let mut response = respond::json(StatusCode::ACCEPTED, &booked, Kind::Own);
            if let Some(ms) = retry_after_ms {
                let seconds = HeaderValue::from(ms.div_ceil(1000));
                response.headers_mut().insert(header::RETRY_AFTER, seconds);
            }
            Ok(response)
        }
    }
}

/// Without a place there is nothing to turn in or to give up; knowing a number is no place.
pub(super) fn no_ticket(sale: &SaleGate) -> Refusal {
    let detail = "there is no valid ticket of this sale on the request; join first";
    Refusal::new(Problem::NotAdmitted, detail).with("queue_url", sale.queue_url())
}

pub(super) fn claim_answer<'a>(
    admission: &Admission,
    token: &'a str,
    go_on: String,
) -> ClaimAnswer<'a> {
    ClaimAnswer {
        admission: token,
        slot_ms: admission.since_ms(),
        expires_at: rfc3339(admission.exp.saturating_mul(1000)),
        go_on,
    }
}

/// Adds the pass cookie.
pub(super) fn with_pass(
    mut response: Response<Body>,
    asked: &Asked,
    sale: &SaleGate,
    token: &str,
) -> Response<Body> {
    set_cookie(&mut response, Token::Pass, sale, asked.client.https, token);
    response
}

/// Adds one of our cookies.
pub(super) fn set_cookie(
    response: &mut Response<Body>,
    kind: Token,
    sale: &SaleGate,
    https: bool,
    token: &str,
) {
    // A place outlives a closed browser; a pass is claimed again with it.
    let seconds = (kind == Token::Ticket).then(|| {
        let closes_ms = sale.room.snapshot().control.closes_ms;
        closes_ms.saturating_sub(sale.room.now_ms()) / 1000 + DAY_SECONDS
    });
    if let Some(line) = cookies::set(kind, &sale.cookies, https, token, seconds) {
        response.headers_mut().append(header::SET_COOKIE, line);
    }
}

/// Ends one of our cookies.
pub(super) fn end_cookie(response: &mut Response<Body>, kind: Token, sale: &SaleGate, https: bool) {
    if let Some(line) = cookies::end(kind, &sale.cookies, https) {
        response.headers_mut().append(header::SET_COOKIE, line);
    }
}

#[derive(Serialize)]
struct SkuStock {
    sku: String,
    available: u64,
    held: u64,
    confirmed: u64,
}

/// `GET …/stock`: nothing that the system does not believe.
pub(super) fn stock(sale: &SaleGate) -> Result<Response<Body>, Refusal> {
    let (seen, now_ms) = (sale.room.snapshot(), sale.room.now_ms());
    let figures = seen.figures.as_ref().filter(|_| seen.stock(now_ms).is_some());
    let Some(figures) = figures else {
        let detail = "the stock is not known at this moment; ask again";
        return Err(Refusal::new(Problem::Paused, detail).retry_after_ms(1_000));
    };
    let skus: Vec<SkuStock> = figures
        .skus
        .iter()
        .map(|figures| SkuStock {
            sku: figures.sku.as_str().to_owned(),
            available: figures.available,
            held: figures.held,
            confirmed: figures.confirmed,
        })
        .collect();
    Ok(respond::json(StatusCode::OK, &serde_json::json!({ "skus": skus }), Kind::Own))
}

//! The queue in place of what was asked for, and the queue page itself.

use std::time::Duration;

use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};

use super::asked::{Asked, Reader, own_path};
use super::cookies::Kind as Token;
use super::identify::{Renewal, Visitor};
use super::pages::{PageState, PageView};
use super::respond::{self, Kind};
use super::sale::SaleGate;
use super::waiting;
use crate::domain::id::AccountId;
use crate::domain::queue::PlaceState;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::sale::Phase;
use crate::domain::status::{Status, rfc3339};
use crate::domain::stock::Supply;
use crate::domain::ticket::Ticket;
use crate::http::body::Body;
use crate::room::Claimed;

/// When crawlers may come back, in milliseconds.
const CRAWLER_RETRY_MS: u64 = 3_600_000;
/// How long a newcomer to an empty line may wait to be called by this very request.
const EXPRESS_MAX: Duration = Duration::from_millis(500);
const EXPRESS_LOOK: Duration = Duration::from_millis(25);

/// A protected path without a pass.
pub(super) async fn at_gate(
    asked: &Asked,
    sale: &SaleGate,
    visitor: &Visitor,
    login_url: &str,
) -> Result<Response<Body>, Refusal> {
    if asked.reader == Reader::Script {
        return Err(told_to_wait(sale, visitor));
    }
    if asked.is_crawler() {
        let detail = "there is a queue in front of this page at the moment";
        let refusal = Refusal::new(Problem::Waiting, detail).status(503);
        return Err(refusal.retry_after_ms(CRAWLER_RETRY_MS));
    }
    let mut showing = Showing::new(waiting::told(sale, visitor), asked.again());
    showing.not_submitted = !matches!(*asked.method(), Method::GET | Method::HEAD);
    // Whoever brought a pass was sent here by one before: no loops.
    let may_move = asked.method() == Method::GET && !asked.is_prefetch() && !visitor.brought_pass;
    match &visitor.ticket {
        Some(ticket) if may_move && waiting::is_called(sale, ticket) => {
            if let Some(moved) = claim_here(asked, sale, ticket, &mut showing).await {
                return Ok(moved);
            }
        }
        // A 503 may carry no cookie, and a place without one would be lost.
        None if may_move && sale.settings.queue_status < 500 && line_is_empty(sale) => {
            if let Some(moved) = straight_through(asked, sale, visitor, &mut showing).await? {
                return Ok(moved);
            }
        }
        Some(_) | None => {}
    }
    showing.account = visitor.account_id().cloned();
    let status = if showing.not_submitted {
        StatusCode::TOO_MANY_REQUESTS
    } else {
        StatusCode::from_u16(sale.settings.queue_status).unwrap_or(StatusCode::OK)
    };
    let mut response = page(sale, showing, status, login_url);
    // A pass that has ended goes, so that the next visit may claim or find its turn missed.
    if visitor.brought_pass && visitor.renewal != Renewal::Unknown && !status.is_server_error() {
        waiting::end_cookie(&mut response, Token::Pass, sale, asked.client.https);
    }
    Ok(response)
}

/// `GET /_stanchion/{sale}`: shows, and changes nothing.
pub(super) fn show(
    asked: &Asked,
    sale: &SaleGate,
    visitor: &Visitor,
    login_url: &str,
) -> Response<Body> {
    let next = asked.query("next");
    let next = next.as_deref().and_then(own_path);
    let next = next.map_or_else(|| sale.way_in(), str::to_owned);
    let mut showing = Showing::new(waiting::told(sale, visitor), &next);
    showing.account = visitor.account_id().cloned();
    page(sale, showing, StatusCode::OK, login_url)
}

/// 429 for scripts: the status body, and where the queue is.
fn told_to_wait(sale: &SaleGate, visitor: &Visitor) -> Refusal {
    let status = waiting::told(sale, visitor);
    let detail = "this path is behind a waiting room; nothing was executed. Join at queue_url";
    let mut refusal = Refusal::new(Problem::Waiting, detail)
        .retry_after_ms(status.poll_after_ms)
        .with("queue_url", sale.queue_url());
    if let Ok(serde_json::Value::Object(members)) = serde_json::to_value(&status) {
        for (name, value) in members {
            refusal = refusal.with(&name, value);
        }
    }
    refusal
}

/// What a page is made from.
struct Showing {
    status: Status,
    next: String,
    slot_ms: Option<u64>,
    account: Option<AccountId>,
    not_submitted: bool,
    /// The page of a refusal instead of the place's.
    instead: Option<PageState>,
    ticket_to_set: Option<(String, bool)>,
}

impl Showing {
    fn new(status: Status, next: &str) -> Self {
        Self {
            status,
            next: next.to_owned(),
            slot_ms: None,
            account: None,
            not_submitted: false,
            instead: None,
            ticket_to_set: None,
        }
    }
}

/// A called ticket claims by the request itself: 303 with the pass if its slot is due, else the
/// page says when.
async fn claim_here(
    asked: &Asked,
    sale: &SaleGate,
    ticket: &Ticket,
    showing: &mut Showing,
) -> Option<Response<Body>> {
    match sale.claim(ticket).await {
        Ok(Claimed::Admitted { token, .. }) => {
            Some(waiting::with_pass(respond::see_other(asked.again()), asked, sale, token))
        }
        Ok(Claimed::Wait { slot_ms, .. }) => {
            showing.slot_ms = slot_ms;
            showing.status.place.admitted_at = slot_ms.map(rfc3339);
            None
        }
        Err(refusal) => {
            if refusal.problem == Problem::Missed {
                showing.status.place.state = PlaceState::Missed;
            }
            None
        }
    }
}

/// Nobody waits and the meter is open: outside the rush nobody needs to see a queue.
fn line_is_empty(sale: &SaleGate) -> bool {
    let (seen, now_ms) = (sale.room.snapshot(), sale.room.now_ms());
    let is_open = seen.phase(now_ms) == Phase::Open && !seen.is_paused(now_ms);
    let has_stock = seen.stock(now_ms).is_some_and(|stock| stock.supply() == Supply::Available);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
    let lead_ms = seen.meter.lead_ms(now_ms as f64);
    is_open && has_stock && seen.cursor >= seen.line && lead_ms <= 0.0
}

/// Joins, waits a moment to be called, claims, and is sent on.
async fn straight_through(
    asked: &Asked,
    sale: &SaleGate,
    visitor: &Visitor,
    showing: &mut Showing,
) -> Result<Option<Response<Body>>, Refusal> {
    let place = match waiting::take_place(asked, sale, visitor, waiting::fresh_key()).await {
        Ok(place) => place,
        Err(refusal) if refusal.problem == Problem::SignInRequired => {
            showing.instead = Some(PageState::SignIn);
            return Ok(None);
        }
        Err(refusal) => return Err(refusal),
    };
    let called = async {
        while !waiting::is_called(sale, &place.ticket) {
            tokio::time::sleep(EXPRESS_LOOK).await;
        }
    };
    showing.ticket_to_set = Some((place.token, asked.client.https));
    if tokio::time::timeout(EXPRESS_MAX, called).await.is_ok()
        && let Some(mut moved) = claim_here(asked, sale, &place.ticket, showing).await
    {
        set_ticket(&mut moved, sale, showing.ticket_to_set.take());
        return Ok(Some(moved));
    }
    let booked_at = showing.status.place.admitted_at.take();
    showing.status = sale.room.status(Some(&place.ticket), None);
    showing.status.place.admitted_at = booked_at;
    Ok(None)
}

fn set_ticket(response: &mut Response<Body>, sale: &SaleGate, ticket: Option<(String, bool)>) {
    if let Some((token, https)) = ticket {
        waiting::set_cookie(response, Token::Ticket, sale, https, token);
    }
}

fn page(
    sale: &SaleGate,
    mut showing: Showing,
    status: StatusCode,
    login_url: &str,
) -> Response<Body> {
    let ticket = showing.ticket_to_set.take();
    let view = view(sale, showing, login_url);
    let mut response = respond::page(status, &view, Kind::Queue);
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        let seconds = HeaderValue::from(view.poll_after_ms.div_ceil(1000));
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    // A cache may keep a 5xx whatever we say, so nothing of one visitor is in it.
    if !status.is_server_error() {
        set_ticket(&mut response, sale, ticket);
    }
    response
}

fn view(sale: &SaleGate, showing: Showing, login_url: &str) -> PageView {
    let status = showing.status;
    let seen = sale.room.snapshot();
    let control = &seen.control;
    let needs_account = sale.settings.require_account
        && showing.account.is_none()
        && status.place.state == PlaceState::None
        && matches!(status.phase, Phase::Lobby | Phase::Drawing | Phase::Open);
    let told = PageState::of(status.phase, status.paused, &status.place, status.stock.as_ref());
    let state = match showing.instead {
        Some(state) => state,
        None if needs_account => PageState::SignIn,
        None => told,
    };
    let mut view = PageView::new(state, sale.room.now_ms());
    view.sale = Some(sale.id().as_str().to_owned());
    view.lobby_opens_ms = Some(control.lobby_opens_ms);
    view.opens_ms = Some(control.opens_ms);
    view.closes_ms = Some(control.closes_ms);
    view.next = showing.next;
    view.join_key = waiting::fresh_key();
    view.account = showing.account.is_some();
    view.admitted_ms = showing.slot_ms;
    view.claim_window_ms = Some(control.claim_window_ms);
    view.wait = status.eta_seconds;
    view.odds = status.odds;
    view.stock = status.stock;
    view.poll_after_ms = status.poll_after_ms;
    view.login_url = (state == PageState::SignIn).then(|| login_url.to_owned());
    view.not_submitted = showing.not_submitted;
    view.place = status.place;
    view
}

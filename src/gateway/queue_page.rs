//! The queue in place of what was asked for, and the queue page itself.

use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};

use super::asked::{Asked, own_path};
use super::cookies::Kind as Token;
use super::express::{claim_here, line_is_empty, straight_through};
use super::identify::{Renewal, Visitor, keeps_dead_ticket};
use super::pages::{PageState, PageView, ProblemNote};
use super::reader::{Reader, is_crawler, is_prefetch};
use super::respond::{self, Kind};
use super::sale::SaleGate;
use super::waiting;
use crate::domain::id::AccountId;
use crate::domain::queue::{Place, PlaceState};
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::sale::Phase;
use crate::domain::status::Status;
use crate::domain::ticket::Ticket;
use crate::http::body::Body;

/// When crawlers may come back, in milliseconds.
const CRAWLER_RETRY_MS: u64 = 3_600_000;

/// A protected path without a pass.
pub(super) async fn at_gate(
    asked: &Asked,
    sale: &SaleGate,
    visitor: &Visitor,
    login_url: &str,
) -> Result<Response<Body>, Refusal> {
    turn_crawlers_away(asked)?;
    if asked.reader() == Reader::Script {
        return Err(told_to_wait(sale, visitor));
    }
    let mut showing = Showing::new(sale, visitor, asked.again());
    showing.not_submitted = !matches!(*asked.method(), Method::GET | Method::HEAD);
    // Whoever brought a pass was sent here by one before: no loops.
    let may_move =
        asked.method() == Method::GET && !is_prefetch(asked.headers()) && !visitor.brought_pass;
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
    let status = if showing.not_submitted {
        StatusCode::TOO_MANY_REQUESTS
    } else {
        StatusCode::from_u16(sale.settings.queue_status).unwrap_or(StatusCode::OK)
    };
    let mut response = page(asked, sale, showing, status, login_url);
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
) -> Result<Response<Body>, Refusal> {
    turn_crawlers_away(asked)?;
    let next = asked.query("next");
    let next = next.as_deref().and_then(own_path);
    let next = next.map_or_else(|| sale.way_in(), str::to_owned);
    let showing = Showing::new(sale, visitor, &next);
    Ok(page(asked, sale, showing, StatusCode::OK, login_url))
}

/// In place of a join by a form that found no room: the page comes again by itself, and by script
/// or button as the same join. Nobody keeps an answer to a POST, so it may name the join.
pub(super) fn not_joined(
    asked: &Asked,
    sale: &SaleGate,
    visitor: &Visitor,
    join: NotJoined,
    login_url: &str,
) -> Response<Body> {
    let next = join.next.as_deref().and_then(own_path);
    let next = next.map_or_else(|| sale.way_in(), str::to_owned);
    let mut showing = Showing::new(sale, visitor, &next);
    let status = StatusCode::from_u16(join.refusal.http_status());
    let retry = join.refusal.clone();
    showing.not_joined = Some(join);
    let status = status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let mut response = page(asked, sale, showing, status, login_url);
    respond::retry_after(response.headers_mut(), &retry);
    response
}

/// A join that may be tried again as it is.
pub(super) struct NotJoined {
    pub(super) refusal: Refusal,
    pub(super) key: String,
    pub(super) next: Option<String>,
}

/// Come back later: no place, no cookie.
fn turn_crawlers_away(asked: &Asked) -> Result<(), Refusal> {
    if !is_crawler(asked.headers()) {
        return Ok(());
    }
    let detail = "there is a queue in front of this page at the moment";
    let refusal = Refusal::new(Problem::Waiting, detail).status(503);
    Err(refusal.retry_after_ms(CRAWLER_RETRY_MS))
}

/// 429 for scripts: the status body, and where the queue is.
pub(super) fn told_to_wait(sale: &SaleGate, visitor: &Visitor) -> Refusal {
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
pub(super) struct Showing {
    /// Of sale and place.
    pub(super) status: Status,
    /// When the visitor goes in, once that is booked.
    pub(super) slot_ms: Option<u64>,
    /// Another page than the place's.
    pub(super) instead: Option<PageState>,
    /// To be set with the page.
    pub(super) cookies: Vec<(Token, String)>,
    /// The place, if there is one.
    pub(super) ticket: Option<Ticket>,
    next: String,
    account: Option<AccountId>,
    not_submitted: bool,
    not_joined: Option<NotJoined>,
    is_anybodys: bool,
}

impl Showing {
    fn new(sale: &SaleGate, visitor: &Visitor, next: &str) -> Self {
        Self {
            status: waiting::told(sale, visitor),
            slot_ms: None,
            instead: None,
            cookies: Vec::new(),
            ticket: visitor.ticket.clone(),
            next: next.to_owned(),
            account: visitor.account_id().cloned(),
            not_submitted: false,
            not_joined: None,
            is_anybodys: false,
        }
    }
}

impl Showing {
    /// A cache may keep a 5xx whatever we say and show it to others: nothing of one visitor is in
    /// it, and no join key, by which two would get one place.
    fn be_anybodys(&mut self) {
        self.is_anybodys = true;
        self.cookies.clear();
        (self.ticket, self.slot_ms, self.instead, self.account) = (None, None, None, None);
        self.status.place = Place::none();
        (self.status.eta_seconds, self.status.odds) = (None, None);
    }
}

fn page(
    asked: &Asked,
    sale: &SaleGate,
    mut showing: Showing,
    status: StatusCode,
    login_url: &str,
) -> Response<Body> {
    if status.is_server_error() {
        showing.be_anybodys();
    }
    let cookies = std::mem::take(&mut showing.cookies);
    let mut view = view(sale, showing);
    if view.state == PageState::SignIn {
        let back = if sale.protects(&asked.path) {
            asked.again().to_owned()
        } else {
            sale.queue_url_to(&view.next)
        };
        view.login_url = Some(respond::sign_in_link(login_url, &back));
    }
    let kind = if view.not_joined { Kind::Unavailable } else { Kind::Queue };
    let mut response = respond::page(status, &view, kind);
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        let seconds = HeaderValue::from(view.poll_after_ms.div_ceil(1000));
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    let is_replaced = cookies.iter().any(|(kind, _)| *kind == Token::Ticket);
    if !status.is_server_error() && !is_replaced && keeps_dead_ticket(asked, sale) {
        waiting::end_cookie(&mut response, Token::Ticket, sale, asked.client.https);
    }
    for (kind, token) in cookies {
        waiting::set_cookie(&mut response, kind, sale, asked.client.https, token);
    }
    response
}

fn view(sale: &SaleGate, showing: Showing) -> PageView {
    let status = showing.status;
    let seen = sale.room.snapshot();
    let control = &seen.control;
    let needs_account = sale.settings.require_account
        && showing.account.is_none()
        && !showing.is_anybodys
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
    if !showing.is_anybodys {
        view.join_key = waiting::fresh_key();
    }
    if let Some(NotJoined { refusal, key, .. }) = showing.not_joined {
        (view.not_joined, view.join_key) = (true, key);
        view.retry_after_ms = refusal.retry_after_ms;
        view.problem = Some(ProblemNote { problem: refusal.problem, detail: refusal.detail });
    }
    view.account = showing.account.is_some();
    view.admitted_ms = showing.slot_ms;
    view.claim_window_ms = Some(control.claim_window_ms);
    view.wait = status.eta_seconds;
    view.odds = status.odds;
    view.stock = status.stock;
    view.poll_after_ms = status.poll_after_ms;
    view.round = seen.round;
    let code = showing.ticket.and_then(|ticket| sale.room.recovery_code(&ticket));
    view.recovery = code.filter(|_| status.place.state != PlaceState::Left);
    view.not_submitted = showing.not_submitted;
    view.place = status.place;
    view
}

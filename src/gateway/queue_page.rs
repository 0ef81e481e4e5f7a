//! The queue in place of what was asked for, and the queue page itself.

use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode, Uri};

use super::asked::{Asked, own_path};
use super::cookies::Kind as Token;
use super::express::{claim_here, line_is_empty, straight_through};
use super::identify::{Renewal, Visitor, keeps_dead_ticket, ticket_cookie};
use super::newcomer::{self, Wanted};
use super::pages::Refresh;
use super::pipeline::is_read;
use super::reader::{Reader, is_crawler, is_prefetch};
use super::respond::{self, Kind};
use super::sale::SaleGate;
use super::showing::{NotJoined, Showing};
use super::waiting;
use crate::domain::queue::PlaceState;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::sale::Phase;
use crate::domain::status::Status;
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
        return match visitor.holder() {
            Some(_) => Err(told_to_wait(sale, visitor)),
            None => Ok(newcomer::told_to_wait(sale)),
        };
    }
    await_sign_in(sale, visitor)?;
    let not_submitted = !is_read(asked.method());
    let status = if not_submitted {
        StatusCode::TOO_MANY_REQUESTS
    } else {
        StatusCode::from_u16(sale.settings.queue_status).unwrap_or(StatusCode::OK)
    };
    let next = if not_submitted { came_from(asked, sale) } else { asked.again().to_owned() };
    let wanted = Wanted { next: &next, at_gate: true, not_submitted, status };
    let leads_on = may_move(asked, sale, visitor);
    let mut response = if !leads_on && visitor.is_newcomer() {
        newcomers(asked, sale, wanted, login_url)
    } else {
        let mut showing = Showing::new(sale, visitor, wanted.next);
        (showing.at_gate, showing.not_submitted) = (true, not_submitted);
        let moved = match &visitor.ticket {
            _ if !leads_on => None,
            Some(ticket) => claim_here(asked, sale, ticket, &mut showing).await,
            None => straight_through(asked, sale, visitor, &mut showing).await?,
        };
        if let Some(moved) = moved {
            return Ok(moved);
        }
        page(asked, sale, showing, status, login_url)
    };
    // A pass that has ended goes, so that the next visit may claim or find its turn missed.
    if visitor.brought_pass && visitor.renewal != Renewal::Unknown && !status.is_server_error() {
        waiting::end_cookie(&mut response, Token::Pass, sale, asked.client.https);
    }
    Ok(response)
}

/// Where somebody goes on whose form was not submitted: to the page with the form, since asking for
/// where it was sent to may be an error.
fn came_from(asked: &Asked, sale: &SaleGate) -> String {
    let referer = asked.text(header::REFERER).and_then(|raw| raw.parse::<Uri>().ok());
    let path = referer
        .filter(|from| from.authority().is_some_and(|it| it.as_str() == asked.head.authority))
        .and_then(|from| from.path_and_query().map(|path| path.as_str().to_owned()));
    path.filter(|path| own_path(path).is_some()).unwrap_or_else(|| sale.way_in())
}

/// Whether the request itself may take the visitor on.
fn may_move(asked: &Asked, sale: &SaleGate, visitor: &Visitor) -> bool {
    let leads_on = match &visitor.ticket {
        Some(ticket) => waiting::is_called(sale, ticket),
        // A 503 may carry no cookie, and a place without one would be lost.
        None => sale.settings.queue_status < 500 && line_is_empty(sale),
    };
    // Whoever brought a pass was sent here by one before: no loops.
    leads_on
        && *asked.method() == Method::GET
        && !visitor.brought_pass
        && !is_prefetch(asked.headers())
}

/// `GET /_stanchion/{sale}`: shows, and changes nothing.
pub(super) fn show(
    asked: &Asked,
    sale: &SaleGate,
    visitor: &Visitor,
    login_url: &str,
) -> Result<Response<Body>, Refusal> {
    turn_crawlers_away(asked)?;
    await_sign_in(sale, visitor)?;
    let next = asked.query("next");
    let next = next.as_deref().and_then(own_path);
    let next = next.map_or_else(|| sale.way_in(), str::to_owned);
    let status = StatusCode::OK;
    let refresh = match asked.query("refresh").as_deref() {
        Some("off") => Refresh::Paused,
        _ => Refresh::ByItself,
    };
    if visitor.is_newcomer() && refresh == Refresh::ByItself {
        let wanted = Wanted { next: &next, at_gate: false, not_submitted: false, status };
        return Ok(newcomers(asked, sale, wanted, login_url));
    }
    let mut showing = Showing::new(sale, visitor, &next);
    showing.refresh = refresh;
    // A script that has claimed knows its slot, and says it: nothing hangs on it here.
    if showing.status.place.state == PlaceState::Called {
        showing.book(asked.query("slot").and_then(|slot| slot.parse().ok()));
    }
    Ok(page(asked, sale, showing, status, login_url))
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
    refusal(sale, &waiting::told(sale, visitor))
}

/// The same of a status.
pub(super) fn refusal(sale: &SaleGate, status: &Status) -> Refusal {
    let detail = "this path is behind a waiting room; nothing was executed. Join at queue_url";
    let mut refusal = Refusal::new(Problem::Waiting, detail)
        .retry_after_ms(status.poll_after_ms)
        .with("queue_url", sale.queue_url());
    if let Ok(serde_json::Value::Object(members)) = serde_json::to_value(status) {
        for (name, value) in members {
            refusal = refusal.with(&name, value);
        }
    }
    refusal
}

/// Where only accounts join, a page that asks for a sign-in would never ask again whether it has
/// come back.
fn await_sign_in(sale: &SaleGate, visitor: &Visitor) -> Result<(), Refusal> {
    let phase = sale.room.moment().phase();
    let may_join = matches!(phase, Phase::Lobby | Phase::Drawing | Phase::Open);
    if !sale.settings.require_account || !may_join || !visitor.is_newcomer() {
        return Ok(());
    }
    waiting::sign_in_is_away(visitor).map_or(Ok(()), Err)
}

/// The page of somebody who has nothing of his own.
fn newcomers(
    asked: &Asked,
    sale: &SaleGate,
    wanted: Wanted<'_>,
    login_url: &str,
) -> Response<Body> {
    let mut response = newcomer::page(sale, wanted, login_url);
    end_dead_ticket(&mut response, asked, sale);
    response
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
    let mut cookies = std::mem::take(&mut showing.cookies);
    if cookies.is_empty() {
        cookies.extend(kept_ticket(asked, sale, &showing).map(|token| (Token::Ticket, token)));
    }
    let view = showing.view(sale, &sale.room.moment(), login_url);
    let kind = if view.not_joined { Kind::Unavailable } else { Kind::Queue };
    let mut response = respond::page(status, &view, kind);
    come_back(&mut response, view.poll_after_ms);
    if !cookies.iter().any(|(kind, _)| *kind == Token::Ticket) {
        end_dead_ticket(&mut response, asked, sale);
    }
    for (kind, token) in cookies {
        waiting::set_cookie(&mut response, kind, sale, asked.client.https, &token);
    }
    response
}

/// The ticket of somebody on the way to a page before the draw: the sale may have been put off, and
/// the cookie would end before it. Later on another tab may know of a newer one.
fn kept_ticket(asked: &Asked, sale: &SaleGate, showing: &Showing) -> Option<String> {
    let waits = showing.status.place.state == PlaceState::Entered;
    let ticket = showing.ticket.as_ref().filter(|_| waits && is_read(asked.method()))?;
    let is_page = asked.reader() == Reader::Person && !is_prefetch(asked.headers());
    ticket_cookie(asked, sale, ticket).filter(|_| is_page).map(str::to_owned)
}

/// Says when, where the status asks for that.
pub(super) fn come_back(response: &mut Response<Body>, poll_after_ms: u64) {
    let status = response.status();
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        let seconds = HeaderValue::from(poll_after_ms.div_ceil(1000));
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
}

fn end_dead_ticket(response: &mut Response<Body>, asked: &Asked, sale: &SaleGate) {
    if !response.status().is_server_error() && keeps_dead_ticket(asked, sale) {
        waiting::end_cookie(response, Token::Ticket, sale, asked.client.https);
    }
}

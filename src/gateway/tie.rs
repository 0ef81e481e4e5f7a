//! Signing in after joining: the browser's next page ties its anonymous place to the account.

use hyper::{Method, Response};

use super::asked::Asked;
use super::cookies::Kind as Token;
use super::identify::Visitor;
use super::reader::{Reader, is_prefetch};
use super::sale::SaleGate;
use super::waiting;
use crate::domain::limits::AddressKey;
use crate::domain::sale::Phase;
use crate::http::body::Body;
use crate::room::JoinRequest;

/// Before the draw, a person who comes back from signing in gets the place tied to the account;
/// an account that has one already goes on with that. Nobody joins by this who had not joined.
/// Returns the ticket to hand out.
pub(super) async fn at_sign_in(
    asked: &Asked,
    sale: &SaleGate,
    visitor: &mut Visitor,
) -> Option<String> {
    let account = visitor.account_id()?.clone();
    let ticket = visitor.ticket.as_ref().filter(|ticket| ticket.account.is_none())?;
    if sale.room.has_left(ticket) {
        return None;
    }
    let in_lobby = sale.room.snapshot().phase(sale.room.now_ms()) == Phase::Lobby;
    let by_person = asked.method() == Method::GET
        && asked.reader() == Reader::Person
        && !is_prefetch(asked.headers())
        && sale.settings.queue_status < 500;
    if !in_lobby || !by_person {
        return None;
    }
    let request = JoinRequest {
        // The same for every page of this place, so that many make no more records than one.
        key: format!("tie {}", ticket.sub),
        account: Some(account),
        address: Some(AddressKey::of(asked.client.ip)),
        ticket: Some(ticket.clone()),
        lapsed: None,
    };
    // Without an answer the place is as it was, and the next page tries again.
    let place = sale.room.join(request).await.ok()?;
    // Opened in this very moment: the place goes on without the account.
    place.ticket.account.as_ref()?;
    visitor.ticket = Some(place.ticket);
    Some(place.token)
}

/// Adds the tied ticket to the page.
pub(super) fn hand_out(
    mut response: Response<Body>,
    asked: &Asked,
    sale: &SaleGate,
    tied: Option<String>,
) -> Response<Body> {
    if let Some(token) = tied {
        waiting::set_cookie(&mut response, Token::Ticket, sale, asked.client.https, &token);
    }
    response
}

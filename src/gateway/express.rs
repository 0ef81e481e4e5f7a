//! Outside the rush nobody sees a queue: a navigation joins, claims and is sent on. And at any time
//! a called visitor claims by going to where the turn leads.

use std::time::Duration;

use hyper::Response;
use hyper::header;

use super::asked::Asked;
use super::cookies::Kind as Token;
use super::identify::Visitor;
use super::pages::PageState;
use super::respond;
use super::sale::SaleGate;
use super::showing::Showing;
use super::waiting;
use crate::domain::limits::AddressKey;
use crate::domain::refusal::Refusal;
use crate::domain::sale::Phase;
use crate::domain::stock::Supply;
use crate::domain::ticket::Ticket;
use crate::http::body::Body;
use crate::room::{self, Claimed};

/// How long a newcomer to an empty line may wait to be called by this very request.
const CALLED_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// A called ticket claims by the request itself: 303 with the pass if its slot is due, else the
/// page says when.
pub(super) async fn claim_here(
    asked: &Asked,
    sale: &SaleGate,
    ticket: &Ticket,
    showing: &mut Showing,
) -> Option<Response<Body>> {
    match sale.claim(ticket).await {
        Ok(Claimed::Admitted { token, .. }) => {
            // Whoever never shows the pass that was set would be sent here again and again.
            if !matches!(sale.room.may_send_on(&ticket.sub, true).await, Ok(true)) {
                showing.instead = Some(PageState::Cookies);
                showing.cookies.push((Token::Pass, token));
                return None;
            }
            Some(waiting::with_pass(respond::see_other(asked.again()), asked, sale, &token))
        }
        Ok(Claimed::Wait { slot_ms, .. }) => {
            showing.book(slot_ms);
            None
        }
        Err(refusal) => {
            if let Some(state) = room::ended(&refusal) {
                showing.status.place.state = state;
            }
            None
        }
    }
}

/// Nobody waits and the meter is open.
pub(super) fn line_is_empty(sale: &SaleGate) -> bool {
    let (seen, now_ms) = (sale.room.glance(), sale.room.now_ms());
    if seen.cursor < seen.line {
        return false;
    }
    let is_open = seen.phase(now_ms) == Phase::Open && !seen.is_paused(now_ms);
    let has_stock = seen.stock(now_ms).is_some_and(|stock| stock.supply() == Supply::Available);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
    let lead_ms = seen.meter.lead_ms(now_ms as f64);
    is_open && has_stock && lead_ms <= 0.0
}

/// Joins, waits a moment to be called, claims, and is sent on; once, since a browser that keeps no
/// cookies would come back just as it was.
pub(super) async fn straight_through(
    asked: &Asked,
    sale: &SaleGate,
    visitor: &Visitor,
    showing: &mut Showing,
) -> Result<Option<Response<Body>>, Refusal> {
    if sale.settings.require_account && visitor.account_id().is_none() {
        showing.instead = Some(PageState::SignIn);
        return Ok(None);
    }
    match may_send_on(asked, sale).await {
        Ok(true) => {}
        Ok(false) => {
            showing.instead = Some(PageState::Cookies);
            return Ok(None);
        }
        // Whoever cannot be counted is shown the line.
        Err(_) => return Ok(None),
    }
    let place = match waiting::take_place(asked, sale, visitor, waiting::fresh_key()).await {
        Ok(place) => place,
        // The page joins as well, and comes again when there is room.
        Err(refusal) if waiting::is_passing(&refusal) => return Ok(None),
        Err(refusal) => return Err(refusal),
    };
    let called = async {
        while !waiting::is_called(sale, &place.ticket) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    showing.cookies.push((Token::Ticket, place.token));
    if tokio::time::timeout(CALLED_WITHIN, called).await.is_ok()
        && let Some(mut moved) = claim_here(asked, sale, &place.ticket, showing).await
    {
        for (kind, token) in showing.cookies.drain(..) {
            waiting::set_cookie(&mut moved, kind, sale, asked.client.https, &token);
        }
        return Ok(Some(moved));
    }
    let booked_at = showing.status.place.admitted_at.take();
    showing.status = sale.room.status(Some(&place.ticket), None);
    showing.status.place.admitted_at = booked_at;
    showing.ticket = Some(place.ticket);
    Ok(None)
}

/// Whether a browser may be sent to the page that it asks for, with cookies that it has not shown.
pub(super) async fn may_send_on(asked: &Asked, sale: &SaleGate) -> Result<bool, Refusal> {
    let has_cookies = asked.headers().contains_key(header::COOKIE);
    sale.room.may_send_on(&looks(asked), has_cookies).await
}

/// All that tells one browser on its way to a page from others: a browser that was sent here looks
/// as it did before, unless it keeps cookies.
pub(super) fn looks(asked: &Asked) -> String {
    let text = |name| asked.text(name).unwrap_or_default();
    format!(
        "{}\n{}\n{}\n{}\n{}",
        AddressKey::of(asked.client.ip),
        text(header::USER_AGENT),
        text(header::ACCEPT_LANGUAGE),
        text(header::COOKIE),
        asked.target(),
    )
}

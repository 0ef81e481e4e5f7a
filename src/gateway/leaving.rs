//! Giving a place up, and coming back to one by its recovery code.

use hyper::{Response, StatusCode};
use serde::Deserialize;

use super::asked::Asked;
use super::cookies::Kind as Token;
use super::identify::Visitor;
use super::reading::Wire;
use super::respond::{self, Kind};
use super::sale::SaleGate;
use super::waiting;
use crate::domain::limits::AddressKey;
use crate::domain::queue::PlaceState;
use crate::domain::refusal::{FIELD, Problem, Refusal};
use crate::http::body::Body;
use crate::room;

/// What leaving may say, as a form or as JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaveBody {
    next: Option<String>,
}

/// What coming back says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecoverBody {
    code: String,
    next: Option<String>,
}

/// `POST …/leave`. The ticket stays with the browser, so that the page can say that it left.
pub(super) async fn leave(
    asked: &mut Asked,
    sale: &SaleGate,
    visitor: &Visitor,
) -> Result<Response<Body>, Refusal> {
    let wire = asked.wire()?;
    let body: LeaveBody = asked.read_as().await?;
    let ticket = visitor.ticket.as_ref().ok_or_else(|| waiting::no_ticket(sale))?;
    sale.room.leave(ticket, Some(AddressKey::of(asked.client.ip))).await?;
    let mut response = match wire {
        Wire::Form => respond::see_other(&waiting::way_back(sale, body.next.as_deref())),
        Wire::Json => {
            let mut status = sale.room.status(Some(ticket), None);
            // Whatever this node has seen of it so far.
            (status.place.state, status.place.ahead) = (PlaceState::Left, None);
            (status.eta_seconds, status.odds) = (None, None);
            respond::json(StatusCode::OK, &status, Kind::Own)
        }
    };
    waiting::end_cookie(&mut response, Token::Pass, sale, asked.client.https);
    Ok(response)
}

/// `POST …/recover`: the place of a code, answered as a join. A place that is over is not exchanged
/// for a new one behind everybody: this browser may have a better one.
pub(super) async fn recover(
    asked: &mut Asked,
    sale: &SaleGate,
    visitor: &Visitor,
) -> Result<Response<Body>, Refusal> {
    let wire = asked.wire()?;
    let body: RecoverBody = asked.read_as().await?;
    let place = sale.room.recovered(&body.code).ok_or_else(|| {
        let cure = "leads to no place of this sale; copy all sixteen characters once more, in any \
                    case, with or without dashes";
        Refusal::bad_request("code", cure)
    })?;
    // The place of an account belongs to whoever is signed in to it, and joining finds it.
    let ticket = if place.tied { None } else { Some(sale.room.restored(place).ticket) };
    if place.tied && visitor.account_id().is_none() {
        let detail = "the place of this code belongs to an account; sign in to it at the shop";
        return Err(Refusal::new(Problem::SignInRequired, detail));
    }
    if let Some(ticket) = &ticket
        && let Some(state) = waiting::ended(sale, ticket).await
    {
        return Err(over(state).with(FIELD, "code"));
    }
    let owner = visitor.with_ticket(ticket);
    let place = waiting::take_place(asked, sale, &owner, waiting::fresh_key()).await?;
    Ok(waiting::joined(asked, sale, &place, wire, body.next.as_deref()))
}

/// The refusal of a code whose place leads nowhere any more.
fn over(state: PlaceState) -> Refusal {
    let detail = |what| {
        format!(
            "The place of this code was {what}. Join for a new one behind everybody, or go on with \
             the place you have here."
        )
    };
    match state {
        PlaceState::Left => room::given_up(detail("given up")),
        _ => Refusal::new(Problem::Missed, detail("called and not taken in time")),
    }
}

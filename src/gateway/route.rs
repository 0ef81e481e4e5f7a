//! Where a request goes, decided on its canonical path and method alone.

use futures_util::future::BoxFuture;
use hyper::{Method, header};
use uuid::Uuid;

use super::asked::Asked;
use super::auth;
use super::forward::DOTS;
use super::pipeline::is_read;
use super::reader::Reader;
use super::respond::ALLOWED;
use super::sale::SaleGate;
use crate::domain::refusal::{Problem, Refusal};

/// Proof that a request needs no admission. Only [`decide`] makes one.
pub(super) struct Ungated<'a> {
    /// The sale that the path belongs to, if it is free outside of that sale's time only.
    outside: Option<&'a SaleGate>,
}

impl Ungated<'_> {
    /// The milliseconds until the lobby of the sale that the path belongs to, if that is to come.
    pub(super) fn until_lobby_ms(&self) -> Option<u64> {
        let room = &self.outside?.room;
        room.glance().control.lobby_opens_ms.checked_sub(room.now_ms())
    }

    /// Comes when the request would need one.
    pub(super) fn ends(&self) -> BoxFuture<'static, ()> {
        match self.outside {
            Some(sale) => Box::pin(sale.gates()),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// Where a request goes.
pub(super) enum Route<'a> {
    /// To us.
    Own(Own<'a>),
    /// To a protected path.
    Gated(&'a SaleGate),
    /// To the shop.
    Shop(Ungated<'a>),
}

/// What is asked of us.
pub(super) enum Own<'a> {
    /// The public admission keys.
    Jwks,
    /// An asset by its hashed name.
    Asset(String),
    /// A script for the shop's own pages.
    Script(&'static str),
    /// Another proxy asks whether a request may pass.
    Auth,
    /// The page of a problem type.
    Problem(String),
    /// The page for staff passes.
    PassPage,
    /// A staff pass to be counted.
    Redeem,
    /// Something of a sale.
    Sale(&'a SaleGate, Call),
    /// A browser asks whether its script may ask.
    Preflight,
}

/// What is asked of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// The queue page.
    Page,
    /// To the queue page, from where a form was sent to.
    Back,
    /// Join.
    Join,
    /// The status body.
    Status,
    /// The status body as server-sent events.
    Events,
    /// Claim.
    Claim,
    /// Give the place up.
    Leave,
    /// Come back to a place by its code.
    Recover,
    /// The draw's proof.
    Draw,
    /// A page that recomputes it.
    DrawCheck,
    /// What whoever is in it may keep.
    Receipt,
    /// The stock.
    Stock,
    /// The own reservations.
    Orders,
    /// A new reservation.
    Reserve,
    /// Give a hold back.
    Release(Uuid),
    /// Hold longer.
    Extend(Uuid),
}

/// Decides.
pub(super) fn decide<'a>(
    asked: &Asked,
    sales: &'a [SaleGate],
    now_ms: u64,
) -> Result<Route<'a>, Refusal> {
    let path = asked.path.as_str();
    if path == "/_stanchion" || path.starts_with("/_stanchion/") {
        return own(asked, sales).map(Route::Own);
    }
    let protected = sales.iter().find(|sale| sale.protects(&asked.path));
    let outside = match protected.filter(|sale| !never_gated(asked, sale)) {
        Some(sale) if sale.is_gating(now_ms) => return Ok(Route::Gated(sale)),
        // Free if the settings say so, and until the sale begins.
        outside => outside,
    };
    if asked.path.had_dots() {
        return Err(Refusal::bad_request("path", DOTS));
    }
    Ok(Route::Shop(Ungated { outside }))
}

/// A protected path passes at any time when it is on the list of what is never gated, and for a
/// true preflight, which carries no cookie and does nothing.
fn never_gated(asked: &Asked, sale: &SaleGate) -> bool {
    (sale.never_gates(asked.method(), &asked.path) && !asked.path.is_ambiguous())
        || is_preflight(asked)
}

fn is_preflight(asked: &Asked) -> bool {
    let headers = asked.headers();
    asked.method() == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && !asked.has_body()
}

fn own<'a>(asked: &Asked, sales: &'a [SaleGate]) -> Result<Own<'a>, Refusal> {
    if auth::is_question(asked.path.as_str()) {
        return Ok(Own::Auth);
    }
    if is_preflight(asked) {
        return Ok(Own::Preflight);
    }
    let rest = asked.path.as_str().strip_prefix("/_stanchion").unwrap_or_default();
    let rest = rest.strip_prefix('/').unwrap_or_default();
    let parts: Vec<&str> = rest.split('/').collect();
    let method = asked.method();
    match parts.as_slice() {
        ["jwks.json"] => get(method).map(|()| Own::Jwks),
        ["hold.js"] => get(method).map(|()| Own::Script("hold.js")),
        ["stock.js"] => get(method).map(|()| Own::Script("stock.js")),
        ["assets", name] => get(method).map(|()| Own::Asset((*name).to_owned())),
        ["problems", name] => get(method).map(|()| Own::Problem((*name).to_owned())),
        ["pass"] if method == Method::POST => Ok(Own::Redeem),
        ["pass"] if is_read(method) => Ok(Own::PassPage),
        ["pass"] => Err(wrong_method("GET or POST", "GET, HEAD, POST")),
        [""] => Err(not_found("there is nothing here; the queue is at /_stanchion/SALE")),
        [sale, call @ ..] => {
            let known = sales.iter().find(|known| known.id().as_str() == *sale);
            let sale = known.ok_or_else(|| {
                Refusal::new(Problem::UnknownSale, format!("there is no sale '{sale}' here"))
            })?;
            self::call(asked, call).map(|call| Own::Sale(sale, call))
        }
        [] => Err(not_found("there is nothing here")),
    }
}

fn call(asked: &Asked, parts: &[&str]) -> Result<Call, Refusal> {
    let method = asked.method();
    let id = |raw: &str| {
        Uuid::parse_str(raw)
            .map_err(|_| Refusal::new(Problem::UnknownOrder, "the id of a reservation is a UUID"))
    };
    match parts {
        [] => get(method).map(|()| Call::Page),
        // A tab that is restored after a form was answered, or Enter in the address bar.
        ["join" | "claim" | "leave" | "recover"]
            if is_read(method) && asked.reader() == Reader::Person =>
        {
            Ok(Call::Back)
        }
        ["join"] => post(method).map(|()| Call::Join),
        ["claim"] => post(method).map(|()| Call::Claim),
        ["leave"] => post(method).map(|()| Call::Leave),
        ["recover"] => post(method).map(|()| Call::Recover),
        ["events"] => get(method).map(|()| Call::Events),
        ["status"] => get(method).map(|()| Call::Status),
        ["draw"] => get(method).map(|()| Call::Draw),
        ["draw", "check"] => get(method).map(|()| Call::DrawCheck),
        ["receipt"] => get(method).map(|()| Call::Receipt),
        ["stock"] => get(method).map(|()| Call::Stock),
        ["reservations"] if method == Method::POST => Ok(Call::Reserve),
        ["reservations"] if is_read(method) => Ok(Call::Orders),
        ["reservations"] => Err(wrong_method("GET or POST", "GET, HEAD, POST")),
        ["reservations", order, "release"] => {
            post(method)?;
            id(order).map(Call::Release)
        }
        ["reservations", order, "extend"] => {
            post(method)?;
            id(order).map(Call::Extend)
        }
        _ => Err(not_found("a sale has no such call; see its page at /_stanchion/SALE")),
    }
}

fn get(method: &Method) -> Result<(), Refusal> {
    if is_read(method) { Ok(()) } else { Err(wrong_method("GET", "GET, HEAD")) }
}

fn post(method: &Method) -> Result<(), Refusal> {
    if method == Method::POST { Ok(()) } else { Err(wrong_method("POST", "POST")) }
}

fn wrong_method(right: &str, allow: &str) -> Refusal {
    let detail = format!("must be {right} here");
    Refusal::bad_request("method", detail).status(405).with(ALLOWED, allow)
}

/// 404 of ours.
pub(super) fn not_found(detail: &str) -> Refusal {
    Refusal::bad_request("path", detail).status(404)
}

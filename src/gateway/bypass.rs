//! Past the line: while everybody is let through, and by staff passes.

use hyper::header::HeaderName;
use hyper::{Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::Gateway;
use super::asked::{Asked, own_path};
use super::core_client::{CoreCall, CoreClient, IDEMPOTENCY_KEY};
use super::express;
use super::forward::{DOTS, Permit, nobody_else};
use super::identify::{Pass, Visitor};
use super::pages;
use super::reader::{Reader, is_crawler, is_prefetch};
use super::reading::Wire;
use super::respond::{self, Kind};
use super::sale::SaleGate;
use super::waiting;
use crate::domain::admission::Origin;
use crate::domain::id::OrderKey;
use crate::domain::pass::{self, BadPass};
use crate::domain::refusal::Refusal;
use crate::http::body::Body;

/// Where apps put a staff pass.
const STANCHION_PASS: HeaderName = HeaderName::from_static("stanchion-pass");

/// A staff pass as a form or as JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PassBody {
    pass: Option<String>,
    next: Option<String>,
    /// The same for a retry.
    key: Option<String>,
}

/// A staff pass on its way to be counted.
pub(super) struct Brought {
    pub(super) pass: String,
    pub(super) key: Option<String>,
    pub(super) next: Option<String>,
}

impl Brought {
    /// The pass of the header, if there is one.
    pub(super) fn in_header(asked: &Asked) -> Option<String> {
        asked.text(&STANCHION_PASS).map(|raw| raw.trim().to_owned())
    }
}

impl Gateway {
    /// While the line is bypassed: an admission on the spot. A browser is sent on with it; whoever
    /// cannot be sent on goes through with it at once.
    pub(super) async fn past_the_line(
        &self,
        asked: &mut Asked,
        sale: &SaleGate,
        visitor: &Visitor,
    ) -> Option<Result<Response<Body>, Refusal>> {
        if !sale.room.is_bypassed() || is_crawler(asked.headers()) || is_prefetch(asked.headers()) {
            return None;
        }
        if asked.path.had_dots() {
            return Some(Err(Refusal::bad_request("path", DOTS)));
        }
        let pass = bypass(sale, visitor).await;
        let is_sent_on = asked.reader() == Reader::Person
            && asked.method() == Method::GET
            && !visitor.brought_pass
            && matches!(express::may_send_on(asked, sale).await, Ok(true));
        if is_sent_on {
            let moved = respond::see_other(asked.again());
            return Some(Ok(waiting::with_pass(moved, asked, sale, &pass.token)));
        }
        let permit = Permit::of(visitor, &pass, &sale.room);
        let forwarded = self.shop.forward(asked, &permit).await;
        Some(forwarded.map(|mut response| {
            // It sets a pass: nobody else may be given this answer.
            nobody_else(response.headers_mut());
            waiting::with_pass(response, asked, sale, &pass.token)
        }))
    }

    /// `GET /_stanchion/pass`: where staff type a pass.
    pub(super) fn pass_page(asked: &Asked) -> Response<Body> {
        let next = asked.query("next");
        let next = next.as_deref().and_then(own_path).unwrap_or_default();
        respond::html(StatusCode::OK, pages::pass_form(next, &waiting::fresh_key()), Kind::Own)
    }

    /// `POST /_stanchion/pass`: the pass itself says which sale it is for.
    pub(super) async fn redeem_any(&self, asked: &mut Asked) -> Result<Response<Body>, Refusal> {
        let wire = asked.wire()?;
        let header = Brought::in_header(asked);
        let body: PassBody = asked.read_as().await?;
        let pass = header.or(body.pass).filter(|raw| !raw.is_empty());
        let pass = pass.ok_or_else(|| Refusal::bad_request("pass", "is missing"))?;
        let said = self.keys.read_pass(pass.trim()).ok_or_else(|| BadPass::Unknown.refusal())?;
        let sale = self.sales.iter().find(|sale| *sale.id() == said.sale);
        let sale = sale.ok_or_else(|| BadPass::Unknown.refusal())?;
        let visitor = self.visitor(asked, sale, self.now_ms()).await?;
        let brought = Brought { pass, key: body.key, next: body.next };
        self.redeem(asked, sale, &visitor, wire, brought).await
    }

    /// Counts a use of a pass at the core, and signs an admission for it.
    pub(super) async fn redeem(
        &self,
        asked: &Asked,
        sale: &SaleGate,
        visitor: &Visitor,
        wire: Wire,
        brought: Brought,
    ) -> Result<Response<Body>, Refusal> {
        let go_on = brought.next.as_deref().and_then(own_path);
        let go_on = go_on.map_or_else(|| sale.way_in(), str::to_owned);
        // Who is in already needs no second use.
        if let Some(pass) = &visitor.pass {
            return Ok(admitted(asked, sale, wire, pass, &go_on));
        }
        sale.room.may_sign()?;
        let said = self.keys.read_pass(brought.pass.trim()).filter(|p| p.sale == *sale.id());
        let said = said.ok_or_else(|| BadPass::Unknown.refusal())?;
        if self.now_ms() / 1000 >= said.exp {
            return Err(BadPass::Expired.refusal());
        }
        let key = redeem_key(asked, brought.key)?;
        let using = count(&self.core, &said, &key).await?;
        // A stop may have come meanwhile; the same key finds its use again.
        sale.room.may_sign()?;
        let sub = self.keys.pass_subject(sale.id(), &said.id.to_string(), using.number);
        let account = visitor.account_id().cloned();
        let (admission, token) = sale.room.admit_outside(Origin::Pass, sub, account, true).await;
        Ok(admitted(asked, sale, wire, &Pass { admission, token }, &go_on))
    }
}

/// An admission for a visitor while everybody is let past the line: of the own place, if there is
/// one.
pub(super) async fn bypass(sale: &SaleGate, visitor: &Visitor) -> Pass {
    let (sub, account) = match (&visitor.ticket, visitor.account_id()) {
        (Some(ticket), _) => (ticket.sub.clone(), ticket.account.clone()),
        (None, Some(account)) => {
            let run = sale.run_and_epoch().0;
            (sale.room.keys().account_subject(sale.id(), run, account), Some(account.clone()))
        }
        (None, None) => (waiting::fresh_key(), None),
    };
    // Without a name of its own each request would be one more buyer in the checkout.
    let is_known = visitor.ticket.is_some() || account.is_some();
    let (admission, token) = sale.room.admit_outside(Origin::Bypass, sub, account, is_known).await;
    Pass { admission, token }
}

/// The answer to whoever is in.
pub(super) fn admitted(
    asked: &Asked,
    sale: &SaleGate,
    wire: Wire,
    pass: &Pass,
    go_on: &str,
) -> Response<Body> {
    let response = match wire {
        Wire::Form => respond::see_other(go_on),
        Wire::Json => {
            let answer = waiting::claim_answer(&pass.admission, &pass.token, go_on.to_owned());
            respond::json(StatusCode::OK, &answer, Kind::Own)
        }
    };
    waiting::with_pass(response, asked, sale, &pass.token)
}

fn redeem_key(asked: &Asked, field: Option<String>) -> Result<String, Refusal> {
    let header = asked.text(IDEMPOTENCY_KEY).map(|raw| raw.trim().trim_matches('"').to_owned());
    let Some(raw) = header.or(field).filter(|raw| !raw.is_empty()) else {
        return Ok(waiting::fresh_key());
    };
    let key = OrderKey::parse(&raw).map_err(|error| Refusal::bad_request("key", error))?;
    Ok(key.as_str().to_owned())
}

async fn count(core: &CoreClient, said: &pass::Pass, key: &str) -> Result<pass::Use, Refusal> {
    let body = json!({ "sale": said.sale, "key": key }).to_string();
    let call = CoreCall {
        method: Method::POST,
        target: format!("/v1/passes/{}/redeem", said.id),
        admission: None,
        order_key: None,
        body: body.into(),
    };
    let answer = core.call(call).await?;
    if !answer.status.is_success() {
        return Err(answer.refusal());
    }
    serde_json::from_slice(&answer.body).map_err(|_| BadPass::Unknown.refusal())
}

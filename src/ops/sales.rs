//! The sales as an operator sees and steers them.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use serde_json::{Value, json};

use super::Ops;
use super::answer::{Answer, ok};
use super::asked::{AskedBypass, AskedRate, AskedTimes, Body, Nothing};
use super::auth::Operator;
use crate::domain::control::ControlChange;
use crate::domain::id::SaleId;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::sale::Control;
use crate::domain::status::rfc3339;
use crate::room::{Reach, Room};

/// `GET /v1/sales`
pub(super) async fn all(State(ops): State<Arc<Ops>>, _operator: Operator) -> Answer {
    let sales: Vec<_> = ops.rooms.iter().map(|room| sale(room)).collect();
    Ok(ok(&json!({ "node": ops.node, "sales": sales })))
}

/// `POST /v1/sales/{sale}/{action}` without words of its own: pause, resume, stop, close.
pub(super) async fn act(
    State(ops): State<Arc<Ops>>,
    operator: Operator,
    Path((sale, action)): Path<(String, String)>,
    Body(Nothing {}): Body<Nothing>,
) -> Answer {
    let mut change = ControlChange::default();
    match action.as_str() {
        "pause" => change.paused = Some(true),
        "resume" => change.paused = Some(false),
        "stop" => (change.paused, change.next_epoch) = (Some(true), true),
        "close" => change.close = true,
        _ => {
            let detail = "no such action; there are pause, resume, stop, close, reset and bypass";
            return Err(Refusal::new(Problem::BadRequest, detail).status(404).into());
        }
    }
    ops.apply(&sale, &operator, change).await
}

/// `POST /v1/sales/{sale}/reset`, with the times of the next run if it has any.
pub(super) async fn reset(
    State(ops): State<Arc<Ops>>,
    operator: Operator,
    Path(sale): Path<String>,
    Body(times): Body<AskedTimes>,
) -> Answer {
    ops.apply(&sale, &operator, ControlChange { next_run: true, ..times.change() }).await
}

/// `POST /v1/sales/{sale}/bypass` `{for}`
pub(super) async fn bypass(
    State(ops): State<Arc<Ops>>,
    operator: Operator,
    Path(sale): Path<String>,
    Body(bypass): Body<AskedBypass>,
) -> Answer {
    let bypass_for_ms = Some(bypass.for_ms()?);
    ops.apply(&sale, &operator, ControlChange { bypass_for_ms, ..ControlChange::default() }).await
}

/// `PUT /v1/sales/{sale}/rate` `{rate, burst?}`
pub(super) async fn rate(
    State(ops): State<Arc<Ops>>,
    operator: Operator,
    Path(sale): Path<String>,
    Body(asked): Body<AskedRate>,
) -> Answer {
    ops.apply(&sale, &operator, asked.change()?).await
}

/// `PUT /v1/sales/{sale}/times` `{lobby_opens?, opens?, closes?}`
pub(super) async fn times(
    State(ops): State<Arc<Ops>>,
    operator: Operator,
    Path(sale): Path<String>,
    Body(times): Body<AskedTimes>,
) -> Answer {
    if times == AskedTimes::default() {
        let cure = "name at least one of lobby_opens, opens and closes";
        return Err(Refusal::bad_request("opens", cure).into());
    }
    ops.apply(&sale, &operator, times.change()).await
}

/// `GET /v1/audit-trail?sale=&after=`, from whichever core answers.
pub(super) async fn audit_trail(
    State(ops): State<Arc<Ops>>,
    _operator: Operator,
    RawQuery(query): RawQuery,
) -> Answer {
    Ok(ok(&ops.desk.cores().audit_trail(query.as_deref()).await?))
}

impl Ops {
    async fn apply(&self, sale: &str, operator: &Operator, change: ControlChange) -> Answer {
        let room = self.room(sale)?;
        let applied = self.desk.apply(room.sale(), &operator.author, &change).await?;
        Ok(ok(&record(room.sale(), &applied.control)))
    }

    /// The room of a sale of this node's settings.
    pub(super) fn room(&self, sale: &str) -> Result<&Arc<Room>, Refusal> {
        let sale = SaleId::parse(sale).map_err(|e| Refusal::bad_request("sale", e))?;
        self.rooms.iter().find(|room| *room.sale() == sale).ok_or_else(|| {
            let detail = format!("sale {sale} is not in this node's settings");
            Refusal::new(Problem::UnknownSale, detail)
        })
    }
}

/// One sale, as this node sees it.
fn sale(room: &Room) -> Value {
    let (seen, now_ms) = (room.snapshot(), room.now_ms());
    let reach = seen.reach(now_ms);
    let stock = seen.stock(now_ms);
    #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
    let lead_seconds = seen.meter.lead_ms(now_ms as f64) / 1_000.0;
    let mut line = json!(seen.line_counts());
    line["lead_seconds"] = lead_seconds.into();
    json!({
        "id": room.sale(),
        "phase": seen.phase(now_ms),
        "paused": seen.is_paused(now_ms),
        "sold_out": stock.is_some_and(|stock| stock.available == 0),
        "reach": reach.as_str(),
        "stop_reaches": reach != Reach::Nobody,
        "line": line,
        "stock": stock,
        "holders": seen.figures.as_ref().map(|figures| figures.holders),
        "control": record(room.sale(), &seen.control),
    })
}

/// A control record, its instants for people as well.
fn record(sale: &SaleId, control: &Control) -> Value {
    let mut body = json!(control);
    let bypass = (control.bypass_until_ms > 0).then(|| rfc3339(control.bypass_until_ms));
    body["sale"] = json!(sale);
    body["lobby_opens"] = rfc3339(control.lobby_opens_ms).into();
    body["opens"] = rfc3339(control.opens_ms).into();
    body["closes"] = rfc3339(control.closes_ms).into();
    body["bypass_until"] = json!(bypass);
    body
}

//! Staff passes on any node: the core counts them, this node signs them.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Ops;
use super::answer::{Answer, json, ok};
use super::asked::Body;
use super::auth::Operator;
use crate::config::span::Span;
use crate::domain::id::SaleId;
use crate::domain::pass::Pass;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::status::rfc3339;

/// A pass to make.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    sale: SaleId,
    uses: u32,
    /// A length of time from now, or an RFC 3339 time.
    expires: String,
}

/// `GET /v1/passes?sale=`
pub(super) async fn all(
    State(ops): State<Arc<Ops>>,
    _operator: Operator,
    RawQuery(query): RawQuery,
) -> Answer {
    let mut body = ops.desk.cores().passes(query.as_deref()).await?;
    let now_ms = ops.now_ms();
    for pass in body["passes"].as_array_mut().into_iter().flatten() {
        *pass = told(pass, now_ms);
    }
    Ok(ok(&body))
}

/// `POST /v1/passes`: the pass itself is told this once.
pub(super) async fn make(
    State(ops): State<Arc<Ops>>,
    operator: Operator,
    Body(wanted): Body<Wanted>,
) -> Answer {
    let room = ops.rooms.iter().find(|room| *room.sale() == wanted.sale);
    let room = room.ok_or_else(|| {
        let detail = format!("sale {} is not in this node's settings", wanted.sale);
        Refusal::new(Problem::UnknownSale, detail)
    })?;
    let expires_at_ms = expires_at_ms(&wanted.expires, room.now_ms())?;
    let asked = json!({
        "sale": wanted.sale, "uses": wanted.uses, "expires_at_ms": expires_at_ms,
        "author": operator.author,
    });
    let made = ops.desk.cores().make_pass(&asked).await?;
    let id = made["id"].as_str().and_then(|id| Uuid::parse_str(id).ok());
    let id = id.ok_or_else(|| {
        Refusal::new(Problem::CoreUnavailable, "the core's answer is not understood")
    })?;
    let pass = Pass { sale: wanted.sale, id, exp: expires_at_ms / 1000 };
    let mut told = told(&made, room.now_ms());
    told["pass"] = room.keys().mint_pass(&pass).into();
    Ok(json(StatusCode::CREATED, &told))
}

/// `DELETE /v1/passes/{id}`
pub(super) async fn revoke(
    State(ops): State<Arc<Ops>>,
    operator: Operator,
    Path(id): Path<String>,
) -> Answer {
    let id = Uuid::parse_str(&id)
        .map_err(|_| Refusal::bad_request("id", "must be a pass' id, a UUID"))?;
    let revoked = ops.desk.cores().revoke_pass(id, &operator.author).await?;
    Ok(ok(&told(&revoked, ops.now_ms())))
}

impl Ops {
    /// The rooms' clock.
    fn now_ms(&self) -> u64 {
        self.rooms.first().map_or(0, |room| room.now_ms())
    }
}

/// The wire's form of a pass: times as text, and how it stands.
fn told(pass: &Value, now_ms: u64) -> Value {
    let at = |name: &str| pass[name].as_u64();
    let (uses, spent) = (at("uses").unwrap_or(0), at("used").unwrap_or(0));
    let status = if at("revoked_at_ms").is_some() {
        "revoked"
    } else if at("expires_at_ms").is_some_and(|end| end <= now_ms) {
        "expired"
    } else if spent >= uses {
        "used-up"
    } else {
        "valid"
    };
    json!({
        "id": pass["id"], "sale": pass["sale"], "uses": uses, "used": spent, "status": status,
        "created_at": at("created_at_ms").map(rfc3339),
        "expires_at": at("expires_at_ms").map(rfc3339),
        "revoked_at": at("revoked_at_ms").map(rfc3339),
    })
}

fn expires_at_ms(raw: &str, now_ms: u64) -> Result<u64, Refusal> {
    if let Ok(span) = Span::parse(raw) {
        return Ok(now_ms.saturating_add(span.ms()));
    }
    let cure = "must be a length of time, as \"2h\", or a time, as \"2027-03-01T14:00:00Z\"";
    let at: jiff::Timestamp = raw.parse().map_err(|_| Refusal::bad_request("expires", cure))?;
    u64::try_from(at.as_millisecond()).map_err(|_| Refusal::bad_request("expires", cure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_ends_at_a_time_or_after_one() {
        assert_eq!(expires_at_ms("2h", 1_000).unwrap(), 7_201_000);
        assert_eq!(expires_at_ms("1970-01-01T00:00:09Z", 1_000).unwrap(), 9_000);
        assert!(expires_at_ms("soon", 1_000).unwrap_err().detail.starts_with("expires: "));
    }

    #[test]
    fn a_pass_is_told_with_how_it_stands() {
        let status = |used: u64, revoked: Option<u64>, now_ms: u64| {
            let pass = json!({"uses": 5, "used": used, "created_at_ms": 0,
                "expires_at_ms": 10_000, "revoked_at_ms": revoked});
            told(&pass, now_ms)["status"].as_str().unwrap().to_owned()
        };
        assert_eq!(status(4, None, 9_999), "valid");
        assert_eq!(status(5, None, 9_999), "used-up");
        assert_eq!(status(5, None, 10_000), "expired");
        assert_eq!(status(0, Some(3), 5_000), "revoked");
    }
}

//! Staff passes on any node: the core counts them, this node signs them.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::routing::{delete, get};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::answer::{self, Answer};
use super::auth::OpsKey;
use super::core::Core;
use crate::config::span::Span;
use crate::domain::id::SaleId;
use crate::domain::pass::Pass;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::status::rfc3339;
use crate::room::keys::Keys;

/// What the passes need.
pub struct Passes {
    /// Who may.
    pub key: OpsKey,
    /// Where they are counted.
    pub core: Arc<Core>,
    /// Sign them.
    pub keys: Arc<Keys>,
    /// Unix milliseconds.
    pub now_ms: fn() -> u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    sale: SaleId,
    uses: u32,
    /// A length of time from now, or an RFC 3339 time.
    expires: String,
}

/// The routes; all need the operators' key.
pub fn router(passes: Passes) -> Router {
    Router::new()
        .route("/v1/passes", get(list).post(make))
        .route("/v1/passes/{id}", delete(revoke))
        .with_state(Arc::new(passes))
}

async fn list(
    State(passes): State<Arc<Passes>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Answer {
    passes.key.demand(&headers)?;
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let (status, mut body) =
        passes.core.call(Method::GET, &format!("/v1/passes{query}"), None).await?;
    let now_ms = (passes.now_ms)();
    for pass in body["passes"].as_array_mut().into_iter().flatten() {
        *pass = told(pass, now_ms);
    }
    Ok(answer::json(status, &body))
}

async fn make(State(passes): State<Arc<Passes>>, headers: HeaderMap, body: Bytes) -> Answer {
    passes.key.demand(&headers)?;
    let wanted: Wanted = serde_json::from_slice(&body)
        .map_err(|error| Refusal::bad_request("body", error))?;
    Ok(answer::json(StatusCode::CREATED, &passes.make(&wanted).await?))
}

async fn revoke(
    State(passes): State<Arc<Passes>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Answer {
    passes.key.demand(&headers)?;
    let id = Uuid::parse_str(&id)
        .map_err(|_| Refusal::bad_request("id", "must be a pass' id, a UUID"))?;
    let (status, body) =
        passes.core.call(Method::DELETE, &format!("/v1/passes/{id}"), None).await?;
    let body = if status.is_success() { told(&body, (passes.now_ms)()) } else { body };
    Ok(answer::json(status, &body))
}

impl Passes {
    /// Makes a pass; its signed text is told this once.
    async fn make(&self, wanted: &Wanted) -> Result<Value, Refusal> {
        let expires_at_ms = expires_at_ms(&wanted.expires, (self.now_ms)())?;
        let body = json!({
            "sale": wanted.sale, "uses": wanted.uses, "expires_at_ms": expires_at_ms,
        });
        let (status, made) = self.core.call(Method::POST, "/v1/passes", Some(&body)).await?;
        if !status.is_success() {
            return Err(passed_on(status, &made));
        }
        let id = made["id"].as_str().and_then(|id| Uuid::parse_str(id).ok());
        let id = id.ok_or_else(|| {
            Refusal::new(Problem::CoreUnavailable, "the core's answer cannot be read")
        })?;
        let pass = Pass { sale: wanted.sale.clone(), id, exp: expires_at_ms / 1000 };
        let mut told = told(&made, (self.now_ms)());
        told["pass"] = self.keys.mint_pass(&pass).into();
        Ok(told)
    }
}

/// The core's refusal, as one of ours.
fn passed_on(status: StatusCode, body: &Value) -> Refusal {
    let problem = body["code"].as_str().and_then(Problem::named);
    let detail = body["detail"].as_str().unwrap_or("the core refused it");
    Refusal::new(problem.unwrap_or(Problem::CoreUnavailable), detail).status(status.as_u16())
}

/// The wire's form of a pass: times as text, and how it stands.
fn told(pass: &Value, now_ms: u64) -> Value {
    let at = |name: &str| pass[name].as_u64();
    let (uses, used) = (at("uses").unwrap_or(0), at("used").unwrap_or(0));
    let status = if at("revoked_at_ms").is_some() {
        "revoked"
    } else if at("expires_at_ms").is_some_and(|end| end <= now_ms) {
        "expired"
    } else if used >= uses {
        "used-up"
    } else {
        "valid"
    };
    json!({
        "id": pass["id"], "sale": pass["sale"], "uses": uses, "used": used, "status": status,
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

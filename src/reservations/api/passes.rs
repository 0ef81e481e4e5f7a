//! Staff passes over HTTP. The passes themselves are signed by the node that was asked for one.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::Api;
use super::answer::{Answer, json, ok};
use super::auth::{Known, Operator};
use super::body::{Body, parse, query};
use crate::domain::id::{OrderKey, SaleId};
use crate::domain::refusal::Refusal;

/// The longest name of an author.
const AUTHOR_BYTES_MAX: usize = 100;

/// A pass to make.
#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    sale: SaleId,
    uses: u32,
    expires_at_ms: u64,
    #[serde(default)]
    author: Author,
}

/// Who the audit trail names.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Author(String);

impl Default for Author {
    fn default() -> Self {
        Self("ops".to_owned())
    }
}

impl TryFrom<String> for Author {
    type Error = &'static str;

    fn try_from(raw: String) -> Result<Self, Self::Error> {
        let is_fine = (1..=AUTHOR_BYTES_MAX).contains(&raw.len())
            && raw.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if is_fine { Ok(Self(raw)) } else { Err("must be 1 to 100 printable ASCII characters") }
    }
}

/// Who revokes.
#[derive(Debug, Deserialize)]
pub(super) struct Revocation {
    #[serde(default)]
    author: Author,
}

/// A use to count.
#[derive(Debug, Deserialize)]
pub(super) struct Redemption {
    sale: SaleId,
    key: OrderKey,
}

/// `GET /v1/passes?sale=`
pub(super) async fn all(
    State(api): State<Arc<Api>>,
    _operator: Operator,
    RawQuery(raw): RawQuery,
) -> Answer {
    let [sale] = query(raw.as_deref(), ["sale"])?;
    let sale = parse("sale", sale, SaleId::parse)?;
    let passes = api.reservations.passes(sale.as_ref()).await?;
    Ok(ok(&json!({ "passes": passes })))
}

/// `POST /v1/passes`
pub(super) async fn make(
    State(api): State<Arc<Api>>,
    _operator: Operator,
    Body(Wanted { sale, uses, expires_at_ms, author }): Body<Wanted>,
) -> Answer {
    let pass = api.reservations.new_pass(sale, uses, expires_at_ms, &author.0).await?;
    Ok(json(StatusCode::CREATED, &pass))
}

/// `DELETE /v1/passes/{id}`
pub(super) async fn revoke(
    State(api): State<Arc<Api>>,
    _operator: Operator,
    Path(id): Path<String>,
    Body(Revocation { author }): Body<Revocation>,
) -> Answer {
    Ok(ok(&api.reservations.revoke_pass(by_id(&id)?, &author.0).await?))
}

/// `POST /v1/passes/{id}/redeem`
pub(super) async fn redeem(
    State(api): State<Arc<Api>>,
    _known: Known,
    Path(id): Path<String>,
    Body(Redemption { sale, key }): Body<Redemption>,
) -> Answer {
    Ok(ok(&api.reservations.redeem_pass(by_id(&id)?, &sale, key.as_str()).await?))
}

fn by_id(raw: &str) -> Result<Uuid, Refusal> {
    Uuid::parse_str(raw).map_err(|_| Refusal::bad_request("id", "must be a pass' id, a UUID"))
}

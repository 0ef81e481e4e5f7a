//! Outcomes as HTTP: the one place where the core's refusals become responses.

use axum::response::{IntoResponse, Response};
use http::HeaderName;

use super::super::refuse::unavailable;
use crate::domain::refusal::Refusal;
use crate::http::json::problem;
pub(super) use crate::http::json::{json, ok};
use crate::store::postgres::DatabaseError;

/// Says that nothing was done because an earlier request did it.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What a handler gives.
pub(super) type Answer = Result<Response, Refused>;

/// A refusal on its way out.
pub(super) struct Refused(Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl From<DatabaseError> for Refused {
    fn from(error: DatabaseError) -> Self {
        Self(unavailable(&error))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        refused(&self.0)
    }
}

/// problem+json.
pub(super) fn refused(refusal: &Refusal) -> Response {
    problem(refusal.http_status(), &refusal.to_json(), refusal.retry_after_seconds())
}

//! Answers of the ops listener: the one place where its refusals become responses.

use axum::response::{IntoResponse, Response};

use crate::domain::refusal::Refusal;
use crate::http::json::problem;
pub(super) use crate::http::json::{json, ok};

/// What a handler gives.
pub(super) type Answer = Result<Response, Refused>;

/// A refusal on its way out.
pub(super) struct Refused(Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(refusal) = self;
        problem(refusal.http_status(), &refusal.to_json(), refusal.retry_after_seconds())
    }
}

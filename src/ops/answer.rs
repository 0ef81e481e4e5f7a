//! Answers of the ops listener: the one place where its refusals become responses.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::domain::refusal::Refusal;

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
        let status = StatusCode::from_u16(refusal.http_status());
        let mut response =
            json(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &refusal.to_json());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = refusal.retry_after_seconds() {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if refusal.http_status() == 401 {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// JSON with a status.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut response = (status, Json(body)).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// 200 with JSON.
pub(super) fn ok(body: &impl Serialize) -> Response {
    json(StatusCode::OK, body)
}

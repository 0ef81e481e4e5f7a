//! Answers of the ops API: JSON, and the one place where its refusals become HTTP.

use axum::Json;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::domain::refusal::Refusal;

/// What a handler gives.
pub type Answer = Result<Response, Refused>;

/// A refusal on its way out.
pub struct Refused(Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.http_status());
        let mut response =
            json(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &self.0.to_json());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.0.retry_after_seconds() {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if self.0.http_status() == 401 {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// JSON with a status; nobody may keep it.
pub fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut response = (status, Json(body)).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    response
}

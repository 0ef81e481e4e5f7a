//! The reservation core, over HTTP with the bearer key.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::HeaderMap;
use hyper::{Method, Request, StatusCode};
use secrecy::{ExposeSecret, SecretString};

use super::headers::put;
use crate::domain::refusal::{Problem, Refusal};
use crate::http::body;
use crate::http::paced::Progress;
use crate::http::upstream::{OriginError, Times, Upstream, UpstreamError};

/// Longest answer that is read.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// For a whole answer: a commit waits for a hot row, not longer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// When to try again after the core did not answer, in milliseconds.
const RETRY_MS: u64 = 2_000;

/// `Idempotency-Key`
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// `Idempotent-Replayed`
pub(super) const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// `Stanchion-Admission`
pub(super) const STANCHION_ADMISSION: HeaderName = HeaderName::from_static("stanchion-admission");

/// A whole answer of the core.
#[derive(Debug, Clone)]
pub(super) struct CoreAnswer {
    /// Its status.
    pub(super) status: StatusCode,
    /// Its headers.
    pub(super) headers: HeaderMap,
    /// JSON, or problem+json.
    pub(super) body: Bytes,
}

/// One question to the core.
pub(super) struct CoreCall<'a> {
    /// GET or POST.
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: String,
    /// The shopper's admission, for new reservations.
    pub(super) admission: Option<&'a str>,
    /// For new reservations.
    pub(super) order_key: Option<&'a str>,
    /// JSON.
    pub(super) body: Bytes,
}

/// Talks to the core.
pub(super) struct CoreClient {
    upstream: Upstream,
    host: String,
    bearer: SecretString,
}

impl CoreClient {
    /// The core at `url`, or at several addresses separated by commas, tried in turn.
    pub(super) fn new(url: &str, key: &SecretString) -> Result<Self, OriginError> {
        let urls: Vec<&str> = url.split(',').map(str::trim).collect();
        let times = Times { response: ANSWER_TIME_MAX, ..Times::default() };
        let upstream = Upstream::new(&urls, times)?;
        let host = urls[0].trim_start_matches("http://").trim_end_matches('/').to_owned();
        let bearer = SecretString::from(format!("Bearer {}", key.expose_secret()));
        Ok(Self { upstream, host, bearer })
    }

    /// Asks, and reads the whole answer.
    pub(super) async fn call(&self, call: CoreCall<'_>) -> Result<CoreAnswer, Refusal> {
        let mut request = Request::new(body::full(call.body.clone()));
        *request.method_mut() = call.method;
        *request.uri_mut() =
            call.target.parse().map_err(|_| Refusal::bad_request("path", "is not one"))?;
        let headers = request.headers_mut();
        put(headers, header::HOST, &self.host);
        put(headers, header::AUTHORIZATION, self.bearer.expose_secret());
        if let Some(admission) = call.admission {
            put(headers, STANCHION_ADMISSION, admission);
        }
        if let Some(key) = call.order_key {
            put(headers, IDEMPOTENCY_KEY, key);
        }
        if !call.body.is_empty() {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(call.body.len()));
        }
        let answer = self.upstream.send(request, &Progress::default()).await;
        let answer = answer.map_err(|error| unavailable(&error))?;
        let (parts, incoming) = answer.into_parts();
        let body = body::collect(incoming, ANSWER_BYTES_MAX, ANSWER_TIME_MAX).await;
        let body = body.map_err(|error| unavailable(&error))?;
        Self::understood(CoreAnswer { status: parts.status, headers: parts.headers, body })
    }

    /// Answers that are the shopper's business; the rest is between us and the core.
    fn understood(answer: CoreAnswer) -> Result<CoreAnswer, Refusal> {
        let is_problem = serde_json::from_slice::<serde_json::Value>(&answer.body)
            .is_ok_and(|body| body["code"].is_string());
        let shared = match answer.status {
            StatusCode::UNAUTHORIZED => false,
            status if status.is_success() => true,
            _ => is_problem,
        };
        if shared {
            return Ok(answer);
        }
        tracing::error!(status = %answer.status, "the core did not understand, or refused our key");
        Err(no_core())
    }
}

fn unavailable(error: &(impl std::fmt::Display + IsFull)) -> Refusal {
    if error.is_full() {
        return Refusal::new(Problem::Overloaded, "too many orders at this moment; try again")
            .retry_after_ms(1_000);
    }
    tracing::warn!(%error, "the core does not answer");
    no_core()
}

/// The refusal while the core does not answer.
pub(super) fn no_core() -> Refusal {
    let detail =
        "orders are not taken at this moment; nothing was taken, try again with the same key";
    Refusal::new(Problem::CoreUnavailable, detail).retry_after_ms(RETRY_MS)
}

/// Too much to do is another thing than not there.
trait IsFull {
    fn is_full(&self) -> bool;
}

impl IsFull for UpstreamError {
    fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

impl IsFull for body::CollectError {
    fn is_full(&self) -> bool {
        false
    }
}

impl CoreAnswer {
    /// The problem it tells, as a refusal of ours.
    pub(super) fn refusal(&self) -> Refusal {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let problem = body["code"].as_str().and_then(Problem::named);
        let detail = body["detail"].as_str().unwrap_or("the order was refused");
        let mut refusal = Refusal::new(problem.unwrap_or(Problem::CoreUnavailable), detail)
            .status(self.status.as_u16());
        if let Some(reason) = body["reason"].as_str() {
            refusal = refusal.with("reason", reason);
        }
        if let Some(ms) = body["retry_after_ms"].as_u64() {
            refusal = refusal.retry_after_ms(ms);
        }
        refusal
    }
}

//! The way from a node's ops API to the core: what needs Postgres is done there.

use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use axum::http::{HeaderValue, Method, Request, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::domain::refusal::{Problem, Refusal};
use crate::http::body;
use crate::http::paced::Progress;
use crate::http::upstream::{OriginError, Times, Upstream};

const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// When to try again after the core did not answer, in milliseconds.
const RETRY_MS: u64 = 2_000;

/// Talks to the core with the operators' key.
pub struct Core {
    upstream: Upstream,
    host: String,
    bearer: SecretString,
}

impl Core {
    /// The core at `url`, or at several addresses separated by commas, tried in turn.
    pub fn new(url: &str, key: Option<&SecretString>) -> Result<Self, OriginError> {
        let urls: Vec<&str> = url.split(',').map(str::trim).collect();
        let times = Times { response: ANSWER_TIME_MAX, ..Times::default() };
        let upstream = Upstream::new(&urls, times)?;
        let host = urls[0].trim_start_matches("http://").trim_end_matches('/').to_owned();
        let key = key.map(|key| key.expose_secret()).unwrap_or_default();
        Ok(Self { upstream, host, bearer: SecretString::from(format!("Bearer {key}")) })
    }

    /// Asks, and gives status and JSON; the core's own refusals are passed on as they are.
    pub async fn call(
        &self,
        method: Method,
        target: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), Refusal> {
        let bytes = body.map(ToString::to_string).unwrap_or_default();
        let length = bytes.len();
        let mut request = Request::new(body::full(bytes));
        *request.method_mut() = method;
        *request.uri_mut() =
            target.parse().map_err(|_| Refusal::bad_request("path", "is not one"))?;
        let headers = request.headers_mut();
        let text = |value: &str| HeaderValue::from_str(value).map_err(|_| no_core());
        headers.insert(HOST, text(&self.host)?);
        headers.insert(AUTHORIZATION, text(self.bearer.expose_secret())?);
        if length > 0 {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let answer = self.upstream.send(request, &Progress::default()).await;
        let answer = answer.map_err(|error| out_of_reach(&error))?;
        let (parts, incoming) = answer.response.into_parts();
        let read = body::collect(incoming, ANSWER_BYTES_MAX, ANSWER_TIME_MAX).await;
        let read = read.map_err(|error| out_of_reach(&error))?;
        drop(answer.seat);
        match serde_json::from_slice(&read) {
            Ok(json) if parts.status != StatusCode::UNAUTHORIZED => Ok((parts.status, json)),
            Ok(_) | Err(_) => {
                tracing::error!(status = %parts.status, "the core did not understand us");
                Err(no_core())
            }
        }
    }
}

fn out_of_reach(error: &impl std::fmt::Display) -> Refusal {
    tracing::warn!(%error, "the core does not answer");
    no_core()
}

fn no_core() -> Refusal {
    let detail = "the core is not answering, or has another operators' key; try again";
    Refusal::new(Problem::CoreUnavailable, detail).retry_after_ms(RETRY_MS)
}

//! The reservation core, over HTTP with the bearer key.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::HeaderMap;
use hyper::{Method, Request, StatusCode};
use secrecy::{ExposeSecret, SecretString};

use super::breaker::{Breaker, Patience};
use super::headers::put;
use crate::domain::refusal::{Problem, Refusal, spread};
use crate::http::body;
use crate::http::paced::Progress;
use crate::http::upstream::{OriginError, Times, Upstream, UpstreamError};

/// Longest answer that is read.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// For a whole answer: a commit waits for a hot row, not longer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// When to try again after the core did not answer, in milliseconds; up to a fifth more.
const RETRY_MS: u64 = 2_000;
/// A commit takes milliseconds; who waits so long for one, waits for what does not come.
const PATIENCE: Patience =
    Patience { answer: Duration::from_secs(2), retry: Duration::from_secs(1) };

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
    /// A row that stands still stops orders, and nobody who only looks.
    orders: Breaker,
    looks: Breaker,
}

impl CoreClient {
    /// The core at `url`, or at several addresses separated by commas, tried in turn.
    pub(super) fn new(url: &str, key: &SecretString) -> Result<Self, OriginError> {
        let urls: Vec<&str> = url.split(',').map(str::trim).collect();
        let times = Times { response: ANSWER_TIME_MAX, ..Times::default() };
        let upstream = Upstream::new(&urls, times)?;
        let host = urls[0].trim_start_matches("http://").trim_end_matches('/').to_owned();
        let bearer = SecretString::from(format!("Bearer {}", key.expose_secret()));
        let (orders, looks) = (Breaker::new(PATIENCE), Breaker::new(PATIENCE));
        Ok(Self { upstream, host, bearer, orders, looks })
    }

    /// Asks, and reads the whole answer.
    pub(super) async fn call(&self, call: CoreCall<'_>) -> Result<CoreAnswer, Refusal> {
        let breaker = if call.method == Method::GET { &self.looks } else { &self.orders };
        let question = breaker.begin().ok_or_else(no_core)?;
        let answer = self.ask(call).await?;
        question.answered();
        Self::understood(answer)
    }

    /// Whether an order would wait in vain now.
    pub(super) fn is_slow(&self) -> bool {
        self.orders.is_open()
    }

    async fn ask(&self, call: CoreCall<'_>) -> Result<CoreAnswer, Refusal> {
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
        Ok(CoreAnswer { status: parts.status, headers: parts.headers, body })
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
            .retry_after_ms(spread(1_000, rand::random()));
    }
    tracing::warn!(%error, "the core does not answer");
    no_core()
}

/// The refusal while the core does not answer.
pub(super) fn no_core() -> Refusal {
    // What was asked may have been done all the same.
    let detail = "checkout is not answering at this moment; try again with the same key, which \
                  takes nothing twice";
    Refusal::new(Problem::CoreUnavailable, detail).retry_after_ms(spread(RETRY_MS, rand::random()))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::{mpsc, watch};

    use super::*;

    fn order() -> CoreCall<'static> {
        let (method, target) = (Method::POST, "/v1/reservations".to_owned());
        CoreCall { method, target, admission: None, order_key: None, body: "{}".into() }
    }

    /// A core that answers once it is awake; it tells of each question.
    async fn asleep(awake: watch::Receiver<bool>) -> (String, mpsc::UnboundedReceiver<()>) {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", socket.local_addr().unwrap());
        let (tell, told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = socket.accept().await {
                let (tell, mut awake) = (tell.clone(), awake.clone());
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                        tell.send(()).unwrap();
                        awake.wait_for(|awake| *awake).await.unwrap();
                        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
                        stream.write_all(answer).await.unwrap();
                    }
                });
            }
        });
        (url, told)
    }

    #[tokio::test]
    async fn a_core_that_stands_still_is_told_of_at_once_and_asked_again_now_and_then() {
        let (wake, awake) = watch::channel(false);
        let (url, mut asked) = asleep(awake).await;
        let mut core = CoreClient::new(&url, &SecretString::from("key")).unwrap();
        let patience =
            Patience { answer: Duration::from_millis(500), retry: Duration::from_mins(1) };
        core.orders = Breaker::new(patience);
        let core = Arc::new(core);
        let ask = || {
            let core = Arc::clone(&core);
            tokio::spawn(async move { core.call(order()).await.map(|answer| answer.status) })
        };

        let first = ask();
        asked.recv().await.unwrap();
        tokio::time::sleep(patience.answer).await;
        let tried = ask();
        asked.recv().await.unwrap();

        assert!(core.is_slow());
        let refused = core.call(order()).await.unwrap_err();
        assert_eq!(refused.problem, Problem::CoreUnavailable);
        assert!(refused.retry_after_ms.is_some_and(|ms| (2_000..=2_400).contains(&ms)));
        let look = CoreCall { method: Method::GET, body: Bytes::new(), ..order() };
        let looked = tokio::time::timeout(Duration::from_millis(50), core.call(look)).await;
        assert!(looked.is_err(), "looks are counted by themselves: this one waits");

        wake.send(true).unwrap();
        assert_eq!(first.await.unwrap().unwrap(), StatusCode::OK);
        assert_eq!(tried.await.unwrap().unwrap(), StatusCode::OK);
        assert!(!core.is_slow());
        assert_eq!(ask().await.unwrap().unwrap(), StatusCode::OK, "and it goes on");
    }
}

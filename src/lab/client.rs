//! A small HTTP client over a bounded number of kept-alive sockets, as behind a CDN.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

const ANSWER_BYTES_MAX: usize = 4 << 20;
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Shorter than any server here keeps an idle socket, so that none is closed just as it is used.
const IDLE_MAX: Duration = Duration::from_secs(3);

/// A client that follows no redirects and keeps no cookies. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    pooled: Pooled<HttpConnector, Full<Bytes>>,
    /// As many requests at a time as there may be sockets.
    sockets: Arc<Semaphore>,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body, at most 4 MiB.
    pub body: Bytes,
}

impl Client {
    /// At most `sockets_max` sockets, opened when needed and kept.
    pub fn new(sockets_max: usize) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(5)));
        let pooled = Pooled::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(sockets_max)
            .pool_idle_timeout(IDLE_MAX)
            .build(connector);
        Self { pooled, sockets: Arc::new(Semaphore::new(sockets_max)) }
    }

    /// Sends one request; an answer that takes more than 30 s is an error.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer> {
        let _socket = self.sockets.acquire().await.context("the client is closed")?;
        let exchange = async {
            let answer = self.pooled.request(request).await?;
            let (head, body) = answer.into_parts();
            let whole = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = whole.map_err(|error| anyhow::anyhow!("reading an answer: {error}"))?;
            Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
        };
        tokio::time::timeout(ANSWER_WITHIN, exchange).await.context("no answer within 30 s")?
    }

    /// GET with these headers.
    pub async fn get(&self, url: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        self.send(request(Method::GET, url, headers, Bytes::new())?).await
    }

    /// POST of JSON with these headers.
    pub async fn post_json(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        body: &serde_json::Value,
    ) -> Result<Answer> {
        let mut headers = headers.to_vec();
        headers.push((CONTENT_TYPE.as_str(), "application/json"));
        self.send(request(Method::POST, url, &headers, body.to_string().into())?).await
    }

    /// POST of a form with these headers.
    pub async fn post_form(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        fields: &[(&str, &str)],
    ) -> Result<Answer> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut headers = headers.to_vec();
        headers.push((CONTENT_TYPE.as_str(), "application/x-www-form-urlencoded"));
        self.send(request(Method::POST, url, &headers, body.into())?).await
    }
}

/// A request with these headers and body; `url` is absolute.
pub fn request(
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Result<Request<Full<Bytes>>> {
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(HeaderName::from_bytes(name.as_bytes())?, *value);
    }
    request.body(Full::new(body)).with_context(|| format!("a request to {url}"))
}

impl Answer {
    /// The body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("{} with no such JSON: {}", self.status, self.text()))
    }

    /// The body as text, with what is no UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's text, "" if missing or no text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

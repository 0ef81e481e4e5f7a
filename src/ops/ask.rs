//! Asks a node, as an orchestrator or an operator would.

use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::net::TcpStream;

use crate::http::bearer::AUTHOR;

/// A probe that takes longer is as good as none.
const PROBE_MAX: Duration = Duration::from_secs(2);
/// A command may wait for two stores.
const COMMAND_MAX: Duration = Duration::from_secs(15);
/// A large file takes longer.
const FILE_MAX: Duration = Duration::from_secs(90);
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What the node said.
#[derive(Debug)]
pub struct Answer {
    /// Whether the status was 200.
    pub good: bool,
    /// The body.
    pub text: String,
}

/// GET of an `http://` URL; an answer that takes more than two seconds is an error.
pub async fn ask(url: &Uri) -> anyhow::Result<Answer> {
    ensure!(url.scheme_str() == Some("http"), "{url}: must be http://HOST:PORT/readyz");
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path).body(Full::default())?;
    let (status, body) = within(PROBE_MAX, url, request).await?;
    let text = String::from_utf8_lossy(&body).into_owned();
    Ok(Answer { good: status == StatusCode::OK, text })
}

/// One of a node's private listeners, asked with a key.
pub struct Asker {
    /// `http://HOST:PORT`.
    base: Uri,
    key: SecretString,
    /// Who asks, for the audit trail.
    author: Option<String>,
}

/// A node's "no".
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Refused {
    /// The HTTP status.
    pub status: u16,
    /// What and why.
    pub detail: String,
    /// All that it said, if that was JSON.
    pub body: Value,
}

impl Asker {
    /// Nobody is asked yet.
    ///
    /// # Errors
    /// If the address is not `http://HOST:PORT`.
    pub fn new(base: Uri, key: SecretString, author: Option<String>) -> anyhow::Result<Self> {
        let plain = base.scheme_str() == Some("http") && base.path() == "/";
        ensure!(plain, "{base}: must be http://HOST:PORT, by --core or --ops");
        Ok(Self { base, key, author })
    }

    /// The JSON that the node answers; what it refuses is a [`Refused`].
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let body = body.map(|body| ("application/json", Bytes::from(body.to_string())));
        self.send(method, path, body, COMMAND_MAX).await
    }

    /// The same with a file, for whose work the node may take longer.
    pub async fn send_file(&self, path: &str, file: Bytes) -> anyhow::Result<Value> {
        self.send(Method::POST, path, Some(("text/csv", file)), FILE_MAX).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Bytes)>,
        time_max: Duration,
    ) -> anyhow::Result<Value> {
        let (content_type, bytes) = body.unzip();
        let length = bytes.as_ref().map_or(0, Bytes::len);
        let mut request = Request::new(Full::from(bytes.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse()?;
        let headers = request.headers_mut();
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.key.expose_secret()));
        headers.insert(AUTHORIZATION, bearer.context("the key cannot be part of a header")?);
        if let Some(author) = &self.author {
            let named = HeaderValue::from_str(author).context("--as: must be plain text")?;
            headers.insert(AUTHOR, named);
        }
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            headers.insert(CONTENT_LENGTH, length.into());
        }
        let (status, bytes) = within(time_max, &self.base, request).await?;
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let detail = match answer["detail"].as_str() {
            Some(detail) => detail.to_owned(),
            None => format!("{}{path} answered {status}", self.base),
        };
        Err(Refused { status: status.as_u16(), detail, body: answer }.into())
    }
}

async fn within(
    time_max: Duration,
    url: &Uri,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let answer = tokio::time::timeout(time_max, exchange(url, request)).await;
    answer.with_context(|| format!("{url} did not answer in time"))?.context(url.to_string())
}

async fn exchange(
    url: &Uri,
    mut request: Request<Full<Bytes>>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let cure = "nobody answers there: is the node up, and is that its private listener?";
    let stream = TcpStream::connect((host, url.port_u16().unwrap_or(80))).await.context(cure)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let authority = url.authority().map_or("", |authority| authority.as_str());
    request.headers_mut().insert(HOST, HeaderValue::from_str(authority)?);
    let answer = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("the answer broke off: {error}"))?;
        Ok((status, body.to_bytes()))
    };
    tokio::select! {
        answer = answer => answer,
        // Drives the socket; it ends first only if the node hung up.
        ended = connection => {
            ended?;
            anyhow::bail!("the node hung up")
        }
    }
}

//! The cores' private API, as far as a sale is steered by it: control records and the audit trail.

use std::time::Duration;

use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::domain::id::SaleId;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::sale::Control;
use crate::http::body;
use crate::http::paced::Progress;
use crate::http::upstream::{OriginError, Times, Upstream};

/// For a whole answer: a record is one row.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
const CONNECT_TIME_MAX: Duration = Duration::from_millis(500);
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// When to try again after no core answered, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// Which key a call needs.
#[derive(Clone, Copy)]
enum Key {
    Core,
    Ops,
}

/// Talks to the cores, tried in turn.
pub struct CoreRecords {
    cores: Vec<(HeaderValue, Upstream)>,
    core_key: SecretString,
    ops_key: Option<SecretString>,
    /// The variable that the ops key comes from, to be named when it is missing.
    ops_key_env: String,
}

impl CoreRecords {
    /// The cores at these addresses. Without the ops key they can only be read.
    pub fn new(
        urls: &[String],
        core_key: SecretString,
        ops_key: Option<SecretString>,
        ops_key_env: &str,
    ) -> Result<Self, OriginError> {
        let times = Times {
            connect: CONNECT_TIME_MAX,
            response: ANSWER_TIME_MAX,
            body_idle: ANSWER_TIME_MAX,
            ..Times::default()
        };
        let core = |url: &String| {
            let host = url.trim_start_matches("http://").trim_end_matches('/');
            let host = HeaderValue::from_str(host).map_err(|_| OriginError)?;
            Ok((host, Upstream::new(&[url], times)?))
        };
        let cores = urls.iter().map(core).collect::<Result<_, OriginError>>()?;
        Ok(Self { cores, core_key, ops_key, ops_key_env: ops_key_env.to_owned() })
    }

    /// The durable control record of a sale.
    pub async fn control(&self, sale: &SaleId) -> Result<Control, Refusal> {
        let target = format!("/v1/control/{sale}");
        self.call(Key::Core, Method::GET, &target, None).await
    }

    /// Hands a changed record in; the answer is what is in force then.
    pub async fn put_control(&self, sale: &SaleId, record: &Control) -> Result<Control, Refusal> {
        let body = serde_json::to_value(record).map_err(|error| unreadable(&error))?;
        let target = format!("/v1/control/{sale}");
        self.call(Key::Ops, Method::PUT, &target, Some(&body)).await
    }

    /// A page of the audit trail; `query` is passed on as it is.
    pub async fn audit_trail(&self, query: Option<&str>) -> Result<Value, Refusal> {
        let target = match query {
            Some(query) => format!("/v1/audit-trail?{query}"),
            None => "/v1/audit-trail".to_owned(),
        };
        self.call(Key::Core, Method::GET, &target, None).await
    }

    /// Staff passes; `query` is passed on as it is.
    pub async fn passes(&self, query: Option<&str>) -> Result<Value, Refusal> {
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        self.call(Key::Ops, Method::GET, &format!("/v1/passes{query}"), None).await
    }

    /// Has a staff pass made.
    pub async fn make_pass(&self, asked: &Value) -> Result<Value, Refusal> {
        self.call(Key::Ops, Method::POST, "/v1/passes", Some(asked)).await
    }

    /// Has a staff pass revoked.
    pub async fn revoke_pass(&self, id: Uuid, author: &str) -> Result<Value, Refusal> {
        let body = serde_json::json!({ "author": author });
        self.call(Key::Ops, Method::DELETE, &format!("/v1/passes/{id}"), Some(&body)).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        key: Key,
        method: Method,
        target: &str,
        body: Option<&Value>,
    ) -> Result<T, Refusal> {
        let bearer = match key {
            Key::Core => &self.core_key,
            Key::Ops => self.ops_key.as_ref().ok_or_else(|| {
                let detail = format!(
                    "Redis does not answer, and the core takes a change only with the operators' \
                     key: set {} on this node",
                    self.ops_key_env
                );
                Refusal::new(Problem::CoreUnavailable, detail)
            })?,
        };
        let mut why = "core.url names no core".to_owned();
        for (host, upstream) in &self.cores {
            let request = request(&method, target, host, bearer, body)
                .ok_or_else(|| Refusal::bad_request("query", "cannot be part of an address"))?;
            match answer(upstream, request).await {
                Ok((status, bytes)) if status.is_success() => {
                    return serde_json::from_slice(&bytes).map_err(|error| unreadable(&error));
                }
                Ok((status, bytes)) if status.is_client_error() => {
                    return Err(told(status, &bytes));
                }
                Ok((status, _)) => why = format!("it answered {status}"),
                Err(error) => why = error,
            }
        }
        let detail = format!("no core answers: {why}");
        Err(Refusal::new(Problem::CoreUnavailable, detail).retry_after_ms(RETRY_MS))
    }
}

fn request(
    method: &Method,
    target: &str,
    host: &HeaderValue,
    key: &SecretString,
    json: Option<&Value>,
) -> Option<Request<body::Body>> {
    let bytes = json.map(Value::to_string).unwrap_or_default();
    let length = HeaderValue::from(bytes.len());
    let mut request =
        Request::new(if bytes.is_empty() { body::empty() } else { body::full(bytes) });
    *request.method_mut() = method.clone();
    *request.uri_mut() = target.parse().ok()?;
    let mut bearer = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret())).ok()?;
    bearer.set_sensitive(true);
    let headers = request.headers_mut();
    headers.insert(HOST, host.clone());
    headers.insert(AUTHORIZATION, bearer);
    if json.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_LENGTH, length);
    }
    Some(request)
}

async fn answer(
    upstream: &Upstream,
    request: Request<body::Body>,
) -> Result<(StatusCode, bytes::Bytes), String> {
    let answer = upstream.send(request, &Progress::default()).await.map_err(|e| e.to_string())?;
    let (head, incoming) = answer.into_parts();
    let bytes = body::collect(incoming, ANSWER_BYTES_MAX, ANSWER_TIME_MAX).await;
    Ok((head.status, bytes.map_err(|e| e.to_string())?))
}

/// A core's refusal, told on.
fn told(status: StatusCode, bytes: &[u8]) -> Refusal {
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
        let detail = "the core refused this node's key: core.key_env and ops.key_env must hold \
                      the same on all nodes";
        return Refusal::new(Problem::CoreUnavailable, detail);
    }
    let problem = body["code"].as_str().and_then(Problem::named).unwrap_or(Problem::BadRequest);
    let refusal = Refusal::new(problem, body["detail"].as_str().unwrap_or("the core refused it"))
        .status(status.as_u16());
    match body["field"].as_str() {
        Some(field) => refusal.with("field", field),
        None => refusal,
    }
}

fn unreadable(error: &serde_json::Error) -> Refusal {
    tracing::error!(%error, "the core's answer is not understood");
    Refusal::new(Problem::CoreUnavailable, "the core's answer is not understood")
}

//! Forward-auth: another proxy stands in front of the shop and asks us whether a request may pass.
//!
//! Which request, only a trusted proxy may say: nginx by `X-Original-URI`, Caddy and Traefik by
//! `X-Forwarded-Uri`, Envoy by the path after `/_stanchion/auth`.

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Response, StatusCode};

use super::asked::{Asked, own_path};
use super::forward::{self, DOTS};
use super::headers::{WRITTEN_BYTES, Writer};
use super::identify::Visitor;
use super::queue_page;
use super::reader::Reader;
use super::respond;
use super::sale::SaleGate;
use crate::domain::path::Canonical;
use crate::domain::refusal::{Problem, Refusal};
use crate::http::body::Body;
use crate::http::client_ip::X_FORWARDED_HOST;
use crate::http::trusted::Trusted;

/// The path of ours; Envoy puts the one asked about behind it.
const AUTH_PATH: &str = "/_stanchion/auth";

const X_ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
const X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const X_FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
/// Where the line is, for proxies that read no bodies.
const STANCHION_QUEUE_URL: HeaderName = HeaderName::from_static("stanchion-queue-url");

/// Whether a path of ours is a proxy's question.
pub(super) fn is_question(path: &str) -> bool {
    let rest = path.strip_prefix(AUTH_PATH);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The request that the proxy asks about.
pub(super) struct Original {
    /// Path and query.
    target: String,
    path: Canonical,
    /// Not known where the visitor himself could have said it.
    method: Option<Method>,
    /// Reads no other refusal than 401 and 403.
    is_nginx: bool,
}

impl Original {
    /// Reads it from the question of a trusted proxy.
    pub(super) fn read(
        asked: &Asked,
        trusted: &Trusted,
        hostnames: &[String],
    ) -> Result<Self, Refusal> {
        let headers = asked.headers();
        if !asked.client.chain.last().is_some_and(|peer| trusted.contains(*peer)) {
            let detail = "this may be asked by a proxy of public.trusted_proxies only";
            return Err(Refusal::new(Problem::NotAdmitted, detail));
        }
        if let Some(host) = only(headers, &X_FORWARDED_HOST)? {
            let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            if !hostnames.contains(&name) {
                let cure = "is not served here; see public.hostnames";
                return Err(Refusal::bad_request("X-Forwarded-Host", cure).status(403));
            }
        }
        let suffix = asked.target().strip_prefix(AUTH_PATH);
        let suffix = suffix.filter(|rest| rest.starts_with('/') && rest.len() > 1);
        let (nginx, others) = (only(headers, &X_ORIGINAL_URI)?, only(headers, &X_FORWARDED_URI)?);
        let mut told = [suffix, nginx, others].into_iter().flatten();
        let Some(target) = told.next() else {
            let cure = "is missing; let the proxy say which request it asks about";
            return Err(Refusal::bad_request("X-Forwarded-Uri", cure));
        };
        // One of the two may be the visitor's own word.
        if told.any(|other| other != target) {
            let cure = "says something else than the proxy; let it remove this header";
            return Err(Refusal::bad_request("X-Forwarded-Uri", cure).status(403));
        }
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let path = Canonical::parse(path)
            .map_err(|fault| Refusal::bad_request("path", fault).status(403))?;
        let method = match (suffix, nginx) {
            (Some(_), _) => Some(asked.method().clone()),
            // Its sub-request is always GET, and whatever else says it came from the visitor.
            (None, Some(_)) => None,
            (None, None) => only(headers, &X_FORWARDED_METHOD)?
                .and_then(|method| Method::from_bytes(method.as_bytes()).ok()),
        };
        let is_nginx = nginx.is_some();
        Ok(Self { target: target.to_owned(), path, method, is_nginx })
    }

    /// The sale whose line it has to stand in; nothing for a request that is free to pass.
    pub(super) fn gate<'a>(
        &self,
        sales: &'a [SaleGate],
        now_ms: u64,
        asked: &Asked,
    ) -> Option<&'a SaleGate> {
        let sale = sales.iter().find(|sale| sale.protects(&self.path))?;
        let is_free = |method: &Method| {
            sale.never_gates(method, &self.path) && !self.path.is_ambiguous()
                || is_preflight(method, asked.headers())
        };
        let is_gated = sale.is_gating(now_ms) && !self.method.as_ref().is_some_and(is_free);
        is_gated.then_some(sale)
    }

    /// What is never let through: gate and shop might resolve it differently.
    pub(super) fn check_path(&self) -> Result<(), Refusal> {
        if !self.path.had_dots() {
            return Ok(());
        }
        Err(Refusal::bad_request("path", DOTS).status(403))
    }

    /// 204 with whose turn it is, or where the line is.
    pub(super) fn answer(
        &self,
        asked: &Asked,
        sale: &SaleGate,
        visitor: &Visitor,
        now_ms: u64,
    ) -> Response<Body> {
        if let Some(pass) = &visitor.pass {
            let mut response = let_through();
            let mut writer = Writer::on(response.headers_mut(), WRITTEN_BYTES);
            forward::vouch(&mut writer, pass);
            return response;
        }
        let queue_url = sale.queue_url_to(own_path(&self.target).unwrap_or(self.path.as_str()));
        let status = if self.is_nginx || asked.reader() == Reader::Person { 401 } else { 429 };
        let refusal = queue_page::told_to_wait(sale, visitor)
            .status(status)
            .with("queue_url", queue_url.clone());
        let next = sale.way_in();
        let place = respond::Place { sale: None, next: &next, login_url: "", now_ms };
        let mut response = respond::refusal(&refusal, Reader::Script, &place);
        let headers = response.headers_mut();
        headers.insert(respond::STANCHION_ANSWER, HeaderValue::from_static("queue"));
        if let Ok(url) = HeaderValue::from_str(&queue_url) {
            headers.insert(STANCHION_QUEUE_URL, url);
        }
        response
    }
}

/// 204: the request may pass.
pub(super) fn let_through() -> Response<Body> {
    respond::bare(StatusCode::NO_CONTENT)
}

/// The one value of a header; two are nobody's word.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let cure = "must be there once, as plain text";
    text.map(Some).ok_or_else(|| Refusal::bad_request(name.as_str(), cure).status(403))
}

fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

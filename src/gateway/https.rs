//! What https asks of the edge: plain requests are sent over to it, answers may say that it stays
//! so, and nobody asks for one host under the certificate of another.

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::asked::Asked;
use super::respond;
use crate::config::settings::Public;
use crate::domain::refusal::Refusal;
use crate::http::body::Body;

pub(super) const HSTS: HeaderName = header::STRICT_TRANSPORT_SECURITY;

/// As the settings want it.
pub(super) struct Https {
    redirect: bool,
    /// `Strict-Transport-Security`, if opted in.
    hsts: Option<HeaderValue>,
}

impl Https {
    /// From the settings.
    pub(super) fn new(public: &Public) -> Self {
        let seconds = public.hsts.ms() / 1000;
        let hsts = (seconds > 0).then(|| HeaderValue::from_str(&format!("max-age={seconds}")));
        Self { redirect: public.redirect_https, hsts: hsts.and_then(Result::ok) }
    }

    /// 308 for a visitor who sees plain http: same host, which is one of ours, same target, the
    /// port of https. Its method and body are sent again.
    pub(super) fn redirect(&self, asked: &Asked) -> Option<Response<Body>> {
        if !self.redirect || asked.client.https {
            return None;
        }
        let location = format!("https://{}{}", asked.head.host, asked.target());
        let mut response = respond::bare(StatusCode::PERMANENT_REDIRECT);
        let location = HeaderValue::from_bytes(location.as_bytes()).ok()?;
        response.headers_mut().insert(header::LOCATION, location);
        Some(response)
    }

    /// Whether a visitor who sees plain http is sent over.
    pub(super) fn redirects(&self) -> bool {
        self.redirect
    }

    /// `Strict-Transport-Security` of answers that the visitor sees by https.
    pub(super) fn hsts(&self) -> Option<&HeaderValue> {
        self.hsts.as_ref()
    }

    /// Marks an answer that the visitor sees by https, unless the shop has.
    pub(super) fn mark(&self, response: &mut Response<Body>, https: bool) {
        if let Some(hsts) = self.hsts.as_ref().filter(|_| https) {
            response.headers_mut().entry(HSTS).or_insert_with(|| hsts.clone());
        }
    }
}

/// 421 if a client asked for one name and requests another that its certificate is not good for:
/// browsers then open a connection of its own. A trusted proxy speaks to us by any name.
pub(super) fn check_name(asked: &Asked, by_proxy: bool) -> Result<(), Refusal> {
    let host = &asked.head.host;
    match &asked.peer.presented {
        Some(presented) if !by_proxy && !presented.covers(host) => {
            let detail = format!("'{host}' is not asked for on this connection; open another");
            Err(Refusal::bad_request("Host", detail).status(421))
        }
        Some(_) | None => Ok(()),
    }
}

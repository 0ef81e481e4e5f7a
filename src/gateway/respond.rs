//! Answers of ours: every one says that it is, and that nobody may keep it.

use std::sync::LazyLock;

use arc_swap::ArcSwap;
use bytes::Bytes;
use hyper::body::Body as HttpBody;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Response, StatusCode};
use serde::Serialize;

use super::asked::own_path;
use super::headers::put;
use super::pages::{self, PageState, PageView, ProblemNote};
use super::reader::Reader;
use crate::domain::queue::PlaceState;
use crate::domain::refusal::{FIELD, Problem, Refusal};
use crate::http::body::{self, Body};
use crate::room;

/// Tells machines what kind of answer this is.
pub(super) const STANCHION_ANSWER: HeaderName = HeaderName::from_static("stanchion-answer");

/// The member of a refusal that names the methods there are, for `Allow`.
pub(super) const ALLOWED: &str = "allow";

/// Tells operators which hop failed, and how (RFC 9209).
pub(super) const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-store");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const VARY: HeaderValue =
    HeaderValue::from_static("Cookie, Accept, Sec-Fetch-Dest, Sec-Fetch-Mode");

const PROBLEM_JSON: &str = "application/problem+json";

/// What kind of answer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The queue, in some form, instead of what was asked for.
    Queue,
    /// A refusal.
    Refused,
    /// Something behind us does not answer.
    Unavailable,
    /// What was asked of us ourselves.
    Own,
}

impl Kind {
    fn word(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Queue => "queue",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Own => "own",
        })
    }
}

/// An answer of ours without a body yet.
fn ours(status: StatusCode, kind: Kind) -> Response<Body> {
    let mut response = Response::new(body::empty());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, PRIVATE);
    // Some caches read these and not the other.
    headers.insert("cdn-cache-control", NO_STORE);
    headers.insert("surrogate-control", NO_STORE);
    headers.insert(header::VARY, VARY);
    headers.insert(STANCHION_ANSWER, kind.word());
    response
}

/// Bytes of a type.
pub(super) fn bytes(
    status: StatusCode,
    content_type: &'static str,
    bytes: impl Into<Bytes>,
    kind: Kind,
) -> Response<Body> {
    let mut response = ours(status, kind);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    *response.body_mut() = body::full(bytes);
    response
}

/// Headers of many answers, which are copied and not put together each time.
type Headers = LazyLock<HeaderMap>;

/// An answer with such headers.
fn copied(status: StatusCode, headers: &HeaderMap, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(body::full(body));
    *response.status_mut() = status;
    response.headers_mut().clone_from(headers);
    response
}

/// The answer to a poll.
pub(super) fn status(body: Vec<u8>) -> Response<Body> {
    copied(StatusCode::OK, &STATUS, body)
}

/// The headers of a status.
pub(super) static STATUS: Headers = LazyLock::new(|| {
    bytes(StatusCode::OK, "application/json", Bytes::new(), Kind::Own).into_parts().0.headers
});

/// The same headers for another answer that begins as a status does.
pub(super) fn told(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    copied(status, &STATUS, body)
}

/// 429 for a script that has to wait.
pub(super) fn waiting(body: String, poll_after_ms: u64) -> Response<Body> {
    static HEADERS: Headers = LazyLock::new(|| {
        roomy(bytes(StatusCode::OK, PROBLEM_JSON, Bytes::new(), Kind::Queue).into_parts().0.headers)
    });
    let mut response = copied(StatusCode::TOO_MANY_REQUESTS, &HEADERS, body);
    let seconds = HeaderValue::from(poll_after_ms.div_ceil(1000).max(1));
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

/// The same headers in a map that need not grow by those that are added on the way out.
fn roomy(headers: HeaderMap) -> HeaderMap {
    let mut roomy = HeaderMap::with_capacity(2 * headers.len());
    roomy.extend(headers);
    roomy
}

/// An answer that goes on and on.
pub(super) fn stream(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = bytes(StatusCode::OK, content_type, Bytes::new(), Kind::Own);
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    *response.body_mut() = body;
    response
}

/// JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize, kind: Kind) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(text) => bytes(status, "application/json", text, kind),
        Err(error) => {
            tracing::error!(%error, "an answer could not be written");
            ours(StatusCode::INTERNAL_SERVER_ERROR, Kind::Unavailable)
        }
    }
}

/// A page.
pub(super) fn page(status: StatusCode, view: &PageView, kind: Kind) -> Response<Body> {
    html(status, pages::render(view), kind)
}

/// A page that was rendered, if it was.
pub(super) fn html(
    status: StatusCode,
    rendered: Result<impl Into<Bytes>, askama::Error>,
    kind: Kind,
) -> Response<Body> {
    static HEADERS: Headers = LazyLock::new(|| {
        let page = bytes(StatusCode::OK, "text/html; charset=utf-8", Bytes::new(), Kind::Queue);
        let mut headers = roomy(page.into_parts().0.headers);
        let policy = HeaderValue::from_static(pages::CONTENT_SECURITY_POLICY);
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
        headers
    });
    match rendered {
        Ok(html) => {
            let mut response = copied(status, &HEADERS, html);
            if kind != Kind::Queue {
                response.headers_mut().insert(STANCHION_ANSWER, kind.word());
            }
            response
        }
        Err(error) => {
            tracing::error!(%error, "a page could not be written");
            ours(StatusCode::INTERNAL_SERVER_ERROR, Kind::Unavailable)
        }
    }
}

/// Where to sign in, and back from there to a path of this host.
pub(super) fn sign_in_link(login_url: &str, back: &str) -> String {
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("next", own_path(back).unwrap_or("/"))
        .finish();
    let joint = if login_url.contains('?') { '&' } else { '?' };
    format!("{login_url}{joint}{query}")
}

/// 303 to a path of this host.
pub(super) fn see_other(to: &str) -> Response<Body> {
    let mut response = ours(StatusCode::SEE_OTHER, Kind::Own);
    put(response.headers_mut(), header::LOCATION, to);
    response
}

/// Nothing but a status.
pub(super) fn bare(status: StatusCode) -> Response<Body> {
    ours(status, Kind::Own)
}

/// Where a page about a refusal stands.
pub(super) struct Place<'a> {
    /// The sale it is about, if any.
    pub(super) sale: Option<&'a str>,
    /// Where to go on.
    pub(super) next: &'a str,
    /// Where to sign in.
    pub(super) login_url: &'a str,
    /// The room's clock.
    pub(super) now_ms: u64,
}

/// The one place where a refusal becomes HTTP.
pub(super) fn refusal(refusal: &Refusal, reader: Reader, place: &Place<'_>) -> Response<Body> {
    let status =
        StatusCode::from_u16(refusal.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = if status.is_server_error() { Kind::Unavailable } else { Kind::Refused };
    let mut response = match reader {
        Reader::Person => page(status, &view(refusal, place), kind),
        Reader::Script => {
            let mut json = json(status, &refusal.to_json(), kind);
            let problem = HeaderValue::from_static(PROBLEM_JSON);
            json.headers_mut().insert(header::CONTENT_TYPE, problem);
            json
        }
    };
    retry_after(response.headers_mut(), refusal);
    if let Some(allowed) = refusal.member(ALLOWED) {
        put(response.headers_mut(), header::ALLOW, allowed);
    }
    response
}

/// Tells when to come back.
pub(super) fn retry_after(headers: &mut HeaderMap, refusal: &Refusal) {
    if let Some(seconds) = refusal.retry_after_seconds() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
}

fn view(refusal: &Refusal, place: &Place<'_>) -> PageView {
    let state = match refusal.problem {
        Problem::ShopUnavailable => PageState::ShopUnavailable,
        Problem::SignInRequired => PageState::SignIn,
        Problem::SaleFull => PageState::Full,
        // Of another place than the browser's own.
        Problem::Missed if refusal.member(FIELD).is_some() => PageState::CodeOver,
        // With the way to a new place at the end of the line.
        Problem::Missed if place.sale.is_some() => match room::ended(refusal) {
            Some(PlaceState::Left) => PageState::Left,
            _ => PageState::Missed,
        },
        _ => PageState::Problem,
    };
    let note = ProblemNote { problem: refusal.problem, detail: refusal.detail.clone() };
    let mut view = PageView::new(state, place.now_ms);
    view.sale = place.sale.map(str::to_owned);
    place.next.clone_into(&mut view.next);
    view.login_url =
        (state == PageState::SignIn).then(|| sign_in_link(place.login_url, place.next));
    view.retry_after_ms = refusal.retry_after_ms;
    // A cache may show a 5xx to others: with one key, two would get one place.
    if refusal.http_status() < 500 {
        view.join_key = super::waiting::fresh_key();
    }
    view.problem = Some(note);
    view
}

/// What every answer gets on its way out. HEAD keeps the length and loses the body.
pub(super) fn finish(response: &mut Response<Body>, method: &Method) {
    if *method == Method::HEAD && response.headers().contains_key(STANCHION_ANSWER) {
        if let Some(length) = response.body().size_hint().exact() {
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        *response.body_mut() = body::empty();
    }
}

/// Lets everybody keep an answer of ours: `how` as in `Cache-Control`.
pub(super) fn keepable(response: &mut Response<Body>, how: &'static str) {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(how));
    for name in ["cdn-cache-control", "surrogate-control", "vary"] {
        headers.remove(name);
    }
}

/// Says that the connection ends here.
pub(super) fn close(response: &mut Response<Body>) {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// Lets scripts of trusted origins read our refusals and statuses.
pub(super) fn share(
    response: &mut Response<Body>,
    origin: Option<&HeaderValue>,
    known: &ArcSwap<Vec<String>>,
) {
    let ours = |headers: &HeaderMap| headers.contains_key(STANCHION_ANSWER);
    let known = known.load();
    if known.is_empty() || !ours(response.headers()) {
        return;
    }
    let headers = response.headers_mut();
    // To everybody: a cache may give one's answer to another.
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    let is_known = |origin: &&HeaderValue| known.iter().any(|known| **origin == known.as_str());
    let Some(origin) = origin.filter(is_known) else { return };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    let readable = HeaderValue::from_static(
        "Retry-After, RateLimit, RateLimit-Policy, Stanchion-Answer, Stanchion-Admission, \
         Idempotent-Replayed",
    );
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, readable);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_was_given_up_has_another_page_than_a_turn_that_has_passed() {
        let place = Place { sale: Some("drop"), next: "/", login_url: "", now_ms: 0 };
        let page = |refusal: Refusal| view(&refusal, &place).state;
        assert_eq!(page(room::missed()), PageState::Missed);
        assert_eq!(page(room::given_up("it was")), PageState::Left);
        assert_eq!(page(room::given_up("it was").with(FIELD, "code")), PageState::CodeOver);
    }
}

//! What hyper lets pass and we do not: checks of a request's head before anything else looks at it.

use hyper::body::Body as HttpBody;
use hyper::ext::Protocol;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode, Version};

use super::hop::elements;
use super::host;

/// How large a request's head may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Request line and headers together, in bytes.
    pub head: usize,
    /// The request target, in bytes.
    pub target: usize,
    /// Header fields, cookies (which HTTP/2 splits into crumbs) not counted.
    pub fields: usize,
    /// Header fields, crumbs counted.
    pub fields_and_crumbs: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { head: 64 * 1024, target: 8 * 1024, fields: 100, fields_and_crumbs: 200 }
    }
}

/// The methods told in `Allow`.
pub const ALLOW: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Names that `Connection` may not take away: framing, and what others trust.
const NOT_NOMINATED: [&str; 7] = [
    "content-length",
    "host",
    "transfer-encoding",
    "cookie",
    "authorization",
    "forwarded",
    "x-real-ip",
];

/// Prefixes of such names.
const NOT_NOMINATED_PREFIXES: [&str; 3] = ["x-forwarded-", "stanchion-", "x-stanchion-"];

/// Whether the client asks to leave HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upgrade {
    /// It does not, or asks for something that is ignored.
    No,
    /// A bodiless websocket handshake.
    WebSocket,
    /// The same by HTTP/2: an extended CONNECT.
    Extended,
}

/// What a good head says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The host asked for: lower case, no port, no trailing dot.
    pub host: String,
    /// Host and port as the client wrote them.
    pub authority: String,
    /// The upgrade asked for.
    pub upgrade: Upgrade,
}

/// Why a head is refused; all but the last close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadFault {
    /// The target is too long.
    #[error("the request target is too long")]
    TargetTooLong,
    /// There are too many headers.
    #[error("the request has too many header fields")]
    TooManyFields,
    /// CONNECT, TRACE, TRACK.
    #[error("this method is not served here")]
    Method,
    /// An extended CONNECT to anything but a WebSocket.
    #[error("of the protocols behind CONNECT only 'websocket' is served here")]
    Protocol,
    /// None, several, or one that is not a host.
    #[error("the request must have exactly one valid Host header")]
    Host,
    /// The target's host is not the header's.
    #[error("the host of the request target differs from the Host header")]
    HostsDiffer,
    /// Neither a path nor an absolute URL.
    #[error("the request target must be a path")]
    Target,
    /// Anything but one plain `chunked`.
    #[error("Transfer-Encoding must be exactly 'chunked', in one line, on HTTP/1.1")]
    TransferEncoding,
    /// `Connection` names a header that others rely on.
    #[error("the Connection header names a header that may not be removed")]
    Nominated,
    /// An HTTP/2 header value that HTTP/1.1 would read differently.
    #[error("a header value begins or ends with a blank")]
    Padded,
    /// Anything but `100-continue`.
    #[error("only 'Expect: 100-continue' is known here")]
    Expect,
    /// `OPTIONS *`: a question to the server itself, answered here.
    #[error("the server as a whole was asked")]
    ServerItself,
}

impl HeadFault {
    /// The status to answer with.
    pub fn status(self) -> StatusCode {
        match self {
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::TooManyFields => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Protocol => StatusCode::NOT_IMPLEMENTED,
            Self::Expect => StatusCode::EXPECTATION_FAILED,
            Self::ServerItself => StatusCode::NO_CONTENT,
            Self::Host
            | Self::HostsDiffer
            | Self::Target
            | Self::TransferEncoding
            | Self::Nominated
            | Self::Padded => StatusCode::BAD_REQUEST,
        }
    }
}

/// Checks a head.
pub fn check<B: HttpBody>(request: &Request<B>, sizes: &Sizes) -> Result<Head, HeadFault> {
    check_size(request, sizes)?;
    check_method(request)?;
    let authority = host::only(request)?;
    check_framing(request)?;
    let host = host::bare(&authority).ok_or(HeadFault::Host)?;
    if request.method() == Method::OPTIONS && request.uri().path() == "*" {
        return Err(HeadFault::ServerItself);
    }
    if !request.uri().path().starts_with('/') {
        return Err(HeadFault::Target);
    }
    Ok(Head { host, authority, upgrade: asked_upgrade(request) })
}

fn check_size<B>(request: &Request<B>, sizes: &Sizes) -> Result<(), HeadFault> {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target > sizes.target {
        return Err(HeadFault::TargetTooLong);
    }
    let headers = request.headers();
    let crumbs = headers.get_all(header::COOKIE).iter().count();
    if headers.len() - crumbs > sizes.fields || headers.len() > sizes.fields_and_crumbs {
        return Err(HeadFault::TooManyFields);
    }
    Ok(())
}

fn check_method<B>(request: &Request<B>) -> Result<(), HeadFault> {
    if let Some(protocol) = request.extensions().get::<Protocol>() {
        let known = protocol.as_str().eq_ignore_ascii_case("websocket");
        return if known { Ok(()) } else { Err(HeadFault::Protocol) };
    }
    match request.method().as_str() {
        "CONNECT" | "TRACE" | "TRACK" => Err(HeadFault::Method),
        _ => Ok(()),
    }
}

fn check_framing<B>(request: &Request<B>) -> Result<(), HeadFault> {
    let headers = request.headers();
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => {}
        (Some(one), None) => {
            let plain = one.to_str().is_ok_and(|v| v.trim().eq_ignore_ascii_case("chunked"));
            if !plain || request.version() != Version::HTTP_11 {
                return Err(HeadFault::TransferEncoding);
            }
        }
        (Some(_), Some(_)) => return Err(HeadFault::TransferEncoding),
    }
    if elements(headers, &header::CONNECTION).any(may_not_be_nominated) {
        return Err(HeadFault::Nominated);
    }
    if request.version() == Version::HTTP_2 && headers.values().any(is_padded) {
        return Err(HeadFault::Padded);
    }
    for expectation in headers.get_all(header::EXPECT) {
        let known = expectation.to_str().is_ok_and(|v| v.eq_ignore_ascii_case("100-continue"));
        if !known {
            return Err(HeadFault::Expect);
        }
    }
    Ok(())
}

fn is_padded(value: &HeaderValue) -> bool {
    let blank = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
    let bytes = value.as_bytes();
    blank(bytes.first()) || blank(bytes.last())
}

fn may_not_be_nominated(element: &str) -> bool {
    let name = element.to_ascii_lowercase();
    NOT_NOMINATED.contains(&name.as_str())
        || NOT_NOMINATED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn asked_upgrade<B: HttpBody>(request: &Request<B>) -> Upgrade {
    if request.extensions().get::<Protocol>().is_some() {
        return Upgrade::Extended;
    }
    let headers = request.headers();
    let names = |header: &HeaderName, word: &str| {
        elements(headers, header).any(|element| element.eq_ignore_ascii_case(word))
    };
    let asks = request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && names(&header::UPGRADE, "websocket")
        && names(&header::CONNECTION, "upgrade");
    let bodiless = request.body().is_end_stream()
        && !headers.contains_key(header::TRANSFER_ENCODING)
        && headers.get(header::CONTENT_LENGTH).is_none_or(|length| length == "0");
    if asks && bodiless { Upgrade::WebSocket } else { Upgrade::No }
}

/// What HTTP/2 writes differently, as HTTP/1.1 does: cookies in one line, the handshake of a
/// WebSocket as a GET.
pub fn as_http1<B>(request: &mut Request<B>, head: &Head) {
    join_cookies(request.headers_mut());
    if head.upgrade == Upgrade::Extended {
        *request.method_mut() = Method::GET;
    }
}

/// Joins the crumbs that HTTP/2 clients split a cookie into.
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(header::COOKIE).iter().nth(1).is_none() {
        return;
    }
    let lines: Vec<HeaderValue> = headers.get_all(header::COOKIE).iter().cloned().collect();
    let joined = lines.iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b"; "[..]);
    if let Ok(value) = HeaderValue::from_bytes(&joined) {
        headers.insert(header::COOKIE, value);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::http::body;

    pub(in crate::http) fn request(
        method: &str,
        target: &str,
        lines: &[(&str, &str)],
    ) -> Request<body::Body> {
        let mut builder = Request::builder().method(method).uri(target);
        for (name, value) in lines {
            builder = builder.header(*name, *value);
        }
        builder.body(body::empty()).unwrap()
    }

    pub(in crate::http) fn checked(
        method: &str,
        target: &str,
        lines: &[(&str, &str)],
    ) -> Result<Head, HeadFault> {
        check(&request(method, target, lines), &Sizes::default())
    }

    pub(in crate::http) fn fault(method: &str, target: &str, lines: &[(&str, &str)]) -> HeadFault {
        checked(method, target, lines).unwrap_err()
    }

    #[test]
    fn ed_02_transfer_encoding_is_exactly_chunked() {
        let host = ("host", "shop.test");
        for coding in ["gzip, chunked", ",chunked", "chunked, identity", "xchunked"] {
            let lines = [host, ("transfer-encoding", coding)];
            assert_eq!(fault("POST", "/", &lines), HeadFault::TransferEncoding, "{coding}");
        }
        let two = [host, ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")];
        assert_eq!(fault("POST", "/", &two), HeadFault::TransferEncoding);
        assert!(checked("POST", "/", &[host, ("transfer-encoding", "chunked ")]).is_ok());
    }

    #[test]
    fn ed_16_ed_21_connection_may_not_take_away_what_others_rely_on() {
        for name in ["Content-Length", "X-Forwarded-Host", "cookie", "Stanchion-Sale"] {
            let lines = [("host", "shop.test"), ("connection", "close"), ("connection", name)];
            assert_eq!(fault("POST", "/", &lines), HeadFault::Nominated, "{name}");
        }
    }

    #[test]
    fn ed_12_ed_66_methods_and_sizes() {
        let host = ("host", "shop.test");
        assert_eq!(fault("TRACE", "/", &[host]), HeadFault::Method);
        assert_eq!(fault("CONNECT", "shop.test:443", &[host]), HeadFault::Method);
        assert_eq!(fault("OPTIONS", "*", &[host]), HeadFault::ServerItself);
        let long = format!("/{}", "a".repeat(Sizes::default().target));
        assert_eq!(fault("GET", &long, &[host]), HeadFault::TargetTooLong);
        let mut many = vec![("x-a", "1"); 100];
        many.push(host);
        assert_eq!(fault("GET", "/", &many), HeadFault::TooManyFields);
        assert_eq!(fault("GET", "/", &[host, ("expect", "a-pony")]), HeadFault::Expect);
    }

    #[test]
    fn ed_13_ed_14_only_a_bodiless_websocket_handshake_is_an_upgrade() {
        let asked = |lines: &[(&str, &str)]| {
            let mut all = vec![("host", "shop.test"), ("connection", "keep-alive, Upgrade")];
            all.extend_from_slice(lines);
            checked("GET", "/", &all).unwrap().upgrade
        };
        assert_eq!(asked(&[("upgrade", "WebSocket")]), Upgrade::WebSocket);
        assert_eq!(asked(&[("upgrade", "foo")]), Upgrade::No);
        assert_eq!(asked(&[("upgrade", "h2c")]), Upgrade::No);
        assert_eq!(asked(&[("upgrade", "websocket"), ("content-length", "3")]), Upgrade::No);
    }

    #[test]
    fn ed_26_cookie_crumbs_become_one_line() {
        let mut headers =
            request("GET", "/", &[("cookie", "a=1"), ("cookie", "b=2")]).headers().clone();
        join_cookies(&mut headers);
        let lines: Vec<_> = headers.get_all("cookie").iter().collect();
        assert_eq!(lines, ["a=1; b=2"]);
    }
}

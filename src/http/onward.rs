//! The request that a service gets for the one that came.

use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Request, Uri};

use super::body::Body;
use super::guard::{Head, Upgrade};
use super::hop;
use super::websocket;

/// Path and query only; an empty path becomes `/`.
fn origin_form(uri: &Uri) -> Uri {
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Uri::from(path)
}

/// The request that the service gets, but for what is added to it.
pub(super) fn onward(parts: Parts, upload: Body, head: &Head, bodiless: bool) -> Request<Body> {
    let mut onward = Request::new(upload);
    *onward.uri_mut() = origin_form(&parts.uri);
    *onward.method_mut() = parts.method;
    *onward.headers_mut() = parts.headers;
    request_headers(onward.headers_mut(), head, bodiless);
    onward
}

fn request_headers(headers: &mut HeaderMap, head: &Head, bodiless: bool) {
    hop::strip(headers);
    headers.remove(header::EXPECT);
    if !headers.contains_key(header::HOST)
        && let Ok(host) = HeaderValue::from_str(&head.authority)
    {
        headers.insert(header::HOST, host);
    }
    if head.upgrade != Upgrade::No {
        websocket::upgrade(headers);
    }
    // Without this, hyper would drop the chunked body of a GET.
    if !bodiless && !headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

//! One request on its way through the pipeline.

use hyper::body::Body as HttpBody;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, Version};

use super::limiter::Standing;
use super::reader::{Reader, reader};
use crate::domain::path::Canonical;
use crate::http::body::{self, Body, Drained};
use crate::http::client_ip::Client;
use crate::http::guard::{Head, Upgrade};
use crate::http::listener::Peer;
use crate::http::proxy;
use crate::http::received::Received;

/// Longest path to come back to, in bytes.
const BACK_BYTES_MAX: usize = 8 * 1024;
/// Read and dropped of a body that nobody wants, so that its sender sees the answer.
const DRAIN_BYTES_MAX: usize = 256 * 1024;

/// A checked request.
pub(super) struct Asked {
    /// Method, target, headers and upgrade.
    pub(super) parts: Parts,
    /// Taken by whoever reads or forwards it.
    pub(super) body: Option<Received>,
    /// Whoever took the body left some of it: what follows on the connection is no request.
    pub(super) spoilt: bool,
    /// What the guard found.
    pub(super) head: Head,
    /// Who asks.
    pub(super) client: Client,
    /// The connection it came by.
    pub(super) peer: Peer,
    /// Who reads the answer.
    reader: Reader,
    /// What the gate decides on.
    pub(super) path: Canonical,
    /// How its subject stands with the quota that it was counted under.
    pub(super) standing: Option<Standing>,
    /// Why the shop did not answer, as `Proxy-Status` says it.
    pub(super) failure: Option<HeaderValue>,
}

impl Asked {
    /// Takes a checked request apart.
    pub(super) fn new(
        request: Request<Received>,
        head: Head,
        (client, peer): (Client, Peer),
        path: Canonical,
    ) -> Self {
        let (parts, body) = request.into_parts();
        // Known from now on: forwarding takes the headers.
        let reader = reader(&parts.headers);
        Self {
            parts,
            body: Some(body),
            spoilt: false,
            head,
            client,
            peer,
            reader,
            path,
            standing: None,
            failure: None,
        }
    }

    /// The method.
    pub(super) fn method(&self) -> &Method {
        &self.parts.method
    }

    /// Who reads the answer.
    pub(super) fn reader(&self) -> Reader {
        self.reader
    }

    /// The headers.
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The header as text, if it is there once and is text.
    pub(super) fn text(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// Path and query as sent: where a browser stays, or comes back to.
    pub(super) fn target(&self) -> &str {
        self.parts.uri.path_and_query().map_or("/", |target| target.as_str())
    }

    /// Where a 303 to this same page leads. `//host/…` names a page of ours when it is asked for,
    /// and another host when it is told to a browser.
    pub(super) fn again(&self) -> &str {
        // That its path can be read is known.
        let target = self.target();
        if leads_here(target) { target } else { self.path.as_str() }
    }

    /// A value of the query.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        let query = self.parts.uri.query()?;
        form_urlencoded::parse(query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }

    /// Sent by a page of another site, which may know nothing of what its visitor wants: browsers
    /// say so themselves, older ones by `Origin`. Apps and scripts say neither.
    pub(super) fn is_foreign(&self, friends: &[String]) -> bool {
        let origin = self.text(header::ORIGIN);
        if origin.is_some_and(|origin| friends.iter().any(|friend| friend == origin)) {
            return false;
        }
        match (self.text("sec-fetch-site"), origin) {
            (Some(site), _) => site == "cross-site",
            (None, Some(origin)) => origin.split_once("://").is_some_and(|(_, place)| {
                let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
                !host.eq_ignore_ascii_case(&self.head.host)
            }),
            (None, None) => false,
        }
    }

    /// Whether a body is still unread.
    pub(super) fn has_body(&self) -> bool {
        self.body.as_ref().is_some_and(|body| !body.is_end_stream())
    }

    /// Deals with a body that nobody read, before the answer goes out. `Cut` means that the
    /// connection must close, or the rest of the body would be read as a request.
    pub(super) async fn drop_body(&mut self) -> Drained {
        match self.body.take() {
            Some(Received::Coming(body)) if !body.is_end_stream() => {
                // Who waits for our 100 has sent nothing, and shall not.
                if self.parts.headers.contains_key(header::EXPECT) {
                    return Drained::Cut;
                }
                body::drain(body, DRAIN_BYTES_MAX).await
            }
            Some(_) | None if self.spoilt => Drained::Cut,
            Some(_) | None => Drained::Whole,
        }
    }

    /// Whether an answer would tell an HTTP/2 client that its WebSocket is open, as any success
    /// does, when there is none.
    pub(super) fn opens_by_mistake(&self, response: &Response<Body>) -> bool {
        self.head.upgrade == Upgrade::Extended
            && response.status().is_success()
            && !proxy::is_tunnel(response)
    }

    /// Whether `Connection: close` may be said; HTTP/2 has no such header.
    pub(super) fn is_http1(&self) -> bool {
        self.parts.version != Version::HTTP_2
    }
}

/// A path of this host to come back to, or nothing: no other host, by whatever trick.
pub(super) fn own_path(raw: &str) -> Option<&str> {
    let path = || Canonical::parse(raw.split(['?', '#']).next().unwrap_or_default());
    (leads_here(raw) && path().is_ok()).then_some(raw)
}

/// Whether a browser reads it as a path of the host that it is on.
fn leads_here(raw: &str) -> bool {
    raw.starts_with('/')
        && !raw.starts_with("//")
        && raw.len() <= BACK_BYTES_MAX
        && raw.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ed_53_only_a_path_of_this_host_is_somewhere_to_go_on() {
        for good in ["/", "/a/b?x=//c", "/caf%C3%A9#top"] {
            assert_eq!(own_path(good), Some(good));
        }
        for bad in [
            "",
            "a",
            "//e.test",
            "/\\e.test",
            "/%5ce.test",
            "https:e.test",
            "http://e.test/",
            "/a/../../\\e.test",
            "/\t/e.test",
            "/a\r\nx: y",
            "\u{2215}e.test",
            "/%2f/e.test",
        ] {
            assert_eq!(own_path(bad), None, "{bad:?}");
        }
    }
}

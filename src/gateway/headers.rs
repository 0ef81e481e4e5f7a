//! What the shop is told in headers: nothing that a client made up about itself.

use std::fmt::{self, Write};

use bytes::BytesMut;
use hyper::HeaderMap;
use hyper::header::{self, HeaderName, HeaderValue};

use super::cookies;
use crate::domain::client_header::CLIENT_HEADERS;
use crate::http::client_ip::{Client, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO};

/// Headers by which shops may believe another address, scheme or path; removed from everybody, like
/// those by which CDNs name their client.
const BELIEVED: [&str; 14] = [
    "forwarded",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-envoy-external-address",
    "x-remote-ip",
    "x-remote-addr",
    "x-azure-socketip",
    "cf-connecting-ipv6",
    "cloudfront-viewer-address",
    "client-ip",
    "x-original-url",
    "x-original-uri",
    "x-rewrite-url",
    "x-original-host",
];

/// Prefixes of such.
const BELIEVED_PREFIXES: [&str; 3] = ["x-forwarded-", "stanchion-", "x-stanchion-"];

/// What is written for the shop is seldom longer.
pub(super) const WRITTEN_BYTES: usize = 1024;

/// What `Forwarded` is seldom longer than.
const HOPS_BYTES: usize = 128;

/// Whether a name, or one that some shop may take for it (`_` and `.` for `-`), is ours to set.
fn is_reserved(name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    let is_one_of = |known: &[&str]| {
        known.iter().any(|known| known.len() == name.len() && reads_as(name, known))
    };
    is_one_of(&BELIEVED)
        || is_one_of(&CLIENT_HEADERS)
        || BELIEVED_PREFIXES.iter().any(|prefix| reads_as(name, prefix))
}

/// Whether a name begins with this text.
fn reads_as(name: &[u8], text: &str) -> bool {
    let folded = |byte: &u8| if matches!(byte, b'_' | b'.') { b'-' } else { *byte };
    name.len() >= text.len() && name.iter().map(folded).zip(text.bytes()).all(|(a, b)| a == b)
}

/// Removes what only we may say, from headers or trailers.
pub(super) fn remove_reserved(headers: &mut HeaderMap) {
    let reserved: Vec<HeaderName> =
        headers.keys().filter(|name| is_reserved(name)).cloned().collect();
    for name in reserved {
        headers.remove(name);
    }
}

/// Cleans a request for the shop: nobody else says who is asking, or brings our cookies.
pub(super) fn clean(headers: &mut HeaderMap) {
    remove_reserved(headers);
    cookies::hide(headers);
}

/// Says who is asking, from what we know ourselves.
pub(super) fn introduce(writer: &mut Writer<'_>, client: &Client, authority: &str) {
    let proto = if client.https { "https" } else { "http" };
    let mut hops = String::with_capacity(HOPS_BYTES);
    writer.write(X_FORWARDED_FOR, |chain| {
        for (at, address) in client.chain.iter().enumerate() {
            let (text, comma) = (address.to_string(), if at > 0 { ", " } else { "" });
            let (open, close) = if address.is_ipv6() { ("\"[", "]\"") } else { ("", "") };
            chain.write_str(comma)?;
            chain.write_str(&text)?;
            hops.extend([comma, "for=", open, &text, close]);
            if at == 0 {
                // The guard has let no quote or backslash through.
                hops.extend([";proto=", proto, ";host=\"", authority, "\""]);
            }
        }
        Ok(())
    });
    writer.put(X_FORWARDED_HOST, authority);
    writer.put(header::FORWARDED, &hops);
    writer.headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(proto));
}

/// Writes values one after the other into one piece of memory: ten of them cost no more than one.
pub(super) struct Writer<'a> {
    headers: &'a mut HeaderMap,
    text: BytesMut,
}

impl<'a> Writer<'a> {
    pub(super) fn on(headers: &'a mut HeaderMap, bytes: usize) -> Self {
        Self { headers, text: BytesMut::with_capacity(bytes) }
    }

    /// Sets a header to bytes that may not be a header's value, in which case it is left out.
    pub(super) fn put(&mut self, name: HeaderName, value: impl AsRef<[u8]>) {
        self.text.extend_from_slice(value.as_ref());
        self.set(name);
    }

    /// The same of words that are put together.
    pub(super) fn write(
        &mut self,
        name: HeaderName,
        words: impl FnOnce(&mut BytesMut) -> fmt::Result,
    ) {
        // Writing to memory does not fail.
        if words(&mut self.text).is_ok() {
            self.set(name);
        }
    }

    fn set(&mut self, name: HeaderName) {
        if let Ok(value) = HeaderValue::from_maybe_shared(self.text.split().freeze()) {
            self.headers.insert(name, value);
        }
    }
}

/// Takes out of the shop's answer what only we may say, and by which other ways the shop is reached:
/// browsers would go there, round the line.
pub(super) fn from_shop(headers: &mut HeaderMap) {
    headers.remove(header::ALT_SVC);
    let ours: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("stanchion-")).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
}

/// Sets a header to text that may not be a header's value, in which case it is left out.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ed_24_ed_25_no_header_of_the_clients_speaks_for_us() {
        let mut headers: HeaderMap = [
            ("x-forwarded-for", "9.9.9.9"),
            ("x_forwarded_for", "1.2.3.4"),
            ("x.forwarded.proto", "https"),
            ("stanchion_admitted", "1"),
            ("stanchion-visitor", "me"),
            ("x-stanchion-session", "a"),
            ("x-real-ip", "9.9.9.9"),
            ("true-client-ip", "9.9.9.9"),
            ("cf_connecting.ip", "9.9.9.9"),
            ("x-original-url", "/admin"),
            ("forwarded", "for=9.9.9.9"),
            ("authorization", "Bearer shop"),
        ]
        .into_iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
        .collect();
        let chain = vec!["2001:db8::1".parse().unwrap(), "127.0.0.2".parse().unwrap()];
        let client = Client { ip: chain[0], chain, https: true };

        clean(&mut headers);
        introduce(&mut Writer::on(&mut headers, WRITTEN_BYTES), &client, "shop.test:8443");

        let mut left: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "authorization: Bearer shop",
                "forwarded: for=\"[2001:db8::1]\";proto=https;host=\"shop.test:8443\", for=127.0.0.2",
                "x-forwarded-for: 2001:db8::1, 127.0.0.2",
                "x-forwarded-host: shop.test:8443",
                "x-forwarded-proto: https",
            ]
        );
    }
}

//! A WebSocket's handshake with a service: asked for by HTTP/1.1, whatever the client spoke.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{self, HeaderMap, HeaderValue};

/// What RFC 6455 adds to a key before it is hashed.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The key of a handshake that is ours, because the client's protocol has none.
#[derive(Debug)]
pub(super) struct Key(String);

impl Key {
    /// A new one.
    pub(super) fn random() -> Self {
        Self(STANDARD.encode(rand::random::<[u8; 16]>()))
    }

    /// Says what an HTTP/2 client leaves out.
    pub(super) fn ask(&self, headers: &mut HeaderMap) {
        if let Ok(key) = HeaderValue::from_str(&self.0) {
            headers.insert(header::SEC_WEBSOCKET_KEY, key);
        }
        let version = HeaderValue::from_static("13");
        headers.entry(header::SEC_WEBSOCKET_VERSION).or_insert(version);
    }

    /// Whether the answer is to this key, and not a cached one or another's.
    pub(super) fn is_answered(&self, headers: &HeaderMap) -> bool {
        let mut lines = headers.get_all(header::SEC_WEBSOCKET_ACCEPT).iter();
        let (Some(told), None) = (lines.next(), lines.next()) else { return false };
        told.as_bytes() == self.accept().as_bytes()
    }

    fn accept(&self) -> String {
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{}{GUID}", self.0).as_bytes());
        STANDARD.encode(hash)
    }
}

/// Asks to leave HTTP, or agrees to.
pub(super) fn upgrade(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_to_the_key_that_was_asked_with() {
        // The example of RFC 6455.
        let key = Key("dGhlIHNhbXBsZSBub25jZQ==".into());
        let accept = HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let mut headers = HeaderMap::new();
        assert!(!key.is_answered(&headers));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept.clone());
        assert!(key.is_answered(&headers));
        assert!(!Key::random().is_answered(&headers));
        headers.append(header::SEC_WEBSOCKET_ACCEPT, accept);
        assert!(!key.is_answered(&headers), "one answer");
    }
}

//! Who is signed in. A name is enough: this shop is for looking at waiting rooms.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cookie::Cookie;
use http::HeaderMap;
use http::header::COOKIE;

const SESSION: &str = "shop-session";
const SESSIONS_MAX: usize = 100_000;
const NAME_BYTES_MAX: usize = 60;

/// Sessions by their secret.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<String, String>>);

impl Sessions {
    /// Signs in; returns the cookie to set, or nothing if the name is no account's.
    pub(super) fn sign_in(&self, user: &str) -> Option<String> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.@".contains(&b);
        if user.is_empty() || user.len() > NAME_BYTES_MAX || !user.bytes().all(plain) {
            return None;
        }
        let secret = format!("{:032x}", rand::random::<u128>());
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= SESSIONS_MAX {
            sessions.clear();
        }
        sessions.insert(secret.clone(), user.to_owned());
        Some(format!("{SESSION}={secret}; Path=/; HttpOnly; SameSite=Lax"))
    }

    /// The account whose session these headers carry.
    pub(super) fn account(&self, headers: &HeaderMap) -> Option<String> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = texts.flat_map(Cookie::split_parse).flatten();
        let secret = cookies.find(|cookie| cookie.name() == SESSION)?;
        sessions.get(secret.value()).cloned()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_holder_of_the_cookie_is_signed_in() {
        let sessions = Sessions::default();
        let set = sessions.sign_in("ada").unwrap();
        let (pair, _) = set.split_once(';').unwrap();

        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_str(&format!("a=b; {pair}; c=d")).unwrap());
        assert_eq!(sessions.account(&headers).as_deref(), Some("ada"));
        headers.insert(COOKIE, HeaderValue::from_static("shop-session=guess"));
        assert_eq!(sessions.account(&headers), None);
    }

    #[test]
    fn names_that_would_spoil_a_header_are_refused() {
        let sessions = Sessions::default();
        for name in ["", "a b", "a\r\nx: y", "é", &"a".repeat(61)] {
            assert!(sessions.sign_in(name).is_none(), "{name:?}");
        }
    }
}

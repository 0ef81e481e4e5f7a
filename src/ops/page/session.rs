//! A signed, short-lived cookie for who has typed the operators' key, and the check that a form was
//! sent by a page of ours.

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST, ORIGIN};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::domain::refusal::{Problem, Refusal};

/// How long nobody has to type the key again, in milliseconds.
pub(super) const LASTS_MS: u64 = 3_600_000;
const NAME: &str = "stanchion-ops";

/// Signs with a secret of this process: the cookie is worth nothing on another node or after a
/// restart.
pub(super) struct Sessions {
    secret: [u8; 32],
}

impl Sessions {
    pub(super) fn new() -> Self {
        let mut secret = [0; 32];
        rand::fill(&mut secret);
        Self { secret }
    }

    /// `Set-Cookie` for a new session.
    pub(super) fn begin(&self, now_ms: u64) -> String {
        let end = now_ms.saturating_add(LASTS_MS).to_string();
        let value = format!("{end}.{}", self.mac(&end));
        format!("{NAME}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}", LASTS_MS / 1000)
    }

    /// `Set-Cookie` that ends it.
    pub(super) fn end() -> String {
        format!("{NAME}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0")
    }

    /// Whether the request has one.
    pub(super) fn is_on(&self, headers: &HeaderMap, now_ms: u64) -> bool {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(';')).any(|pair| {
            let value = pair.trim().strip_prefix(NAME).and_then(|rest| rest.strip_prefix('='));
            value.is_some_and(|value| self.is_good(value, now_ms))
        })
    }

    fn is_good(&self, value: &str, now_ms: u64) -> bool {
        let Some((end, mac)) = value.split_once('.') else { return false };
        let is_ours = bool::from(self.mac(end).as_bytes().ct_eq(mac.as_bytes()));
        is_ours && end.parse::<u64>().is_ok_and(|end| now_ms < end)
    }

    fn mac(&self, text: &str) -> String {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        mac.update(b"stanchion/ops-session/v1\0");
        mac.update(text.as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }
}

/// Refuses a form that was not sent by a page of this very address: browsers say where it comes
/// from, and whoever does not say is no browser with a cookie.
pub(super) fn refuse_foreign(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = text(ORIGIN.as_str());
    let is_own = match (text("sec-fetch-site"), origin, text(HOST.as_str())) {
        (Some(site), _, _) => site == "same-origin",
        (None, Some(origin), Some(host)) => {
            origin.split_once("://").is_some_and(|(_, place)| place.eq_ignore_ascii_case(host))
        }
        (None, _, _) => false,
    };
    if is_own {
        return Ok(());
    }
    let detail = "this form was not sent by the page of this node; open the page and use it there";
    Err(Refusal::new(Problem::NotAdmitted, detail))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        pairs.collect()
    }

    #[test]
    fn a_session_ends_and_cannot_be_made_up_or_taken_elsewhere() {
        let (here, elsewhere) = (Sessions::new(), Sessions::new());
        let set = here.begin(1_000);
        assert!(set.contains("HttpOnly; SameSite=Strict"), "{set}");
        let pair = set.split(';').next().unwrap();
        let with = |cookie: &str| headers(&[("cookie", cookie)]);
        assert!(here.is_on(&with(&format!("a=1; {pair}")), 2_000));
        assert!(!here.is_on(&with(pair), 1_000 + LASTS_MS));
        assert!(!elsewhere.is_on(&with(pair), 2_000));
        let (end, mac) = pair.split_once('=').unwrap().1.split_once('.').unwrap();
        let later = end.parse::<u64>().unwrap() + 1;
        assert!(!here.is_on(&with(&format!("{NAME}={later}.{mac}")), 2_000));
        assert!(!here.is_on(&HeaderMap::new(), 2_000));
    }

    #[test]
    fn a_form_counts_only_if_a_page_of_this_address_sent_it() {
        let fine = [
            headers(&[("sec-fetch-site", "same-origin")]),
            headers(&[("origin", "http://ops:9090"), ("host", "ops:9090")]),
        ];
        let foreign = [
            headers(&[]),
            headers(&[("host", "ops:9090")]),
            headers(&[("sec-fetch-site", "cross-site"), ("host", "ops:9090")]),
            headers(&[("sec-fetch-site", "same-site")]),
            headers(&[("sec-fetch-site", "none")]),
            headers(&[("origin", "http://ops:9091"), ("host", "ops:9090")]),
            headers(&[("origin", "null"), ("host", "ops:9090")]),
        ];
        assert!(fine.iter().all(|headers| refuse_foreign(headers).is_ok()));
        assert!(foreign.iter().all(|headers| refuse_foreign(headers).is_err()));
    }
}

//! Bearer keys of the private listeners, and the name that whoever has one gives.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Names who acts, for the audit trail.
pub const AUTHOR: &str = "stanchion-author";
/// The longest name, in bytes.
const AUTHOR_MAX: usize = 64;

/// A key's hash: equal lengths, so that comparing takes the same time for every guess.
pub struct BearerKey([u8; 32]);

impl BearerKey {
    /// Of a key.
    pub fn new(key: &SecretString) -> Self {
        Self(Sha256::digest(key.expose_secret()).into())
    }

    /// Whether these headers carry it.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| {
            let (scheme, key) = value.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(key.trim_ascii())
        });
        let given: Option<[u8; 32]> = given.map(|key| Sha256::digest(key).into());
        given.is_some_and(|given| bool::from(self.0.ct_eq(&given)))
    }
}

/// The name in `Stanchion-Author`, if one is given.
///
/// # Errors
/// The cure for one that cannot be written down.
pub fn author(headers: &HeaderMap) -> Result<Option<String>, String> {
    let Some(name) = headers.get(AUTHOR) else { return Ok(None) };
    let name = name.to_str().map(str::trim).unwrap_or_default();
    if (1..=AUTHOR_MAX).contains(&name.len()) {
        return Ok(Some(name.to_owned()));
    }
    Err(format!("must be 1 to {AUTHOR_MAX} printable ASCII characters"))
}

//! Who may change something here: whoever brings the operators' key.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::domain::refusal::{Problem, Refusal};

/// The operators' key, as its hash: comparing takes the same time for every guess.
#[derive(Clone)]
pub struct OpsKey(Option<[u8; 32]>);

impl OpsKey {
    /// The key of the settings; without one nothing can be changed here.
    pub fn new(key: Option<&SecretString>) -> Self {
        Self(key.map(|key| Sha256::digest(key.expose_secret()).into()))
    }

    /// Whether this is the key.
    pub fn is(&self, given: &[u8]) -> bool {
        let given: [u8; 32] = Sha256::digest(given).into();
        self.0.is_some_and(|key| bool::from(key.ct_eq(&given)))
    }

    /// Whether there is a key at all.
    pub fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// 401 or 403 unless the request brings `Authorization: Bearer KEY` with the right one.
    pub fn demand(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.0.is_none() {
            let detail = "this node has no operators' key (ops.key_env), so nothing can be \
                          changed here";
            return Err(Refusal::new(Problem::NotAdmitted, detail));
        }
        let bearer = headers.get(AUTHORIZATION).and_then(|value| {
            let (scheme, key) = value.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
        });
        match bearer {
            Some(key) if self.is(key) => Ok(()),
            Some(_) | None => {
                let detail = "Authorization: needs `Bearer KEY` with the operators' key";
                Err(Refusal::new(Problem::NotAdmitted, detail).status(401))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_operators_key_opens_and_without_one_nothing_does() {
        let key = OpsKey::new(Some(&SecretString::from("k")));
        let with = |value: &str| HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
        assert!(key.demand(&with("Bearer k")).is_ok() && key.demand(&with("bearer k ")).is_ok());
        for wrong in ["Bearer", "Bearer ", "Bearer kk", "Basic k", "k"] {
            assert_eq!(key.demand(&with(wrong)).unwrap_err().http_status(), 401, "{wrong}");
        }
        assert_eq!(key.demand(&HeaderMap::new()).unwrap_err().http_status(), 401);
        let none = OpsKey::new(None).demand(&with("Bearer k"));
        assert_eq!(none.unwrap_err().http_status(), 403);
    }
}

//! Who asks: the operators' key, and the name that goes into the audit trail.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Ops;
use super::answer::Refused;
use crate::domain::refusal::{Problem, Refusal};

/// Names who acts, for the audit trail.
pub const AUTHOR: &str = "stanchion-author";
/// The longest name, in bytes.
const AUTHOR_MAX: usize = 64;

/// The operators' key, or the name of the variable that it should have come from.
pub struct OpsKey {
    /// A hash: equal lengths, so that comparing takes the same time for every guess.
    hash: Option<[u8; 32]>,
    variable: String,
}

impl OpsKey {
    /// The key that was found in the environment, if it was.
    pub fn new(key: Option<&SecretString>, variable: &str) -> Self {
        let hash = key.map(|key| Sha256::digest(key.expose_secret()).into());
        Self { hash, variable: variable.to_owned() }
    }

    /// Whether this node has one.
    pub fn is_set(&self) -> bool {
        self.hash.is_some()
    }

    /// Whether these headers carry it.
    ///
    /// # Errors
    /// 403 while this node has no key, else 401 that names the header.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(hash) = &self.hash else {
            let variable = &self.variable;
            let detail = format!(
                "this node has no operators' key: set the environment variable {variable} \
                 (ops.key_env) and start it again"
            );
            return Err(Refusal::new(Problem::NotAdmitted, detail));
        };
        let given = headers.get(AUTHORIZATION).and_then(|value| {
            let (scheme, key) = value.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(key.trim_ascii())
        });
        let given: Option<[u8; 32]> = given.map(|key| Sha256::digest(key).into());
        if given.is_some_and(|given| bool::from(hash.ct_eq(&given))) {
            return Ok(());
        }
        let detail = "Authorization: needs `Bearer KEY` with the operators' key (ops.key_env)";
        Err(Refusal::new(Problem::NotAdmitted, detail).status(401))
    }
}

/// A request with the operators' key.
pub(super) struct Operator {
    /// Who the audit trail names.
    pub(super) author: String,
}

impl FromRequestParts<Arc<Ops>> for Operator {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, ops: &Arc<Ops>) -> Result<Self, Refused> {
        ops.key.check(&parts.headers)?;
        let author = match parts.headers.get(AUTHOR) {
            None => format!("ops@{}", ops.node),
            Some(name) => name
                .to_str()
                .ok()
                .filter(|name| (1..=AUTHOR_MAX).contains(&name.trim().len()))
                .map(|name| name.trim().to_owned())
                .ok_or_else(|| {
                    let cure = format!("must be 1 to {AUTHOR_MAX} printable ASCII characters");
                    Refusal::bad_request("Stanchion-Author", cure)
                })?,
        };
        Ok(Self { author })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_operators_key_opens_and_a_node_without_one_says_which_variable_to_set() {
        let key = OpsKey::new(Some(&SecretString::from("right")), "OPS");
        let with = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, http::HeaderValue::from_static(value));
            headers
        };
        assert!(key.check(&with("Bearer right")).is_ok());
        assert!(key.check(&with("bearer right")).is_ok());
        for wrong in ["Bearer wrong", "Bearer ", "Basic right", "right", "Bearer"] {
            let refusal = key.check(&with(wrong)).unwrap_err();
            assert_eq!(refusal.http_status(), 401, "{wrong}");
            assert!(refusal.detail.starts_with("Authorization:"));
        }
        assert_eq!(key.check(&HeaderMap::new()).unwrap_err().http_status(), 401);

        let none = OpsKey::new(None, "OPS").check(&with("Bearer ")).unwrap_err();
        assert_eq!(none.http_status(), 403);
        assert!(none.detail.contains("variable OPS"), "{}", none.detail);
    }
}

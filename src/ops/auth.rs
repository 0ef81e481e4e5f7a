//! Who asks: the operators' key, and the name that goes into the audit trail.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;
use secrecy::SecretString;

use super::Ops;
use super::answer::Refused;
use crate::domain::refusal::{Problem, Refusal};
use crate::http::bearer::{BearerKey, author};

/// The operators' key, or the name of the variable that it should have come from.
pub struct OpsKey {
    key: Option<BearerKey>,
    variable: String,
}

impl OpsKey {
    /// The key that was found in the environment, if it was.
    pub fn new(key: Option<&SecretString>, variable: &str) -> Self {
        let key = key.map(BearerKey::new);
        Self { key, variable: variable.to_owned() }
    }

    /// Whether this node has one.
    pub fn is_set(&self) -> bool {
        self.key.is_some()
    }

    /// Whether these headers carry it.
    ///
    /// # Errors
    /// 403 while this node has no key, else 401 that names the header.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(key) = &self.key else {
            let variable = &self.variable;
            let detail = format!(
                "this node has no operators' key: set the environment variable {variable} \
                 (ops.key_env) and start it again"
            );
            return Err(Refusal::new(Problem::NotAdmitted, detail));
        };
        if key.is_in(headers) {
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
        let named = author(&parts.headers);
        let named = named.map_err(|cure| Refusal::bad_request("Stanchion-Author", cure))?;
        let author = named.unwrap_or_else(|| format!("ops@{}", ops.node));
        Ok(Self { author })
    }
}

#[cfg(test)]
mod tests {
    use http::header::AUTHORIZATION;

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

//! Who asks: bearer keys, and the shopper's admission.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;
use secrecy::SecretString;

use super::Api;
use super::answer::Refused;
use crate::domain::admission::{Admission, CORE_GRACE_MS};
use crate::domain::refusal::{Problem, Refusal};
use crate::http::bearer::{self, BearerKey};

/// The header that carries the shopper's admission.
const ADMISSION: &str = "stanchion-admission";

/// The keys that open the API.
pub(super) struct Bearers {
    core: BearerKey,
    ops: Option<BearerKey>,
}

impl Bearers {
    pub(super) fn new(core: &SecretString, ops: Option<&SecretString>) -> Self {
        Self { core: BearerKey::new(core), ops: ops.map(BearerKey::new) }
    }

    fn role(&self, headers: &HeaderMap) -> Option<Role> {
        let is = |key: &BearerKey| key.is_in(headers);
        let (core, ops) = (is(&self.core), self.ops.as_ref().is_some_and(is));
        match (ops, core) {
            (true, _) => Some(Role::Operator),
            (false, true) => Some(Role::Caller),
            (false, false) => None,
        }
    }
}

#[derive(PartialEq, Eq)]
enum Role {
    Caller,
    Operator,
}

/// A request with one of the keys.
pub(super) struct Known;

/// A request with the operators' key.
pub(super) struct Operator {
    /// Whom the audit trail names: `Stanchion-Author`, else the core.
    pub(super) author: String,
}

fn author(headers: &HeaderMap) -> Result<String, Refusal> {
    let named = bearer::author(headers);
    let named = named.map_err(|cure| Refusal::bad_request("Stanchion-Author", cure))?;
    Ok(named.unwrap_or_else(|| "ops@core".to_owned()))
}

fn unknown() -> Refusal {
    let detail = "Authorization: needs `Bearer KEY` with the core's key";
    Refusal::new(Problem::NotAdmitted, detail).status(401)
}

impl FromRequestParts<Arc<Api>> for Known {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Refused> {
        match api.bearers.role(&parts.headers) {
            Some(_) => Ok(Self),
            None => Err(unknown().into()),
        }
    }
}

impl FromRequestParts<Arc<Api>> for Operator {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Refused> {
        match api.bearers.role(&parts.headers) {
            Some(Role::Operator) => Ok(Self { author: author(&parts.headers)? }),
            Some(Role::Caller) => {
                let detail = "this needs the operators' key";
                Err(Refusal::new(Problem::NotAdmitted, detail).into())
            }
            None => Err(unknown().into()),
        }
    }
}

impl Api {
    /// The admission that a request carries, if it counts now.
    pub(super) fn admission(&self, headers: &HeaderMap) -> Result<Arc<Admission>, Refusal> {
        let not = |detail| Refusal::new(Problem::NotAdmitted, detail);
        let mut values = headers.get_all(ADMISSION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(not("Stanchion-Admission: exactly one is needed"));
        };
        let read = value.to_str().ok().and_then(|raw| (self.read_admission)(raw));
        let admission = read.ok_or_else(|| not("Stanchion-Admission: is not one of ours"))?;
        let control = self.reservations.control(&admission.sale);
        let control = control.ok_or_else(|| not("Stanchion-Admission: of an unknown sale"))?;
        let now_ms = self.reservations.clock.now_ms();
        if admission.holds(&admission.sale, control.epoch, now_ms, CORE_GRACE_MS) {
            Ok(admission)
        } else {
            Err(not("Stanchion-Admission: has run out or was voided; claim again"))
        }
    }
}

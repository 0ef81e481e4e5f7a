//! The parts of our answers that a shopper reads.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::observations::AdmissionSeen;

/// Of the answer to a join.
#[derive(Deserialize)]
pub(super) struct Joined {
    ticket: String,
}

impl Joined {
    /// Whom the ticket makes of its bearer.
    pub(super) fn visitor(&self) -> Option<String> {
        claims::<TicketClaims>(&self.ticket).map(|ticket| ticket.sub)
    }
}

#[derive(Deserialize)]
struct TicketClaims {
    sub: String,
}

/// Of the answer to a claim that is due.
#[derive(Deserialize)]
pub(super) struct Claimed {
    admission: String,
}

#[derive(Deserialize)]
struct AdmissionClaims {
    jti: String,
    slot: u64,
}

impl Claimed {
    /// What the token itself says, not what is said beside it; nothing of an admission from
    /// outside the meter (a staff pass, a bypass), which has no slot to judge.
    pub(super) fn seen(&self) -> Option<AdmissionSeen> {
        let claims: AdmissionClaims = claims(&self.admission)?;
        Some(AdmissionSeen { jti: claims.jti, slot_ms: claims.slot })
    }
}

/// Of the answer to a claim whose slot is ahead.
#[derive(Default, Deserialize)]
pub(super) struct Due {
    pub(super) retry_after_ms: Option<u64>,
}

/// Of the answer to a reservation.
#[derive(Deserialize)]
pub(super) struct Held {
    pub(super) id: String,
}

/// A token's claims, unverified: a shopper has no key.
fn claims<T: DeserializeOwned>(token: &str) -> Option<T> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&payload).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shopper_reads_slot_and_subject_from_the_tokens_themselves() {
        let token = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let claimed = Claimed { admission: token(r#"{"jti":"j","slot":17,"pos":3}"#) };
        assert_eq!(claimed.seen(), Some(AdmissionSeen { jti: "j".into(), slot_ms: 17 }));
        assert_eq!(Joined { ticket: token(r#"{"sub":"v"}"#) }.visitor().as_deref(), Some("v"));
        let passed = token(r#"{"jti":"j","via":"pass"}"#);
        for bad in ["", "a.b", "a.!.c", &token("{}"), &passed] {
            assert_eq!(Claimed { admission: bad.into() }.seen(), None, "{bad:?}");
        }
    }
}

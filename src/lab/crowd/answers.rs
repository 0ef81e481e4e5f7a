//! The parts of our answers that a shopper reads.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::kept::TicketSeen;
use super::observations::AdmissionSeen;

/// Of the answer to a join.
#[derive(Deserialize)]
pub(super) struct Joined {
    ticket: String,
}

impl Joined {
    /// What the ticket itself says.
    pub(super) fn seen(&self) -> Option<TicketSeen> {
        let TicketClaims { run, sub, entry, late, acct } = claims(&self.ticket)?;
        let number = match (entry, late) {
            (Some(entry), _) => format!("e{entry}"),
            (None, Some(late)) => format!("l{late}"),
            (None, None) => return None,
        };
        Some(TicketSeen { run, number, sub, account: acct })
    }
}

#[derive(Deserialize)]
struct TicketClaims {
    run: u64,
    sub: String,
    entry: Option<u64>,
    late: Option<u64>,
    acct: Option<String>,
}

/// Of the answer to a claim that is due.
#[derive(Deserialize)]
pub(super) struct Claimed {
    pub(super) admission: String,
}

#[derive(Deserialize)]
struct AdmissionClaims {
    jti: String,
    slot: u64,
    epoch: u64,
}

impl Claimed {
    /// What the token itself says, not what is said beside it; nothing of an admission from
    /// outside the meter (a staff pass, a bypass), which has no slot to judge.
    pub(super) fn seen(&self) -> Option<AdmissionSeen> {
        let claims: AdmissionClaims = claims(&self.admission)?;
        Some(AdmissionSeen { jti: claims.jti, slot_ms: claims.slot, epoch: claims.epoch })
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
        let claimed = Claimed { admission: token(r#"{"jti":"j","slot":17,"epoch":2,"pos":3}"#) };
        let seen = AdmissionSeen { jti: "j".into(), slot_ms: 17, epoch: 2 };
        assert_eq!(claimed.seen(), Some(seen));
        let joined = Joined { ticket: token(r#"{"run":1,"sub":"v","late":3,"acct":"ann"}"#) };
        let ticket = joined.seen().unwrap();
        assert_eq!((ticket.number.as_str(), ticket.sub.as_str()), ("l3", "v"));
        assert_eq!(ticket.account.as_deref(), Some("ann"));
        let passed = token(r#"{"jti":"j","via":"pass"}"#);
        for bad in ["", "a.b", "a.!.c", &token("{}"), &passed] {
            assert_eq!(Claimed { admission: bad.into() }.seen(), None, "{bad:?}");
        }
    }
}

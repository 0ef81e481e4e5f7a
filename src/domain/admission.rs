//! The admission: the signed, short-lived right to check out.

use serde::{Deserialize, Serialize};

use super::id::{AccountId, BuyerId, SaleId};
use super::ticket::{Ticket, unreachable_buyer};

/// The `typ` of an admission's header.
pub const ADMISSION_TYP: &str = "stanchion-admission+jwt";
/// The `iss` claim.
pub const ISSUER: &str = "stanchion";
/// How far two clocks may differ, in milliseconds.
pub const LEEWAY_MS: u64 = 2_000;
/// How long past its end the core still honours an admission, in milliseconds: the request was on
/// its way while it was valid.
pub const CORE_GRACE_MS: u64 = 60_000;

/// What an admission says. Holding one is the permission: only token verification makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    iss: String,
    /// The sale it is for.
    #[serde(rename = "aud")]
    pub sale: SaleId,
    /// The ticket's `sub`.
    pub sub: String,
    /// A stop raises the sale's epoch and so voids it.
    pub epoch: u64,
    /// The account that joined, if any.
    #[serde(rename = "acct", skip_serializing_if = "Option::is_none", default)]
    pub account: Option<AccountId>,
    /// Position in line.
    #[serde(rename = "pos")]
    pub position: u64,
    /// The meter's slot, Unix milliseconds.
    #[serde(rename = "slot")]
    pub slot_ms: u64,
    /// The same for every claim of one visitor in one epoch.
    pub jti: String,
    /// Unix seconds.
    pub iat: u64,
    /// Unix seconds.
    pub exp: u64,
}

impl Admission {
    /// The admission signed for a slot: issued at the slot, ended `ttl_ms` after it.
    pub fn at_slot(
        ticket: &Ticket,
        epoch: u64,
        position: u64,
        slot_ms: u64,
        ttl_ms: u64,
        jti: String,
    ) -> Self {
        Self {
            iss: ISSUER.to_owned(),
            sale: ticket.sale.clone(),
            sub: ticket.sub.clone(),
            epoch,
            account: ticket.account.clone(),
            position,
            slot_ms,
            jti,
            iat: slot_ms / 1000,
            exp: slot_ms.saturating_add(ttl_ms) / 1000,
        }
    }

    /// Whether it counts for this sale, epoch and instant. Signature, `alg`, `typ` and `kid` come
    /// first; `grace_ms` is how long past its end it still counts.
    pub fn holds(&self, sale: &SaleId, epoch: u64, now_ms: u64, grace_ms: u64) -> bool {
        let issued_ms = self.iat.saturating_mul(1000);
        let ends_ms = self.exp.saturating_mul(1000);
        self.iss == ISSUER
            && self.sale == *sale
            && self.epoch == epoch
            && issued_ms <= now_ms.saturating_add(LEEWAY_MS)
            && now_ms < ends_ms.saturating_add(grace_ms)
    }

    /// Whom its reservations belong to: the account, else `sub`.
    pub fn buyer(&self) -> BuyerId {
        let text = self.account.as_ref().map_or(self.sub.as_str(), AccountId::as_str);
        BuyerId::parse(text).unwrap_or_else(|_| unreachable_buyer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ticket::Cohort;

    fn sale(id: &str) -> SaleId {
        SaleId::parse(id).unwrap()
    }

    fn admission() -> Admission {
        let ticket = Ticket {
            sale: sale("spring-drop"),
            run: 1,
            sub: "s".into(),
            cohort: Cohort::Entry(1),
            account: None,
            issued_at: 90,
        };
        Admission::at_slot(&ticket, 3, 7, 100_000, 600_000, "j".into())
    }

    #[test]
    fn an_admission_counts_for_its_own_sale_and_epoch_between_slot_and_end() {
        let admission = admission();
        let holds = |at| admission.holds(&sale("spring-drop"), 3, at, LEEWAY_MS);
        assert!(!holds(97_999));
        assert!(holds(98_000) && holds(100_000) && holds(701_999));
        assert!(!holds(702_000));
        assert!(!admission.holds(&sale("other"), 3, 100_000, LEEWAY_MS));
        assert!(!admission.holds(&sale("spring-drop"), 4, 100_000, LEEWAY_MS));
        assert!(!admission.holds(&sale("spring-drop"), 2, 100_000, LEEWAY_MS));
    }

    #[test]
    fn the_core_honours_what_was_on_its_way() {
        let admission = admission();
        assert!(admission.holds(&sale("spring-drop"), 3, 759_999, CORE_GRACE_MS));
        assert!(!admission.holds(&sale("spring-drop"), 3, 760_000, CORE_GRACE_MS));
    }
}

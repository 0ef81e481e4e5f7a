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

/// Where the right comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The visitor's turn came.
    Line {
        /// Position in line.
        position: u64,
        /// The meter's slot, Unix milliseconds.
        slot_ms: u64,
    },
    /// A staff pass was redeemed: outside the meter.
    Pass,
    /// Everybody was let past the line: outside the meter.
    Bypass,
}

/// What an admission says. Holding one is the permission: only token verification makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Claims", into = "Claims")]
pub struct Admission {
    /// The sale it is for.
    pub sale: SaleId,
    /// The ticket's `sub`; of a staff pass or bypass, one of its own.
    pub sub: String,
    /// A stop raises the sale's epoch and so voids it.
    pub epoch: u64,
    /// The account that joined, if any.
    pub account: Option<AccountId>,
    /// The line, or a way past it.
    pub origin: Origin,
    /// The same for every claim of one visitor in one epoch.
    pub jti: String,
    /// Unix seconds; of the line, its slot, or a late collection of it.
    pub iat: u64,
    /// Unix seconds.
    pub exp: u64,
}

/// An admission as its token says it: `pos` and `slot`, or `via`, never both.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    iss: String,
    aud: SaleId,
    sub: String,
    epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    acct: Option<AccountId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pos: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    slot: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    via: Option<Via>,
    jti: String,
    iat: u64,
    exp: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Via {
    Pass,
    Bypass,
}

impl From<Admission> for Claims {
    fn from(admission: Admission) -> Self {
        let (pos, slot, via) = match admission.origin {
            Origin::Line { position, slot_ms } => (Some(position), Some(slot_ms), None),
            Origin::Pass => (None, None, Some(Via::Pass)),
            Origin::Bypass => (None, None, Some(Via::Bypass)),
        };
        Self {
            iss: ISSUER.to_owned(),
            aud: admission.sale,
            sub: admission.sub,
            epoch: admission.epoch,
            acct: admission.account,
            pos,
            slot,
            via,
            jti: admission.jti,
            iat: admission.iat,
            exp: admission.exp,
        }
    }
}

impl TryFrom<Claims> for Admission {
    type Error = &'static str;

    fn try_from(claims: Claims) -> Result<Self, Self::Error> {
        if claims.iss != ISSUER {
            return Err("iss is not ours");
        }
        let origin = match (claims.pos, claims.slot, claims.via) {
            (Some(position), Some(slot_ms), None) => Origin::Line { position, slot_ms },
            (None, None, Some(Via::Pass)) => Origin::Pass,
            (None, None, Some(Via::Bypass)) => Origin::Bypass,
            _ => return Err("either pos and slot, or via"),
        };
        Ok(Self {
            sale: claims.aud,
            sub: claims.sub,
            epoch: claims.epoch,
            account: claims.acct,
            origin,
            jti: claims.jti,
            iat: claims.iat,
            exp: claims.exp,
        })
    }
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
            sale: ticket.sale.clone(),
            sub: ticket.sub.clone(),
            epoch,
            account: ticket.account.clone(),
            origin: Origin::Line { position, slot_ms },
            jti,
            iat: slot_ms / 1000,
            exp: slot_ms.saturating_add(ttl_ms) / 1000,
        }
    }

    /// The same of a slot that was collected late: it begins as much later as it ends.
    #[must_use]
    pub fn ending_at(self, ends_ms: u64) -> Self {
        let exp = ends_ms / 1000;
        let iat = self.iat.saturating_add(exp.saturating_sub(self.exp));
        Self { iat, exp, ..self }
    }

    /// Position in line, if it comes from the line.
    pub fn position(&self) -> Option<u64> {
        match self.origin {
            Origin::Line { position, .. } => Some(position),
            Origin::Pass | Origin::Bypass => None,
        }
    }

    /// The meter's slot in Unix milliseconds, if it comes from the line.
    pub fn slot_ms(&self) -> Option<u64> {
        match self.origin {
            Origin::Line { slot_ms, .. } => Some(slot_ms),
            Origin::Pass | Origin::Bypass => None,
        }
    }

    /// Given to somebody unknown while everybody was let past the line, perhaps: then its name can be
    /// had for the asking and says nothing of who it is.
    pub fn is_nameless(&self) -> bool {
        self.origin == Origin::Bypass && self.account.is_none()
    }

    /// When it began to count, Unix milliseconds: the slot; outside the meter, to the second.
    pub fn since_ms(&self) -> u64 {
        self.slot_ms().unwrap_or(self.iat.saturating_mul(1000))
    }

    /// Whether it counts for this sale, epoch and instant. Signature, `alg`, `typ` and `kid` come
    /// first; `grace_ms` is how long past its end it still counts.
    pub fn holds(&self, sale: &SaleId, epoch: u64, now_ms: u64, grace_ms: u64) -> bool {
        let issued_ms = self.iat.saturating_mul(1000);
        let ends_ms = self.exp.saturating_mul(1000);
        self.sale == *sale
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
    fn an_admission_collected_late_lasts_as_long_as_any_and_keeps_its_slot() {
        let late = admission().ending_at(900_000);
        assert_eq!((late.slot_ms(), late.iat, late.exp), (Some(100_000), 300, 900));
        assert_eq!(admission().ending_at(700_000), admission());
    }

    #[test]
    fn the_core_honours_what_was_on_its_way() {
        let admission = admission();
        assert!(admission.holds(&sale("spring-drop"), 3, 759_999, CORE_GRACE_MS));
        assert!(!admission.holds(&sale("spring-drop"), 3, 760_000, CORE_GRACE_MS));
    }

    #[test]
    fn an_admission_says_position_and_slot_or_via_and_never_both() {
        let written = serde_json::to_value(admission()).unwrap();
        assert_eq!(written["pos"], 7);
        assert_eq!(written["slot"], 100_000);
        assert!(written.get("via").is_none());
        let read = |claims: &serde_json::Value| serde_json::from_value::<Admission>(claims.clone());
        assert_eq!(read(&written).unwrap(), admission());

        let passed = Admission { origin: Origin::Pass, ..admission() };
        let via = serde_json::to_value(&passed).unwrap();
        assert_eq!(via["via"], "pass");
        assert!(via.get("pos").is_none() && via.get("slot").is_none());
        assert_eq!(read(&via).unwrap(), passed);
        assert_eq!((passed.position(), passed.since_ms()), (None, 100_000));

        let mut both = written.clone();
        both["via"] = "bypass".into();
        let mut neither = via.clone();
        neither.as_object_mut().unwrap().remove("via");
        let mut half = via;
        half["pos"] = 1.into();
        let mut foreign = written;
        foreign["iss"] = "somebody".into();
        for wrong in [both, neither, half, foreign] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }
}

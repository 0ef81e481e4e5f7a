//! The ticket: the signed proof of having joined, and the number it stands for.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::draw::Draw;
use super::id::{AccountId, BuyerId, SaleId};

/// The `typ` of a ticket's header.
pub const TICKET_TYP: &str = "stanchion-ticket+jwt";

/// What a join got: an entry to the draw, or a number after all entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cohort {
    /// Joined before the opening; the number is the entry.
    Entry(u64),
    /// Joined at or after the opening; the number is the latecomer's.
    Late(u64),
}

impl Cohort {
    /// The fixed 0-based number in line, once the draw is there.
    pub fn position(self, draw: &Draw) -> Option<u64> {
        match self {
            Self::Entry(entry) => draw.position(entry),
            Self::Late(number) => draw.n().checked_add(number),
        }
    }

    /// Reads `e17` or `l5`, the form that Redis keeps.
    pub fn parse(raw: &str) -> Option<Self> {
        let number = raw.get(1..)?.parse().ok()?;
        match raw.as_bytes().first()? {
            b'e' => Some(Self::Entry(number)),
            b'l' => Some(Self::Late(number)),
            _ => None,
        }
    }
}

impl fmt::Display for Cohort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(entry) => write!(f, "e{entry}"),
            Self::Late(number) => write!(f, "l{number}"),
        }
    }
}

/// What a ticket says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The sale it is for.
    pub sale: SaleId,
    /// The drawing it is for; a reset voids it.
    pub run: u64,
    /// Who: the first 128 bits of an HMAC over the number, so a restored ticket is the same buyer.
    pub sub: String,
    /// The number.
    pub cohort: Cohort,
    /// The account that joined, if any.
    pub account: Option<AccountId>,
    /// Unix seconds.
    pub issued_at: u64,
}

impl Ticket {
    /// Whom its reservations belong to: the account, else `sub`.
    pub fn buyer(&self) -> BuyerId {
        let text = self.account.as_ref().map_or(self.sub.as_str(), AccountId::as_str);
        BuyerId::parse(text).unwrap_or_else(|_| unreachable_buyer())
    }
}

/// Both sources of a buyer obey its rule already; a constant keeps the function total.
pub(super) fn unreachable_buyer() -> BuyerId {
    #[expect(clippy::expect_used, reason = "a constant of the right shape")]
    BuyerId::parse("unknown").expect("a constant of the right shape")
}

/// The claims on the wire; exactly one of `entry` and `late` is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketClaims {
    aud: SaleId,
    run: u64,
    sub: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    entry: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    late: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    acct: Option<AccountId>,
    iat: u64,
}

impl From<Ticket> for TicketClaims {
    fn from(ticket: Ticket) -> Self {
        let (entry, late) = match ticket.cohort {
            Cohort::Entry(entry) => (Some(entry), None),
            Cohort::Late(number) => (None, Some(number)),
        };
        Self {
            aud: ticket.sale,
            run: ticket.run,
            sub: ticket.sub,
            entry,
            late,
            acct: ticket.account,
            iat: ticket.issued_at,
        }
    }
}

impl TicketClaims {
    /// The ticket, if the claims name exactly one number. Signature and `typ` come first.
    pub fn read(self) -> Option<Ticket> {
        let cohort = match (self.entry, self.late) {
            (Some(entry), None) => Cohort::Entry(entry),
            (None, Some(number)) => Cohort::Late(number),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(Ticket {
            sale: self.aud,
            run: self.run,
            sub: self.sub,
            cohort,
            account: self.acct,
            issued_at: self.iat,
        })
    }
}

/// `sub` of a number: 32 hex digits of HMAC(place key, sale ‖ run ‖ cohort ‖ number).
pub fn subject(place_key: &[u8; 32], sale: &SaleId, run: u64, cohort: Cohort) -> String {
    first_128_bits(
        place_key,
        &[
            b"stanchion/sub/v1",
            sale.as_str().as_bytes(),
            run.to_string().as_bytes(),
            cohort.to_string().as_bytes(),
        ],
    )
}

/// `sub` of one who comes past the line: by the use of a pass.
pub fn outside_subject(place_key: &[u8; 32], sale: &SaleId, pass: &str, number: u64) -> String {
    first_128_bits(
        place_key,
        &[
            b"stanchion/pass-sub/v1",
            sale.as_str().as_bytes(),
            pass.as_bytes(),
            number.to_string().as_bytes(),
        ],
    )
}

/// `sub` of an account without a place that is let past the line: the same however often it asks.
pub fn account_subject(
    place_key: &[u8; 32],
    sale: &SaleId,
    run: u64,
    account: &AccountId,
) -> String {
    first_128_bits(
        place_key,
        &[
            b"stanchion/account-sub/v1",
            sale.as_str().as_bytes(),
            run.to_string().as_bytes(),
            AccountId::as_str(account).as_bytes(),
        ],
    )
}

/// `jti` of an admission: the same of `sub` ‖ epoch, so that claiming again in one epoch makes no
/// second default order key.
pub fn admission_id(place_key: &[u8; 32], sub: &str, epoch: u64) -> String {
    first_128_bits(place_key, &[b"stanchion/jti/v1", sub.as_bytes(), epoch.to_string().as_bytes()])
}

/// Each part is ended by a zero byte that none of them can contain.
fn first_128_bits(key: &[u8; 32], parts: &[&[u8]]) -> String {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
        mac.update(&[0]);
    }
    hex::encode(&mac.finalize().into_bytes()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_reads_back_from_the_form_that_redis_keeps() {
        for cohort in [Cohort::Entry(0), Cohort::Entry(17), Cohort::Late(5)] {
            assert_eq!(Cohort::parse(&cohort.to_string()), Some(cohort));
        }
        for raw in ["", "e", "x1", "e-1", "é1", "17"] {
            assert_eq!(Cohort::parse(raw), None, "{raw:?}");
        }
    }

    #[test]
    fn latecomers_stand_behind_everybody_drawn() {
        let draw = Draw::new(10, [3; 32]);
        assert_eq!(Cohort::Late(0).position(&draw), Some(10));
        assert_eq!(Cohort::Entry(10).position(&draw), None);
    }

    #[test]
    fn the_same_number_is_the_same_buyer_and_another_is_not() {
        let sale = SaleId::parse("spring-drop").unwrap();
        let sub = |run, cohort| subject(&[1; 32], &sale, run, cohort);
        assert_eq!(sub(1, Cohort::Entry(1)), sub(1, Cohort::Entry(1)));
        assert_ne!(sub(1, Cohort::Entry(1)), sub(1, Cohort::Late(1)));
        assert_ne!(sub(1, Cohort::Entry(1)), sub(2, Cohort::Entry(1)));
        assert_ne!(sub(1, Cohort::Entry(11)), sub(11, Cohort::Entry(1)));
        assert_eq!(sub(1, Cohort::Entry(1)).len(), 32);
    }

    #[test]
    fn claims_name_exactly_one_number() {
        let both = r#"{"aud":"a","run":1,"sub":"s","entry":1,"late":2,"iat":0}"#;
        let neither = r#"{"aud":"a","run":1,"sub":"s","iat":0}"#;
        for raw in [both, neither] {
            assert!(serde_json::from_str::<TicketClaims>(raw).unwrap().read().is_none());
        }
    }
}

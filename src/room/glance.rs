//! What a poll is answered by, read from a ticket's claims as we write them, word for word: a
//! twentieth of what a reader of any JSON takes, and nothing is set aside.

use crate::domain::id::SaleId;
use crate::domain::ticket::Cohort;

/// Hex digits of `sub`.
const SUB_BYTES: usize = 32;

/// Whose ticket it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glance {
    /// The drawing it is for.
    pub run: u64,
    /// The number.
    pub cohort: Cohort,
    sub: [u8; SUB_BYTES],
}

impl Glance {
    /// Of the claims of a ticket of this sale; nothing if they are written in any other way. The
    /// signature is not looked at here.
    pub(super) fn at(claims: &[u8], sale: &SaleId) -> Option<Self> {
        let rest = claims.strip_prefix(b"{\"aud\":\"")?.strip_prefix(sale.as_str().as_bytes())?;
        let (run, rest) = number(rest.strip_prefix(b"\",\"run\":")?)?;
        let (sub, rest) = rest.strip_prefix(b",\"sub\":\"")?.split_first_chunk()?;
        let rest = rest.strip_prefix(b"\",\"")?;
        let (cohort, rest) = if let Some(rest) = rest.strip_prefix(b"entry\":") {
            let (entry, rest) = number(rest)?;
            (Cohort::Entry(entry), rest)
        } else {
            let (late, rest) = number(rest.strip_prefix(b"late\":")?)?;
            (Cohort::Late(late), rest)
        };
        let (_issued_at, end) = number(without_account(rest)?.strip_prefix(b",\"iat\":")?)?;
        (end == b"}" && sub.is_ascii()).then_some(Self { run, cohort, sub: *sub })
    }

    /// Who.
    pub fn sub(&self) -> &str {
        // It is ASCII.
        std::str::from_utf8(&self.sub).unwrap_or_default()
    }
}

/// The number that stands first, and what follows.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(digits);
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((number, rest))
}

/// What follows an account, if there is one; nothing if something in it is escaped.
fn without_account(rest: &[u8]) -> Option<&[u8]> {
    let Some(account) = rest.strip_prefix(b",\"acct\":\"") else { return Some(rest) };
    let end = account.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    account.get(end..)?.strip_prefix(b"\"")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::id::AccountId;
    use crate::domain::ticket::{Ticket, TicketClaims};

    fn sale() -> SaleId {
        SaleId::parse("spring-drop").unwrap()
    }

    proptest! {
        #[test]
        fn a_glance_tells_what_the_ticket_says(
            sub in "[0-9a-f]{32}",
            run in any::<u64>(),
            number in any::<u64>(),
            is_late in any::<bool>(),
            account in prop::option::of("[^\\p{Cc}\\s]{1,40}"),
            issued_at in any::<u64>(),
        ) {
            let cohort = if is_late { Cohort::Late(number) } else { Cohort::Entry(number) };
            let account = account.map(|account| AccountId::parse(&account).unwrap());
            let is_plain = account.as_ref().is_none_or(|it| !it.as_str().contains(['"', '\\']));
            let (sale, sub_told) = (sale(), sub.clone());
            let ticket = Ticket { sale: sale.clone(), run, sub, cohort, account, issued_at };
            let claims = serde_json::to_vec(&TicketClaims::from(ticket)).unwrap();

            let glance = Glance::at(&claims, &sale);
            prop_assert_eq!(glance.is_some(), is_plain);
            if let Some(glance) = glance {
                prop_assert_eq!((glance.run, glance.cohort), (run, cohort));
                prop_assert_eq!(glance.sub(), sub_told);
            }
        }
    }

    #[test]
    fn claims_in_other_words_are_no_glance() {
        let sub = "0123456789abcdef0123456789abcdef";
        let at = |text: &str| Glance::at(text.replace("SUB", sub).as_bytes(), &sale());
        let plain = r#"{"aud":"spring-drop","run":1,"sub":"SUB","late":7,"iat":9}"#;
        assert!(at(plain).is_some());
        for (from, to) in [
            ("spring-drop", "spring-drop-2"),
            ("spring-drop", "spring"),
            ("\"run\":1", "\"run\":-1"),
            ("\"run\":1", "\"run\": 1"),
            ("\"run\":1", "\"run\":18446744073709551616"),
            ("SUB", "ABC"),
            ("\"late\":7", "\"late\":7,\"entry\":7"),
            ("\"late\":7,", ""),
            ("\"iat\":9", "\"acct\":\"a\\\"\",\"iat\":9"),
            ("}", "} "),
            ("}", ",\"x\":1}"),
            ("}", ""),
        ] {
            assert_eq!(at(&plain.replace(from, to)), None, "{from} as {to}");
        }
    }
}

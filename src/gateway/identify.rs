//! Who asks: tickets and passes from cookies or headers, checked; the account, vouched for.
//! What is not valid does not exist.

use std::sync::Arc;

use hyper::HeaderMap;

use super::accounts::Vouched;
use super::asked::Asked;
use super::cookies::{self, Kind};
use super::sale::SaleGate;
use crate::domain::admission::{Admission, LEEWAY_MS};
use crate::domain::id::AccountId;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::ticket::Ticket;
use crate::room::keys::Keys;

const TICKET_HEADER: &str = "stanchion-ticket";
const ADMISSION_HEADER: &str = "stanchion-admission";

/// The right to check out, and the token that proves it to others.
#[derive(Clone)]
pub(super) struct Pass {
    /// What it says.
    pub(super) admission: Arc<Admission>,
    /// The token itself.
    pub(super) token: String,
}

/// What a request proves about its visitor, for one sale.
pub(super) struct Visitor {
    /// The place in line.
    pub(super) ticket: Option<Ticket>,
    /// The right to check out.
    pub(super) pass: Option<Pass>,
    /// A pass was brought, valid or not: such a request is never sent around again.
    pub(super) brought_pass: bool,
    /// Who is signed in.
    pub(super) account: Vouched,
}

impl Visitor {
    /// The account vouched for.
    pub(super) fn account_id(&self) -> Option<&AccountId> {
        match &self.account {
            Vouched::For(account) => Some(account),
            Vouched::NotAsked | Vouched::Nobody | Vouched::Unknown => None,
        }
    }
}

/// Checks what the request brought for this sale. `account` is what the shop says, as far as it
/// was asked.
pub(super) fn visitor(
    asked: &Asked,
    sale: &SaleGate,
    keys: &Keys,
    now_ms: u64,
    account: Vouched,
) -> Result<Visitor, Refusal> {
    let (run, epoch) = sale.run_and_epoch();
    let read_ticket = |raw: &str| keys.read_ticket(raw, sale.id()).filter(|t| t.run == run);
    let ticket_name = cookies::name(Kind::Ticket, sale.id(), asked.client.https);
    let ticket =
        only(asked.headers(), (&ticket_name, TICKET_HEADER), read_ticket, |one, other| {
            one.sub == other.sub
        })?;
    let read_pass = |raw: &str| {
        let admission = keys.read_admission(raw)?;
        let holds = admission.holds(sale.id(), epoch, now_ms, LEEWAY_MS);
        holds.then(|| Pass { admission, token: raw.to_owned() })
    };
    let pass_name = cookies::name(Kind::Pass, sale.id(), asked.client.https);
    let pass = only(asked.headers(), (&pass_name, ADMISSION_HEADER), read_pass, |one, other| {
        one.admission.sub == other.admission.sub
    })?;
    let brought_pass = asked.headers().contains_key(ADMISSION_HEADER)
        || cookies::values(asked.headers(), &pass_name).next().is_some();
    let mut visitor = Visitor { ticket: None, pass: None, brought_pass, account };
    for token_account in [
        ticket.as_ref().and_then(|ticket| ticket.account.as_ref()),
        pass.as_ref().and_then(|pass| pass.admission.account.as_ref()),
    ] {
        if standing(token_account, &visitor.account) == Standing::SignIn {
            return Err(sign_in());
        }
    }
    visitor.ticket =
        ticket.filter(|t| standing(t.account.as_ref(), &visitor.account) == Standing::Counts);
    visitor.pass = pass
        .filter(|p| standing(p.admission.account.as_ref(), &visitor.account) == Standing::Counts);
    Ok(visitor)
}

/// 401 that keeps the cookie.
pub(super) fn sign_in() -> Refusal {
    Refusal::new(
        Problem::SignInRequired,
        "this place belongs to an account; sign in to it at the shop, then come back",
    )
}

/// What a token that is tied to an account is worth here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Counts,
    /// It is somebody else's.
    Absent,
    /// Its owner is not signed in.
    SignIn,
}

fn standing(owner: Option<&AccountId>, vouched: &Vouched) -> Standing {
    match (owner, vouched) {
        (None, _) | (Some(_), Vouched::NotAsked | Vouched::Unknown) => Standing::Counts,
        (Some(owner), Vouched::For(account)) if owner == account => Standing::Counts,
        (Some(_), Vouched::For(_)) => Standing::Absent,
        (Some(_), Vouched::Nobody) => Standing::SignIn,
    }
}

/// The one valid token of a header and of all cookies of a name. Forged ones beside it are as if
/// they were not there; two valid ones of different visitors are nobody's word.
fn only<T>(
    headers: &HeaderMap,
    (cookie, header): (&str, &str),
    read: impl Fn(&str) -> Option<T>,
    is_same: impl Fn(&T, &T) -> bool,
) -> Result<Option<T>, Refusal> {
    let in_header = headers.get(header).and_then(|value| value.to_str().ok());
    let mut found: Option<T> = None;
    for raw in in_header.into_iter().chain(cookies::values(headers, cookie)) {
        let Some(token) = read(raw) else { continue };
        match &found {
            Some(known) if !is_same(known, &token) => {
                let cure = "contradicts another token of this request; send only one of them";
                return Err(Refusal::bad_request(header, cure));
            }
            Some(_) => {}
            None => found = Some(token),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_an_account_counts_for_that_account_only() {
        let (ann, bob) = (AccountId::parse("ann").unwrap(), AccountId::parse("bob").unwrap());
        let of = |owner: Option<&AccountId>, vouched| standing(owner, &vouched);
        assert_eq!(of(None, Vouched::Nobody), Standing::Counts);
        assert_eq!(of(Some(&ann), Vouched::For(ann.clone())), Standing::Counts);
        assert_eq!(of(Some(&ann), Vouched::For(bob)), Standing::Absent);
        assert_eq!(of(Some(&ann), Vouched::Nobody), Standing::SignIn);
        assert_eq!(of(Some(&ann), Vouched::Unknown), Standing::Counts);
    }

    #[test]
    fn ed_50_the_valid_one_wins_and_two_different_ones_are_refused() {
        let line = "name=forged; name=11; name=11";
        let mut headers = HeaderMap::from_iter([(hyper::header::COOKIE, line.parse().unwrap())]);
        let read = |raw: &str| raw.parse::<u8>().ok();
        let find = |headers: &HeaderMap| only(headers, ("name", "token"), read, |a, b| a == b);
        assert_eq!(find(&headers).unwrap(), Some(11));

        headers.insert("token", "11".parse().unwrap());
        assert_eq!(find(&headers).unwrap(), Some(11));
        headers.insert("token", "12".parse().unwrap());
        assert_eq!(find(&headers).unwrap_err().http_status(), 400);
    }
}

//! Who asks: tickets and passes from cookies or headers, checked; the account, vouched for.
//! What is not valid does not exist.

use std::sync::Arc;

use hyper::HeaderMap;
use hyper::header::HeaderName;

use super::accounts::Vouched;
use super::asked::Asked;
use super::cookies::Found;
use super::sale::SaleGate;
use crate::domain::admission::{Admission, LEEWAY_MS};
use crate::domain::id::AccountId;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::ticket::Ticket;
use crate::room::keys::Keys;

pub(super) const TICKET_HEADER: HeaderName = HeaderName::from_static("stanchion-ticket");
pub(super) const ADMISSION_HEADER: HeaderName = HeaderName::from_static("stanchion-admission");

/// The right to check out, and the token that proves it to others.
#[derive(Clone)]
pub(super) struct Pass {
    /// What it says.
    pub(super) admission: Arc<Admission>,
    /// The token itself.
    pub(super) token: String,
}

/// What became of a pass on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    /// It is as it was brought.
    NotYet,
    /// It was signed anew, and is to be handed out.
    Done,
    /// The core did not say whether a hold makes it last.
    Unknown,
}

/// What a request proves about its visitor, for one sale.
pub(super) struct Visitor {
    /// The place in line.
    pub(super) ticket: Option<Ticket>,
    /// The right to check out.
    pub(super) pass: Option<Pass>,
    /// One that has run out, if there is none that counts: a hold can make it last.
    pub(super) lapsed: Option<Pass>,
    /// What became of the pass on the way.
    pub(super) renewal: Renewal,
    /// Apps bring it in a header, and read it from there.
    pub(super) pass_by_header: bool,
    /// A pass was brought, valid or not: such a request is never sent around again.
    pub(super) brought_pass: bool,
    /// Who is signed in.
    pub(super) account: Vouched,
}

impl Visitor {
    /// The `sub` that its place or its admission is known by.
    pub(super) fn holder(&self) -> Option<&str> {
        let pass = || self.pass.as_ref().and_then(|pass| self.name(pass));
        self.ticket.as_ref().map(|ticket| ticket.sub.as_str()).or_else(pass)
    }

    /// The `sub` of its admission, if others cannot have one for the asking.
    pub(super) fn name<'a>(&self, pass: &'a Pass) -> Option<&'a str> {
        let sub = pass.admission.sub.as_str();
        let is_own = self.ticket.as_ref().is_some_and(|ticket| ticket.sub == sub);
        (is_own || !pass.admission.is_nameless()).then_some(sub)
    }

    /// The account vouched for.
    pub(super) fn account_id(&self) -> Option<&AccountId> {
        match &self.account {
            Vouched::For(account) => Some(account),
            Vouched::NotAsked | Vouched::Nobody | Vouched::Unknown | Vouched::TooMany(_) => None,
        }
    }

    /// Whether nobody tells who is signed in.
    pub(super) fn account_is_unknown(&self) -> bool {
        matches!(self.account, Vouched::Unknown | Vouched::TooMany(_))
    }

    /// Whether there is nothing of its own to show: no place, no right, no account.
    pub(super) fn is_newcomer(&self) -> bool {
        self.holder().is_none() && self.account_id().is_none()
    }

    /// The same visitor with this place, or with none.
    pub(super) fn with_ticket(&self, ticket: Option<Ticket>) -> Self {
        Self {
            ticket,
            pass: None,
            lapsed: None,
            renewal: Renewal::NotYet,
            pass_by_header: false,
            brought_pass: false,
            account: self.account.clone(),
        }
    }

    /// Whether the request proved neither a place nor a right, not even one that has run out.
    pub(super) fn is_unknown(&self) -> bool {
        self.ticket.is_none() && self.pass.is_none() && self.lapsed.is_none()
    }

    /// Goes on with a pass that was signed anew.
    pub(super) fn take_over(&mut self, pass: Pass) {
        (self.pass, self.lapsed, self.renewal) = (Some(pass), None, Renewal::Done);
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
    let headers = asked.headers();
    let Found { tickets, passes } = Found::among(headers, &sale.cookies, asked.client.https);
    let tickets = Brought { header: in_header(headers, &TICKET_HEADER), cookies: tickets };
    let passes = Brought { header: in_header(headers, &ADMISSION_HEADER), cookies: passes };
    let read_ticket = |raw: &str| keys.read_ticket(raw, sale.id()).filter(|t| t.run == run);
    let ticket = tickets.only(&TICKET_HEADER, read_ticket)?;
    let read_pass = |raw: &str, grace_ms| {
        let admission = keys.read_admission(raw)?;
        let holds = admission.holds(sale.id(), epoch, now_ms, grace_ms);
        holds.then(|| Pass { admission, token: raw.to_owned() })
    };
    let pass = passes.only(&ADMISSION_HEADER, |raw| read_pass(raw, LEEWAY_MS))?;
    let lapsed = match &pass {
        Some(_) => None,
        None => passes.all().filter_map(|raw| read_pass(raw, u64::MAX)).max_by_key(Token::made),
    };
    let pass_by_header = headers.contains_key(ADMISSION_HEADER);
    let brought_pass = pass_by_header || !passes.cookies.is_empty();
    let mut visitor = Visitor {
        ticket: None,
        pass: None,
        lapsed: None,
        renewal: Renewal::NotYet,
        pass_by_header,
        brought_pass,
        account,
    };
    for token_account in [
        ticket.as_ref().and_then(|ticket| ticket.account.as_ref()),
        pass.as_ref().and_then(|pass| pass.admission.account.as_ref()),
    ] {
        if standing(token_account, &visitor.account) == Standing::SignIn {
            return Err(sign_in());
        }
    }
    let counts = |owner: Option<&AccountId>| standing(owner, &visitor.account) == Standing::Counts;
    let ticket = ticket.filter(|ticket| counts(ticket.account.as_ref()));
    let pass = pass.filter(|pass| counts(pass.admission.account.as_ref()));
    let lapsed = lapsed.filter(|pass| counts(pass.admission.account.as_ref()));
    (visitor.ticket, visitor.pass, visitor.lapsed) = (ticket, pass, lapsed);
    Ok(visitor)
}

/// Whether the browser keeps a ticket cookie that is none here: cut, forged, or of another run.
pub(super) fn keeps_dead_ticket(asked: &Asked, sale: &SaleGate) -> bool {
    let kept = Found::among(asked.headers(), &sale.cookies, asked.client.https).tickets;
    !kept.is_empty() && kept.iter().all(|raw| sale.room.ticket(raw).is_none())
}

/// The cookie that a ticket came in, if it did.
pub(super) fn ticket_cookie<'a>(
    asked: &'a Asked,
    sale: &SaleGate,
    ticket: &Ticket,
) -> Option<&'a str> {
    let kept = Found::among(asked.headers(), &sale.cookies, asked.client.https).tickets;
    kept.into_iter().find(|raw| sale.room.ticket(raw).as_ref() == Some(ticket))
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
        (None, _) | (Some(_), Vouched::NotAsked | Vouched::Unknown | Vouched::TooMany(_)) => {
            Standing::Counts
        }
        (Some(owner), Vouched::For(account)) if owner == account => Standing::Counts,
        (Some(_), Vouched::For(_)) => Standing::Absent,
        (Some(_), Vouched::Nobody) => Standing::SignIn,
    }
}

/// A token that was read.
trait Token {
    /// Whose it is.
    fn sub(&self) -> &str;
    /// The newer, the more; of passes, the longer they last.
    fn made(&self) -> u64;
}

impl Token for Ticket {
    fn sub(&self) -> &str {
        &self.sub
    }
    fn made(&self) -> u64 {
        self.issued_at
    }
}

impl Token for Pass {
    fn sub(&self) -> &str {
        &self.admission.sub
    }
    fn made(&self) -> u64 {
        self.admission.exp
    }
}

fn in_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The tokens of one kind that a request brought.
struct Brought<'a> {
    header: Option<&'a str>,
    cookies: Vec<&'a str>,
}

impl<'a> Brought<'a> {
    /// The header's, then the cookies'.
    fn all(&self) -> impl Iterator<Item = &'a str> {
        self.header.into_iter().chain(self.cookies.iter().copied())
    }

    /// The one valid token of them; forged ones beside it are as if they were not there. Of cookies
    /// the newest counts: a browser that joined again may keep an older one beside it. A header
    /// that names another visitor than the cookie is nobody's word.
    fn only<T: Token>(
        &self,
        header: &HeaderName,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Refusal> {
        let in_header = self.header.and_then(&read);
        // Of equally new ones the last that was sent: browsers put the older first.
        let in_cookies = self.cookies.iter().filter_map(|raw| read(raw)).max_by_key(Token::made);
        match (in_header, in_cookies) {
            (Some(one), Some(other)) if one.sub() != other.sub() => {
                let cure = "contradicts another token of this request; send only one of them";
                Err(Refusal::bad_request(header.as_str(), cure))
            }
            (Some(one), Some(other)) if other.made() > one.made() => Ok(Some(other)),
            (one, other) => Ok(one.or(other)),
        }
    }
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

    #[derive(Debug, PartialEq)]
    struct Made(String, u64);

    impl Token for Made {
        fn sub(&self) -> &str {
            &self.0
        }
        fn made(&self) -> u64 {
            self.1
        }
    }

    fn read(raw: &str) -> Option<Made> {
        let (sub, made) = raw.split_once('.')?;
        Some(Made(sub.to_owned(), made.parse().ok()?))
    }

    #[test]
    fn ed_50_wr_42_the_newest_valid_cookie_wins_and_a_header_of_another_is_refused() {
        let find = |header: Option<&str>, cookies: &[&str]| {
            let brought = Brought { header, cookies: cookies.to_vec() };
            brought.only(&TICKET_HEADER, read)
        };
        let ann = ["forged", "ann.10", "ann.11"];
        assert_eq!(find(None, &ann).unwrap(), Some(Made("ann".into(), 11)));

        for (cookies, newest) in [
            (&["bob.12", "ann.11"][..], "bob"),
            (&["ann.11", "bob.12"], "bob"),
            (&["ann.12", "bob.12"], "bob"),
            (&["forged.99.x", "ann.3", ""], "ann"),
        ] {
            assert_eq!(find(None, cookies).unwrap().unwrap().sub(), newest, "{cookies:?}");
        }

        assert_eq!(find(Some("ann.9"), &ann).unwrap(), Some(Made("ann".into(), 11)));
        assert_eq!(find(Some("bob.12"), &ann).unwrap_err().http_status(), 400);
    }
}

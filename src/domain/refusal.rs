//! A named "no" as data: which problem, what to do about it, when to try again.

use serde_json::{Map, Value, json};

/// Every problem that an answer of ours can name; the list is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Problem {
    /// In line; the body says where.
    Waiting,
    /// The lobby has not opened.
    NotOpen,
    /// The sale is over.
    Closed,
    /// The sale asks for a signed-in account.
    SignInRequired,
    /// The shop's sign-in does not answer.
    AccountUnavailable,
    /// The SKU is frozen by the operators.
    Frozen,
    /// Somebody changed the stock meanwhile.
    VersionMismatch,
    /// Stock cannot go below what is held and confirmed.
    BelowTaken,
    /// The position has not been called.
    NotCalled,
    /// The call has lapsed.
    Missed,
    /// The line stands still.
    Paused,
    /// Nothing is available.
    SoldOut,
    /// Less is available than asked for.
    Insufficient,
    /// More units than one buyer may have.
    OverCap,
    /// The hold has run out.
    HoldExpired,
    /// The order was released.
    Released,
    /// The order is confirmed already.
    AlreadyOrdered,
    /// The same request is being worked on.
    InProgress,
    /// The order was paid by another payment.
    PaymentConflict,
    /// The order key was used for another body.
    KeyReused,
    /// No such SKU in this sale.
    UnknownSku,
    /// No such order; it may still arrive.
    UnknownOrder,
    /// No such sale.
    UnknownSale,
    /// No valid admission.
    NotAdmitted,
    /// The sale has all the places it allows.
    SaleFull,
    /// The address has all the places it may have.
    TooManyPlaces,
    /// Too many requests.
    RateLimited,
    /// The request cannot be understood.
    BadRequest,
    /// The body is larger than allowed.
    BodyTooLarge,
    /// Too much to do at the moment.
    Overloaded,
    /// The shop does not answer.
    ShopUnavailable,
    /// The reservation core does not answer.
    CoreUnavailable,
    /// The settings were refused.
    ConfigRefused,
    /// A fault of ours.
    InternalError,
}

use Problem as P;

impl Problem {
    /// All of them, for the catalogue of problem pages.
    #[rustfmt::skip]
    pub const ALL: [Self; 34] = [
        P::Waiting, P::NotOpen, P::Closed, P::SignInRequired, P::AccountUnavailable, P::Frozen,
        P::VersionMismatch, P::BelowTaken, P::NotCalled, P::Missed, P::Paused, P::SoldOut,
        P::Insufficient, P::OverCap, P::HoldExpired, P::Released, P::AlreadyOrdered, P::InProgress,
        P::PaymentConflict, P::KeyReused, P::UnknownSku, P::UnknownOrder, P::UnknownSale,
        P::NotAdmitted, P::SaleFull, P::TooManyPlaces, P::RateLimited, P::BadRequest,
        P::BodyTooLarge, P::Overloaded, P::ShopUnavailable, P::CoreUnavailable, P::ConfigRefused,
        P::InternalError,
    ];

    /// Name, HTTP status and title.
    fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            P::Waiting => ("waiting", 429, "You are in line"),
            P::NotOpen => ("not-open", 409, "The sale has not opened yet"),
            P::Closed => ("closed", 409, "The sale is over"),
            P::SignInRequired => ("sign-in-required", 401, "Please sign in"),
            P::AccountUnavailable => ("account-unavailable", 503, "Sign-in is not answering"),
            P::Frozen => ("frozen", 409, "This item is frozen"),
            P::VersionMismatch => ("version-mismatch", 409, "The stock has changed meanwhile"),
            P::BelowTaken => ("below-taken", 409, "More units are taken than that"),
            P::NotCalled => ("not-called", 409, "It is not your turn yet"),
            P::Missed => ("missed", 409, "Your turn has passed"),
            P::Paused => ("paused", 503, "The line is paused"),
            P::SoldOut => ("sold-out", 409, "Sold out"),
            P::Insufficient => ("insufficient", 409, "Not enough units left"),
            P::OverCap => ("over-cap", 409, "More than one buyer may have"),
            P::HoldExpired => ("hold-expired", 409, "The hold has run out"),
            P::Released => ("released", 409, "The order was released"),
            P::AlreadyOrdered => ("already-ordered", 409, "Already ordered"),
            P::InProgress => ("in-progress", 409, "The same request is in progress"),
            P::PaymentConflict => ("payment-conflict", 409, "Paid by another payment"),
            P::KeyReused => ("key-reused", 422, "Order key used for another order"),
            P::UnknownSku => ("unknown-sku", 404, "No such item"),
            P::UnknownOrder => ("unknown-order", 404, "No such order"),
            P::UnknownSale => ("unknown-sale", 404, "No such sale"),
            P::NotAdmitted => ("not-admitted", 403, "Not admitted"),
            P::SaleFull => ("sale-full", 409, "The line is full"),
            P::TooManyPlaces => ("too-many-places", 429, "Too many places from here"),
            P::RateLimited => ("rate-limited", 429, "Too many requests"),
            P::BadRequest => ("bad-request", 400, "The request cannot be understood"),
            P::BodyTooLarge => ("body-too-large", 413, "The request is too large"),
            P::Overloaded => ("overloaded", 503, "Too busy just now"),
            P::ShopUnavailable => ("shop-unavailable", 502, "The shop is not answering"),
            P::CoreUnavailable => ("core-unavailable", 503, "Checkout is not answering"),
            P::ConfigRefused => ("config-refused", 422, "Settings refused"),
            P::InternalError => ("internal-error", 500, "Something broke"),
        }
    }

    /// The last part of its type URI, `/_stanchion/problems/NAME`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status that usually goes with it.
    pub fn status(self) -> u16 {
        self.row().1
    }

    /// One short sentence for people.
    pub fn title(self) -> &'static str {
        self.row().2
    }

    /// The problem of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|problem| problem.name() == name)
    }
}

/// The member of a refusal that names what was filled in wrong.
pub const FIELD: &str = "field";

/// A refusal: the problem and its cure. RFC 9457 gives its shape on the wire.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Which "no".
    pub problem: Problem,
    /// What happened and what to do, for this very request.
    pub detail: String,
    /// When trying again makes sense, in milliseconds from now.
    pub retry_after_ms: Option<u64>,
    /// A status other than the problem's usual one, as 504 for a shop that is slow.
    status: Option<u16>,
    extra: Map<String, Value>,
}

impl Refusal {
    /// A refusal without a time to come back at.
    pub fn new(problem: Problem, detail: impl Into<String>) -> Self {
        let (detail, extra) = (detail.into(), Map::new());
        Self { problem, detail, retry_after_ms: None, status: None, extra }
    }

    /// 400 that names the field and the cure.
    pub fn bad_request(field: &str, cure: impl std::fmt::Display) -> Self {
        Self::new(P::BadRequest, format!("{field}: {cure}")).with(FIELD, field)
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// Overrides the problem's usual status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds a member to the body.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.to_owned(), value.into());
        self
    }

    /// A member that is text.
    pub fn member(&self, name: &str) -> Option<&str> {
        self.extra.get(name)?.as_str()
    }

    /// The HTTP status.
    pub fn http_status(&self) -> u16 {
        self.status.unwrap_or_else(|| self.problem.status())
    }

    /// `Retry-After`: whole seconds, rounded up.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after_ms.map(|ms| ms.div_ceil(1000).max(1))
    }

    /// The problem+json body.
    pub fn to_json(&self) -> Value {
        let mut body = self.extra.clone();
        body.insert("type".into(), format!("/_stanchion/problems/{}", self.problem.name()).into());
        body.insert("title".into(), self.problem.title().into());
        body.insert("status".into(), self.http_status().into());
        body.insert("detail".into(), json!(self.detail));
        body.insert("code".into(), self.problem.name().into());
        if let Some(ms) = self.retry_after_ms {
            body.insert("retry_after_ms".into(), ms.into());
        }
        Value::Object(body)
    }
}

/// A wait put off by up to a fifth, by a chance out of all `u32`s: who were refused together do not
/// come back together. It is never shorter than is true.
pub fn spread(wait_ms: u64, chance: u32) -> u64 {
    let more = u128::from(wait_ms / 5) * u128::from(chance) / u128::from(u32::MAX);
    wait_ms.saturating_add(u64::try_from(more).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_problem_has_its_own_name_and_an_error_status() {
        let names: HashSet<_> = P::ALL.iter().map(|problem| problem.name()).collect();
        assert_eq!(names.len(), P::ALL.len());
        for problem in P::ALL {
            assert!((400..600).contains(&problem.status()));
            assert_eq!(Problem::named(problem.name()), Some(problem));
        }
    }

    #[test]
    fn who_are_refused_together_come_back_over_a_fifth_of_their_wait() {
        let told = [0, u32::MAX / 2, u32::MAX].map(|chance| spread(1_000, chance));
        assert_eq!(told, [1_000, 1_099, 1_200]);
    }

    proptest! {
        #[test]
        fn no_wait_is_shortened_or_put_off_by_more_than_a_fifth(
            wait_ms in any::<u64>(), chance in any::<u32>(),
        ) {
            let told = spread(wait_ms, chance);
            prop_assert!(told >= wait_ms && told - wait_ms <= wait_ms / 5);
        }
    }

    #[test]
    fn a_refusal_rounds_its_wait_up_and_keeps_the_exact_one_in_the_body() {
        let refusal = Refusal::new(P::RateLimited, "slow down").retry_after_ms(1001);
        assert_eq!(refusal.retry_after_seconds(), Some(2));
        assert_eq!(refusal.to_json()["retry_after_ms"], 1001);
        assert_eq!(refusal.to_json()["type"], "/_stanchion/problems/rate-limited");
    }
}

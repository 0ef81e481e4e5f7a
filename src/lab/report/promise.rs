//! The promises by name, and what can be said about one.

use serde::Serialize;

/// The twelve promises, in the order of the README.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are the documentation; README has a row for each")]
pub enum Promise {
    NeverOversell,
    NoUnitLost,
    OneClickOneOrder,
    LedgerShielded,
    ExactRate,
    FullUse,
    FairDraw,
    PlaceKept,
    OnePlacePerAccount,
    OnlyTheAdmitted,
    HonestPage,
    StopInASecond,
}

impl Promise {
    /// All twelve.
    pub const ALL: [Self; 12] = [
        Self::NeverOversell,
        Self::NoUnitLost,
        Self::OneClickOneOrder,
        Self::LedgerShielded,
        Self::ExactRate,
        Self::FullUse,
        Self::FairDraw,
        Self::PlaceKept,
        Self::OnePlacePerAccount,
        Self::OnlyTheAdmitted,
        Self::HonestPage,
        Self::StopInASecond,
    ];

    /// Those that every run of the crowd has to check and find true.
    pub const REQUIRED: [Self; 8] = [
        Self::NeverOversell,
        Self::NoUnitLost,
        Self::OneClickOneOrder,
        Self::LedgerShielded,
        Self::ExactRate,
        Self::FairDraw,
        Self::OnlyTheAdmitted,
        Self::HonestPage,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NeverOversell => "never-oversell",
            Self::NoUnitLost => "no-unit-lost",
            Self::OneClickOneOrder => "one-click-one-order",
            Self::LedgerShielded => "ledger-shielded",
            Self::ExactRate => "exact-rate",
            Self::FullUse => "full-use",
            Self::FairDraw => "fair-draw",
            Self::PlaceKept => "place-kept",
            Self::OnePlacePerAccount => "one-place-per-account",
            Self::OnlyTheAdmitted => "only-the-admitted",
            Self::HonestPage => "honest-page",
            Self::StopInASecond => "stop-in-a-second",
        }
    }
}

/// What a run showed of one promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Nothing when the run did not check it.
    pub holds: Option<bool>,
    /// The numbers behind it, or why it was not checked.
    pub evidence: String,
}

impl Verdict {
    /// Checked and found true.
    pub fn kept(evidence: impl Into<String>) -> Self {
        Self { holds: Some(true), evidence: evidence.into() }
    }

    /// Checked and found false.
    pub fn broken(evidence: impl Into<String>) -> Self {
        Self { holds: Some(false), evidence: evidence.into() }
    }

    /// Not checked, and why.
    pub fn unchecked(reason: impl Into<String>) -> Self {
        Self { holds: None, evidence: reason.into() }
    }

    /// Broken if there is any fault, else kept.
    pub(super) fn of(faults: &[String], kept: impl Into<String>) -> Self {
        match faults {
            [] => Self::kept(kept),
            some => {
                let more = some.len().saturating_sub(5);
                let shown = some[..some.len() - more].join("; ");
                let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
                Self::broken(shown + &rest)
            }
        }
    }
}

//! Staff passes: signed, counted ways past the line, outside the rate.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::id::SaleId;
use super::refusal::{Problem, Refusal};

/// The `typ` of a pass' header.
pub const PASS_TYP: &str = "stanchion-pass+jwt";
/// The most uses of one pass.
pub const USES_MAX: u32 = 10_000;
/// The longest that a pass may last, in milliseconds.
pub const LASTS_MS_MAX: u64 = 90 * 24 * 3_600_000;

/// What a pass says. How often it was used, and whether it was revoked, is in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// The sale it is for.
    #[serde(rename = "aud")]
    pub sale: SaleId,
    /// Its number in the ledger.
    #[serde(rename = "jti")]
    pub id: Uuid,
    /// Unix seconds.
    pub exp: u64,
}

/// One use of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// Which use, from 1.
    pub number: u64,
    /// Of how many.
    pub uses: u64,
    /// The same redemption was asked for before: nothing more was counted.
    pub again: bool,
}

/// Why a pass does not count; the text is for whoever brought it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPass {
    /// There is no such pass of this sale.
    #[error("this pass is not known; ask for a new one")]
    Unknown,
    /// It was revoked.
    #[error("this pass was revoked; ask for a new one")]
    Revoked,
    /// It has run out.
    #[error("this pass has run out; ask for a new one")]
    Expired,
    /// All its uses are used.
    #[error("this pass was used {uses} of {uses} times; ask for a new one")]
    UsedUp {
        /// How many there were.
        uses: u64,
    },
}

impl BadPass {
    /// 403, with a word for programs.
    pub fn refusal(self) -> Refusal {
        let reason = match self {
            Self::Unknown => "unknown",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::UsedUp { .. } => "used-up",
        };
        Refusal::new(Problem::NotAdmitted, self.to_string()).with("reason", reason)
    }
}

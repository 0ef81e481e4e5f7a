//! What was seen of places: the tickets, and what they outlived.

use super::observations::{AdmissionSeen, AheadSeen};
use super::plan::Detour;

/// Something that everybody in line has to survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upheaval {
    /// What it was.
    pub event: Event,
    /// When it came, Unix milliseconds of the crowd's clock.
    pub from_ms: u64,
    /// When it was over.
    pub over_ms: Option<u64>,
}

/// What a place was seen to survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// Something that the shopper did.
    Detour(Detour),
    /// The account's other device joined, too.
    OtherDevice,
    /// Redis lost everything.
    Flush,
    /// The sale was stopped and resumed.
    Stop,
}

impl Event {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Detour(Detour::Reload) => "reload",
            Self::Detour(Detour::NewTab) => "closed tab",
            Self::Detour(Detour::Restart) => "restarted browser",
            Self::Detour(Detour::LostCookies) => "lost cookies",
            Self::OtherDevice => "second device",
            Self::Flush => "flushed Redis",
            Self::Stop => "stop",
        }
    }
}

/// A place as told at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlaceSeen {
    /// The ticket's subject.
    pub visitor: Option<String>,
    /// The number of the lobby join.
    pub entry: Option<u64>,
    /// The fixed number in line.
    pub position: Option<u64>,
    /// How many were said to be ahead.
    pub ahead: Option<AheadSeen>,
}

/// A place before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSeen {
    /// What came between.
    pub event: Event,
    /// As told last before it.
    pub before: PlaceSeen,
    /// As told first after it.
    pub after: PlaceSeen,
}

/// What a ticket says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketSeen {
    /// The drawing it is for.
    pub run: u64,
    /// `e17` or `l5`.
    pub number: String,
    /// Its subject.
    pub sub: String,
    /// The account that it is tied to.
    pub account: Option<String>,
}

/// What a second device of the same account saw.
#[derive(Debug, Clone, Default)]
pub struct DeviceSeen {
    /// The tickets received.
    pub tickets: Vec<TicketSeen>,
    /// `ahead`, whenever it changed.
    pub ahead: Vec<AheadSeen>,
    /// Admissions received.
    pub admissions: Vec<AdmissionSeen>,
}

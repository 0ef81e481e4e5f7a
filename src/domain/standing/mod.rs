//! Is the line moving? One light and one plain sentence about a sale, and the alarm of a line that
//! stands although it should not.

use std::borrow::Cow;

use super::beacon;
use super::rate::Rate;
use super::sale::Phase;
use super::stock::{StockSum, Supply};

/// A draw takes moments; after this long somebody has to look, in milliseconds.
const DRAWING_MS_MAX: u64 = 5_000;
/// Nobody admitted for so long is an alarm, in milliseconds.
const STUCK_MS_MIN: u64 = 5_000;
/// … or for so many turns, at a low rate.
const STUCK_TURNS: f64 = 3.0;

/// What a node sees of a sale at one moment.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent facts, seen and not chosen"
)]
pub struct Sight {
    /// Unix milliseconds on the room's clock.
    pub now_ms: u64,
    /// Where it stands.
    pub phase: Phase,
    /// Redis answers and has the room.
    pub is_live: bool,
    /// The shop does not answer this node.
    pub shop_is_down: bool,
    /// The beacon round that the draw is to be mixed with; 0 = none.
    pub round: u64,
    /// Paused by order.
    pub is_paused: bool,
    /// Everybody is let past the line.
    pub is_bypassed: bool,
    /// What can be had; nothing without a healthy core.
    pub stock: Option<StockSum>,
    /// Places not called yet.
    pub waiting: u64,
    /// Called places that have claimed in this epoch.
    pub admitted: u64,
    /// As many admissions are open as `max_active` allows.
    pub is_full: bool,
    /// Those called and let in are believed to take all that is left, and the sale looks at that.
    pub is_spoken_for: bool,
    /// Admissions per second as set.
    pub rate: Rate,
    /// Unix milliseconds.
    pub opens_ms: u64,
    /// Unix milliseconds.
    pub closes_ms: u64,
}

/// What the light says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Light {
    /// As it should be.
    Green,
    /// Nothing moves, and that is in order or somebody's decision.
    Amber,
    /// Somebody has to look.
    Red,
}

impl Light {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Amber => "amber",
            Self::Red => "red",
        }
    }
}

/// Why the line moves or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Redis does not answer, or does not have the room.
    NoRoom,
    /// The opening has passed or will be after the close.
    WillNotOpen,
    /// It is paused, and will be when it opens.
    PausedBeforeOpening,
    /// Announced.
    Upcoming,
    /// Joining.
    Lobby,
    /// Moments before the order is known.
    Drawing,
    /// The draw waits for a beacon round that is yet to be published.
    BeaconAhead(u64),
    /// The same, and it is published.
    BeaconDue(u64),
    /// It should have opened, and the draw is not made.
    NotDrawn,
    /// Over.
    Closed,
    /// By order.
    Paused,
    /// No shop that answers.
    ShopDown,
    /// No healthy core.
    NoCore,
    /// Everybody goes through.
    Bypassed,
    /// Nobody is admitted, and nothing explains it.
    Stuck,
    /// All units are sold.
    Gone,
    /// All units are held or sold.
    AllHeld,
    /// `max_active` is reached.
    Full,
    /// Those who are in may take all that is left.
    SpokenFor,
    /// There is nobody to call.
    NobodyWaits,
    /// People are let in.
    Moving,
}

impl Standing {
    /// Judges; `is_stuck` is what [`LineWatch`] found.
    pub fn of(sight: &Sight, is_stuck: bool) -> Self {
        if !sight.is_live {
            return Self::NoRoom;
        }
        let is_ahead = matches!(sight.phase, Phase::Upcoming | Phase::Lobby);
        match sight.phase {
            Phase::Closed if sight.opens_ms >= sight.closes_ms => Self::WillNotOpen,
            Phase::Closed => Self::Closed,
            _ if is_ahead && sight.opens_ms >= sight.closes_ms => Self::WillNotOpen,
            _ if is_ahead && sight.is_paused => Self::PausedBeforeOpening,
            Phase::Upcoming => Self::Upcoming,
            Phase::Lobby => Self::Lobby,
            Phase::Drawing if sight.round > 0 => {
                let due_ms = beacon::published_at_ms(sight.round).saturating_add(DRAWING_MS_MAX);
                if sight.now_ms < due_ms {
                    Self::BeaconAhead(sight.round)
                } else {
                    Self::BeaconDue(sight.round)
                }
            }
            Phase::Drawing if sight.now_ms.saturating_sub(sight.opens_ms) > DRAWING_MS_MAX => {
                Self::NotDrawn
            }
            Phase::Drawing => Self::Drawing,
            Phase::Open => Self::of_open(sight, is_stuck),
        }
    }

    fn of_open(sight: &Sight, is_stuck: bool) -> Self {
        let Some(stock) = sight.stock else {
            return if sight.is_paused { Self::Paused } else { Self::NoCore };
        };
        match stock.supply() {
            _ if sight.is_paused => Self::Paused,
            _ if sight.shop_is_down => Self::ShopDown,
            _ if sight.is_bypassed => Self::Bypassed,
            Supply::Gone => Self::Gone,
            Supply::AllHeld => Self::AllHeld,
            Supply::Available if sight.is_full => Self::Full,
            Supply::Available if is_stuck => Self::Stuck,
            Supply::Available if sight.waiting == 0 => Self::NobodyWaits,
            Supply::Available if sight.is_spoken_for => Self::SpokenFor,
            Supply::Available => Self::Moving,
        }
    }

    /// Its word in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoRoom => "no-room",
            Self::WillNotOpen => "will-not-open",
            Self::PausedBeforeOpening => "paused-before-opening",
            Self::Upcoming => "upcoming",
            Self::Lobby => "lobby",
            Self::Drawing => "drawing",
            Self::BeaconAhead(_) => "beacon-ahead",
            Self::BeaconDue(_) => "beacon-due",
            Self::NotDrawn => "not-drawn",
            Self::Closed => "closed",
            Self::Paused => "paused",
            Self::ShopDown => "shop-down",
            Self::NoCore => "no-core",
            Self::Bypassed => "bypassed",
            Self::Stuck => "stuck",
            Self::Gone => "gone",
            Self::AllHeld => "all-held",
            Self::Full => "full",
            Self::SpokenFor => "spoken-for",
            Self::NobodyWaits => "nobody-waits",
            Self::Moving => "moving",
        }
    }

    /// Its light.
    pub fn light(self) -> Light {
        match self {
            Self::Moving | Self::NobodyWaits | Self::Lobby | Self::Upcoming | Self::Drawing => {
                Light::Green
            }
            Self::Paused
            | Self::BeaconAhead(_)
            | Self::PausedBeforeOpening
            | Self::Closed
            | Self::Bypassed
            | Self::Gone
            | Self::AllHeld
            | Self::SpokenFor
            | Self::Full => Light::Amber,
            Self::NoRoom
            | Self::WillNotOpen
            | Self::BeaconDue(_)
            | Self::NotDrawn
            | Self::ShopDown
            | Self::NoCore
            | Self::Stuck => Light::Red,
        }
    }

    /// A few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::NoRoom => "Out of reach",
            Self::WillNotOpen => "Will not open",
            Self::PausedBeforeOpening => "Paused before the opening",
            Self::Upcoming => "Announced",
            Self::Lobby => "Lobby is open",
            Self::Drawing => "Drawing",
            Self::BeaconAhead(_) | Self::BeaconDue(_) => "Waiting for the beacon",
            Self::NotDrawn => "The draw is not made",
            Self::Closed => "Closed",
            Self::Paused => "Paused",
            Self::ShopDown => "Standing: the shop does not answer",
            Self::NoCore => "Standing: no core",
            Self::Bypassed => "Bypassed",
            Self::Stuck => "Stuck",
            Self::Gone => "Sold out",
            Self::AllHeld => "All units are held",
            Self::Full => "Full",
            Self::SpokenFor => "All units are spoken for",
            Self::NobodyWaits => "Nobody waits",
            Self::Moving => "The line is moving",
        }
    }

    /// What it means, and what to do if something is to be done.
    pub fn sentence(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::BeaconAhead(round) | Self::BeaconDue(round) => {
                return Cow::Owned(format!(
                    "Entries are closed, and the order waits for beacon round {round}: bring it with \
                     `stanchion draw beacon`. If it was brought, look at the cores and Postgres."
                ));
            }
            Self::ShopDown => {
                "The shop does not answer, so nobody is called or let in; places are kept. The line \
                 moves again as soon as it answers."
            }
            Self::NoRoom => {
                "Redis does not answer, or a core has yet to load this sale into it. Places are \
                 kept; nobody joins or enters."
            }
            Self::WillNotOpen => {
                "This sale will not open: it closes before it opens. Set its times."
            }
            Self::PausedBeforeOpening => {
                "It will open paused: nobody will be let in until it is resumed."
            }
            Self::Upcoming => "Nobody can join yet.",
            Self::Lobby => "Shoppers join the draw; the line moves from the opening on.",
            Self::Drawing => "The order is being drawn.",
            Self::NotDrawn => {
                "The opening has passed and the order is not drawn: a core has to make it durable. \
                 Look at the cores and Postgres."
            }
            Self::Closed => "This sale is over.",
            Self::Paused => "Paused by order: nobody is let in, places are kept.",
            Self::NoCore => {
                "No healthy core tells of the stock, so nobody is let in. Look at the cores and \
                 Postgres."
            }
            Self::Bypassed => "Everybody is let past the line until the bypass ends.",
            Self::Stuck => {
                "People wait, units are free, and nobody is admitted. Look at the nodes and their \
                 logs."
            }
            Self::Gone => "Every unit is sold.",
            Self::AllHeld => "Every unit is held or sold; held units may come back.",
            Self::Full => {
                "As many shoppers are in as max_active allows; the line waits for one to go."
            }
            Self::SpokenFor => {
                "Those who are in may take all that is left; the line waits for what they leave."
            }
            Self::NobodyWaits => "Whoever comes now is let in at once.",
            Self::Moving => "People wait and are let in at the set rate.",
        })
    }
}

impl Sight {
    /// Whether somebody should be admitted every now and then.
    fn should_move(&self) -> bool {
        let has_stock = self.stock.is_some_and(|stock| stock.supply() == Supply::Available);
        let stands = self.is_paused
            || self.shop_is_down
            || self.is_bypassed
            || self.is_full
            || self.is_spoken_for;
        self.is_live && self.phase == Phase::Open && has_stock && !stands && self.waiting > 0
    }
}

/// Notices a line that should move and does not.
#[derive(Debug, Default)]
pub struct LineWatch {
    admitted: u64,
    /// Since when nobody was admitted although somebody should have been.
    since_ms: Option<u64>,
}

impl LineWatch {
    /// Takes a look; whether the line is stuck.
    pub fn look(&mut self, sight: &Sight) -> bool {
        let moved = sight.admitted != self.admitted;
        self.admitted = sight.admitted;
        if moved || !sight.should_move() {
            self.since_ms = None;
        }
        if !sight.should_move() {
            return false;
        }
        let since_ms = *self.since_ms.get_or_insert(sight.now_ms);
        sight.now_ms.saturating_sub(since_ms) >= patience_ms(sight.rate)
    }
}

/// The longest that nobody may be admitted, in milliseconds: 5 s, or three turns at a low rate.
fn patience_ms(rate: Rate) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is positive"
    )]
    let turns_ms = (STUCK_TURNS * 1_000.0 / rate.get()).ceil() as u64;
    // The alarm is there within 5 s: the look that finds it comes up to a second later.
    turns_ms.max(STUCK_MS_MIN - 1_000)
}

#[cfg(test)]
mod tests;

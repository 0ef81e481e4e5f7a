//! Is the line moving? One light and one plain sentence about a sale, and the alarm of a line that
//! stands although it should not.

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
    /// It should have opened, and the draw is not made.
    NotDrawn,
    /// Over.
    Closed,
    /// By order.
    Paused,
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

    /// Its light.
    pub fn light(self) -> Light {
        match self {
            Self::Moving | Self::NobodyWaits | Self::Lobby | Self::Upcoming | Self::Drawing => {
                Light::Green
            }
            Self::Paused
            | Self::PausedBeforeOpening
            | Self::Closed
            | Self::Bypassed
            | Self::Gone
            | Self::AllHeld
            | Self::SpokenFor
            | Self::Full => Light::Amber,
            Self::NoRoom | Self::WillNotOpen | Self::NotDrawn | Self::NoCore | Self::Stuck => {
                Light::Red
            }
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
            Self::NotDrawn => "The draw is not made",
            Self::Closed => "Closed",
            Self::Paused => "Paused",
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
    pub fn sentence(self) -> &'static str {
        match self {
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
        }
    }
}

impl Sight {
    /// Whether somebody should be admitted every now and then.
    fn should_move(&self) -> bool {
        let has_stock = self.stock.is_some_and(|stock| stock.supply() == Supply::Available);
        let stands = self.is_paused || self.is_bypassed || self.is_full || self.is_spoken_for;
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
mod tests {
    use super::*;

    fn sight() -> Sight {
        Sight {
            now_ms: 100_000,
            phase: Phase::Open,
            is_live: true,
            is_paused: false,
            is_bypassed: false,
            stock: Some(StockSum { available: 5, held: 1, confirmed: 2 }),
            waiting: 10,
            admitted: 3,
            is_full: false,
            is_spoken_for: false,
            rate: Rate::per_second(10.0).unwrap(),
            opens_ms: 50_000,
            closes_ms: 500_000,
        }
    }

    #[test]
    fn each_reason_for_a_standing_line_has_its_own_words() {
        let stock = |available, held| Some(StockSum { available, held, confirmed: 9 });
        let cases = [
            (sight(), Standing::Moving),
            (Sight { waiting: 0, ..sight() }, Standing::NobodyWaits),
            (Sight { is_paused: true, ..sight() }, Standing::Paused),
            (Sight { is_paused: true, stock: None, ..sight() }, Standing::Paused),
            (Sight { stock: None, ..sight() }, Standing::NoCore),
            (Sight { stock: stock(0, 0), ..sight() }, Standing::Gone),
            (Sight { stock: stock(0, 1), ..sight() }, Standing::AllHeld),
            (Sight { is_full: true, ..sight() }, Standing::Full),
            (Sight { is_spoken_for: true, ..sight() }, Standing::SpokenFor),
            (Sight { is_spoken_for: true, waiting: 0, ..sight() }, Standing::NobodyWaits),
            (Sight { is_bypassed: true, ..sight() }, Standing::Bypassed),
            (Sight { is_live: false, ..sight() }, Standing::NoRoom),
            (Sight { phase: Phase::Closed, ..sight() }, Standing::Closed),
            (Sight { phase: Phase::Lobby, ..sight() }, Standing::Lobby),
            (
                Sight { phase: Phase::Lobby, is_paused: true, ..sight() },
                Standing::PausedBeforeOpening,
            ),
            (Sight { phase: Phase::Drawing, opens_ms: 99_000, ..sight() }, Standing::Drawing),
            (Sight { phase: Phase::Drawing, ..sight() }, Standing::NotDrawn),
        ];
        for (sight, standing) in cases {
            assert_eq!(Standing::of(&sight, false), standing, "{sight:?}");
        }
    }

    #[test]
    fn wr_20_a_sale_whose_times_exclude_each_other_will_not_open() {
        for phase in [Phase::Upcoming, Phase::Lobby, Phase::Closed] {
            let sight = Sight { phase, opens_ms: 9, closes_ms: 9, ..sight() };
            let standing = Standing::of(&sight, false);
            assert_eq!((standing, standing.light()), (Standing::WillNotOpen, Light::Red));
        }
    }

    #[test]
    fn wr_76_a_line_that_stands_for_nothing_is_an_alarm_within_five_seconds() {
        let mut watch = LineWatch::default();
        let mut at = |now_ms, change: &dyn Fn(&mut Sight)| {
            let mut sight = Sight { now_ms, ..sight() };
            change(&mut sight);
            watch.look(&sight)
        };
        assert!(!at(0, &|_| {}) && !at(3_000, &|_| {}));
        assert!(at(4_000, &|_| {}), "nobody was admitted");
        assert!(!at(5_000, &|sight| sight.admitted += 1), "somebody was");
        assert!(!at(8_000, &|sight| sight.admitted += 1));
        assert!(at(9_000, &|sight| sight.admitted += 1));
        assert!(!at(10_000, &|sight| sight.is_paused = true), "it stands by order");
        assert!(!at(11_000, &|_| {}), "and has its time again");
    }

    #[test]
    fn at_a_low_rate_three_turns_must_have_passed() {
        assert_eq!(patience_ms(Rate::per_second(0.2).unwrap()), 15_000);
        assert_eq!(patience_ms(Rate::per_second(100.0).unwrap()), 4_000);
    }
}

//! What a control record is asked to become, and where it is not as the file says.

use jiff::Timestamp;

use crate::config::settings::Sale;
use crate::config::span::Span;
use crate::domain::id::SaleId;
use crate::domain::rate::Rate;
use crate::domain::sale::Control;

/// Changed values of a sale's hot keys; `None` = as before.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Of this sale.
    pub sale: SaleId,
    /// Admissions per second.
    pub rate: Option<Rate>,
    /// Whether the line stands still.
    pub paused: Option<bool>,
    /// Admissions at once after an idle moment.
    pub burst: Option<u32>,
    /// Cap on open admissions; 0 = none.
    pub max_active: Option<u32>,
    /// How long a called visitor may take to claim.
    pub claim_window: Option<Span>,
    /// When joining begins; until the draw.
    pub lobby_opens: Option<Timestamp>,
    /// The draw; until it.
    pub opens: Option<Timestamp>,
    /// The end; until the draw.
    pub closes: Option<Timestamp>,
}

impl Change {
    /// Of nothing.
    pub fn none(sale: SaleId) -> Self {
        Self {
            sale,
            rate: None,
            paused: None,
            burst: None,
            max_active: None,
            claim_window: None,
            lobby_opens: None,
            opens: None,
            closes: None,
        }
    }

    /// What differs of the same sale in two files, if anything does.
    pub(super) fn between(old: &Sale, new: &Sale) -> Option<Self> {
        fn changed<T: PartialEq + Copy>(old: T, new: T) -> Option<T> {
            (old != new).then_some(new)
        }
        let change = Self {
            sale: new.id.clone(),
            rate: changed(old.rate, new.rate),
            paused: changed(old.paused, new.paused),
            burst: changed(old.burst, new.burst),
            max_active: changed(old.max_active, new.max_active),
            claim_window: changed(old.claim_window, new.claim_window),
            lobby_opens: changed(old.lobby_opens, new.lobby_opens),
            opens: changed(old.opens, new.opens),
            closes: changed(old.closes, new.closes),
        };
        (!change.is_none()).then_some(change)
    }

    /// Whether it changes nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::none(self.sale.clone())
    }

    /// Both, the later one where they speak of the same key.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        Self {
            sale: later.sale,
            rate: later.rate.or(self.rate),
            paused: later.paused.or(self.paused),
            burst: later.burst.or(self.burst),
            max_active: later.max_active.or(self.max_active),
            claim_window: later.claim_window.or(self.claim_window),
            lobby_opens: later.lobby_opens.or(self.lobby_opens),
            opens: later.opens.or(self.opens),
            closes: later.closes.or(self.closes),
        }
    }

    /// The part that is taken only until the draw, and the rest.
    #[must_use]
    pub fn split_times(self) -> (Self, Self) {
        let mut times = Self::none(self.sale.clone());
        (times.lobby_opens, times.opens, times.closes) =
            (self.lobby_opens, self.opens, self.closes);
        let rest = Self { lobby_opens: None, opens: None, closes: None, ..self };
        (times, rest)
    }

    /// The keys that it would change, as they are called in a file.
    pub fn keys(&self) -> Vec<&'static str> {
        let asked = [
            ("rate", self.rate.is_some()),
            ("paused", self.paused.is_some()),
            ("burst", self.burst.is_some()),
            ("max_active", self.max_active.is_some()),
            ("claim_window", self.claim_window.is_some()),
            ("lobby_opens", self.lobby_opens.is_some()),
            ("opens", self.opens.is_some()),
            ("closes", self.closes.is_some()),
        ];
        asked.into_iter().filter_map(|(key, is)| is.then_some(key)).collect()
    }
}

/// Where the record in force is not as the file says, as `drop rate: file 200/s, in force 50/s`.
pub fn differing(sale: &Sale, record: &Control) -> Vec<String> {
    let file = sale.control("");
    let time = |ms: u64| {
        let at = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        at.map_or_else(|| ms.to_string(), |at| at.to_string())
    };
    let span = |ms: u64| Span::millis(ms).to_string();
    let whole = |value: u32| value.to_string();
    let both = |of: &dyn Fn(&Control) -> String| (of(&file), of(record));
    let pairs = [
        ("rate", both(&|control| control.rate.to_string())),
        ("paused", both(&|control| control.paused.to_string())),
        ("burst", both(&|control| whole(control.burst))),
        ("max_active", both(&|control| whole(control.max_active))),
        ("claim_window", both(&|control| span(control.claim_window_ms))),
        ("lobby_opens", both(&|control| time(control.lobby_opens_ms))),
        ("opens", both(&|control| time(control.opens_ms))),
        ("closes", both(&|control| time(control.closes_ms))),
    ];
    let differ = pairs.into_iter().filter(|(_, (file, record))| file != record);
    differ
        .map(|(key, (file, record))| format!("{} {key}: file {file}, in force {record}", sale.id))
        .collect()
}

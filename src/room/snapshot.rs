//! The room as last seen by this node: all that a waiting visitor's answer needs.

use std::collections::HashSet;
use std::sync::Arc;

use crate::domain::beacon;
use crate::domain::demand::Decisions;
use crate::domain::draw::{ALGORITHM, Draw, Proof};
use crate::domain::holes::{Gaps, Holes};
use crate::domain::id::SaleId;
use crate::domain::left::Left;
use crate::domain::line::{Lapses, OpenAdmissions};
use crate::domain::meter::Meter;
use crate::domain::order::Order;
use crate::domain::presence::Presence;
use crate::domain::sale::{Control, Phase};
use crate::domain::status::rfc3339;
use crate::domain::stock::{Figures, StockSum};
use crate::store::redis::room::{Known, Opening, RoomState};

/// A snapshot older than this says that Redis is out of reach, in milliseconds.
const STALE_MS: u64 = 2_000;

/// The room at one instant of Redis' clock.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent facts, seen and not chosen"
)]
pub struct Snapshot {
    /// The control record.
    pub control: Control,
    /// The permutation, once the sale has opened.
    pub draw: Option<Arc<Draw>>,
    /// The positions that nobody has, once the sale has opened.
    pub gaps: Arc<Gaps>,
    /// The published hash of the seed, in hex; "" until it is known.
    pub commitment: String,
    /// The beacon round committed to; 0 = none.
    pub round: u64,
    /// Positions below it have been called.
    pub cursor: u64,
    /// Positions handed out: n + latecomers; before the draw, joins so far.
    pub line: u64,
    /// Called positions that have claimed in this epoch.
    pub claimed: u64,
    /// Those whose admission was signed.
    pub admitted: u64,
    /// Open admissions.
    pub open: OpenAdmissions,
    /// Who was heard from lately.
    pub presence: Arc<Presence>,
    /// The meter, for its lead.
    pub meter: Meter,
    /// The figures last written by a core.
    pub figures: Option<Figures>,
    /// Places given up.
    pub left: Arc<Left>,
    /// Positions that have missed both windows in this epoch.
    missed: Arc<HashSet<u64>>,
    /// How many of both lists were read from this server.
    read: Known,
    pub(super) decisions: Decisions,
    pub(super) units_told: u64,
    pub(super) lapses: Lapses,
    pub(super) loaded_ms: u64,
    /// Whether this node sees no shop to send anybody to.
    pub shop_is_down: bool,
    /// Whether orders of this node wait in vain; what there is to sell is no reason to call then.
    core_is_slow: bool,
    frozen: bool,
    pub(super) opening: Option<Opening>,
    /// Since when this node has seen that opening in this server's room.
    pub(super) order: Order<(Opening, u64)>,
    pub(super) holes: Holes,
    is_loaded: bool,
    seen_ms: u64,
    /// When a store last told the control record; 0 = never.
    told_ms: u64,
    told_by: Reach,
}

/// Which store tells this node what is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Redis.
    Redis,
    /// The core, in place of a Redis that does not answer.
    Core,
    /// Neither: the values last known stay, and a stop cannot reach this node.
    Nobody,
}

impl Reach {
    /// Its word in APIs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Core => "core",
            Self::Nobody => "nobody",
        }
    }
}

impl Snapshot {
    /// What is known before Redis was seen.
    pub(super) fn unseen(control: Control) -> Self {
        Self {
            meter: Meter::new(control.rate, control.burst),
            control,
            draw: None,
            gaps: Arc::default(),
            commitment: String::new(),
            round: 0,
            cursor: 0,
            line: 0,
            claimed: 0,
            admitted: 0,
            open: OpenAdmissions::default(),
            presence: Arc::default(),
            figures: None,
            left: Arc::default(),
            missed: Arc::default(),
            read: Known::default(),
            decisions: Decisions::default(),
            units_told: 0,
            lapses: Lapses::default(),
            loaded_ms: 0,
            shop_is_down: false,
            core_is_slow: false,
            frozen: false,
            opening: None,
            order: Order::default(),
            holes: Holes::default(),
            is_loaded: false,
            seen_ms: 0,
            told_ms: 0,
            told_by: Reach::Nobody,
        }
    }

    /// With a store's control record. What this node knows already may be newer: a Redis that came
    /// back may not have heard yet what the core took meanwhile.
    pub(super) fn told(&self, now_ms: u64, by: Reach, control: &Control) -> Self {
        let control = match self.told_ms {
            0 => control.clone(),
            _ => self.control.merged(control),
        };
        let mut seen = if control.run == self.control.run {
            self.clone()
        } else {
            // Nothing of an earlier run counts in this one.
            let unseen = Self::unseen(control.clone());
            Self {
                seen_ms: self.seen_ms,
                shop_is_down: self.shop_is_down,
                core_is_slow: self.core_is_slow,
                ..unseen
            }
        };
        if control.epoch != self.control.epoch {
            // Whoever had missed a turn may claim anew.
            seen.missed = Arc::default();
            seen.read.missed = 0;
        }
        Self { control, told_ms: now_ms, told_by: by, ..seen }
    }

    /// Which store tells this node what is in force.
    pub fn reach(&self, now_ms: u64) -> Reach {
        let is_fresh = now_ms.saturating_sub(self.told_ms) < STALE_MS;
        if is_fresh { self.told_by } else { Reach::Nobody }
    }

    /// Whether [`Snapshot::next`] has to work out the gaps, which takes microseconds for each.
    pub(super) fn is_slow_to_follow(&self, state: Option<&RoomState>) -> bool {
        state.is_some_and(|state| {
            let is_known = self.opening == state.opening && self.holes == state.holes;
            state.opening.is_some() && state.holes != Holes::default() && !is_known
        })
    }

    /// With another's permutation and gaps.
    pub(super) fn drawn_as(&self, other: &Self) -> Self {
        Self {
            draw: other.draw.clone(),
            gaps: other.gaps.clone(),
            opening: other.opening,
            order: other.order,
            holes: other.holes.clone(),
            ..self.clone()
        }
    }

    /// The next one. Permutation and gaps are prepared once per key; an unloaded room leaves what
    /// is known as it is.
    pub(super) fn next(&self, now_ms: u64, state: Option<RoomState>) -> Self {
        let Some(state) = state else {
            return Self { is_loaded: false, seen_ms: now_ms, ..self.clone() };
        };
        let draw = state.opening.map(|opening| match &self.draw {
            Some(draw) if self.opening == Some(opening) => draw.clone(),
            _ => Arc::new(Draw::new(opening.n, opening.key)),
        });
        let (left, left_read) = self.left_with(&state, draw.as_deref());
        let told = self.told(now_ms, Reach::Redis, &state.control);
        let (missed, missed_read) = told.missed_with(&state);
        let gaps = match &draw {
            Some(_) if self.opening == state.opening && self.holes == state.holes => {
                self.gaps.clone()
            }
            Some(draw) => Arc::new(Gaps::new(&state.holes, draw)),
            None => Arc::default(),
        };
        let found = state.opening.map(|opening| (opening, state.loaded_ms));
        let drawn = state.opening.map_or(state.counters.entries, |opening| opening.n);
        Self {
            draw,
            gaps,
            commitment: state.commitment,
            round: state.round,
            cursor: state.counters.cursor,
            line: drawn.saturating_add(state.counters.late),
            claimed: state.claimed,
            admitted: state.admitted,
            open: state.open,
            decisions: state.decisions,
            units_told: state.units_told,
            lapses: state.lapses,
            loaded_ms: state.loaded_ms,
            meter: state.meter,
            figures: state.figures,
            left,
            missed,
            read: Known { left: left_read, missed: missed_read },
            frozen: state.frozen,
            opening: state.opening,
            order: self.order.seen(now_ms, found),
            holes: state.holes,
            is_loaded: true,
            seen_ms: now_ms,
            ..told
        }
    }

    /// The same, and who was heard from lately.
    pub(super) fn with_presence(&self, presence: Presence) -> Self {
        Self { presence: Arc::new(presence), ..self.clone() }
    }

    /// The same, and whether there is a shop.
    pub(super) fn with_shop(&self, is_there: bool) -> Self {
        Self { shop_is_down: !is_there, ..self.clone() }
    }

    /// The same, and whether the core takes orders in time.
    pub(super) fn with_core(&self, is_slow: bool) -> Self {
        Self { core_is_slow: is_slow, ..self.clone() }
    }

    /// Whether orders of this node wait in vain.
    pub(super) fn core_is_slow(&self) -> bool {
        self.core_is_slow
    }

    /// What was known of places given up stays known if a server has lost it: nobody's `ahead`
    /// rises again.
    fn left_with(&self, state: &RoomState, draw: Option<&Draw>) -> (Arc<Left>, u64) {
        let is_same_run = self.control.run == state.control.run;
        let known = if is_same_run { self.left.clone() } else { Arc::default() };
        let read = self.read.left.saturating_add(state.left.read);
        let read =
            if is_same_run && !self.is_lost(state) && read <= state.left.count { read } else { 0 };
        if known.is_settled(&state.left.items, draw) {
            return (known, read);
        }
        (Arc::new(Left::clone(&known).with(&state.left.items, draw)), read)
    }

    /// A room that was loaded anew keeps lists of its own: their ranks are others.
    fn is_lost(&self, state: &RoomState) -> bool {
        self.loaded_ms != 0 && self.loaded_ms != state.loaded_ms
    }

    /// A server that has fewer has lost what it knew of windows: everybody called may claim anew.
    fn missed_with(&self, state: &RoomState) -> (Arc<HashSet<u64>>, u64) {
        let read = self.read.missed.saturating_add(state.missed.read);
        if read > state.missed.count || self.is_lost(state) {
            return (Arc::default(), 0);
        }
        if state.missed.items.is_empty() {
            return (self.missed.clone(), read);
        }
        let news = state.missed.items.iter().copied();
        (Arc::new(self.missed.iter().copied().chain(news).collect()), read)
    }

    /// What need not be read again.
    pub(super) fn read(&self) -> Known {
        self.read
    }

    /// Whether both windows of a position have lapsed.
    pub fn has_missed(&self, position: u64) -> bool {
        self.missed.contains(&position)
    }

    /// How many places were missed or given up.
    pub(super) fn places_lost(&self) -> u64 {
        self.left.count().saturating_add(self.missed.len() as u64)
    }

    /// Where the sale stands at an instant of the room's clock.
    pub fn phase(&self, now_ms: u64) -> Phase {
        self.control.phase(now_ms, self.frozen, self.draw.is_some())
    }

    /// Whether Redis was seen lately and has the room.
    pub fn is_live(&self, now_ms: u64) -> bool {
        self.is_loaded && now_ms.saturating_sub(self.seen_ms) < STALE_MS
    }

    /// Redis' clock at the look, Unix milliseconds; 0 before the first.
    pub fn seen_ms(&self) -> u64 {
        self.seen_ms
    }

    /// Whether the line stands still: by order, without a healthy core, without Redis, or without
    /// a shop.
    pub fn is_paused(&self, now_ms: u64) -> bool {
        self.is_halted() || self.stock(now_ms).is_none()
    }

    /// Whether it stands still whatever can be had: by order, or without a shop.
    pub(super) fn is_halted(&self) -> bool {
        self.control.paused || self.shop_is_down
    }

    /// What can be had, as long as it can be believed.
    pub fn stock(&self, now_ms: u64) -> Option<StockSum> {
        let figures = self.figures.as_ref()?;
        (!self.core_is_slow && self.is_live(now_ms) && figures.fresh(now_ms)).then(|| figures.sum())
    }

    /// The draw's proof, from the commitment on; complete once the sale is open.
    pub fn proof(&self, sale: &SaleId) -> Option<Proof> {
        let opening = self.opening.as_ref();
        let is_known = !self.commitment.is_empty();
        is_known.then(|| Proof {
            sale: sale.clone(),
            run: self.control.run,
            algorithm: ALGORITHM.to_owned(),
            commitment: self.commitment.clone(),
            round: self.round,
            signature: opening.map(Opening::signature_hex).unwrap_or_default(),
            beacon: opening
                .and_then(|opening| opening.signature.as_ref())
                .map(|signature| hex::encode(beacon::randomness(signature)))
                .unwrap_or_default(),
            n: opening.map(|opening| opening.n),
            opened_at: opening.map(|opening| rfc3339(opening.opened_at_ms)),
            seed: opening.map(|opening| hex::encode(opening.seed)),
            key: opening.map(|opening| hex::encode(opening.key)),
        })
    }
}

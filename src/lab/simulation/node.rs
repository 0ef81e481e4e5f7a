//! A gateway's part of the room: its clock, what it sees, whom it hears, and the rules that decide.

use std::collections::HashSet;
use std::sync::Arc;

use super::store::Store;
use crate::clock::{Clock as _, ManualClock, RoomClock};
use crate::domain::asking::{Asking, Stride, fastest, over_ms, soon};
use crate::domain::calling::{Calling, View};
use crate::domain::demand::Demand;
use crate::domain::order::Order;
use crate::domain::presence::{Presence, noted};
use crate::domain::rate::Rate;
use crate::domain::sale::Phase;
use crate::domain::silence::{Seen, Silence};
use crate::domain::stock::StockSum;

/// A look older than this is not believed.
const STALE_MS: u64 = 2_000;

/// One gateway.
pub(super) struct Node {
    local: Arc<ManualClock>,
    clock: RoomClock,
    /// How far its own clock is off, in milliseconds.
    off_ms: i64,
    /// Until when it does nothing: down, or asleep.
    away_until_ms: u64,
    calling: Calling,
    silence: Silence,
    stride: Stride,
    /// What visitors are told to ask by.
    pub(super) asking: Asking,
    /// Has listened to the lobby and not told of it yet.
    knows_lobby: bool,
    heard: HashSet<u64>,
    presence: Presence,
    order: Order<u64>,
    /// As it was at its last look.
    pub(super) cursor: u64,
    pub(super) paused: bool,
    pub(super) seen_ms: u64,
}

impl Node {
    pub(super) fn new(off_ms: i64, rate: Rate) -> Self {
        let local = Arc::new(ManualClock::default());
        Self {
            clock: RoomClock::new(local.clone()),
            local,
            off_ms,
            away_until_ms: 0,
            calling: Calling::default(),
            silence: Silence::default(),
            stride: Stride::default(),
            asking: Asking {
                phase: Phase::Open,
                until_opening_ms: 0,
                rate,
                stride: 0.0,
                waiting: 0,
                over_ms: None,
            },
            knows_lobby: true,
            heard: HashSet::new(),
            presence: Presence::default(),
            order: Order::default(),
            cursor: 0,
            paused: false,
            seen_ms: 0,
        }
    }

    /// Dies, and comes back without any memory.
    pub(super) fn restart(&mut self, until_ms: u64) {
        *self = Self {
            away_until_ms: until_ms,
            knows_lobby: false,
            ..Self::new(self.off_ms, self.asking.rate)
        };
    }

    /// Does nothing for a while, and then goes on with what it knew.
    pub(super) fn sleep(&mut self, until_ms: u64) {
        self.away_until_ms = until_ms;
    }

    /// Its own clock jumps.
    pub(super) fn step_clock(&mut self, by_ms: i64) {
        self.off_ms = self.off_ms.saturating_add(by_ms);
    }

    pub(super) fn is_away(&self, now_ms: u64) -> bool {
        now_ms < self.away_until_ms
    }

    /// Up, and has seen the room: a load balancer sends it people.
    pub(super) fn is_ready(&self, now_ms: u64) -> bool {
        !self.is_away(now_ms) && self.seen_ms > 0
    }

    pub(super) fn ordered_ms(&self) -> Option<u64> {
        self.order.since_ms()
    }

    fn set_clock(&self, now_ms: u64) {
        self.local.set(now_ms.saturating_add_signed(self.off_ms));
    }

    /// Looks at the room, and calls the line on.
    pub(super) fn beat(&mut self, store: &mut Store, now_ms: u64) -> Option<u64> {
        self.set_clock(now_ms);
        self.clock.heard(now_ms, self.clock.local_ms());
        (self.cursor, self.paused, self.seen_ms) = (store.cursor, store.paused, now_ms);
        self.order = self.order.seen(now_ms, Some(store.loaded_ms));
        self.tell(store, now_ms);
        let mut to = store.cursor;
        if !store.paused {
            let view = View {
                now_ms,
                ordered_ms: self.ordered_ms().unwrap_or(0),
                cursor: store.cursor,
                line: store.line,
                claimed: store.claimed,
                gaps: &store.gaps,
                presence: &self.presence,
                meter: &store.meter,
                rate: store.rate,
                demand: store.demand(),
                places: store.places(),
            };
            to = self.calling.decide(&view).to;
        }
        let from = store.cursor;
        store.advance(from, to, now_ms).then_some(store.cursor)
    }

    fn fastest(&self) -> f64 {
        fastest(self.asking.rate, self.asking.stride)
    }

    fn tell(&mut self, store: &Store, now_ms: u64) {
        let (rate, waiting) = (store.rate, store.line - store.cursor);
        let ahead = self.presence.sparsity(&store.gaps, store.cursor, soon(rate), store.line);
        let stride = self.stride.observe(now_ms, store.cursor, rate, ahead);
        let demand = store.demand().filter(|_| !store.paused);
        let over_ms = demand.and_then(|Demand { available, decisions, .. }| {
            let stock = StockSum { available, held: store.held, confirmed: 0 };
            over_ms(&stock, decisions.mean_quantity(), rate, waiting)
        });
        self.asking = Asking { rate, stride, waiting, over_ms, ..self.asking };
    }

    /// Tells the room whom it heard, and hears of all; by the room's time at its last look.
    pub(super) fn exchange(&mut self, store: &mut Store, now_ms: u64) {
        self.set_clock(now_ms);
        if self.clock.now_ms().saturating_sub(self.seen_ms) >= STALE_MS {
            (self.silence, self.presence) = (Silence::default(), Presence::default());
            return;
        }
        let now_ms = self.seen_ms;
        if std::mem::take(&mut self.knows_lobby) {
            self.silence = Silence::after_lobby(store.drawn.min(noted(self.fastest())));
        }
        let cursor = self.cursor;
        let seen = Seen { line: store.line, cursor, fastest: self.fastest() };
        let judged = self.silence.judged(now_ms, seen, self.ordered_ms());
        let to = cursor.saturating_add(noted(self.fastest()));
        let heard = std::mem::take(&mut self.heard);
        self.presence = store.presence(now_ms, heard.into_iter(), judged, to);
    }

    /// A visitor near the front has been answered.
    pub(super) fn hear(&mut self, position: u64) {
        if position < self.cursor.saturating_add(noted(self.fastest())) {
            self.heard.insert(position);
        }
    }
}

//! Who was heard from lately: noted where a visitor is answered, exchanged between nodes once a
//! second, off that path.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::{Room, Snapshot};
use crate::domain::presence::{KNOWN_AFTER_MS, Presence, noted};
use crate::domain::queue::{Place, PlaceState};
use crate::domain::sale::Phase;
use crate::store::redis::room::HEARD_MAX;

const EXCHANGE_EVERY: Duration = Duration::from_secs(1);
/// The most positions that a node notes between two exchanges.
const NOTED_MAX: usize = 10 * HEARD_MAX;

/// Positions heard from since the last exchange.
#[derive(Default)]
pub(super) struct Heard(Mutex<HashSet<u64>>);

impl Heard {
    fn note(&self, position: u64) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.len() < NOTED_MAX {
            heard.insert(position);
        }
    }

    fn take(&self) -> Vec<u64> {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.drain().collect()
    }
}

/// How far back silence can be judged: the line as it was at each exchange of an unbroken row.
#[derive(Default)]
struct Silence(VecDeque<(u64, u64)>);

impl Silence {
    /// Notes the line; below which position whoever is silent has been told to ask long enough ago.
    fn below(&mut self, now_ms: u64, seen: &Snapshot) -> u64 {
        self.0.push_back((now_ms, seen.line));
        let heard_since = |at_ms: u64| now_ms.saturating_sub(at_ms) >= KNOWN_AFTER_MS;
        while self.0.get(1).is_some_and(|(at_ms, _)| heard_since(*at_ms)) {
            self.0.pop_front();
        }
        let is_ordered = seen.ordered_ms().is_some_and(heard_since);
        match self.0.front() {
            Some((at_ms, line)) if is_ordered && heard_since(*at_ms) => *line,
            Some(_) | None => 0,
        }
    }
}

impl Room {
    /// A visitor near the front has been answered.
    pub(super) fn heard_from(&self, seen: &Snapshot, place: &Place) {
        let waits = matches!(place.state, PlaceState::Waiting | PlaceState::Called);
        if let Some(position) = place.position.filter(|_| waits) {
            self.heard_at(seen, position);
        }
    }

    /// The same, by the position.
    pub(super) fn heard_at(&self, seen: &Snapshot, position: u64) {
        if position < seen.cursor.saturating_add(noted(seen.control.rate)) {
            self.heard.note(position);
        }
    }

    /// Exchanges once a second, for ever.
    pub(super) async fn keep_presence(&self) {
        let mut ticks = tokio::time::interval(EXCHANGE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut silence = Silence::default();
        loop {
            ticks.tick().await;
            let (seen, now_ms) = (self.snapshot(), self.now_ms());
            let is_on = seen.is_live(now_ms) && seen.phase(now_ms) == Phase::Open;
            let known = if is_on { self.exchange(&mut silence, &seen, now_ms).await } else { None };
            if known.is_none() {
                // What nobody could hear is no silence.
                silence = Silence::default();
            }
            let known = known.unwrap_or_default();
            if known != *self.snapshot().presence {
                self.snapshot.rcu(|seen| seen.with_presence(known.clone()));
            }
        }
    }

    async fn exchange(
        &self,
        silence: &mut Silence,
        seen: &Snapshot,
        now_ms: u64,
    ) -> Option<Presence> {
        let heard = self.heard.take();
        let below = silence.below(now_ms, seen);
        let (cursor, rate) = (seen.cursor, seen.control.rate);
        let tell = |chunk| self.store.presence(now_ms, chunk, cursor, rate, below);
        let mut chunks = heard.chunks(HEARD_MAX);
        // An outage is logged by the heartbeat.
        let mut known = tell(chunks.next().unwrap_or_default()).await.ok()?;
        for chunk in chunks {
            known = tell(chunk).await.ok()?;
        }
        Some(known)
    }
}

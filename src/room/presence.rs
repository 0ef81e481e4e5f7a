//! Who was heard from lately: noted where a visitor is answered, exchanged between nodes once a
//! second, off that path.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::{Room, Snapshot};
use crate::domain::presence::{KNOWN_AFTER_MS, Presence, noted};
use crate::domain::queue::{Place, PlaceState};
use crate::domain::sale::Phase;
use crate::domain::silence::{EXCHANGE_MS_MAX, EXCHANGE_MS_MIN, Seen, Silence, exchange_after_ms};
use crate::store::redis::room::HEARD_MAX;
use crate::telemetry::PerCore;

/// How often it is looked whether an exchange is due.
const LOOK_EVERY: Duration = Duration::from_millis(EXCHANGE_MS_MIN);
/// The most positions that a core notes between two exchanges.
const NOTED_MAX: usize = 10 * HEARD_MAX;

/// Positions heard from since the last exchange. Each core notes its own: no poll waits for another.
#[derive(Default)]
pub(super) struct Heard(PerCore<Mutex<Positions>>);

/// A bit for each, in words of 64: those in front fit into what a core has at hand.
#[derive(Default)]
struct Positions {
    /// Positions are given out in order, so nobody can choose many of one hash.
    words: HashMap<u64, u64, BuildHasherDefault<Spread>>,
    count: usize,
}

impl Positions {
    fn note(&mut self, position: u64) {
        if self.count < NOTED_MAX {
            let (word, bit) = (self.words.entry(position / 64).or_default(), 1 << (position % 64));
            self.count += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        let is_set = |bits: u64| move |bit: &u64| bits >> bit & 1 == 1;
        let words = self.words.iter().map(|(word, bits)| (word * 64, *bits));
        words.flat_map(move |(from, bits)| (0..64).filter(is_set(bits)).map(move |bit| from + bit))
    }
}

/// A number times the golden ratio: near ones lie far apart.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(32);
    }
}

impl Heard {
    fn note(&self, position: u64) {
        self.0.mine().lock().unwrap_or_else(PoisonError::into_inner).note(position);
    }

    fn take(&self) -> Vec<u64> {
        let mut all = HashSet::new();
        for heard in self.0.all() {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(heard.iter());
            heard.words.clear();
            heard.count = 0;
        }
        all.into_iter().collect()
    }
}

impl Room {
    /// A visitor in the lobby or near the front has been answered.
    pub(super) fn heard_from(&self, seen: &Snapshot, place: &Place) {
        if let (PlaceState::Entered, Some(entry)) = (place.state, place.entry) {
            self.lobby.note(entry, self.now_ms());
        }
        let waits = matches!(place.state, PlaceState::Waiting | PlaceState::Called);
        if let Some(position) = place.position.filter(|_| waits) {
            self.heard_at(seen, position);
        }
    }

    /// The same, by the position.
    pub(super) fn heard_at(&self, seen: &Snapshot, position: u64) {
        if position < seen.cursor.saturating_add(noted(self.fastest(seen))) {
            self.heard.note(position);
        }
    }

    /// Exchanges for ever: once a second, more often just after the opening.
    pub(super) async fn keep_presence(&self) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut silence = Silence::default();
        // Since when this node has listened to the lobby, and when the next exchange is due.
        let (mut listens_ms, mut due_ms) = (None, 0);
        loop {
            ticks.tick().await;
            let seen = self.snapshot();
            let is_live = seen.is_live(self.now_ms());
            // Redis' own word, so that a clock of this node that jumps says nothing.
            let now_ms = seen.seen_ms();
            let is_on = is_live && seen.phase(now_ms) == Phase::Open;
            if is_live && !is_on {
                // Set back, Redis' clock does not say since when.
                listens_ms = listens_ms.filter(|at_ms| *at_ms <= now_ms).or(Some(now_ms));
            } else if !is_live {
                listens_ms = None;
            }
            if is_on && now_ms < due_ms && due_ms - now_ms <= EXCHANGE_MS_MAX {
                continue;
            }
            let known = if is_on {
                if listens_ms
                    .take()
                    .is_some_and(|at_ms| now_ms.saturating_sub(at_ms) >= KNOWN_AFTER_MS)
                {
                    silence = Silence::after_lobby(self.tell_of_lobby(&seen, now_ms).await);
                }
                due_ms = now_ms + exchange_after_ms(now_ms, seen.ordered_ms());
                let line =
                    Seen { line: seen.line, cursor: seen.cursor, fastest: self.fastest(&seen) };
                let judged = silence.judged(now_ms, line, seen.ordered_ms());
                self.exchange(judged, &seen, now_ms).await
            } else {
                None
            };
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

    /// The draw says who of those heard in the lobby stands in front: noted as heard. Up to which
    /// position.
    async fn tell_of_lobby(&self, seen: &Snapshot, now_ms: u64) -> u64 {
        let Some(draw) = seen.draw.clone() else { return 0 };
        let positions = noted(self.fastest(seen)).min(draw.n()).min(NOTED_MAX as u64 / 2);
        let lobby = self.lobby.clone();
        let front = tokio::task::spawn_blocking(move || lobby.front(&draw, positions, now_ms));
        // It fails only when the process is about to end.
        let Ok(front) = front.await else { return 0 };
        for position in front {
            self.heard.note(position);
        }
        positions
    }

    async fn exchange(&self, judged: Range<u64>, seen: &Snapshot, now_ms: u64) -> Option<Presence> {
        let heard = self.heard.take();
        let to = seen.cursor.saturating_add(noted(self.fastest(seen)));
        let tell = |chunk| self.store.presence(now_ms, chunk, judged.clone(), to);
        let mut chunks = heard.chunks(HEARD_MAX);
        // An outage is logged by the heartbeat.
        let mut known = tell(chunks.next().unwrap_or_default()).await.ok()?;
        for chunk in chunks {
            known = tell(chunk).await.ok()?;
        }
        Some(known)
    }
}

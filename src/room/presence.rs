//! Who was heard from lately: noted where a visitor is answered, exchanged between nodes once a
//! second, off that path.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::{Room, Snapshot};
use crate::domain::presence::{KNOWN_AFTER_MS, Presence, known, noted};
use crate::domain::queue::{Place, PlaceState};
use crate::domain::rate::Rate;
use crate::domain::sale::Phase;
use crate::store::redis::room::HEARD_MAX;
use crate::telemetry::PerCore;

/// After a rise of the rate those farther back go by what they were told for so long, in
/// milliseconds.
const TOLD_MS: u64 = 20_000;
const EXCHANGE_EVERY: Duration = Duration::from_secs(1);
/// The most positions that a core notes between two exchanges.
const NOTED_MAX: usize = 10 * HEARD_MAX;

/// Positions heard from since the last exchange. Each core notes its own: no poll waits for another.
#[derive(Default)]
pub(super) struct Heard(PerCore<Mutex<HashSet<u64>>>);

impl Heard {
    fn note(&self, position: u64) {
        let mut heard = self.0.mine().lock().unwrap_or_else(PoisonError::into_inner);
        if heard.len() < NOTED_MAX {
            heard.insert(position);
        }
    }

    fn take(&self) -> Vec<u64> {
        let mut all = HashSet::new();
        for heard in self.0.all() {
            all.extend(heard.lock().unwrap_or_else(PoisonError::into_inner).drain());
        }
        all.into_iter().collect()
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

/// The rates of late: how often people ask follows from the rate that they were told by.
#[derive(Default)]
struct Rates(VecDeque<(u64, Rate)>);

impl Rates {
    /// Notes the rate; the lowest of late.
    fn lowest(&mut self, now_ms: u64, rate: Rate) -> Rate {
        self.0.retain(|(at_ms, _)| now_ms.saturating_sub(*at_ms) < TOLD_MS);
        self.0.push_back((now_ms, rate));
        self.0.iter().map(|(_, rate)| *rate).fold(rate, |low, of| if of < low { of } else { low })
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
        let (mut silence, mut rates) = (Silence::default(), Rates::default());
        loop {
            ticks.tick().await;
            let (seen, now_ms) = (self.snapshot(), self.now_ms());
            let lowest = rates.lowest(now_ms, seen.control.rate);
            let is_on = seen.is_live(now_ms) && seen.phase(now_ms) == Phase::Open;
            let known = if is_on {
                let below = silence.below(now_ms, &seen);
                let near = seen.cursor.saturating_add(known(lowest));
                self.exchange(below.min(near), &seen, now_ms).await
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

    async fn exchange(&self, below: u64, seen: &Snapshot, now_ms: u64) -> Option<Presence> {
        let heard = self.heard.take();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_rise_silence_is_judged_by_the_rate_that_people_were_told_by() {
        let (mut rates, slow, fast) = (Rates::default(), Rate::whole(1), Rate::whole(100));
        assert_eq!(rates.lowest(1_000, slow), slow);
        assert_eq!(rates.lowest(2_000, fast), slow);
        assert_eq!(rates.lowest(20_999, fast), slow);
        assert_eq!(rates.lowest(21_000, fast), fast);
        assert_eq!(rates.lowest(22_000, slow), slow, "a fall counts at once");
    }
}

//! What a shopper writes down of the answers.

use super::answers::Held;
use super::kept::{Event, KeptSeen, PlaceSeen};
use super::observations::{AheadSeen, OrderAnswer, Sighting};
use super::shopper::Shopper;
use super::wire::{Problem, Timed};
use crate::domain::sale::Phase;
use crate::domain::status::Status;

/// The place before an upheaval, until it is compared with the place after it.
pub(super) struct Watch {
    event: Event,
    before: Option<PlaceSeen>,
}

impl Shopper {
    pub(super) fn note(&mut self, status: &Status, timed: &Timed) {
        let place = place_seen(status, timed, self.visitor.clone());
        self.compare(&place, timed);
        self.last = Some((timed.received_ms, place));
        self.phase = Some(status.phase);
        let (place, seen) = (&status.place, &mut self.seen);
        seen.entry = seen.entry.or(place.entry);
        if let Some(position) = place.position
            && !seen.positions.contains(&position)
        {
            seen.positions.push(position);
        }
        push_ahead(&mut seen.ahead, status, timed);
        if status.sold_out && status.phase == Phase::Open {
            seen.sold_out.push(sighting(timed));
        }
    }

    /// Compares the place with what it was before each upheaval that is over by now.
    fn compare(&mut self, place: &PlaceSeen, timed: &Timed) {
        for upheaval in self.wire.field().upheavals() {
            if !self.watches.iter().any(|watch| watch.event == upheaval.event) {
                let before = self.last.clone().filter(|(at_ms, _)| *at_ms <= upheaval.from_ms);
                let before = before.map(|(_, place)| place);
                self.watches.push(Watch { event: upheaval.event, before });
            }
            let over = upheaval.over_ms.is_some_and(|over_ms| over_ms <= timed.sent_ms);
            let mine = self.watches.iter_mut().find(|watch| watch.event == upheaval.event);
            if over && let Some(before) = mine.and_then(|watch| watch.before.take()) {
                self.keep(upheaval.event, before, place.clone());
            }
        }
    }

    /// Whether an upheaval is over and the place was not looked at since.
    pub(super) fn owes_a_look(&self) -> bool {
        let looked = |event| self.watches.iter().any(|w| w.event == event && w.before.is_none());
        let upheavals = self.wire.field().upheavals();
        upheavals.iter().any(|upheaval| upheaval.over_ms.is_some() && !looked(upheaval.event))
    }

    /// Writes down a place before and after.
    pub(super) fn keep(&mut self, event: Event, before: PlaceSeen, after: PlaceSeen) {
        self.seen.kept.push(KeptSeen { event, before, after });
    }

    pub(super) fn note_order(&mut self, timed: &Timed) {
        let problem = Problem::of(&timed.answer).name().to_owned();
        if problem == "sold-out" {
            self.seen.sold_out.push(sighting(timed));
        }
        let reservation = timed.answer.json::<Held>().ok().map(|held| held.id);
        let answer = OrderAnswer {
            status: timed.status_code().as_u16(),
            problem,
            reservation,
            replayed: timed.answer.header("idempotent-replayed") == "true",
        };
        if let Some(order) = self.seen.orders.last_mut() {
            order.answers.push(answer);
        }
    }
}

/// The place that a status tells of.
pub(super) fn place_seen(status: &Status, timed: &Timed, visitor: Option<String>) -> PlaceSeen {
    let place = &status.place;
    let ahead = place.ahead.map(|ahead| ahead_seen(ahead, timed));
    PlaceSeen { visitor, entry: place.entry, position: place.position, ahead }
}

/// Notes `ahead` if it changed.
pub(super) fn push_ahead(seen: &mut Vec<AheadSeen>, status: &Status, timed: &Timed) {
    if let Some(ahead) = status.place.ahead
        && seen.last().is_none_or(|last| last.ahead != ahead)
    {
        seen.push(ahead_seen(ahead, timed));
    }
}

fn ahead_seen(ahead: u64, timed: &Timed) -> AheadSeen {
    AheadSeen { at_ms: timed.received_ms, ahead, gateway: timed.gateway }
}

fn sighting(timed: &Timed) -> Sighting {
    Sighting { sent_ms: timed.sent_ms, received_ms: timed.received_ms }
}

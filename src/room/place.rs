//! The status of a visitor, from ticket and snapshot alone: no store is touched.

use std::sync::Arc;

use arc_swap::Guard;

use super::{Room, Snapshot};
use crate::domain::admission::Admission;
use crate::domain::asking::{Asking, over_ms};
use crate::domain::queue::{Place, PlaceState};
use crate::domain::sale::{Control, Phase};
use crate::domain::status::{Own, Status, rfc3339};
use crate::domain::stock::StockSum;
use crate::domain::ticket::{Cohort, Ticket};

/// The room at one instant, as everybody is told of it.
pub struct Moment {
    seen: Guard<Arc<Snapshot>>,
    now_ms: u64,
    phase: Phase,
    paused: bool,
    stock: Option<StockSum>,
    asking: Asking,
}

impl Moment {
    /// Whether everybody is told the same as at the other moment.
    pub fn is_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.seen, &other.seen)
            && self.phase == other.phase
            && self.paused == other.paused
            && self.stock == other.stock
    }

    /// The same, to be kept for longer than one answer takes.
    #[must_use]
    pub fn kept(&self) -> Self {
        Self { seen: Guard::from_inner(Arc::clone(&self.seen)), ..*self }
    }

    /// The room's clock, Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The room as seen.
    pub fn seen(&self) -> &Snapshot {
        &self.seen
    }

    /// The control record in force.
    pub fn control(&self) -> &Control {
        &self.seen.control
    }

    /// Where the sale stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the line stands still.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// What can be had, as long as it can be believed.
    pub fn stock(&self) -> Option<StockSum> {
        self.stock
    }

    /// Whether nothing is available.
    pub fn is_sold_out(&self) -> bool {
        self.stock.is_some_and(|stock| stock.available == 0)
    }

    /// When somebody at this place is to ask again.
    pub fn poll_after_ms(&self, place: &Place) -> u64 {
        self.asking.again_after_ms(place)
    }
}

impl Room {
    /// The room as it is now.
    pub fn moment(&self) -> Moment {
        let (seen, now_ms) = (self.snapshot.load(), self.now_ms());
        let (phase, stock) = (seen.phase(now_ms), seen.stock(now_ms));
        let asking = asking(&seen, now_ms, self.forecast.stride());
        let paused = seen.is_halted() || stock.is_none();
        Moment { seen, now_ms, phase, paused, stock, asking }
    }

    /// What the visitor with a number is told; ticket and admission are already verified.
    pub fn own(
        &self,
        moment: &Moment,
        number: Option<Cohort>,
        admission: Option<&Admission>,
    ) -> Own {
        let Moment { seen, now_ms, phase, paused, .. } = moment;
        // Nobody knows when those who have the units, or may take them, give some back.
        let stands = *paused || moment.is_sold_out() || self.waits_for_stock(seen);
        let place = place(seen, number, admission);
        self.heard_from(seen, &place);
        let is_waiting = *phase == Phase::Open && place.state == PlaceState::Waiting;
        let waits = place.position.zip(place.ahead).filter(|_| is_waiting);
        let outlook = waits.map(|at| self.outlook(moment, at, stands));
        let (eta_seconds, odds) = outlook.unwrap_or_default();
        Own {
            eta_seconds,
            odds,
            server_ms: *now_ms,
            poll_after_ms: moment.poll_after_ms(&place),
            place,
        }
    }

    /// The status body for a visitor; ticket and admission are already verified.
    pub fn status(&self, ticket: Option<&Ticket>, admission: Option<&Admission>) -> Status {
        self.status_at(&self.moment(), ticket, admission)
    }

    /// The same as of a moment.
    pub fn status_at(
        &self,
        moment: &Moment,
        ticket: Option<&Ticket>,
        admission: Option<&Admission>,
    ) -> Status {
        let own = self.own(moment, ticket.map(|ticket| ticket.cohort), admission);
        let control = moment.control();
        Status {
            sale: self.options.sale.clone(),
            phase: moment.phase,
            paused: moment.paused,
            sold_out: moment.is_sold_out(),
            run: control.run,
            epoch: control.epoch,
            rate: control.rate.get(),
            eta_seconds: own.eta_seconds,
            odds: own.odds,
            stock: moment.stock,
            opens_at: rfc3339(control.opens_ms),
            server_time: rfc3339(own.server_ms),
            poll_after_ms: own.poll_after_ms,
            place: own.place,
        }
    }
}

/// What those in line, and those who are not, are told to ask by.
fn asking(seen: &Snapshot, now_ms: u64, stride: f64) -> Asking {
    let (control, phase) = (&seen.control, seen.phase(now_ms));
    let until_ms = match phase {
        Phase::Upcoming => control.lobby_opens_ms,
        Phase::Lobby | Phase::Drawing | Phase::Open | Phase::Closed => control.opens_ms,
    };
    let (each, waiting) = (seen.decisions.mean_quantity(), seen.line.saturating_sub(seen.cursor));
    let stock = seen.stock(now_ms).filter(|_| !seen.is_halted());
    // Whoever has no place any more looks on, and asks as those in line do.
    let asking = waiting.saturating_add(seen.places_lost());
    Asking {
        phase,
        until_opening_ms: until_ms.saturating_sub(now_ms),
        rate: control.rate,
        stride,
        waiting,
        over_ms: stock.and_then(|stock| over_ms(&stock, each, control.rate, asking)),
    }
}

fn place(seen: &Snapshot, number: Option<Cohort>, admission: Option<&Admission>) -> Place {
    let mut place = match number {
        Some(number) => {
            let mut place = Place::of(number, seen.draw.as_deref(), seen.cursor);
            let people = |position| seen.gaps.people_between(seen.cursor, position);
            place.ahead = place.position.map(people);
            let mut place = place.among(&seen.left, number, seen.cursor);
            if let (PlaceState::Called, Some(position)) = (place.state, place.position) {
                place.lapsed = seen.lapses.has_lapsed(position);
                if seen.has_missed(position) {
                    (place.state, place.lapsed) = (PlaceState::Missed, false);
                }
            }
            place
        }
        None => Place::none(),
    };
    if let Some(admission) = admission {
        place.state = PlaceState::Admitted;
        place.position = admission.position();
        (place.ahead, place.lapsed) = (Some(0), false);
        place.admitted_at = Some(rfc3339(admission.since_ms()));
    }
    place
}

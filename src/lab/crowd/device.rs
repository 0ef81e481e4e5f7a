//! The second device of somebody who is signed in twice: it joins and waits beside the first.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;

use super::answers::{Claimed, Joined};
use super::kept::{DeviceSeen, PlaceSeen};
use super::noting::{place_seen, push_ahead};
use super::shopper::fresh_key;
use super::wire::{Problem, Timed, Wire};
use crate::domain::queue::PlaceState;
use crate::domain::status::Status;

/// After an answer that was lost or that says nothing better.
const RETRY: Duration = Duration::from_secs(1);

/// A browser of its own cookies on the same account.
pub(super) struct Device {
    wire: Wire,
    account: String,
    /// What it saw.
    pub(super) seen: DeviceSeen,
    /// The place as told last.
    pub(super) last: PlaceSeen,
}

impl Device {
    pub(super) fn new(wire: Wire, account: String) -> Self {
        Self { wire, account, seen: DeviceSeen::default(), last: PlaceSeen::default() }
    }

    /// Goes on until it is dropped: the first device decides when the visit is over.
    pub(super) async fn live(&mut self) -> Infallible {
        while self.wire.sign_in(&self.account).await.is_err() {
            sleep(RETRY).await;
        }
        let key = fresh_key();
        while !self.join(&key).await {}
        loop {
            let Ok(timed) = self.wire.status().await else {
                sleep(RETRY).await;
                continue;
            };
            let Ok(status) = timed.place() else {
                pause_after(&timed).await;
                continue;
            };
            self.note(&status, &timed);
            // Without an account it would be another visitor's, who never buys.
            let vouched = self.seen.tickets.iter().any(|ticket| ticket.account.is_some());
            let called = status.place.state == PlaceState::Called;
            if called && vouched && self.seen.admissions.is_empty() {
                self.claim().await;
            }
            // Seldom: both devices share the quota of one place.
            sleep(Duration::from_millis(status.poll_after_ms.saturating_mul(2))).await;
        }
    }

    async fn join(&mut self, key: &str) -> bool {
        let Ok(timed) = self.wire.join(key).await else {
            sleep(RETRY).await;
            return false;
        };
        let (Ok(status), Ok(joined)) = (timed.place(), timed.answer.json::<Joined>()) else {
            pause_after(&timed).await;
            return false;
        };
        if let Some(ticket) = joined.seen() {
            self.last.visitor = Some(ticket.sub.clone());
            self.seen.tickets.push(ticket);
        }
        self.note(&status, &timed);
        true
    }

    /// Claims as the first device does: both must be given the same admission.
    async fn claim(&mut self) {
        let Ok(timed) = self.wire.claim().await else { return };
        let claimed = timed.answer.json::<Claimed>().ok().and_then(|claimed| claimed.seen());
        self.seen.admissions.extend(claimed);
    }

    fn note(&mut self, status: &Status, timed: &Timed) {
        self.last = place_seen(status, timed, self.last.visitor.take());
        push_ahead(&mut self.seen.ahead, status, timed);
    }
}

async fn pause_after(timed: &Timed) {
    let told = Problem::of(&timed.answer).retry_after_ms.map(Duration::from_millis);
    sleep(told.unwrap_or(RETRY).max(RETRY / 4)).await;
}

//! The life of one shopper: join, wait, claim, reserve, pay, or one of the ways not to.

use std::time::Duration;

use anyhow::Result;
use rand::RngExt;
use tokio::time::{Instant, sleep, sleep_until};

use super::answers::{Claimed, Due, Held, Joined};
use super::observations::{AheadSeen, Ending, OrderAnswer, OrderSeen, ShopperSeen, Sighting};
use super::plan::Role;
use super::wire::{Problem, Timed, Wire};
use crate::domain::queue::PlaceState;
use crate::domain::sale::Phase;
use crate::domain::status::Status;

/// Between two tries of somebody who was told that held units may come back.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// After an answer that was lost or that says nothing better.
const RETRY_MS: u64 = 1_000;
/// "Gone" is believed when it was told this often in a row: figures may be a moment old.
const GONE_TIMES: u32 = 2;

/// What a step leads to.
enum Next {
    Goes(Waypoint),
    Ends(Ending),
}

/// Where a shopper is.
enum Waypoint {
    Waiting,
    Called,
    Admitted,
    Holding(String),
}

/// One shopper, on the way.
pub(super) struct Shopper {
    wire: Wire,
    role: Role,
    seen: ShopperSeen,
    /// How often in a row nothing was left.
    gone: u32,
}

impl Shopper {
    pub(super) fn new(wire: Wire, role: Role) -> Self {
        let seen = ShopperSeen { role, ..ShopperSeen::default() };
        Self { wire, role, seen, gone: 0 }
    }

    /// Lives until the end or until `deadline`, and tells what it saw.
    pub(super) async fn live(mut self, arrives: Instant, deadline: Instant) -> ShopperSeen {
        sleep_until(arrives.min(deadline)).await;
        // On a timeout what was seen so far stays in `self.seen`.
        if let Ok(ending) = tokio::time::timeout_at(deadline, self.visit()).await {
            self.seen.ending = ending;
        }
        self.seen
    }

    async fn visit(&mut self) -> Ending {
        let mut at = match self.join().await {
            Next::Goes(waypoint) => waypoint,
            Next::Ends(ending) => return ending,
        };
        if self.role.no_show {
            return Ending::NoShow;
        }
        loop {
            let next = match &at {
                Waypoint::Waiting => self.wait().await,
                Waypoint::Called => self.claim().await,
                Waypoint::Admitted => self.order().await,
                Waypoint::Holding(_) if self.role.abandons => Next::Ends(Ending::Abandoned),
                Waypoint::Holding(reservation) => {
                    let reservation = reservation.clone();
                    self.pay(&reservation).await
                }
            };
            match next {
                Next::Goes(waypoint) => at = waypoint,
                Next::Ends(ending) => return ending,
            }
        }
    }

    /// Joins; the same key again until it is acknowledged.
    async fn join(&mut self) -> Next {
        let key = fresh_key();
        loop {
            let sent = self.wire.join(&key).await;
            let Some(timed) = self.answered("join", sent).await else { continue };
            if !timed.is_success() {
                match self.refusal(&timed).await {
                    Some(ending) => return Next::Ends(ending),
                    None => continue,
                }
            }
            match (timed.place(), timed.answer.json::<Joined>()) {
                (Ok(status), Ok(joined)) => {
                    self.seen.joined = true;
                    self.seen.visitor = joined.visitor();
                    self.seen.joined_in_lobby = status.phase == Phase::Lobby;
                    self.note(&status, &timed);
                    self.gone = 0;
                    return Next::Goes(Waypoint::Waiting);
                }
                (Err(error), _) | (_, Err(error)) => {
                    self.seen.error(format!("join: {error:#}"));
                    return Next::Ends(Ending::Refused);
                }
            }
        }
    }

    /// Polls at the told interval until called.
    async fn wait(&mut self) -> Next {
        let sent = self.wire.status().await;
        let Some(timed) = self.answered("status", sent).await else {
            return Next::Goes(Waypoint::Waiting);
        };
        if !timed.is_success() {
            return self.refusal(&timed).await.map_or(Next::Goes(Waypoint::Waiting), Next::Ends);
        }
        let status = match timed.place() {
            Ok(status) => status,
            Err(error) => {
                self.seen.error(format!("status: {error:#}"));
                return Next::Ends(Ending::Refused);
            }
        };
        self.note(&status, &timed);
        match status.place.state {
            _ if status.phase == Phase::Closed => return Next::Ends(Ending::Closed),
            PlaceState::Called => return Next::Goes(Waypoint::Called),
            PlaceState::Admitted => return Next::Goes(Waypoint::Admitted),
            PlaceState::Missed | PlaceState::Left => return Next::Ends(Ending::Refused),
            PlaceState::None => {
                self.seen.error("status: the place is lost".into());
                return Next::Ends(Ending::Refused);
            }
            PlaceState::Entered | PlaceState::Waiting => {}
        }
        let nothing_left = status.sold_out && status.stock.is_some_and(|stock| stock.held == 0);
        if self.nothing_left(nothing_left) {
            return Next::Ends(Ending::SoldOut);
        }
        // Only ever later than told, by up to a quarter, so that a crowd does not come as one.
        let jitter = rand::rng().random_range(0..=status.poll_after_ms / 4);
        sleep(Duration::from_millis(status.poll_after_ms + jitter)).await;
        Next::Goes(Waypoint::Waiting)
    }

    /// Turns the call into an admission; asks again when the slot is due.
    async fn claim(&mut self) -> Next {
        let sent = self.wire.claim().await;
        let Some(timed) = self.answered("claim", sent).await else {
            return Next::Goes(Waypoint::Called);
        };
        match timed.status_code().as_u16() {
            200 => {
                match timed.answer.json::<Claimed>().map(|claimed| claimed.seen()) {
                    Ok(Some(admission)) => self.seen.admissions.push(admission),
                    _ => self.seen.error("claim: an admission that cannot be read".into()),
                }
                self.gone = 0;
                Next::Goes(Waypoint::Admitted)
            }
            202 => {
                let due: Due = timed.answer.json().unwrap_or_default();
                sleep(Duration::from_millis(due.retry_after_ms.unwrap_or(RETRY_MS).max(20))).await;
                Next::Goes(Waypoint::Called)
            }
            _ if Problem::of(&timed.answer).name() == "not-called" => {
                self.seen.refused("not-called");
                sleep(Duration::from_millis(RETRY_MS)).await;
                Next::Goes(Waypoint::Waiting)
            }
            _ => self.refusal(&timed).await.map_or(Next::Goes(Waypoint::Called), Next::Ends),
        }
    }

    /// Asks for a unit under one order key, until there is one or none can come back.
    async fn order(&mut self) -> Next {
        let key = fresh_key();
        self.seen.orders.push(OrderSeen { key: key.clone(), ..OrderSeen::default() });
        loop {
            let first = self.ask(&key).await;
            let Some(timed) = self.answered("reserve", first).await else { continue };
            let problem = Problem::of(&timed.answer);
            if timed.is_success() {
                return match self.last_reservation() {
                    Some(id) => Next::Goes(Waypoint::Holding(id)),
                    None => Next::Ends(Ending::Refused),
                };
            }
            if problem.name() != "sold-out" {
                match self.refusal(&timed).await {
                    Some(ending) => return Next::Ends(ending),
                    None => continue,
                }
            }
            if self.nothing_left(problem.held == Some(0)) {
                return Next::Ends(Ending::SoldOut);
            }
            sleep(ASK_AGAIN).await;
        }
    }

    /// Sends the reservation, twice at once for who double-clicks; the first answer counts.
    async fn ask(&mut self, key: &str) -> Result<Timed> {
        if !self.role.double_clicks {
            let answer = self.wire.reserve(key).await;
            return answer.inspect(|timed| self.note_order(timed));
        }
        let (first, second) = tokio::join!(self.wire.reserve(key), self.wire.reserve(key));
        for timed in [&first, &second].into_iter().flatten() {
            self.note_order(timed);
        }
        match (first, second) {
            (Ok(first), Ok(second)) if second.is_success() && !first.is_success() => Ok(second),
            (first, _) => first,
        }
    }

    /// Pays through the gateway at the shop, which confirms.
    async fn pay(&mut self, reservation: &str) -> Next {
        let sent = self.wire.pay(reservation).await;
        let again = || Next::Goes(Waypoint::Holding(reservation.to_owned()));
        let Some(timed) = self.answered("pay", sent).await else { return again() };
        let to = timed.answer.header("location");
        match timed.status_code().as_u16() {
            303 if to.starts_with("/checkout/thanks") => {
                self.seen.paid = Some(reservation.to_owned());
                Next::Ends(Ending::Bought)
            }
            409 if timed.answer.header("stanchion-answer").is_empty() => Next::Ends(Ending::Lapsed),
            _ => self.refusal(&timed).await.map_or_else(again, Next::Ends),
        }
    }

    /// An answer, or a noted error and a pause before the next try.
    async fn answered(&mut self, step: &str, sent: Result<Timed>) -> Option<Timed> {
        match sent {
            Ok(timed) => Some(timed),
            Err(error) => {
                self.seen.error(format!("{step}: {error:#}"));
                sleep(Duration::from_millis(RETRY_MS)).await;
                None
            }
        }
    }

    /// Counts a refusal and waits as told; an ending if waiting does not help.
    async fn refusal(&mut self, timed: &Timed) -> Option<Ending> {
        let (status, problem) = (timed.status_code(), Problem::of(&timed.answer));
        match problem.name() {
            "" => self.seen.error(format!("{status} without a reason: {}", timed.answer.text())),
            name => self.seen.refused(name),
        }
        if problem.name() == "closed" {
            return Some(Ending::Closed);
        }
        let may_pass = status.is_server_error() || status.as_u16() == 429;
        if !may_pass {
            return Some(Ending::Refused);
        }
        let wait = problem.retry_after_ms.unwrap_or(RETRY_MS).max(100);
        let jitter = rand::rng().random_range(0..=wait / 4);
        sleep(Duration::from_millis(wait + jitter)).await;
        None
    }

    /// Whether "gone" was told often enough in a row to be believed.
    fn nothing_left(&mut self, told: bool) -> bool {
        self.gone = if told { self.gone + 1 } else { 0 };
        self.gone >= GONE_TIMES
    }

    fn last_reservation(&self) -> Option<String> {
        let answers = &self.seen.orders.last()?.answers;
        answers.iter().rev().find_map(|answer| answer.reservation.clone())
    }

    fn note(&mut self, status: &Status, timed: &Timed) {
        let (place, seen) = (&status.place, &mut self.seen);
        seen.entry = seen.entry.or(place.entry);
        if let Some(position) = place.position
            && !seen.positions.contains(&position)
        {
            seen.positions.push(position);
        }
        if let Some(ahead) = place.ahead
            && seen.ahead.last().is_none_or(|last| last.ahead != ahead)
        {
            seen.ahead.push(AheadSeen { at_ms: timed.received_ms, ahead });
        }
        if status.sold_out && status.phase == Phase::Open {
            seen.sold_out.push(sighting(timed));
        }
    }

    fn note_order(&mut self, timed: &Timed) {
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

fn sighting(timed: &Timed) -> Sighting {
    Sighting { sent_ms: timed.sent_ms, received_ms: timed.received_ms }
}

fn fresh_key() -> String {
    format!("{:032x}", rand::random::<u128>())
}

//! The life of one shopper: join, wait, claim, reserve, pay, or one of the ways not to.

use std::time::Duration;

use anyhow::Result;
use rand::RngExt;
use tokio::time::{Instant, sleep, sleep_until};

use super::answers::{Claimed, Due, Joined};
use super::device::Device;
use super::kept::{Event, PlaceSeen};
use super::noting::Watch;
use super::observations::{Ending, ShopperSeen};
use super::plan::Role;
use super::wire::{Problem, Timed, Wire};
use crate::domain::queue::PlaceState;
use crate::domain::sale::Phase;
use crate::domain::status::Status;

/// After an answer that was lost or that says nothing better.
const RETRY_MS: u64 = 1_000;
/// "Gone" is believed when it was told this often in a row: figures may be a moment old.
const GONE_TIMES: u32 = 2;

/// What a step leads to.
pub(super) enum Next {
    Goes(Waypoint),
    Ends(Ending),
}

/// Where a shopper is.
pub(super) enum Waypoint {
    Waiting,
    Called,
    Admitted,
    Holding(String),
}

/// One shopper, on the way.
pub(super) struct Shopper {
    pub(super) wire: Wire,
    pub(super) role: Role,
    pub(super) seen: ShopperSeen,
    /// Whom the ticket names.
    pub(super) visitor: Option<String>,
    /// The place as told last, and when.
    pub(super) last: Option<(u64, PlaceSeen)>,
    /// Where the sale stood then.
    pub(super) phase: Option<Phase>,
    /// Places to be compared once something is over.
    pub(super) watches: Vec<Watch>,
    /// Whether the detour was made.
    pub(super) detoured: bool,
    /// A hold that is yet to be paid.
    pub(super) holding: Option<String>,
    /// How often in a row nothing was left.
    gone: u32,
}

impl Shopper {
    /// `account` is who signs in, for a role that does.
    pub(super) fn new(wire: Wire, role: Role, account: Option<String>) -> Self {
        let seen = ShopperSeen { role, account, ..ShopperSeen::default() };
        Self {
            wire,
            role,
            seen,
            visitor: None,
            last: None,
            phase: None,
            watches: Vec::new(),
            detoured: false,
            holding: None,
            gone: 0,
        }
    }

    /// Lives until the end or until `deadline`, and tells what it saw.
    pub(super) async fn live(mut self, arrives: Instant, deadline: Instant) -> ShopperSeen {
        sleep_until(arrives.min(deadline)).await;
        let account = self.seen.account.clone().filter(|_| self.role.two_devices);
        let mut second = account.map(|account| Device::new(self.wire.without_cookies(), account));
        // On a timeout what was seen so far stays in `self.seen` and in the device.
        let ended = match &mut second {
            None => tokio::time::timeout_at(deadline, self.visit()).await,
            Some(device) => tokio::select! {
                ended = tokio::time::timeout_at(deadline, self.visit()) => ended,
                never = device.live() => match never {},
            },
        };
        if let Ok(ending) = ended {
            self.seen.ending = ending;
        }
        if let Some(device) = second {
            self.compare_devices(device);
        }
        self.seen
    }

    fn compare_devices(&mut self, device: Device) {
        // At different times: what is ahead may be fewer.
        let mine = self.last.take().map(|(_, place)| PlaceSeen { ahead: None, ..place });
        let same = self.has_account() && device.last.visitor.is_some();
        if let Some(mine) = mine.filter(|_| same) {
            self.keep(Event::OtherDevice, mine, PlaceSeen { ahead: None, ..device.last });
        }
        self.seen.second = Some(device.seen);
    }

    async fn visit(&mut self) -> Ending {
        self.sign_in().await;
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

    /// Signs in, if that is the role.
    pub(super) async fn sign_in(&mut self) {
        let Some(account) = self.seen.account.clone() else { return };
        while let Err(error) = self.wire.sign_in(&account).await {
            self.seen.error(format!("sign-in: {error:#}"));
            sleep(Duration::from_millis(RETRY_MS)).await;
        }
    }

    /// Joins; the same key again until it is acknowledged.
    pub(super) async fn join(&mut self) -> Next {
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
                    self.has_joined(&joined, status.phase);
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

    fn has_joined(&mut self, joined: &Joined, phase: Phase) {
        let seen = &mut self.seen;
        let ticket = joined.seen();
        self.visitor = ticket.as_ref().map(|ticket| ticket.sub.clone());
        if let Some(ticket) = ticket.filter(|ticket| !seen.tickets.contains(ticket)) {
            seen.tickets.push(ticket);
        }
        if !seen.joined {
            seen.joined = true;
            seen.visitor.clone_from(&self.visitor);
            seen.joined_in_lobby = phase == Phase::Lobby;
        }
    }

    /// Asks for the place once; what to do instead if it was not told.
    pub(super) async fn look(&mut self) -> Result<Status, Next> {
        let sent = self.wire.status().await;
        let Some(timed) = self.answered("status", sent).await else {
            return Err(Next::Goes(Waypoint::Waiting));
        };
        if !timed.is_success() {
            let ending = self.refusal(&timed).await;
            return Err(ending.map_or(Next::Goes(Waypoint::Waiting), Next::Ends));
        }
        let status = timed.place().map_err(|error| {
            self.seen.error(format!("status: {error:#}"));
            Next::Ends(Ending::Refused)
        })?;
        self.note(&status, &timed);
        Ok(status)
    }

    /// Polls at the told interval until called.
    async fn wait(&mut self) -> Next {
        if let Some((detour, before)) = self.due_detour() {
            return self.make(detour, before).await;
        }
        let status = match self.look().await {
            Ok(status) => status,
            Err(next) => return next,
        };
        match status.place.state {
            _ if status.phase == Phase::Closed => return Next::Ends(Ending::Closed),
            PlaceState::Called => return Next::Goes(Waypoint::Called),
            PlaceState::Admitted => return self.admitted(),
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
                match timed.answer.json::<Claimed>() {
                    Ok(claimed) => self.has_claimed(claimed),
                    Err(_) => self.seen.error("claim: an answer that cannot be read".into()),
                }
                self.gone = 0;
                self.admitted()
            }
            202 => {
                let due: Due = timed.answer.json().unwrap_or_default();
                sleep(Duration::from_millis(due.retry_after_ms.unwrap_or(RETRY_MS).max(20))).await;
                let look = self.owes_a_look();
                Next::Goes(if look { Waypoint::Waiting } else { Waypoint::Called })
            }
            _ if Problem::of(&timed.answer).name() == "not-called" => {
                self.seen.refused("not-called");
                sleep(Duration::from_millis(RETRY_MS)).await;
                Next::Goes(Waypoint::Waiting)
            }
            _ => self.refusal(&timed).await.map_or(Next::Goes(Waypoint::Called), Next::Ends),
        }
    }

    fn has_claimed(&mut self, claimed: Claimed) {
        match claimed.seen() {
            Some(admission) => self.seen.admissions.push(admission),
            None => self.seen.error("claim: an admission that cannot be read".into()),
        }
        // One of an account would need its session beside it.
        if self.seen.account.is_none() {
            self.wire.field().hand(claimed.admission);
        }
    }

    /// On with what the admission is for.
    pub(super) fn admitted(&self) -> Next {
        Next::Goes(match &self.holding {
            Some(reservation) => Waypoint::Holding(reservation.clone()),
            None => Waypoint::Admitted,
        })
    }

    /// An answer, or a noted error and a pause before the next try.
    pub(super) async fn answered(&mut self, step: &str, sent: Result<Timed>) -> Option<Timed> {
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
    pub(super) async fn refusal(&mut self, timed: &Timed) -> Option<Ending> {
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
    pub(super) fn nothing_left(&mut self, told: bool) -> bool {
        self.gone = if told { self.gone + 1 } else { 0 };
        self.gone >= GONE_TIMES
    }
}

/// A key that nobody else makes.
pub(super) fn fresh_key() -> String {
    format!("{:032x}", rand::random::<u128>())
}

//! Joining. Concurrent joins on a node share one step, so that a join costs a fraction of a
//! round trip.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::replies::{Asker, Replies};
use super::{Room, out_of_reach};
use crate::domain::comeback::Comebacks;
use crate::domain::id::AccountId;
use crate::domain::limits::AddressKey;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::status::rfc3339;
use crate::domain::ticket::Ticket;
use crate::store::redis::room::{JOINS_MAX, JoinAnswer, JoinStep, Joined, Joins, Lapsed};

/// How long a join waits for the core to raise a ceiling.
const CEILING_WAIT: Duration = Duration::from_secs(1);
const CEILING_RETRY: Duration = Duration::from_millis(25);
/// Within how long whoever came too early is to come again.
const NOT_OPEN_SPREAD_MS: u64 = 5_000;

/// A request to join.
#[derive(Debug, Clone)]
pub struct JoinRequest {
    /// Names the visitor's browser or app; the same key gets the same place.
    pub key: String,
    /// The account vouched for, if any.
    pub account: Option<AccountId>,
    /// Where it comes from, counted for anonymous places.
    pub address: Option<AddressKey>,
    /// The ticket brought along, already verified.
    pub ticket: Option<Ticket>,
    /// A ticket of the visitor's whose place is over; a new one takes its place.
    pub lapsed: Option<Ticket>,
}

/// A place in the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What the ticket says.
    pub ticket: Ticket,
    /// The signed ticket.
    pub token: String,
    /// Whether the visitor had the place before.
    pub known: bool,
}

type Answer = Result<(u64, u64, Joined), Refusal>;

/// A join on its way to a step.
pub(super) struct Waiting {
    step: JoinStep,
    since: Instant,
    asker: Asker<Answer>,
}

impl AsRef<JoinStep> for Waiting {
    fn as_ref(&self) -> &JoinStep {
        &self.step
    }
}

impl Room {
    /// Joins, or finds the place that the visitor has. Acknowledged only when Redis has answered.
    pub async fn join(&self, request: JoinRequest) -> Result<Place, Refusal> {
        if let Some(ticket) = &request.ticket
            && (request.account.is_none() || ticket.account == request.account)
            && self.is_registered(ticket)
        {
            let token = self.keys.mint_ticket(ticket.clone());
            return Ok(Place { ticket: ticket.clone(), token, known: true });
        }
        let (asker, reply) = Asker::new();
        let waiting = Waiting { step: self.step(request), since: Instant::now(), asker };
        self.joins.try_send(waiting).map_err(|_| self.overloaded())?;
        let (now_ms, run, joined) = reply.read().await.ok_or_else(out_of_reach)??;
        let sale = self.options.sale.clone();
        let ticket = Ticket {
            sub: self.keys.subject(&sale, run, joined.cohort),
            sale,
            run,
            cohort: joined.cohort,
            account: joined.account,
            issued_at: now_ms / 1000,
        };
        let token = self.keys.mint_ticket(ticket.clone());
        Ok(Place { ticket, token, known: joined.known })
    }

    /// An anonymous place lives in its ticket; an account's place is also known to Redis, and
    /// after a store loss its ticket registers it again.
    fn is_registered(&self, ticket: &Ticket) -> bool {
        ticket.account.is_none() && ticket.run == self.snapshot.load().control.run
    }

    fn step(&self, request: JoinRequest) -> JoinStep {
        let is_counted = request.account.is_none() && self.options.places_per_ip > 0;
        JoinStep {
            key: hex::encode(&Sha256::digest(&request.key)[..16]),
            address: request.address.filter(|_| is_counted).map(|address| self.blind(address)),
            ticket: request.ticket,
            account: request.account,
            lapsed: request.lapsed.map(|ticket| self.lapsed(ticket)),
        }
    }

    fn lapsed(&self, ticket: Ticket) -> Lapsed {
        let seen = self.snapshot.load();
        let position = seen.draw.as_ref().and_then(|draw| ticket.cohort.position(draw));
        Lapsed { ticket, position }
    }

    /// Sends whatever waits as one step, one step at a time, for ever.
    pub(super) async fn send_joins(&self, mut queue: mpsc::Receiver<Waiting>) {
        let mut held_back: VecDeque<Waiting> = VecDeque::new();
        let mut batch = Vec::with_capacity(JOINS_MAX);
        let (mut full_until, mut refused) = (None, 0);
        loop {
            if held_back.is_empty() {
                if queue.recv_many(&mut batch, JOINS_MAX).await == 0 {
                    return;
                }
            } else {
                tokio::time::sleep(CEILING_RETRY).await;
                batch.extend(held_back.drain(..held_back.len().min(JOINS_MAX)));
                while batch.len() < JOINS_MAX
                    && let Ok(waiting) = queue.try_recv()
                {
                    batch.push(waiting);
                }
            }
            // Whoever has gone meanwhile takes no number.
            batch.retain(|waiting| !waiting.asker.has_gone());
            let options = &self.options;
            let answers = match batch.as_slice() {
                [] => continue,
                steps => self.store.join(steps, options.places_per_ip, options.max_places).await,
            };
            match answers {
                Ok(Some(joins)) => {
                    // Only then is what was done all that could be done.
                    let is_full = batch.len() == JOINS_MAX
                        || refused != self.joins_refused.load(Ordering::Relaxed);
                    refused = self.joins_refused.load(Ordering::Relaxed);
                    full_until = is_full.then(|| self.measure(batch.len(), full_until));
                    self.answer(joins, batch.drain(..), &mut held_back);
                }
                Ok(None) => refuse_all(batch.drain(..), out_of_reach),
                Err(error) => refuse_all(batch.drain(..), || self.failed("room.join", &error)),
            }
        }
    }

    /// How fast joins are written down is known while one full step follows another.
    fn measure(&self, joins: usize, full_until: Option<Instant>) -> Instant {
        let now = Instant::now();
        if let (Some(since), Ok(joins)) = (full_until, u32::try_from(joins)) {
            let took_ms = now.duration_since(since).as_secs_f64() * 1_000.0;
            self.comebacks().served(joins, took_ms);
        }
        now
    }

    fn answer(
        &self,
        joins: Joins,
        batch: impl Iterator<Item = Waiting>,
        held_back: &mut VecDeque<Waiting>,
    ) {
        let mut replies = Replies::new();
        for (waiting, answer) in batch.zip(joins.answers) {
            let answer = match answer {
                JoinAnswer::Joined(joined) => Ok((joins.now_ms, joins.run, joined)),
                JoinAnswer::Ceiling if waiting.since.elapsed() < CEILING_WAIT => {
                    held_back.push_back(waiting);
                    continue;
                }
                JoinAnswer::Ceiling => Err(self.overloaded()),
                JoinAnswer::NotOpen => Err(self.not_open(joins.now_ms)),
                JoinAnswer::Closed => Err(closed()),
                JoinAnswer::Full => Err(full()),
                JoinAnswer::TooMany => Err(too_many()),
            };
            // Whoever left in this very moment keeps the place.
            replies.add(waiting.asker, answer);
        }
        replies.send();
    }

    fn not_open(&self, now_ms: u64) -> Refusal {
        let opens_ms = self.snapshot.load().control.lobby_opens_ms;
        let detail = format!("Joining begins at {}.", rfc3339(opens_ms));
        // Not all of them in the very instant of the opening.
        let wait_ms = opens_ms.saturating_sub(now_ms) + rand::random_range(0..NOT_OPEN_SPREAD_MS);
        Refusal::new(Problem::NotOpen, detail).retry_after_ms(wait_ms)
    }

    /// One too many: nothing was written, and the same key may come again in its turn.
    fn overloaded(&self) -> Refusal {
        self.joins_refused.fetch_add(1, Ordering::Relaxed);
        let opens_ms = self.snapshot.load().control.opens_ms;
        let turn = self.comebacks().next_wait_ms(self.now_ms(), opens_ms, rand::random());
        let detail =
            "More people are joining than we can write down this second. Please try again.";
        Refusal::new(Problem::Overloaded, detail).retry_after_ms(turn)
    }

    fn comebacks(&self) -> std::sync::MutexGuard<'_, Comebacks> {
        self.comebacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each by a refusal of its own, so that they do not come again in the same instant.
fn refuse_all(batch: impl Iterator<Item = Waiting>, refusal: impl Fn() -> Refusal) {
    let mut replies = Replies::new();
    for waiting in batch {
        replies.add(waiting.asker, Err(refusal()));
    }
    replies.send();
}

pub(super) fn closed() -> Refusal {
    Refusal::new(Problem::Closed, "This sale is over.")
}

fn full() -> Refusal {
    let detail = "All places of this sale are taken. A place may come free; we look again for you.";
    Refusal::new(Problem::SaleFull, detail).retry_after_ms(rand::random_range(15_000..30_000))
}

fn too_many() -> Refusal {
    let detail = "Your network has as many places as it may have in this sale. Signing in, or \
                  another network, gives you a place of your own.";
    Refusal::new(Problem::TooManyPlaces, detail).retry_after_ms(60_000)
}

//! An order: the gate first, then the ledger, and what either word means for the other.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::lane::Patience;
use super::loading::LoadFailure;
use super::metrics::{HELD, REPLAY};
use super::refuse;
use super::state::Reservations;
use crate::domain::id::Sku;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::reservation::{Cart, OrderRef, Reservation};
use crate::store::postgres::{NoUnits, Take, Taken, Which};
use crate::store::redis::gate::{Pass, Word};

/// How often a gate may have to be loaded before one order is decided.
const LOADS_MAX: usize = 3;
/// How long a client is kept waiting; the order itself runs on to its end.
const PATIENCE: Duration = Duration::from_secs(10);

/// An order that a shopper may make: the admission was verified.
#[derive(Debug, Clone)]
pub struct Order {
    /// Whose.
    pub order: OrderRef,
    /// For what.
    pub cart: Cart,
    /// Held until the shop's answer is known, whatever its end.
    pub settling: bool,
}

/// An order that was granted.
#[derive(Debug, Clone, PartialEq)]
pub enum Reserved {
    /// By this request.
    New(Reservation),
    /// By an earlier one with the same key.
    Replay(Reservation),
}

/// What the gate's word leaves to do.
enum Way {
    /// Units are set aside at the gate for this very try.
    Gated(Arc<Pass>),
    /// Another try of this order has set its units aside; the reservation, whoever makes it, gets
    /// the id of that mark.
    Marked(Uuid),
    /// This key was marked for something else: the ledger knows what it is.
    Unmarked,
    /// No gate answers.
    Bypass,
    /// Too many wait at the gate; it was not asked.
    Full,
    /// Nothing left; the ledger need not be asked.
    Refused(NoUnits, Sku, u64),
}

impl Reservations {
    /// Takes the units of an order. What was sent runs to its end even if the caller goes away.
    pub async fn reserve(self: &Arc<Self>, order: Order) -> Result<Reserved, Refusal> {
        let (this, whose) = (self.clone(), order.order.clone());
        let (patience, _held) = Patience::while_held();
        let running = self.tasks.spawn(async move {
            let outcome = this.decide(order, &patience).await;
            this.count(&outcome);
            this.tell_of_order(&whose, &outcome);
            outcome
        });
        match tokio::time::timeout(PATIENCE, running).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) | Err(_) => Err(refuse::unknown_end()),
        }
    }

    fn count(&self, outcome: &Result<Reserved, Refusal>) {
        let name = match outcome {
            Ok(Reserved::New(_)) => HELD,
            Ok(Reserved::Replay(_)) => REPLAY,
            Err(refusal) => refusal.problem.name(),
        };
        self.metrics.reserve_outcomes.get_or_create_owned(&[("outcome", name)]).inc();
    }

    async fn decide(&self, order: Order, patience: &Patience) -> Result<Reserved, Refusal> {
        let goods = self.shelves.of(&order.order.sale);
        let unknown = order.cart.lines().iter().find(|line| !goods.stock.contains_key(&line.sku));
        if let Some(line) = unknown {
            return Err(self.no_units(&order.order, NoUnits::UnknownSku, &line.sku, 0).await);
        }
        if self.clock.now_ms() >= self.closes_ms(&order.order.sale) {
            return self.after_the_close(&order.order).await;
        }
        let id = Uuid::now_v7();
        match self.gate_says(&order, id).await {
            Way::Refused(why, sku, remaining) => {
                Err(self.no_units(&order.order, why, &sku, remaining).await)
            }
            Way::Full => Err(refuse::overloaded()),
            Way::Gated(pass) => match self.frozen(&order) {
                Some(sku) => {
                    self.give_back(Some(&pass), None).await;
                    Err(self.no_units(&order.order, NoUnits::Frozen, &sku, 0).await)
                }
                None => self.at_the_ledger(&order, id, Some(&pass), patience).await,
            },
            Way::Marked(id) => {
                let outcome = self.at_the_ledger(&order, id, None, patience).await;
                self.past_the_gate(order, &outcome);
                outcome
            }
            Way::Unmarked => {
                let outcome = self.at_the_ledger(&order, id, None, patience).await;
                self.past_the_gate(order, &outcome);
                outcome
            }
            Way::Bypass => {
                self.metrics.gate_bypasses.inc();
                let Ok(_permit) = self.bypassing.try_acquire() else {
                    return Err(refuse::overloaded());
                };
                let outcome = self.at_the_ledger(&order, id, None, patience).await;
                self.past_the_gate(order, &outcome);
                outcome
            }
        }
    }

    /// Granted without a mark of its own: the one it was granted under may be gone by now, its
    /// units given back. The gate is told of the key and follows the ledger within a moment.
    fn past_the_gate(&self, order: Order, outcome: &Result<Reserved, Refusal>) {
        if let Ok(Reserved::New(made)) = outcome {
            self.strays(&order);
            self.unmarked.note([(order, made.id)]);
        }
    }

    /// The first frozen SKU of an order: the ledger need not be asked what it would say.
    fn frozen(&self, order: &Order) -> Option<Sku> {
        let goods = self.shelves.of(&order.order.sale);
        let frozen = |sku| goods.stock.get(sku).is_some_and(|stock| stock.frozen);
        order.cart.lines().iter().map(|line| &line.sku).find(|sku| frozen(*sku)).cloned()
    }

    /// No new holds; what was ordered before is still what it is.
    async fn after_the_close(&self, order: &OrderRef) -> Result<Reserved, Refusal> {
        let known = self.ledger.reservation(&Which::Key(order.clone())).await;
        match known.map_err(|e| refuse::unavailable(&e))? {
            None => Err(Refusal::new(Problem::Closed, "the sale is over")),
            Some(reservation) => {
                let lapsed = reservation.has_lapsed(self.clock.now_ms());
                replay(reservation, lapsed)
            }
        }
    }

    async fn gate_says(&self, order: &Order, id: Uuid) -> Way {
        for _ in 0..LOADS_MAX {
            let pass = Arc::new(self.pass(order, id));
            let word = match self.gating.take(&pass).await {
                None => return Way::Full,
                Some(Ok(word)) => word,
                Some(Err(error)) => {
                    tracing::warn!(%error, "the gate is not answering; asking the ledger");
                    return Way::Bypass;
                }
            };
            match word {
                Word::Try => return Way::Gated(pass),
                Word::Seen(qty, marked) => {
                    let same = matches!(order.cart.lines(), [line] if line.qty.get() == qty);
                    return if same { Way::Marked(marked) } else { Way::Unmarked };
                }
                Word::SoldOut(line) => return refused(&pass, line, NoUnits::SoldOut, 0),
                Word::Insufficient(line, left) => {
                    return refused(&pass, line, NoUnits::Insufficient, left);
                }
                Word::NotLoaded(_) | Word::OtherGeneration(_) => {}
            }
            if let Err(error) = self.load_gates(&pass).await {
                tracing::warn!(%error, sale = %pass.sale, "a gate could not be loaded");
                break;
            }
        }
        Way::Bypass
    }

    /// Loads what an order needs.
    async fn load_gates(&self, pass: &Pass) -> Result<(), LoadFailure> {
        for (line, _) in &pass.lines {
            self.load_gate(&pass.sale, &line.sku).await?;
        }
        Ok(())
    }

    /// The ledger may have moved without the gate: it follows within a moment.
    fn strays(&self, order: &Order) {
        for line in order.cart.lines() {
            self.stray(&order.order.sale, &line.sku);
        }
    }

    fn pass(&self, order: &Order, id: Uuid) -> Pass {
        let sale = order.order.sale.clone();
        let goods = self.shelves.of(&sale);
        let generation = |sku| goods.stock.get(sku).map_or(1, |stock| stock.generation);
        let lines = order.cart.lines().iter().map(|line| (line.clone(), generation(&line.sku)));
        Pass {
            closes_ms: self.closes_ms(&sale),
            marker: order.order.marker(),
            id,
            lines: lines.collect(),
            sale,
        }
    }

    async fn at_the_ledger(
        &self,
        order: &Order,
        id: Uuid,
        pass: Option<&Pass>,
        patience: &Patience,
    ) -> Result<Reserved, Refusal> {
        let Order { order: whose, cart, settling } = order.clone();
        let closes_ms = self.closes_ms(&whose.sale);
        let take = Take { id, closes_ms, order: whose, cart, settling };
        let taken = match self.take(&take, patience).await {
            Ok(taken) => taken,
            Err(error) => {
                // Else nobody knows: the mark stays, so that a retry with this key is a retry.
                if error.is_certain() {
                    self.give_back(pass, None).await;
                }
                return Err(refuse::no_answer(&error));
            }
        };
        match taken {
            Taken::Held(reservation) => Ok(Reserved::New(reservation)),
            Taken::Replay { reservation, lapsed } => {
                // Made under this very mark by a parallel click: then the units are well spent.
                if reservation.id != id {
                    self.give_back(pass, Some(reservation.id)).await;
                }
                replay(reservation, lapsed)
            }
            Taken::Elsewhere => {
                self.give_back(pass, None).await;
                Err(refuse::overloaded())
            }
            Taken::KeyReused(known) => {
                if known == id {
                    self.strays(order);
                } else {
                    self.give_back(pass, Some(known)).await;
                }
                Err(refuse::key_reused(&take.order))
            }
            Taken::No { why, sku, remaining } => {
                self.give_back(pass, None).await;
                Err(self.no_units(&take.order, why, &sku, remaining).await)
            }
        }
    }

    /// Gives units back to the gate after a certain no.
    async fn give_back(&self, pass: Option<&Pass>, stands_for: Option<Uuid>) {
        let Some(pass) = pass else { return };
        if let Err(error) = self.gate.give_back(pass, stands_for).await {
            // The mark still owes them: two comparisons find that out.
            tracing::warn!(%error, "units were not given back to the gate");
        }
    }
}

fn refused(pass: &Pass, line: usize, why: NoUnits, remaining: u64) -> Way {
    match pass.lines.get(line) {
        Some((line, _)) => Way::Refused(why, line.sku.clone(), remaining),
        None => Way::Bypass,
    }
}

fn replay(reservation: Reservation, lapsed: bool) -> Result<Reserved, Refusal> {
    match refuse::over(&reservation, lapsed) {
        Some(refusal) => Err(refusal),
        None => Ok(Reserved::Replay(reservation)),
    }
}

//! What the core tells the room of its buyers, after the commit: who took units, who was refused for
//! stock, who has paid. An order never waits for it, and what Redis does not hear is told later.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::reserve::Reserved;
use super::state::Reservations;
use crate::domain::id::{BuyerId, SaleId};
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::reservation::{OrderRef, Reservation};
use crate::store::redis::room::{Decision, NEWS_MAX, RoomStore};

/// Kept through an outage of Redis, for each sale. What is beyond counts as open until it ends.
const KEPT_MAX: usize = 100_000;
/// What is old to most rooms leaves so much to what is new.
const OLD_MAX: usize = KEPT_MAX / 2;
/// How soon a room that did not hear is told again.
const AGAIN_AFTER: Duration = Duration::from_millis(250);

/// News that the rooms have yet to hear, in order.
#[derive(Default)]
pub(super) struct News {
    waiting: Mutex<HashMap<SaleId, VecDeque<(BuyerId, Decision)>>>,
    more: Notify,
}

impl News {
    fn waiting(&self) -> MutexGuard<'_, HashMap<SaleId, VecDeque<(BuyerId, Decision)>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, sale: &SaleId, buyer: &BuyerId, decision: Decision, most: usize) {
        let mut waiting = self.waiting();
        let news = waiting.entry(sale.clone()).or_default();
        if news.len() < most {
            news.push_back((buyer.clone(), decision));
            self.more.notify_one();
        }
    }

    /// The next to be told; they stay until they were heard.
    fn next(&self, sale: &SaleId) -> Vec<(BuyerId, Decision)> {
        let waiting = self.waiting();
        let news = waiting.get(sale).into_iter().flatten();
        news.take(NEWS_MAX).cloned().collect()
    }

    fn heard(&self, sale: &SaleId, count: usize) {
        if let Some(news) = self.waiting().get_mut(sale) {
            news.drain(..count);
        }
    }
}

impl Reservations {
    /// Notes what an order came to.
    pub(super) fn tell_of_order(&self, order: &OrderRef, outcome: &Result<Reserved, Refusal>) {
        let units = |reservation: &Reservation| {
            reservation.lines.iter().map(|line| u64::from(line.qty.get())).sum()
        };
        let decision = match outcome {
            Ok(Reserved::New(reservation)) => Decision::Took(units(reservation)),
            Ok(Reserved::Replay(reservation)) => Decision::HadTaken(units(reservation)),
            Err(refusal) => match refusal.problem {
                Problem::SoldOut | Problem::Insufficient => Decision::Refused,
                _ => return,
            },
        };
        self.news.note(&order.sale, &order.buyer, decision, KEPT_MAX);
    }

    /// Notes who holds something: a core that was killed after a commit has told nobody, and a stop
    /// has everybody claim anew. Of most the room knows already.
    pub(super) fn tell_of_holders<'a>(
        &self,
        sale: &SaleId,
        holders: impl Iterator<Item = &'a BuyerId>,
    ) {
        let had = Decision::HadTaken(1);
        holders.for_each(|buyer| self.news.note(sale, buyer, had, OLD_MAX));
    }

    /// Notes that an order was paid for, the first time.
    pub(super) fn tell_of_payment(&self, reservation: &Reservation) {
        self.news.note(&reservation.sale, &reservation.buyer, Decision::Paid, KEPT_MAX);
    }

    /// Tells the rooms until `stop`.
    pub async fn keep_telling(
        self: Arc<Self>,
        rooms: Vec<(SaleId, RoomStore)>,
        stop: CancellationToken,
    ) {
        let telling = async {
            loop {
                while !self.tell_rooms(&rooms).await {
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                self.news.more.notified().await;
            }
        };
        stop.run_until_cancelled(telling).await;
    }

    /// Tells each room one batch at a time, so that much news of one sale does not hold up another's.
    /// Whether all have heard all.
    async fn tell_rooms(&self, rooms: &[(SaleId, RoomStore)]) -> bool {
        loop {
            let (mut is_heard, mut is_done) = (true, true);
            for (sale, room) in rooms {
                let news = self.news.next(sale);
                if news.is_empty() {
                    continue;
                }
                is_done = false;
                match room.decided(&news).await {
                    Ok(()) => self.news.heard(sale, news.len()),
                    Err(error) => {
                        tracing::debug!(%sale, %error, "the room did not hear of its buyers");
                        is_heard = false;
                    }
                }
            }
            if is_done || !is_heard {
                return is_heard;
            }
        }
    }
}

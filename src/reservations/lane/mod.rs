//! Lanes: the queue of takes for one stock row in this process. Whatever waits is sent as one call
//! as soon as the lane is free. No timer: a quiet SKU has batches of one and waits for nothing.
//!
//! A lane exists while something waits in it. Its orders run in a task of their own, so that a
//! client that leaves never cancels a transaction; what nobody waits for any more is not sent.

mod after;
mod carries;
mod metrics;
mod plan;
mod send;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

pub use metrics::LaneMetrics;
use plan::Entry;

use crate::domain::id::{SaleId, Sku};
use crate::store::postgres::{BATCH_MAX, DatabaseError, Ledger, SHARDED_BATCH_MAX, Take, Taken};

/// Orders that wait in one lane.
const WAITING_MAX: usize = 4_096;
/// Lanes at once.
const LANES_MAX: usize = 1_024;
/// Calls of one lane at once.
const SENDERS_MAX: usize = 1;

/// Why an order has no answer from the ledger.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LaneError {
    /// Too many wait already. Nothing was taken.
    #[error("too many orders wait")]
    Full,
    /// Nobody waited for it any more, so it was not sent. Nothing was taken.
    #[error("nobody waited for it any more")]
    Unsent,
    /// The ledger undid it or refused it. Nothing was taken.
    #[error("nothing was taken: {0}")]
    Undone(Arc<DatabaseError>),
    /// It may have been taken: the same key will tell.
    #[error("nobody knows: {0}")]
    Unknown(Arc<DatabaseError>),
}

impl LaneError {
    /// Whether it is certain that nothing was taken.
    pub fn is_certain(&self) -> bool {
        !matches!(self, Self::Unknown(_))
    }
}

/// Whether somebody still waits for an order. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Patience(CancellationToken);

impl Patience {
    /// Ends with the guard: when a client's request is answered or dropped.
    pub fn while_held() -> (Self, DropGuard) {
        let patience = Self::default();
        let guard = patience.0.clone().drop_guard();
        (patience, guard)
    }

    /// Nobody waits any more.
    pub fn end(&self) {
        self.0.cancel();
    }

    fn is_over(&self) -> bool {
        self.0.is_cancelled()
    }
}

type Answer = Result<Taken, LaneError>;

/// Where an answer is waited for.
struct Waiter {
    reply: oneshot::Sender<Answer>,
    patience: Patience,
}

impl Waiter {
    fn is_gone(&self) -> bool {
        self.patience.is_over() || self.reply.is_closed()
    }

    /// A closed channel is somebody who left in this very moment.
    fn tell(self, answer: Answer) {
        drop(self.reply.send(answer));
    }
}

/// One stock row; a SKU belongs to one sale, but an order may claim otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Row {
    sale: SaleId,
    sku: Sku,
    shard: i32,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Entry<Waiter>>,
    senders: usize,
    /// Orders in one call.
    together: usize,
}

/// The lanes of a process; a clone shares them.
#[derive(Clone)]
pub struct Lanes(Arc<Shared>);

struct Shared {
    ledger: Ledger,
    tasks: TaskTracker,
    metrics: LaneMetrics,
    lanes: Mutex<HashMap<Row, Lane>>,
}

impl Lanes {
    /// Lanes to this ledger; `tasks` is where their calls run.
    pub fn new(ledger: Ledger, tasks: TaskTracker, metrics: LaneMetrics) -> Self {
        Self(Arc::new(Shared { ledger, tasks, metrics, lanes: Mutex::default() }))
    }

    /// What is counted here.
    pub fn metrics(&self) -> &LaneMetrics {
        &self.0.metrics
    }

    /// Takes the units of an order of one SKU from one of its stock rows; `rows`: how many it has.
    /// Dropping the future cancels no call; an order that waits still is then not sent.
    pub async fn take(&self, shard: i32, rows: i32, take: Take, patience: &Patience) -> Answer {
        let garbled = |what: &str| Arc::new(DatabaseError::Garbled(what.into()));
        let [line] = take.cart.lines() else {
            return Err(LaneError::Undone(garbled("a cart is not for a lane")));
        };
        let row = Row { sale: take.order.sale.clone(), sku: line.sku.clone(), shard };
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter { reply, patience: patience.clone() };
        let together = if rows > 1 { SHARDED_BATCH_MAX } else { BATCH_MAX };
        if self.0.push(&row, together, Entry::new(take, waiter))? {
            self.0.tasks.spawn(Arc::clone(&self.0).send(row));
        }
        answer.await.unwrap_or_else(|_| Err(LaneError::Unknown(garbled("a lane broke off"))))
    }
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, HashMap<Row, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets an order wait. True: nobody sends for this lane; the caller has to see to it.
    fn push(&self, row: &Row, together: usize, entry: Entry<Waiter>) -> Result<bool, LaneError> {
        let mut lanes = self.lanes();
        if !lanes.contains_key(row) && lanes.len() >= LANES_MAX {
            return Err(LaneError::Full);
        }
        let lane = lanes.entry(row.clone()).or_default();
        if lane.waiting.len() >= WAITING_MAX {
            return Err(LaneError::Full);
        }
        lane.together = together;
        lane.waiting.push_back(entry);
        self.metrics.waiting.inc();
        let idle = lane.senders < SENDERS_MAX;
        lane.senders += usize::from(idle);
        Ok(idle)
    }

    /// The next orders in turn, as many as may go in one call. None: nothing waits, and the sender
    /// has ended.
    fn next(&self, row: &Row) -> Option<Vec<Entry<Waiter>>> {
        let mut lanes = self.lanes();
        let lane = lanes.get_mut(row)?;
        if lane.waiting.is_empty() {
            lane.senders = lane.senders.saturating_sub(1);
            if lane.senders == 0 {
                lanes.remove(row);
            }
            return None;
        }
        let most = lane.together.max(1).min(lane.waiting.len());
        let next: Vec<_> = lane.waiting.drain(..most).collect();
        self.metrics.waiting.dec_by(i64::try_from(next.len()).unwrap_or(0));
        Some(next)
    }

    /// Lets orders that are to be sent again go first, in their order.
    fn first_in_line(&self, row: &Row, again: Vec<Entry<Waiter>>) {
        let mut lanes = self.lanes();
        let lane = lanes.entry(row.clone()).or_default();
        self.metrics.waiting.inc_by(i64::try_from(again.len()).unwrap_or(0));
        for entry in again.into_iter().rev() {
            lane.waiting.push_front(entry);
        }
    }

    /// A sender that broke off leaves nobody waiting for ever: whoever does is told, and the next
    /// order finds a new lane.
    fn broke_off(&self, row: &Row) {
        if let Some(lane) = self.lanes().remove(row) {
            self.metrics.waiting.dec_by(i64::try_from(lane.waiting.len()).unwrap_or(0));
        }
    }
}

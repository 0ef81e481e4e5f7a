//! Orders at the gate together: one script call for all that wait, a sale each.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::batcher::{Batcher, Bounds, Turns};
use crate::domain::id::SaleId;
use crate::store::redis::RedisFailure;
use crate::store::redis::gate::{Gate, PASSES_MAX, Pass, Word};

const BOUNDS: Bounds = Bounds { waiting: 16_384, together: PASSES_MAX, calls: 2 };

type Heard = Result<Word, Arc<RedisFailure>>;

/// The gate as orders ask it.
pub(super) struct Gating {
    gate: Gate,
    tasks: TaskTracker,
    sales: HashMap<SaleId, Batcher<Arc<Pass>, Heard>>,
}

impl Gating {
    pub(super) fn new(gate: Gate, tasks: TaskTracker, sales: impl Iterator<Item = SaleId>) -> Self {
        let sales = sales.map(|sale| (sale, Batcher::new(BOUNDS))).collect();
        Self { gate, tasks, sales }
    }

    /// What the gate says to an order. After a failure it is unknown whether units were set aside;
    /// none: too many wait, and it was not asked.
    pub(super) async fn take(&self, pass: &Arc<Pass>) -> Option<Heard> {
        let Some(batcher) = self.sales.get(&pass.sale) else {
            return Some(self.gate.take(pass).await.map_err(Arc::new));
        };
        let gate = self.gate.clone();
        let heard = batcher.ask(&self.tasks, Arc::clone(pass), |turns| ask(gate, turns)).await;
        heard.ok()
    }
}

async fn ask(gate: Gate, mut turns: Turns<Arc<Pass>, Heard>) {
    while let Some(mut questions) = turns.next().await {
        // Whoever has gone sets no units aside.
        questions.retain(|question| !question.is_gone());
        let passes: Vec<_> = questions.iter().map(|question| &*question.asks).collect();
        match gate.take_all(&passes).await {
            Ok(words) => {
                for (question, word) in questions.into_iter().zip(words) {
                    question.answer(Ok(word));
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for question in questions {
                    question.answer(Err(Arc::clone(&error)));
                }
            }
        }
    }
}

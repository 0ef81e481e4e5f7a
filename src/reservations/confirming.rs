//! Payments confirmed together: what waits is one transaction and one flush.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::batcher::{Batcher, Bounds, NoAnswer, Turns};
use crate::config::settings::LatePayment;
use crate::store::postgres::{
    CONFIRMS_MAX, Confirmed, DatabaseError, Ledger, Mishap, Payment, SaidTogether, Which,
};

const BOUNDS: Bounds = Bounds { waiting: 4_096, together: CONFIRMS_MAX, calls: 1 };
/// How often a payment may find another one for its order in the same call.
const AGAIN_MAX: usize = 3;

/// Why a confirm has no answer.
pub(super) enum Unconfirmed {
    /// Too many wait; nothing was done.
    Full,
    /// Whether it was done is unknown; the same payment may be told again.
    Unknown(Arc<DatabaseError>),
}

type Heard = Result<SaidTogether, Arc<DatabaseError>>;

/// The queue of payments of this process.
pub(super) struct Confirms {
    ledger: Ledger,
    tasks: TaskTracker,
    batcher: Batcher<Payment, Heard>,
}

impl Confirms {
    pub(super) fn new(ledger: Ledger, tasks: TaskTracker) -> Self {
        Self { ledger, tasks, batcher: Batcher::new(BOUNDS) }
    }

    /// Confirms an order by its payment, exactly once, with whatever else waits.
    pub(super) async fn confirm(
        &self,
        which: &Which,
        payment_ref: &str,
        late: LatePayment,
    ) -> Result<Confirmed, Unconfirmed> {
        let payment = Payment { which: which.clone(), payment_ref: payment_ref.to_owned(), late };
        for _ in 0..AGAIN_MAX {
            let ledger = self.ledger.clone();
            let asked = self.batcher.ask(&self.tasks, payment.clone(), |turns| send(ledger, turns));
            match asked.await {
                Ok(Ok(SaidTogether::Said(confirmed))) => return Ok(confirmed),
                Ok(Ok(SaidTogether::Again)) => {}
                Ok(Ok(SaidTogether::Alone)) => break,
                Ok(Err(error)) => return Err(Unconfirmed::Unknown(error)),
                Err(NoAnswer::Full) => return Err(Unconfirmed::Full),
                Err(NoAnswer::BrokeOff) => {
                    return Err(Unconfirmed::Unknown(Arc::new(DatabaseError::Contended)));
                }
            }
        }
        let alone = self.ledger.confirm(which, payment_ref, late).await;
        alone.map_err(|error| Unconfirmed::Unknown(Arc::new(error)))
    }
}

/// Sends what waits until nothing does.
async fn send(ledger: Ledger, mut turns: Turns<Payment, Heard>) {
    while let Some(questions) = turns.next().await {
        let payments: Vec<_> = questions.iter().map(|question| &question.asks).collect();
        match ledger.confirm_batch(&payments).await {
            Ok(said) => {
                for (question, said) in questions.into_iter().zip(said) {
                    question.answer(Ok(said));
                }
            }
            Err(error) => {
                // One bad payment, or too many at once: each goes alone and is told its own.
                let each_alone = matches!(error.mishap(), Mishap::Refused | Mishap::TooMuch);
                let error = Arc::new(error);
                for question in questions {
                    let heard =
                        if each_alone { Ok(SaidTogether::Alone) } else { Err(Arc::clone(&error)) };
                    question.answer(heard);
                }
            }
        }
    }
}

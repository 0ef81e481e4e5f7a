//! Sending what waits in a lane, one call after the other, each to its end.

use std::sync::Arc;
use std::time::Instant;

use super::after::{Next, after};
use super::plan::{Entry, Job, Plan, echo, plan};
use super::{LaneError, Row, Shared, Waiter};
use crate::store::postgres::{Client, DatabaseError, Mishap, Taken};

/// How often an order that lost its key to another transaction is sent again; the second time it
/// finds the winner.
const RACES_MAX: u32 = 3;

type Jobs = Vec<Job<Waiter>>;

/// Ends a lane whose sender breaks off.
struct Sender<'s> {
    shared: &'s Shared,
    row: &'s Row,
    ended: bool,
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.broke_off(self.row);
        }
    }
}

impl Shared {
    /// Sends until nothing waits. The connection is kept meanwhile, unless other lanes wait for one.
    pub(super) async fn send(self: Arc<Self>, row: Row) {
        let mut sender = Sender { shared: &self, row: &row, ended: false };
        let mut link = None;
        loop {
            // Those who were just answered ask again before the next call is made up.
            tokio::task::yield_now().await;
            let Some(waiting) = self.next(&row) else { break };
            let (gone, wanted): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|entry| !entry.unsure && entry.waiter.is_gone());
            self.unsent(gone.into_iter().map(|entry| entry.waiter));
            let Plan { jobs, later } = plan(wanted);
            self.first_in_line(&row, later);
            self.settle(&row, &mut link, jobs).await;
            if self.ledger.database().lanes_wait() {
                link = None;
            }
        }
        sender.ended = true;
    }

    /// Sends orders until each has an answer, in halves if it must be.
    async fn settle(&self, row: &Row, link: &mut Option<Client>, jobs: Jobs) {
        let mut again = vec![];
        let mut parts = vec![jobs];
        while let Some(mut jobs) = parts.pop() {
            let mut tries = 0;
            loop {
                jobs = self.still_wanted(jobs);
                if jobs.is_empty() {
                    break;
                }
                tries += 1;
                let error = match self.call(row, link, &jobs).await {
                    Ok(answers) => {
                        again.extend(answer(std::mem::take(&mut jobs), answers));
                        break;
                    }
                    Err(error) => error,
                };
                let mishap = error.mishap();
                if mishap == Mishap::LinkLost {
                    for job in &mut jobs {
                        job.unsure = true;
                    }
                    *link = None;
                }
                tracing::warn!(%error, orders = jobs.len(), tries, "lane.call_failed");
                match after(mishap, jobs.len(), tries) {
                    Next::Again(pause) => tokio::time::sleep(pause).await,
                    Next::Halves => {
                        parts.push(jobs.split_off(jobs.len() / 2));
                        parts.push(std::mem::take(&mut jobs));
                    }
                    Next::GiveUp => give_up(std::mem::take(&mut jobs), error),
                }
            }
        }
        self.first_in_line(row, again);
    }

    /// Those that somebody waits for, or that may be done already.
    fn still_wanted(&self, jobs: Jobs) -> Jobs {
        let (wanted, gone): (Jobs, Jobs) = jobs
            .into_iter()
            .partition(|job| job.unsure || !job.waiters.iter().all(Waiter::is_gone));
        self.unsent(gone.into_iter().flat_map(|job| job.waiters));
        wanted
    }

    fn unsent(&self, waiters: impl Iterator<Item = Waiter>) {
        for waiter in waiters {
            self.metrics.unsent.inc();
            waiter.tell(Err(LaneError::Unsent));
        }
    }

    async fn call(
        &self,
        row: &Row,
        link: &mut Option<Client>,
        jobs: &[Job<Waiter>],
    ) -> Result<Vec<Option<Taken>>, DatabaseError> {
        if link.as_ref().is_none_or(|client| client.is_closed()) {
            *link = None;
            *link = Some(self.ledger.database().lane_client().await?);
        }
        let Some(client) = link else { return Err(DatabaseError::Contended) };
        let takes: Vec<_> = jobs.iter().map(|job| (&job.take, job.unsure)).collect();
        self.metrics.attempts.inc_by(u64::try_from(jobs.len()).unwrap_or(0));
        let since = Instant::now();
        let batch = self.ledger.take_batch(client, row.shard, &takes).await?;
        self.metrics.sent(jobs.len(), since.elapsed(), batch.row_us);
        Ok(batch.answers)
    }
}

/// Tells everybody; what lost its key to another transaction goes back into the lane. Nobody hears
/// "no" while an earlier call of the order may still be committed.
fn answer(jobs: Jobs, answers: Vec<Option<Taken>>) -> Vec<Entry<Waiter>> {
    let mut again = vec![];
    for (job, answer) in jobs.into_iter().zip(answers) {
        let is_open = answer.as_ref().is_some_and(Taken::is_open);
        if job.unsure && is_open {
            give_up(vec![job], DatabaseError::Unsure);
            continue;
        }
        let mut waiters = job.waiters.into_iter();
        if let Some(taken) = answer {
            let echoed = (waiters.len() > 1).then(|| echo(&taken));
            if let Some(first) = waiters.next() {
                first.tell(Ok(taken));
            }
            for (waiter, taken) in waiters.zip(std::iter::repeat(echoed).flatten()) {
                waiter.tell(Ok(taken));
            }
        } else if job.races + 1 < RACES_MAX {
            again.extend(waiters.map(|waiter| Entry {
                take: job.take.clone(),
                waiter,
                races: job.races + 1,
                unsure: job.unsure,
            }));
        } else {
            let failed = LaneError::Undone(Arc::new(DatabaseError::Contended));
            for waiter in waiters {
                waiter.tell(Err(failed.clone()));
            }
        }
    }
    again
}

fn give_up(jobs: Jobs, error: DatabaseError) {
    let error = Arc::new(error);
    for job in jobs {
        let error = Arc::clone(&error);
        let failed = if job.unsure { LaneError::Unknown(error) } else { LaneError::Undone(error) };
        for waiter in job.waiters {
            waiter.tell(Err(failed.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use uuid::Uuid;

    use super::*;
    use crate::domain::id::{BuyerId, OrderKey, SaleId, Sku};
    use crate::domain::quantity::Quantity;
    use crate::domain::reservation::{Cart, Line, OrderRef};
    use crate::reservations::lane::{Answer, Patience};
    use crate::store::postgres::{NoUnits, Take};

    fn sku() -> Sku {
        Sku::parse("S").unwrap()
    }

    fn job(unsure: bool) -> (Job<Waiter>, oneshot::Receiver<Answer>) {
        let order = OrderRef {
            sale: SaleId::parse("s").unwrap(),
            buyer: BuyerId::parse("b").unwrap(),
            order_key: OrderKey::parse("k").unwrap(),
        };
        let line = Line { sku: sku(), qty: Quantity::new(1).unwrap() };
        let cart = Cart::new(vec![line]).unwrap();
        let take = Take { id: Uuid::now_v7(), order, cart, closes_ms: 0, settling: false };
        let (reply, answer) = oneshot::channel();
        let waiters = vec![Waiter { reply, patience: Patience::default() }];
        (Job { take, waiters, races: 0, unsure }, answer)
    }

    #[test]
    fn rs_73_no_is_not_told_while_an_earlier_call_may_still_be_committed() {
        let no = Taken::No { why: NoUnits::SoldOut, sku: sku(), remaining: 0 };
        for taken in [no, Taken::Elsewhere] {
            let ((sure, told), (unsure, untold)) = (job(false), job(true));
            answer(vec![sure, unsure], vec![Some(taken.clone()), Some(taken.clone())]);
            assert_eq!(told.blocking_recv().unwrap().unwrap(), taken);
            let error = untold.blocking_recv().unwrap().unwrap_err();
            assert!(!error.is_certain(), "{error}");
        }
    }
}

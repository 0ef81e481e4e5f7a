//! Claiming: a called ticket becomes an admission, signed at its slot.

use super::{Room, Snapshot, join, out_of_reach};
use crate::domain::admission::Admission;
use crate::domain::queue::POLL_MS_MIN;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::ticket::Ticket;
use crate::store::redis::RedisFailure;
use crate::store::redis::room::{Advance, Claim, ClaimStep};

/// What a claim got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The right to check out.
    Admitted {
        /// What it says.
        admission: Box<Admission>,
        /// The signed admission.
        token: String,
    },
    /// A slot ahead, to be collected then; neither is known while the line stands still.
    Wait {
        /// Unix milliseconds on the room's clock.
        slot_ms: Option<u64>,
        /// From now.
        retry_after_ms: Option<u64>,
    },
}

impl Room {
    /// Claims with a ticket of this sale and run. The same ticket gets the same admission in one
    /// epoch, however often it asks.
    pub async fn claim(&self, ticket: &Ticket) -> Result<Claimed, Refusal> {
        let seen = self.snapshot();
        let Some(position) = seen.draw.as_ref().and_then(|draw| ticket.cohort.position(draw))
        else {
            return Err(self.not_drawn());
        };
        // Who is plainly not called is told so here; the seam is left to Redis, since another
        // node may know of a later call.
        if position >= seen.cursor.saturating_add(seam(seen.control.rate.get())) {
            return Err(not_called());
        }
        let buyer = ticket.buyer();
        let token_ttl_ms = self.options.token_ttl_ms;
        let step = ClaimStep {
            run: ticket.run,
            position,
            cohort: ticket.cohort,
            buyer: &buyer,
            token_ttl_ms,
        };
        let claim = match self.claim_or_call(&step, &seen).await {
            Ok(claim) => claim,
            Err(error) => return Err(self.failed("room.claim", &error)),
        };
        match claim {
            Claim::Admitted { slot_ms, epoch } => {
                let jti = self.keys.admission_id(&ticket.sub, epoch);
                let admission =
                    Admission::at_slot(ticket, epoch, position, slot_ms, token_ttl_ms, jti);
                let token = self.keys.mint_admission(&admission);
                Ok(Claimed::Admitted { admission: Box::new(admission), token })
            }
            Claim::Wait { slot_ms, now_ms } => {
                let retry_after_ms = slot_ms.map(|slot| slot.saturating_sub(now_ms));
                Ok(Claimed::Wait { slot_ms, retry_after_ms })
            }
            Claim::NotCalled => Err(not_called()),
            Claim::NotOpen => Err(self.not_drawn()),
            Claim::Closed => Err(join::closed()),
            Claim::Missed | Claim::Void => Err(missed()),
            Claim::Left => Err(left()),
            Claim::Unloaded => Err(out_of_reach()),
        }
    }

    /// With an empty line and an idle meter the next in line need not wait for the pacer's tick:
    /// outside the rush nobody sees a queue.
    async fn claim_or_call(
        &self,
        step: &ClaimStep<'_>,
        seen: &Snapshot,
    ) -> Result<Claim, RedisFailure> {
        let claim = self.store.claim(step).await?;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
        let is_idle = seen.meter.lead_ms(self.now_ms() as f64) <= 0.0;
        if claim != Claim::NotCalled || step.position != seen.cursor || !is_idle {
            return Ok(claim);
        }
        match self.store.advance(step.position, step.position.saturating_add(1)).await? {
            Advance::Moved(cursor) | Advance::Taken(cursor) if cursor > step.position => {
                self.store.claim(step).await
            }
            Advance::Moved(_) | Advance::Taken(_) | Advance::Still(_) | Advance::Unloaded => {
                Ok(claim)
            }
        }
    }

    fn not_drawn(&self) -> Refusal {
        let opens_ms = self.snapshot.load().control.opens_ms;
        let wait_ms = opens_ms.saturating_sub(self.now_ms()).max(POLL_MS_MIN);
        Refusal::new(Problem::NotCalled, "The draw has not been made yet.").retry_after_ms(wait_ms)
    }
}

/// How many positions may have been called since the last look: a second's worth, and some.
fn seam(rate_per_second: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is positive and at most a million"
    )]
    let second = rate_per_second.ceil() as u64;
    second.saturating_add(64)
}

fn not_called() -> Refusal {
    let detail = "It is not your turn yet. Your place is kept.";
    Refusal::new(Problem::NotCalled, detail).retry_after_ms(POLL_MS_MIN)
}

fn left() -> Refusal {
    let detail = "You have given this place up. You may join again, behind everybody waiting now.";
    Refusal::new(Problem::Missed, detail)
}

fn missed() -> Refusal {
    let detail = "Your turn has passed. You may join again, behind everybody waiting now.";
    Refusal::new(Problem::Missed, detail)
}

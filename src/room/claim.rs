//! Claiming: a called ticket becomes an admission, signed at its slot.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Room, Snapshot, join, out_of_reach};
use crate::domain::admission::Admission;
use crate::domain::asking::POLL_MS_MIN;
use crate::domain::queue::PlaceState;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::ticket::Ticket;
use crate::store::redis::RedisFailure;
use crate::store::redis::room::{Advance, Claim, ClaimStep, Collected};

/// The member of a refusal that says where its place stands, if that is not what the problem says.
const STATE: &str = "state";

/// How long a renewal waits for the count of open admissions.
const ACTIVE_TIME_MAX: Duration = Duration::from_millis(250);

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

/// What became of a ticket's turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It is now, or has a slot.
    Claimed(Claimed),
    /// The admission that was signed has run out; a hold may make it last.
    Spent(Box<Admission>),
}

impl Room {
    /// Claims with a ticket of this sale and run; a turn that was used up is missed.
    pub async fn claim(&self, ticket: &Ticket) -> Result<Claimed, Refusal> {
        match self.turn(ticket).await? {
            Turn::Claimed(claimed) => Ok(claimed),
            Turn::Spent(_) => Err(missed()),
        }
    }

    /// Claims with a ticket of this sale and run. The same ticket gets the same admission in one
    /// epoch, however often it asks.
    pub async fn turn(&self, ticket: &Ticket) -> Result<Turn, Refusal> {
        let seen = self.snapshot();
        let Some(position) = seen.draw.as_ref().and_then(|draw| ticket.cohort.position(draw))
        else {
            return Err(self.not_drawn());
        };
        self.heard_at(&seen, position);
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
            halted: seen.shop_is_down,
        };
        let claim = match self.claim_or_call(&step, &seen).await {
            Ok(claim) => claim,
            Err(error) => return Err(self.failed("room.claim", &error)),
        };
        let admission = |Collected { slot_ms, ends_ms, epoch }| {
            let jti = self.keys.admission_id(&ticket.sub, epoch);
            Admission::at_slot(ticket, epoch, position, slot_ms, token_ttl_ms, jti)
                .ending_at(ends_ms)
        };
        match claim {
            Claim::Admitted(collected) => {
                let admission = admission(collected);
                let token = self.keys.mint_admission(&admission);
                let admission = Box::new(admission);
                Ok(Turn::Claimed(Claimed::Admitted { admission, token }))
            }
            Claim::Spent(collected) => Ok(Turn::Spent(Box::new(admission(collected)))),
            Claim::Wait { slot_ms, now_ms } => {
                let retry_after_ms = slot_ms.map(|slot| slot.saturating_sub(now_ms));
                Ok(Turn::Claimed(Claimed::Wait { slot_ms, retry_after_ms }))
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
        // While others wait behind, this would use up the tick in which the pacer calls many.
        let is_last = seen.line <= step.position.saturating_add(1) && !step.halted;
        let is_next = claim == Claim::NotCalled && step.position == seen.cursor && is_idle;
        if !is_next || !is_last || !self.take_spare() {
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

    /// Whether one more may be called for the stock that is left.
    fn take_spare(&self) -> bool {
        let less = |spare: u64| spare.checked_sub(1);
        self.spare.try_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Counts a renewed admission as open until its new end. Without an answer it ends as it was:
    /// a payment does not wait for a count.
    pub async fn stays_active(&self, admission: &Admission) {
        let ends_ms = admission.exp.saturating_mul(1000);
        let buyer = admission.buyer();
        let step = self.store.prolong(admission.epoch, &buyer, ends_ms);
        match tokio::time::timeout(ACTIVE_TIME_MAX, step).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => drop(self.failed("room.prolong", &error)),
            Err(_) => tracing::debug!(sale = %self.options.sale, "room.prolong took too long"),
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
    given_up("You have given this place up. You may join again, behind everybody waiting now.")
}

/// The refusal of a place that was given up: there is no turn to come any more.
pub fn given_up(detail: impl Into<String>) -> Refusal {
    Refusal::new(Problem::Missed, detail).with(STATE, PlaceState::Left.word())
}

/// The refusal of a turn that has passed.
pub fn missed() -> Refusal {
    let detail = "Your turn has passed. You may join again, behind everybody waiting now.";
    Refusal::new(Problem::Missed, detail)
}

/// What became of the place that a refusal is about, if it is over: missed, or given up.
pub fn ended(refusal: &Refusal) -> Option<PlaceState> {
    let is_left = refusal.member(STATE) == Some(PlaceState::Left.word());
    let state = if is_left { PlaceState::Left } else { PlaceState::Missed };
    (refusal.problem == Problem::Missed).then_some(state)
}

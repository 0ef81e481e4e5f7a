//! Claiming: a called ticket becomes an admission, signed at its slot.

use super::{Room, join, out_of_reach};
use crate::domain::admission::Admission;
use crate::domain::queue::POLL_MS_MIN;
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::ticket::Ticket;
use crate::store::redis::room::{Claim, ClaimStep};

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
        let step = ClaimStep { run: ticket.run, position, buyer: &buyer, token_ttl_ms };
        let claim = self.store.claim(&step).await.map_err(|error| {
            tracing::debug!(sale = %self.options.sale, %error, "room.claim_failed");
            out_of_reach()
        })?;
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
            Claim::Unloaded => Err(out_of_reach()),
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

fn missed() -> Refusal {
    let detail = "Your turn has passed. You may join again, behind everybody waiting now.";
    Refusal::new(Problem::Missed, detail)
}

//! Admissions from outside the meter: by a staff pass, or while everybody is let past the line.

use std::sync::Arc;

use super::{Room, join, out_of_reach};
use crate::domain::admission::{Admission, Origin};
use crate::domain::id::AccountId;
use crate::domain::refusal::Refusal;

impl Room {
    /// Whether everybody is let past the line now. A pause, and so a stop, goes before it, and so
    /// does a core that is not there.
    pub fn is_bypassed(&self) -> bool {
        let (seen, now_ms) = (self.glance(), self.now_ms());
        let until_ms = seen.control.bypass_until_ms.min(seen.control.closes_ms);
        now_ms < until_ms && !seen.is_paused(now_ms)
    }

    /// Refuses while nothing may be signed: what a pause stops, it stops for passes too.
    pub fn may_sign(&self) -> Result<(), Refusal> {
        let (seen, now_ms) = (self.snapshot(), self.now_ms());
        if now_ms >= seen.control.closes_ms {
            return Err(join::closed());
        }
        if seen.is_paused(now_ms) { Err(out_of_reach()) } else { Ok(()) }
    }

    /// Signs an admission that has no slot. If `is_counted`, it is among the open ones as soon as Redis
    /// answers.
    pub async fn admit_outside(
        &self,
        origin: Origin,
        sub: String,
        account: Option<AccountId>,
        is_counted: bool,
    ) -> (Arc<Admission>, String) {
        let (seen, now_ms) = (self.snapshot(), self.now_ms());
        let epoch = seen.control.epoch;
        let admission = Admission {
            sale: self.options.sale.clone(),
            jti: self.keys.admission_id(&sub, epoch),
            sub,
            epoch,
            account,
            origin,
            iat: now_ms / 1000,
            exp: now_ms.saturating_add(self.options.token_ttl_ms) / 1000,
        };
        let end_ms = admission.exp.saturating_mul(1000);
        if is_counted && let Err(error) = self.store.occupy(&admission.buyer(), end_ms).await {
            tracing::debug!(sale = %self.options.sale, %error, "room.occupy got no answer");
        }
        let token = self.keys.mint_admission(&admission);
        (Arc::new(admission), token)
    }
}

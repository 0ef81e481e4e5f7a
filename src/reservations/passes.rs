//! Staff passes at the core: made, listed, revoked and counted by the ledger.

use std::time::Duration;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::refuse::{overloaded, unavailable};
use super::state::Reservations;
use crate::domain::id::SaleId;
use crate::domain::pass::{BadPass, LASTS_MS_MAX, USES_MAX, Use};
use crate::domain::refusal::{Problem, Refusal};
use crate::domain::status::rfc3339;
use crate::store::postgres::{PassRecord, TrailEntry};

/// Redemptions at the ledger at once.
pub(super) const REDEEMING_MAX: usize = 2;
/// The longest wait for a turn.
const REDEEM_WAIT: Duration = Duration::from_secs(8);

impl Reservations {
    /// Makes a pass.
    pub async fn new_pass(
        &self,
        sale: SaleId,
        uses: u32,
        expires_at_ms: u64,
        author: &str,
    ) -> Result<PassRecord, Refusal> {
        let now_ms = self.clock.now_ms();
        if !self.knows(&sale) {
            let detail = format!("sale {sale} is not known to this core");
            return Err(Refusal::new(Problem::UnknownSale, detail));
        }
        if uses == 0 || uses > USES_MAX {
            let cure = format!("must be 1 to {USES_MAX}");
            return Err(Refusal::bad_request("uses", cure));
        }
        if expires_at_ms <= now_ms || expires_at_ms > now_ms.saturating_add(LASTS_MS_MAX) {
            let cure = "must lie ahead, at most 90 days, as \"2h\" or \"2027-03-01T14:00:00Z\"";
            return Err(Refusal::bad_request("expires", cure));
        }
        let pass = PassRecord {
            id: Uuid::now_v7(),
            sale,
            uses: uses.into(),
            used: 0,
            created_at_ms: now_ms,
            expires_at_ms,
            revoked_at_ms: None,
        };
        self.ledger.database().keep_pass(&pass).await.map_err(|e| unavailable(&e))?;
        let what = json!({ "uses": uses, "expires_at": rfc3339(expires_at_ms) });
        self.note_pass(&pass, "new", "pass-new", author, &what).await?;
        tracing::info!(pass = %pass.id, sale = %pass.sale, uses, expires_at_ms, "pass.made");
        Ok(pass)
    }

    /// The newest passes, of one sale or of all.
    pub async fn passes(&self, sale: Option<&SaleId>) -> Result<Vec<PassRecord>, Refusal> {
        self.ledger.database().passes(sale).await.map_err(|e| unavailable(&e))
    }

    /// Revokes a pass: no further use of it counts.
    pub async fn revoke_pass(&self, id: Uuid, author: &str) -> Result<PassRecord, Refusal> {
        let now_ms = self.clock.now_ms();
        let revoked = self.ledger.database().revoke_pass(id, now_ms).await;
        let pass = revoked.map_err(|e| unavailable(&e))?;
        let pass = pass.ok_or_else(|| {
            Refusal::bad_request("id", "there is no such pass; see the list of passes").status(404)
        })?;
        tracing::info!(pass = %pass.id, sale = %pass.sale, used = pass.used, "pass.revoked");
        self.note_pass(&pass, "revoked", "pass-revoke", author, &json!({ "used": pass.used }))
            .await?;
        Ok(pass)
    }

    /// Into the audit trail, once for each thing that happens to a pass once.
    async fn note_pass(
        &self,
        pass: &PassRecord,
        happened: &str,
        action: &str,
        author: &str,
        what: &Value,
    ) -> Result<(), Refusal> {
        let mut changes = Map::from_iter([("pass".to_owned(), json!(pass.id))]);
        changes.extend(what.as_object().cloned().unwrap_or_default());
        let entry = TrailEntry {
            entry: format!("pass {} {happened}", pass.id),
            at_ms: self.clock.now_ms(),
            author: author.to_owned(),
            action: action.to_owned(),
            sale: Some(pass.sale.clone()),
            version: None,
            changes,
        };
        self.ledger.database().note(&[entry]).await.map_err(|e| unavailable(&e))
    }

    /// Counts one use of a pass, once for each key. Few are counted at once: they stand in line
    /// for one row, and the connections are for orders.
    pub async fn redeem_pass(&self, id: Uuid, sale: &SaleId, key: &str) -> Result<Use, Refusal> {
        let permit = tokio::time::timeout(REDEEM_WAIT, self.redeeming.acquire()).await;
        let Ok(Ok(_permit)) = permit else { return Err(overloaded()) };
        let now_ms = self.clock.now_ms();
        let redeemed = self.ledger.database().redeem_pass(id, sale, key, now_ms).await;
        let redeemed = redeemed.map_err(|e| unavailable(&e))?;
        tracing::info!(pass = %id, %sale, outcome = ?redeemed, "pass.redeemed");
        redeemed.map_err(BadPass::refusal)
    }
}

//! What operators did to the stock, in the audit trail.

use serde_json::Value;
use uuid::Uuid;

use super::Api;
use super::auth::Operator;
use crate::domain::id::SaleId;
use crate::store::postgres::TrailEntry;

/// The name of an entry that nothing else names.
pub(super) fn fresh(action: &str) -> String {
    format!("{action} {}", Uuid::now_v7())
}

impl Api {
    /// Notes what was done. It has been done by now: that it cannot be noted undoes nothing.
    pub(super) async fn note(
        &self,
        operator: &Operator,
        entry: String,
        action: &str,
        sale: Option<&SaleId>,
        changes: Value,
    ) {
        let Value::Object(changes) = changes else { return };
        let entry = TrailEntry {
            entry,
            at_ms: self.reservations.now_ms(),
            author: operator.author.clone(),
            action: action.to_owned(),
            sale: sale.cloned(),
            version: None,
            changes,
        };
        let noted = self.reservations.ledger().database().note(std::slice::from_ref(&entry)).await;
        if let Err(error) = noted {
            tracing::error!(%error, ?entry, "the audit trail could not be written");
        }
    }
}

//! Looks for signs of trouble with each reconcile, and raises the alarm.

use super::state::Reservations;
use crate::store::postgres::{DatabaseError, Signs};

/// A transaction that is open for longer than this makes every take slower, in seconds.
const SNAPSHOT_MAX_S: f64 = 60.0;

impl Reservations {
    /// Reads the signs into the metrics.
    pub(super) async fn look_for_signs(&self) -> Result<(), DatabaseError> {
        let Signs { oldest_snapshot_s, unsettled, unmatched } = self.ledger.signs().await?;
        self.metrics.oldest_snapshot.set(oldest_snapshot_s);
        if oldest_snapshot_s > SNAPSHOT_MAX_S {
            tracing::error!(
                oldest_snapshot_s,
                "a transaction that is open for so long keeps the stock rows from being cleaned; \
                 end it (pg_stat_activity has its pid)"
            );
        }
        self.metrics.unsettled_holds.set(i64::try_from(unsettled).unwrap_or(i64::MAX));
        if unsettled > 0 {
            tracing::error!(unsettled, "holds wait for the shop's answer past their end");
        }
        self.metrics.unmatched_payments.set(i64::try_from(unmatched).unwrap_or(i64::MAX));
        if unmatched > 0 {
            tracing::error!(unmatched, "payments have come whose orders have not");
        }
        Ok(())
    }
}

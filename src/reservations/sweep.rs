//! The sweep: lapsed holds give their units back, in bounded chunks, by any number of cores.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::state::Reservations;
use crate::store::postgres::DatabaseError;

/// Chunks of one sweep; what is left after that is for the next one.
const CHUNKS_MAX: usize = 2_000;

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SweepReport {
    /// Holds that are expired now.
    pub expired: u64,
    /// Units that came back.
    pub units: u64,
}

impl Reservations {
    /// Expires what has lapsed and tells the gate.
    pub async fn sweep(&self) -> Result<SweepReport, DatabaseError> {
        let mut report = SweepReport::default();
        for _ in 0..CHUNKS_MAX {
            let swept = self.ledger.sweep_chunk().await?;
            report.expired += swept.expired;
            report.units += swept.units;
            self.metrics.swept_holds.inc_by(swept.expired);
            self.tell_gate(&swept.pushes).await;
            if !swept.full {
                break;
            }
        }
        Ok(report)
    }

    /// Sweeps on a grid until `stop`.
    pub async fn keep_sweeping(self: Arc<Self>, every: Duration, stop: CancellationToken) {
        let mut grid = tokio::time::interval(every);
        grid.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(grid.tick()).await.is_some() {
            match self.sweep().await {
                Ok(SweepReport { expired: 0, .. }) => {}
                Ok(SweepReport { expired, units }) => tracing::info!(expired, units, "swept"),
                Err(error) => tracing::warn!(%error, "the sweep will be tried again"),
            }
        }
    }
}

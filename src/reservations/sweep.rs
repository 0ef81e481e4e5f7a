//! The sweep: lapsed holds give their units back, in bounded chunks, by any number of cores.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::state::Reservations;
use crate::store::postgres::DatabaseError;

/// Chunks of one sweep; what is left after that is for the next one.
const CHUNKS_MAX: usize = 4_000;
/// After a full chunk a sweep rests so many times as long as it worked, within these: orders go
/// first, and a hundred thousand holds are back within a minute all the same.
const REST_TIMES: u32 = 3;
const REST_MIN: Duration = Duration::from_millis(10);
const REST_MAX: Duration = Duration::from_millis(100);

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SweepReport {
    /// Holds that are expired now.
    pub expired: u64,
    /// Units that came back.
    pub units: u64,
}

impl Reservations {
    /// Expires what has lapsed and tells the gate, chunk by chunk.
    pub async fn sweep(&self) -> Result<SweepReport, DatabaseError> {
        self.sweep_until(&CancellationToken::new(), true).await
    }

    async fn sweep_until(
        &self,
        stop: &CancellationToken,
        wait: bool,
    ) -> Result<SweepReport, DatabaseError> {
        let mut report = SweepReport::default();
        for _ in 0..CHUNKS_MAX {
            let began = Instant::now();
            let swept = self.ledger.sweep_chunk(wait).await?;
            report.expired += swept.expired;
            report.units += swept.units;
            self.metrics.swept_holds.inc_by(swept.expired);
            // With the first unit that is back the gate opens again.
            self.tell_gate(&swept.pushes).await;
            if !swept.full {
                break;
            }
            let rest = (began.elapsed() * REST_TIMES).clamp(REST_MIN, REST_MAX);
            if stop.run_until_cancelled(tokio::time::sleep(rest)).await.is_none() {
                break;
            }
        }
        Ok(report)
    }

    /// Sweeps on a grid until `stop`, leaving the work to another core that is at it.
    pub async fn keep_sweeping(self: Arc<Self>, every: Duration, stop: CancellationToken) {
        let mut grid = tokio::time::interval(every);
        grid.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(grid.tick()).await.is_some() {
            match self.sweep_until(&stop, false).await {
                Ok(SweepReport { expired: 0, .. }) => {}
                Ok(SweepReport { expired, units }) => tracing::info!(expired, units, "swept"),
                Err(error) => tracing::warn!(%error, "the sweep will be tried again"),
            }
        }
    }
}

//! Restoring: Redis does not have the room, because it is new there, or was emptied, restarted
//! or failed over.

use super::ceilings::{self, LEAD_MIN};
use super::{Keeper, KeeperError};
use crate::store::redis::room::{Ceilings, Loading};

impl Keeper {
    /// Loads control, draw, opening and counters from Postgres. Counters resume at their
    /// ceilings, so that no number is given twice; the holes are just absentees.
    pub(super) async fn restore(&self) -> Result<(), KeeperError> {
        let control = self.control().await?;
        let run = control.run;
        let seed = self.seed(run).await?;
        let opening = self.ledger.database().opening(&self.sale, run).await?;
        let counters = self.kept_ceilings(run).await?;
        let raised = Ceilings {
            entries: counters.entries.saturating_add(LEAD_MIN),
            late: counters.late.saturating_add(LEAD_MIN),
            cursor: counters.cursor.saturating_add(ceilings::cursor_lead_min(control.rate)),
        };
        self.keep_ceilings(run, raised).await?;
        let loading = Loading {
            commitment: self.commitment(run, &seed),
            opening: opening.map(|record| self.opening(record, seed)),
            counters,
            ceilings: raised,
            control,
        };
        if self.room.load(&loading).await? {
            tracing::info!(
                sale = %self.sale, run, entries = counters.entries, late = counters.late,
                cursor = counters.cursor, "keeper.loaded"
            );
        }
        Ok(())
    }
}

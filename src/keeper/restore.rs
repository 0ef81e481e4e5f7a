//! Restoring: Redis does not have the room, because it is new there, or was emptied, restarted
//! or failed over.

use super::{Keeper, KeeperError};
use crate::store::redis::room::Loading;

impl Keeper {
    /// Loads control, draw, opening and counters from Postgres. Counters resume at their
    /// ceilings, so that no number is given twice; the holes are just absentees.
    pub(super) async fn restore(&self) -> Result<(), KeeperError> {
        let mirrored = self.room.control().await?;
        let control = self.merged_control(mirrored.as_ref()).await?;
        let run = control.run;
        let seed = self.seed(run).await?;
        let opening = self.ledger.database().opening(&self.sale, run).await?;
        let mut counters = self.kept_ceilings(run).await?;
        if opening.is_none() {
            // Nobody can have been called before there was an order.
            counters.cursor = 0;
        }
        let loading = Loading {
            commitment: self.commitment(run, &seed),
            opening: opening.map(|record| self.opening(record, seed)),
            counters,
            // Nothing is handed out until the next look has raised them, in Postgres first.
            ceilings: counters,
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

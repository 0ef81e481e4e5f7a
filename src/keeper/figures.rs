//! Figures: while a core can read the ledger, it says so to everybody.

use std::time::Duration;

use super::{Failing, Keeper, KeeperError, ticks};

const FIGURES_EVERY: Duration = Duration::from_millis(500);
/// Figures read more slowly would be written as fresh though they are not.
const READ_MAX: Duration = Duration::from_secs(1);

impl Keeper {
    pub(super) async fn tell_figures(&self) {
        let mut ticks = ticks(FIGURES_EVERY);
        let mut failing = Failing::new(&self.sale, "keeper.figures");
        loop {
            ticks.tick().await;
            failing.note(self.tell().await);
        }
    }

    pub(super) async fn tell(&self) -> Result<(), KeeperError> {
        let since = self.clock.local_ms();
        // Asked first: whatever the room knows by now was committed before the reading.
        let units_told = self.room.units_told().await?;
        let read = tokio::time::timeout(READ_MAX, async {
            let figures = self.ledger.figures(&self.sale).await?;
            Ok::<_, KeeperError>((figures, self.ledger.holders_count(&self.sale).await?))
        });
        let (figures, holders) = read.await.map_err(|_| KeeperError::Late)??;
        let age_ms = self.clock.local_ms().saturating_sub(since);
        Ok(self.room.write_figures(&figures, age_ms, units_told, holders).await?)
    }
}

//! The journal: what joins say of accounts is carried from Redis to Postgres within a second, and
//! back after a loss.

use std::time::Duration;

use super::{Failing, Keeper, KeeperError, ticks};
use crate::store::postgres::PlaceRecord;
use crate::store::redis::room::{ACCOUNTS_MAX, JournalEntry};

const CARRY_EVERY: Duration = Duration::from_millis(200);
/// Entries of one statement.
const CARRY_MAX: usize = 1_000;
/// Milliseconds of a version, which begins with them.
const VERSIONS_PER_MS: u64 = 1_000_000;

impl Keeper {
    pub(super) async fn keep_journal(&self) {
        let mut ticks = ticks(CARRY_EVERY);
        let mut failing = Failing::new(&self.sale, "keeper.journal");
        loop {
            ticks.tick().await;
            failing.note(self.carry_journal().await);
        }
    }

    /// Carries all that the journal has. Durable first, then forgotten: cut off in between, or with
    /// two cores at it, the same is written twice, which changes nothing.
    pub(super) async fn carry_journal(&self) -> Result<(), KeeperError> {
        loop {
            let page = self.room.read_journal(CARRY_MAX).await?;
            if page.entries.is_empty() {
                return Ok(());
            }
            let places: Vec<_> = page.entries.iter().map(record).collect();
            self.ledger.database().keep_places(&self.sale, &places).await?;
            self.room.cut_journal(&page).await?;
        }
    }

    /// Gathers the journalled accounts of a run in Redis, in bounded steps; false if the restore
    /// must begin anew.
    pub(super) async fn gather_accounts(&self, run: u64) -> Result<bool, KeeperError> {
        let database = self.ledger.database();
        let mut after = String::new();
        loop {
            let max = i64::try_from(ACCOUNTS_MAX).unwrap_or(i64::MAX);
            let page = database.places_after(&self.sale, run, &after, max).await?;
            let Some((last, _)) = page.last() else { return Ok(true) };
            last.as_str().clone_into(&mut after);
            if !self.room.restore_accounts(self.number, &page).await? {
                return Ok(false);
            }
        }
    }
}

fn record(entry: &JournalEntry) -> PlaceRecord {
    PlaceRecord {
        run: entry.run,
        account: entry.account.clone(),
        number: entry.number,
        version: entry.version,
        joined_at_ms: entry.version / VERSIONS_PER_MS,
    }
}

//! Restoring: Redis does not have the room, because it is new there, or was emptied, restarted,
//! failed over or replaced by an older copy.

use std::ops::Range;

use super::{Keeper, KeeperError, Memory};
use crate::domain::sale::Control;
use crate::store::redis::room::{Ceilings, Loading, OlderCopy, Restore};

/// Ranges of entries and of latecomers that nobody gets.
type Skipped = [(&'static str, Range<u64>); 2];

impl Keeper {
    /// Loads control, draw, opening, accounts and counters from Postgres. Counters resume at their
    /// ceilings, so that no number is given twice. What an older copy knows beyond Postgres is
    /// carried there first. Says whether the room is loaded now.
    pub(super) async fn restore(&self, memory: &Memory) -> Result<bool, KeeperError> {
        let Some(copy) = self.room.begin_restore(self.number).await? else { return Ok(true) };
        let control = self.merged_control(copy.control.as_ref()).await?;
        self.carry_journal().await?;
        let run = control.run;
        if !self.gather_accounts(run).await? {
            return Ok(false);
        }
        let (loading, skipped) = self.loading(control, &copy, memory).await?;
        let done = self.room.load(self.number, &loading).await?;
        if done == Restore::Done {
            // Written only by the core whose counters count: another may have read newer ceilings,
            // and numbers below those are handed out by now.
            self.ledger.database().keep_holes(&self.sale, run, &skipped).await?;
            self.keep_given(run, loading.counters).await?;
            let Ceilings { entries, late, cursor } = loading.counters;
            tracing::info!(sale = %self.sale, run, entries, late, cursor, "keeper.loaded");
            // The line need not wait for the next figures.
            self.tell().await?;
        }
        Ok(done != Restore::Lost)
    }

    /// What is to be loaded, and the numbers that are skipped by it.
    async fn loading(
        &self,
        control: Control,
        copy: &OlderCopy,
        memory: &Memory,
    ) -> Result<(Loading, Skipped), KeeperError> {
        let (database, run) = (self.ledger.database(), control.run);
        let secret = self.secret(&control).await?;
        let opening = database.opening(&self.sale, run).await?;
        let mut counters = self.kept_ceilings(run).await?;
        if opening.is_none() {
            // Nobody can have been called before there was an order.
            counters.cursor = 0;
        }
        if let Some(record) = opening {
            counters.entries = record.n;
        }
        let copied = if copy.run == run { copy.counters } else { Ceilings::default() };
        let given = self.last_given(run, &memory.leads).await?.max(copied);
        let late = given.late..counters.late;
        // A drawn n is exact.
        let entries = if opening.is_none() { given.entries..counters.entries } else { 0..0 };
        let holes = database.holes(&self.sale, run).await?.with(entries.clone(), late.clone());
        // A stop, which raises the epoch, has put them all out.
        let inside = Some(&memory.inside).filter(|(epoch, _)| *epoch == control.epoch);
        let skus = self.ledger.figures(&self.sale).await?.into_iter().map(|of| of.sku);
        let loading = Loading {
            commitment: secret.commitment,
            round: secret.round,
            frozen_ms: opening.map(|record| record.opened_at_ms),
            opening: opening.and_then(|record| secret.opening(&self.sale, record)),
            counters,
            // Nothing is handed out until the next look has raised them, in Postgres first.
            ceilings: counters,
            holes,
            inside: inside.map(|(_, inside)| inside.clone()).unwrap_or_default(),
            skus: skus.collect(),
            control,
        };
        Ok((loading, [("e", entries), ("l", late)]))
    }
}

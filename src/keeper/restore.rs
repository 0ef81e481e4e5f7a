//! Restoring: Redis does not have the room, because it is new there, or was emptied, restarted,
//! failed over or replaced by an older copy.

use super::ceilings::Leads;
use super::{Keeper, KeeperError};
use crate::domain::sale::Control;
use crate::store::redis::room::{Ceilings, Loading, OlderCopy, Restore};

impl Keeper {
    /// Loads control, draw, opening, accounts and counters from Postgres. Counters resume at their
    /// ceilings, so that no number is given twice. What an older copy knows beyond Postgres is
    /// carried there first. Says whether the room is loaded now.
    pub(super) async fn restore(&self, leads: &Leads) -> Result<bool, KeeperError> {
        let Some(copy) = self.room.begin_restore(self.number).await? else { return Ok(true) };
        let control = self.merged_control(copy.control.as_ref()).await?;
        self.carry_journal().await?;
        let run = control.run;
        if !self.gather_accounts(run).await? {
            return Ok(false);
        }
        let loading = self.loading(control, &copy, leads).await?;
        let done = self.room.load(self.number, &loading).await?;
        if done == Restore::Done {
            let Ceilings { entries, late, cursor } = loading.counters;
            tracing::info!(sale = %self.sale, run, entries, late, cursor, "keeper.loaded");
            // The line need not wait for the next figures.
            self.tell().await?;
        }
        Ok(done != Restore::Lost)
    }

    async fn loading(
        &self,
        control: Control,
        copy: &OlderCopy,
        leads: &Leads,
    ) -> Result<Loading, KeeperError> {
        let (database, run) = (self.ledger.database(), control.run);
        let seed = self.seed(run).await?;
        let opening = database.opening(&self.sale, run).await?;
        let mut counters = self.kept_ceilings(run).await?;
        if opening.is_none() {
            // Nobody can have been called before there was an order.
            counters.cursor = 0;
        }
        let copied = if copy.run == run { copy.counters } else { Ceilings::default() };
        let given = self.last_given(run, leads).await?.max(copied);
        let mut holes = vec![("l", given.late..counters.late)];
        if opening.is_none() {
            holes.push(("e", given.entries..counters.entries));
        }
        database.keep_holes(&self.sale, run, &holes).await?;
        self.keep_given(run, counters).await?;
        let skus = self.ledger.figures(&self.sale).await?.into_iter().map(|of| of.sku);
        Ok(Loading {
            commitment: self.commitment(run, &seed),
            opening: opening.map(|record| self.opening(record, seed)),
            counters,
            // Nothing is handed out until the next look has raised them, in Postgres first.
            ceilings: counters,
            holes: database.holes(&self.sale, run).await?,
            skus: skus.collect(),
            control,
        })
    }
}

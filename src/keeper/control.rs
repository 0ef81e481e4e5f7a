//! The control record: the truth in Postgres, carried to Redis and back.

use super::{Keeper, KeeperError};
use crate::domain::sale::Control;
use crate::store::postgres::TrailEntry;

impl Keeper {
    /// The durable record; the file's for a sale that was never seen.
    pub(super) async fn control(&self) -> Result<Control, KeeperError> {
        let database = self.ledger.database();
        match database.control(&self.sale).await? {
            Some(control) => Ok(control),
            None => Ok(database.merge_control(&self.sale, &self.file).await?),
        }
    }

    /// The record in force: what both stores know, durable by now.
    pub(super) async fn merged_control(
        &self,
        mirrored: Option<&Control>,
    ) -> Result<Control, KeeperError> {
        // First, so that who changed what is known of each change and not of their sum.
        self.write_trail().await?;
        let durable = self.control().await?;
        let merged =
            mirrored.map_or_else(|| durable.clone(), |control| durable.reconciled(control));
        if merged != durable {
            return Ok(self.ledger.database().merge_control(&self.sale, &merged).await?);
        }
        Ok(merged)
    }

    /// Brings the newer record to the store that has the older one.
    pub(super) async fn carry_control(&self, mirrored: &Control) -> Result<(), KeeperError> {
        let merged = self.merged_control(Some(mirrored)).await?;
        if merged != *mirrored {
            self.room.adopt(&merged).await?;
        }
        Ok(())
    }

    /// Writes the changes made in Redis into the audit trail. Any core may do it, and do it again.
    async fn write_trail(&self) -> Result<(), KeeperError> {
        let traced = self.room.traced().await?;
        if traced.is_empty() {
            return Ok(());
        }
        let entries: Vec<_> = traced
            .iter()
            .map(|change| {
                let entry = format!("redis {} {}", change.new.version, change.at_ms);
                let (old, new) = (&change.old, &change.new);
                TrailEntry::of_control(&self.sale, entry, change.at_ms, old, new)
            })
            .collect();
        self.ledger.database().note(&entries).await?;
        for change in traced {
            self.room.untrace(&change.raw).await?;
        }
        Ok(())
    }
}

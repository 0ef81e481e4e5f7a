//! The control record: the truth in Postgres, carried to Redis and back.

use super::{Keeper, KeeperError};
use crate::domain::sale::Control;

impl Keeper {
    /// The record in force; the file's for a sale that was never seen.
    pub(super) async fn control(&self) -> Result<Control, KeeperError> {
        let database = self.ledger.database();
        match database.control(&self.sale).await? {
            Some(control) => Ok(control),
            None => Ok(database.merge_control(&self.sale, &self.file).await?),
        }
    }

    /// Brings the newer record to the store that has the older one.
    pub(super) async fn carry_control(&self, mirrored: &Control) -> Result<(), KeeperError> {
        let durable = self.control().await?;
        let merged = durable.merged(mirrored);
        if merged != durable {
            self.ledger.database().merge_control(&self.sale, &merged).await?;
        }
        if merged != *mirrored {
            self.room.adopt(&merged).await?;
        }
        Ok(())
    }
}

//! The check inside the UPDATE: one statement on one row, or on one of several.

use anyhow::Result;
use tokio_postgres::Statement;

use super::ground::Ground;
use super::link::{Link, locked_since};
use super::order::{Order, SKU};
use super::tally::Outcome;

/// One client on the one row.
pub(super) struct AtomicUpdate {
    link: Link,
    update: Statement,
}

impl AtomicUpdate {
    pub(super) async fn open(ground: &Ground) -> Result<Self> {
        let link = ground.link().await?;
        let update = "UPDATE article.sku_stock SET available = available - $2 \
                      WHERE sku = $1 AND available >= $2 RETURNING clock_timestamp()";
        let update = link.prepare(update).await?;
        Ok(Self { link, update })
    }

    pub(super) async fn take(&self, order: &Order) -> Result<Outcome> {
        let updated = self.link.query_opt(&self.update, &[&SKU, &order.qty]).await?;
        Ok(updated.map_or(Outcome::SoldOut, |row| Outcome::Granted(locked_since(row.get(0)))))
    }
}

/// One client on several rows.
pub(super) struct Shards {
    link: Link,
    update: Statement,
    count: u16,
}

impl Shards {
    pub(super) async fn open(ground: &Ground) -> Result<Self> {
        let link = ground.link().await?;
        let update = "UPDATE article.sku_stock_shard SET available = available - $3 \
                      WHERE sku = $1 AND shard = $2 AND available >= $3 \
                      RETURNING clock_timestamp()";
        let update = link.prepare(update).await?;
        Ok(Self { link, update, count: ground.shards })
    }

    /// Starts at a random row and walks on where it misses, once around.
    pub(super) async fn take(&self, order: &Order) -> Result<Outcome> {
        let first = rand::random_range(0..self.count);
        for step in 0..self.count {
            let shard = i16::try_from((first + step) % self.count)?;
            let updated = self.link.query_opt(&self.update, &[&SKU, &shard, &order.qty]).await?;
            if let Some(row) = updated {
                return Ok(Outcome::Granted(locked_since(row.get(0))));
            }
        }
        Ok(Outcome::SoldOut)
    }
}

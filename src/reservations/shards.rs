//! The walk over a SKU's rows: each row is tried by itself, and only a look at all of them says "no".

use std::sync::Arc;
use std::time::Duration;

use super::lane::{LaneError, Patience};
use super::state::Reservations;
use crate::store::postgres::{DatabaseError, NoUnits, Take, Taken};

/// The longest wait of a cart for its turn, as for a connection.
const TURN_WAIT: Duration = Duration::from_secs(3);

impl Reservations {
    /// Takes an order: from one row of each of its SKUs if it can be, else gathered from all rows.
    /// A row that is locked is waited for, so that "busy" is never told as "sold out".
    pub(super) async fn take(&self, take: &Take, patience: &Patience) -> Result<Taken, LaneError> {
        let rows = self.rows(take);
        let taken = match rows.as_slice() {
            [rows] => self.walk(take, *rows, patience).await?,
            rows => {
                let shards: Vec<_> = rows.iter().map(|rows| rand::random_range(0..*rows)).collect();
                self.alone(async || self.ledger.take_at(take, &shards).await).await?
            }
        };
        match taken {
            Taken::Elsewhere => self.alone(async || self.ledger.gather(take).await).await,
            settled => Ok(settled),
        }
    }

    /// From a random row forward, so that the crowd is spread over them.
    async fn walk(&self, take: &Take, rows: i32, patience: &Patience) -> Result<Taken, LaneError> {
        let start = rand::random_range(0..rows);
        for shard in (start..rows).chain(0..start) {
            match self.lanes.take(shard, rows, take.clone(), patience).await? {
                Taken::Elsewhere => {}
                // Of a ledger that was restored: the row was made later.
                Taken::No { why: NoUnits::UnknownSku, .. } if shard > 0 => {}
                settled => return Ok(settled),
            }
        }
        Ok(Taken::Elsewhere)
    }

    /// A transaction of its own, of which not too many run at once.
    async fn alone(
        &self,
        transaction: impl AsyncFnOnce() -> Result<Taken, DatabaseError>,
    ) -> Result<Taken, LaneError> {
        let _place = self.carts.try_acquire().map_err(|_| LaneError::Full)?;
        let turn = tokio::time::timeout(TURN_WAIT, self.carts_sent.acquire()).await;
        let Ok(Ok(_turn)) = turn else { return Err(LaneError::Full) };
        self.metrics.lanes.attempts.inc();
        transaction().await.map_err(|error| LaneError::Unknown(Arc::new(error)))
    }

    /// How many rows each line's SKU has, as far as is known here; an older number is no harm.
    fn rows(&self, take: &Take) -> Vec<i32> {
        let goods = self.shelves.of(&take.order.sale);
        let rows = |sku| goods.stock.get(sku).map_or(1, |stock| stock.shards.max(1));
        let lines = take.cart.lines().iter();
        lines.map(|line| i32::try_from(rows(&line.sku)).unwrap_or(1)).collect()
    }
}

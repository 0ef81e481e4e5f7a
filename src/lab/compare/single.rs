//! One order, one call, one transaction, with the rows that lanes write.

use std::time::SystemTime;

use anyhow::Result;
use tokio_postgres::Statement;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::ground::Ground;
use super::link::{Link, locked_since};
use super::order::{Order, SALE, SKU};
use super::tally::Outcome;

/// Stands for the hash of an order's body, which each order has in its row.
const BODY_HASH: [u8; 32] = [7; 32];

/// One client.
pub(super) struct OneRoundTrip {
    link: Link,
    take: Statement,
}

impl OneRoundTrip {
    pub(super) async fn open(ground: &Ground) -> Result<Self> {
        let link = ground.link().await?;
        let take = "SELECT single.take($1, $2, $3, $4, $5, $6, $7, interval '10 minutes')";
        let take = link.prepare(take).await?;
        Ok(Self { link, take })
    }

    pub(super) async fn take(&self, order: &Order) -> Result<Outcome> {
        let (id, qty, hash) = (Uuid::now_v7(), i64::from(order.qty), BODY_HASH.as_slice());
        let asked = self
            .link
            .query_one(&self.take, &[&SKU, &id, &SALE, &order.buyer, &order.key, &qty, &hash])
            .await;
        match asked {
            Ok(row) => Ok(match row.get::<_, Option<SystemTime>>(0) {
                Some(locked_at) => Outcome::Granted(locked_since(locked_at)),
                None => Outcome::SoldOut,
            }),
            Err(error) if error.code() == Some(&SqlState::NO_DATA_FOUND) => Ok(Outcome::SoldOut),
            Err(error) => Err(error.into()),
        }
    }
}

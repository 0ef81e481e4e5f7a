//! Reading stock and writing it back: as it must not be done, and with the lock that mends it.

use std::time::Instant;

use anyhow::Result;
use tokio_postgres::Statement;

use super::ground::Ground;
use super::link::{Link, locked_since};
use super::order::{Order, SKU};
use super::tally::{Lock, Outcome};

/// What holds the read and the write together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tie {
    /// Nothing.
    None,
    /// A transaction, which locks the row at the write.
    Transaction,
    /// A transaction that locks the row at the read.
    RowLock,
}

/// One client.
pub(super) struct ReadAndWrite {
    link: Link,
    tie: Tie,
    read: Statement,
    write: Statement,
    create_order: Statement,
}

impl ReadAndWrite {
    pub(super) async fn open(ground: &Ground, tie: Tie) -> Result<Self> {
        let link = ground.link().await?;
        let lock = if tie == Tie::RowLock { "FOR UPDATE" } else { "" };
        let read = format!("SELECT available FROM article.sku_stock WHERE sku = $1 {lock}");
        let read = link.prepare(&read).await?;
        let write = "UPDATE article.sku_stock SET available = $2 WHERE sku = $1 \
                     RETURNING clock_timestamp()";
        let write = link.prepare(write).await?;
        let create_order = "INSERT INTO article.orders (sku, buyer_id, qty) VALUES ($1, $2, $3)";
        let create_order = link.prepare(create_order).await?;
        Ok(Self { link, tie, read, write, create_order })
    }

    pub(super) async fn take(&self, order: &Order) -> Result<Outcome> {
        if self.tie != Tie::None {
            self.link.batch_execute("BEGIN").await?;
        }
        let available: i32 = self.link.query_one(&self.read, &[&SKU]).await?.get(0);
        let read_at = Instant::now();
        if available < order.qty {
            if self.tie != Tie::None {
                self.link.batch_execute("ROLLBACK").await?;
            }
            return Ok(Outcome::SoldOut);
        }
        let left = available - order.qty;
        let written = self.link.query_one(&self.write, &[&SKU, &left]).await?;
        let (written_at, lone_write) = (Instant::now(), locked_since(written.get(0)));
        self.link.execute(&self.create_order, &[&SKU, &order.buyer, &order.qty]).await?;
        let locked_at = match self.tie {
            Tie::None => return Ok(Outcome::Granted(lone_write)),
            Tie::Transaction => written_at,
            Tie::RowLock => read_at,
        };
        self.link.batch_execute("COMMIT").await?;
        Ok(Outcome::Granted(Lock::alone(locked_at)))
    }
}

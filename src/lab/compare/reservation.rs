//! The article's reservation with a time limit: its transaction, its sweeper.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio_postgres::Statement;

use super::ground::Ground;
use super::link::Link;
use super::order::{Order, SKU};
use super::tally::{Lock, Outcome};

/// The release sweeper, word for word but for the schema.
const SWEEP: &str = "
    WITH expired AS (
      UPDATE article.reservations
      SET    status = 'expired'
      WHERE  status = 'held' AND expires_at <= now()
      RETURNING sku, qty
    ), totals AS (
      SELECT sku, sum(qty) AS qty FROM expired GROUP BY sku
    )
    UPDATE article.sku_stock s
    SET    available = s.available + t.qty
    FROM   totals t
    WHERE  s.sku = t.sku
    RETURNING s.sku, s.available";

/// One client: BEGIN, the insert, the guarded update, COMMIT, a round trip each.
pub(super) struct ReservationTtl {
    link: Link,
    insert: Statement,
    decrement: Statement,
}

impl ReservationTtl {
    pub(super) async fn open(ground: &Ground) -> Result<Self> {
        let link = ground.link().await?;
        let insert = "INSERT INTO article.reservations (sku, buyer_id, qty, order_key, expires_at)
                      VALUES ($1, $2, $3, $4, now() + interval '10 minutes')
                      ON CONFLICT (order_key) DO NOTHING
                      RETURNING id";
        let insert = link.prepare(insert).await?;
        let decrement = "UPDATE article.sku_stock SET available = available - $2 \
                         WHERE sku = $1 AND available >= $2 RETURNING available";
        let decrement = link.prepare(decrement).await?;
        Ok(Self { link, insert, decrement })
    }

    pub(super) async fn take(&self, order: &Order) -> Result<Outcome> {
        let Order { key, buyer, qty } = order;
        self.link.batch_execute("BEGIN").await?;
        self.link.query_one(&self.insert, &[&SKU, buyer, qty, key]).await?;
        let decremented = self.link.query_opt(&self.decrement, &[&SKU, qty]).await?;
        let locked_at = Instant::now();
        if decremented.is_none() {
            self.link.batch_execute("ROLLBACK").await?;
            return Ok(Outcome::SoldOut);
        }
        self.link.batch_execute("COMMIT").await?;
        Ok(Outcome::Granted(Lock::alone(locked_at)))
    }
}

/// Units that nobody can buy though nobody pays for them, and what frees them.
pub(super) struct Frozen {
    /// Units held.
    pub(super) held: i64,
    /// Units free after every hold's end, before the sweeper came.
    pub(super) free_when_lapsed: i64,
    /// How long the sweeper took.
    pub(super) sweep: Duration,
    /// Units free after it.
    pub(super) free_when_swept: i64,
}

/// Lets all holds of a sold-out SKU lapse, and sweeps.
pub(super) async fn abandon(ground: &Ground) -> Result<Frozen> {
    let admin = ground.admin();
    let free = "SELECT available::bigint FROM article.sku_stock";
    let lapse = "UPDATE article.reservations SET expires_at = now() - interval '1 second'
                 WHERE status = 'held'";
    let held = i64::try_from(admin.execute(lapse, &[]).await?)?;
    let free_when_lapsed = admin.query_one(free, &[]).await?.get(0);
    let began = Instant::now();
    admin.query(SWEEP, &[]).await?;
    let sweep = began.elapsed();
    let free_when_swept = admin.query_one(free, &[]).await?.get(0);
    Ok(Frozen { held, free_when_lapsed, sweep, free_when_swept })
}

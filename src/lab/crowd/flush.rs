//! Redis loses everything, once, in the middle of the sale.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tokio::time::{Instant, sleep, sleep_until};

use super::field::Field;
use super::kept::Event;
use super::plan::Flush;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// After which the room counts as lost, and the upheaval is never over.
const RESTORED_WITHIN: Duration = Duration::from_secs(30);

/// Reaches Redis before the sale, so that a wrong address is found while nothing is lost.
pub(super) async fn reach(flush: &Flush) -> Result<MultiplexedConnection> {
    let client = redis::Client::open(flush.redis_url.as_str()).context("the address of Redis")?;
    client.get_multiplexed_async_connection().await.context("Redis cannot be reached")
}

/// Empties the installation's database at `at`, and waits until the room is there again.
pub(super) async fn flush(
    field: Arc<Field>,
    mut redis: MultiplexedConnection,
    at: Instant,
) -> Result<()> {
    sleep_until(at).await;
    field.upheaval_begins(Event::Flush);
    let () = redis::cmd("FLUSHDB").query_async(&mut redis).await.context("flushing Redis")?;
    tracing::info!("Redis was flushed");
    let room = format!("stanchion:{{{}}}:room", field.sale);
    let until = Instant::now() + RESTORED_WITHIN;
    while Instant::now() < until {
        let loaded: bool = redis.hexists(&room, "loaded").await.context("looking at Redis")?;
        if loaded {
            field.upheaval_ends(Event::Flush);
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
    tracing::warn!("the room was not restored after the flush");
    Ok(())
}

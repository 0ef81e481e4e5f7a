//! Reads Postgres and Redis directly, past the program whose word is to be checked.

use anyhow::{Context, Result};
use redis::AsyncCommands;
use tokio_postgres::{Client, NoTls, Row};

use super::evidence::{GateSku, Ledger, LedgerSku};

/// Sums of what the rows say; the program's own sums are not looked at.
const SUMS: &str = "
    SELECT s.sku, s.loaded,
           (SELECT coalesce(sum(available), 0)::bigint FROM stock WHERE sku = s.sku),
           (SELECT coalesce(sum(l.qty) FILTER (WHERE r.status = 'held'), 0)::bigint
              FROM reservation_line l JOIN reservation r ON r.id = l.reservation WHERE l.sku = s.sku),
           (SELECT coalesce(sum(l.qty) FILTER (WHERE r.status = 'confirmed'), 0)::bigint
              FROM reservation_line l JOIN reservation r ON r.id = l.reservation WHERE l.sku = s.sku)
      FROM sku s WHERE s.sale = $1 ORDER BY s.sku";

const DUPLICATES: &str = "
    SELECT buyer || ' / ' || order_key, count(*)
      FROM reservation WHERE sale = $1
     GROUP BY buyer, order_key HAVING count(*) > 1 ORDER BY 1";

/// Units that came back may be taken again for the same order, as by a payment that comes late.
const TAKEN_TWICE: &str = "
    SELECT r.id::text
      FROM reservation r JOIN movement m ON m.reservation = r.id
     WHERE r.sale = $1
     GROUP BY r.id, m.sku, m.shard
    HAVING count(*) FILTER (WHERE m.kind = 'hold')
         - count(*) FILTER (WHERE m.kind IN ('expire', 'release', 'cancel')) > 1
     ORDER BY 1";

/// A tombstone of an early release has no lines and took nothing.
const GRANTED: &str = "
    SELECT count(*) FROM reservation r
     WHERE r.sale = $1 AND EXISTS (SELECT FROM reservation_line l WHERE l.reservation = r.id)";

const BY_STATUS: &str =
    "SELECT status, count(*) FROM reservation WHERE sale = $1 GROUP BY status ORDER BY status";

const BUYERS: &str = "SELECT id::text, buyer FROM reservation WHERE sale = $1";

/// Adds up the rows of one sale.
pub(super) async fn ledger(database_url: &str, sale: &str) -> Result<Ledger> {
    let (client, connection) = tokio_postgres::connect(database_url, NoTls)
        .await
        .context("the ledger cannot be reached")?;
    #[expect(clippy::disallowed_methods, reason = "it is awaited below")]
    let connection = tokio::spawn(connection);
    let read = rows(&client, sale).await.context("the ledger cannot be read");
    drop(client);
    connection.await.context("the ledger's connection")?.context("the ledger's connection")?;
    read
}

async fn rows(client: &Client, sale: &str) -> Result<Ledger> {
    let skus = client.query(SUMS, &[&sale]).await?.iter().map(sku).collect();
    let duplicates = client.query(DUPLICATES, &[&sale]).await?.iter().map(counted).collect();
    let taken_twice = client.query(TAKEN_TWICE, &[&sale]).await?;
    let granted: i64 = client.query_one(GRANTED, &[&sale]).await?.get(0);
    let by_status = client.query(BY_STATUS, &[&sale]).await?.iter().map(counted).collect();
    let buyers = client.query(BUYERS, &[&sale]).await?;
    Ok(Ledger {
        buyers: buyers.iter().map(|row| (row.get(0), row.get(1))).collect(),
        skus,
        duplicates,
        holds_granted: u64::try_from(granted).unwrap_or(0),
        taken_twice: taken_twice.iter().map(|row| row.get(0)).collect(),
        by_status,
    })
}

fn sku(row: &Row) -> LedgerSku {
    LedgerSku {
        sku: row.get(0),
        loaded: row.get(1),
        available: row.get(2),
        held: row.get(3),
        confirmed: row.get(4),
    }
}

fn counted(row: &Row) -> (String, u64) {
    (row.get(0), u64::try_from(row.get::<_, i64>(1)).unwrap_or(0))
}

/// Reads the gates of these SKUs.
pub(super) async fn gate(redis_url: &str, sale: &str, skus: &[String]) -> Result<Vec<GateSku>> {
    let client = redis::Client::open(redis_url).context("the gate's address")?;
    let mut redis =
        client.get_multiplexed_async_connection().await.context("the gate cannot be reached")?;
    let mut gates = Vec::new();
    for sku in skus {
        let count = redis.hget(format!("stanchion:{{{sale}}}:stock:{sku}"), "count").await?;
        let markers = redis.hlen(format!("stanchion:{{{sale}}}:takes:{sku}")).await?;
        gates.push(GateSku { sku: sku.clone(), count, markers });
    }
    Ok(gates)
}

//! The stores that everything runs on, laid out anew before each run, and what they say afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

use super::approach::Approach;
use super::counter::STOCK_KEY;
use super::link::Link;
use super::order::{SALE, SKU};
use super::tally::number;
use crate::domain::id::{SaleId, Sku};
use crate::servers::PrivateStores;
use crate::store::postgres::{Database, Ledger, Options, SkuLoad};

const ARTICLE: &str = include_str!("article.sql");
const ONE_ROUND_TRIP: &str = include_str!("one_round_trip.sql");

/// Connections beside the clients': the lanes' own, the onlooker's, and Postgres' reserved ones.
const CONNECTIONS_ASIDE: u16 = 64;
/// What the connections of lanes are called in Postgres.
const LANES_CONNECTION: &str = "stanchion lane";
/// How long new settings may take to be read.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);

/// A private Postgres and a private Redis with every approach's tables.
pub(super) struct Ground {
    /// For looking and laying out, never for taking.
    admin: Link,
    redis: MultiplexedConnection,
    database_url: String,
    pub(super) ledger: Ledger,
    pub(super) shards: u16,
    stores: PrivateStores,
}

/// What the store says about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Truth {
    /// Units that its counter has parted with.
    pub(super) gone: i64,
    /// Units in rows of orders, where there are such rows.
    pub(super) in_rows: Option<i64>,
}

impl Ground {
    /// Starts both, durable; blocks a few seconds.
    pub(super) async fn start(clients: u16, shards: u16) -> Result<Self> {
        let connections = clients + CONNECTIONS_ASIDE;
        let stores = PrivateStores::start_with(&[
            format!("max_connections={connections}"),
            "shared_buffers=512MB".to_owned(),
            // So that no checkpoint falls into one approach's time and not into another's.
            "max_wal_size=8GB".to_owned(),
            "checkpoint_timeout=30min".to_owned(),
        ])?;
        stores.create_database("compare")?;
        let database_url = stores.postgres().socket_url_of("compare")?;
        let database = Database::open(&database_url, Options::default()).await?;
        let admin = Link::open(&database_url).await?;
        admin.batch_execute(ARTICLE).await.context("the article's tables")?;
        admin.batch_execute(ONE_ROUND_TRIP).await.context("the tables of one round trip")?;
        let redis = connect(&stores).await?;
        let ledger = Ledger::new(database);
        Ok(Self { admin, redis, database_url, ledger, shards, stores })
    }

    /// A connection of one client.
    pub(super) async fn link(&self) -> Result<Link> {
        Link::open(&self.database_url).await
    }

    /// The connection to Redis that all clients share, as they do in the article's program.
    pub(super) fn redis(&self) -> MultiplexedConnection {
        self.redis.clone()
    }

    /// The connection for looking.
    pub(super) fn admin(&self) -> &Link {
        &self.admin
    }

    /// Puts `units` on sale for an approach, in tables as new: a truncated table has no dead rows.
    pub(super) async fn lay(&self, approach: Approach, units: i32) -> Result<()> {
        let statement = match approach {
            Approach::ReadThenWrite
            | Approach::ReadCommitted
            | Approach::ForUpdate
            | Approach::AtomicUpdate
            | Approach::ReservationTtl => format!(
                "TRUNCATE article.sku_stock, article.reservations, article.orders;
                 INSERT INTO article.sku_stock VALUES ('{SKU}', {units}, {units})"
            ),
            Approach::Shards => format!(
                "TRUNCATE article.sku_stock_shard;
                 INSERT INTO article.sku_stock_shard
                 SELECT '{SKU}', g, {units} / {shards} + (g < {units} % {shards})::int
                 FROM generate_series(0, {shards} - 1) AS g",
                shards = self.shards
            ),
            Approach::OneRoundTrip => format!(
                "TRUNCATE single.stock, single.reservation, single.reservation_line,
                          single.movement, single.outbox;
                 INSERT INTO single.stock (sku, shard, available) VALUES ('{SKU}', 0, {units})"
            ),
            Approach::RedisLua => return self.lay_counter(units).await,
            Approach::Lanes => return self.lay_ledger(units, 0).await,
        };
        self.admin.batch_execute(&statement).await.context("laying out the tables")
    }

    async fn lay_counter(&self, units: i32) -> Result<()> {
        let mut redis = self.redis();
        redis::cmd("FLUSHALL").query_async::<()>(&mut redis).await?;
        redis.set::<_, _, ()>(STOCK_KEY, units).await.context("loading the counter")
    }

    /// Our own tables, by our own loading; `units_per_buyer` 0 = no cap.
    pub(super) async fn lay_ledger(&self, units: i32, units_per_buyer: u32) -> Result<()> {
        let clean = "TRUNCATE sku, stock, sold, reservation, reservation_line, movement, outbox";
        self.admin.batch_execute(clean).await.context("laying out the ledger")?;
        let load = SkuLoad {
            sku: Sku::parse(SKU)?,
            sale: SaleId::parse(SALE)?,
            units: u64::try_from(units)?,
            units_per_buyer,
            hold_ms: 600_000,
            shards: 1,
        };
        self.ledger.load_sku(&load).await?;
        Ok(())
    }

    /// What became of `loaded` units.
    pub(super) async fn truth(&self, approach: Approach, loaded: i32) -> Result<Truth> {
        let (left, rows) = match approach {
            Approach::RedisLua => {
                let left: Option<i64> = self.redis().get(STOCK_KEY).await?;
                let gone = i64::from(loaded) - left.unwrap_or(0);
                return Ok(Truth { gone, in_rows: None });
            }
            Approach::ReadThenWrite | Approach::ReadCommitted | Approach::ForUpdate => {
                ("article.sku_stock", Some("article.orders"))
            }
            Approach::AtomicUpdate => ("article.sku_stock", None),
            Approach::ReservationTtl => ("article.sku_stock", Some("article.reservations")),
            Approach::Shards => ("article.sku_stock_shard", None),
            Approach::OneRoundTrip => ("single.stock", Some("single.reservation_line")),
            Approach::Lanes => ("public.stock", Some("public.reservation_line")),
        };
        let left = self.sum("available", left).await?;
        let in_rows = match rows {
            Some(table) => Some(self.sum("qty", table).await?),
            None => None,
        };
        Ok(Truth { gone: i64::from(loaded) - left, in_rows })
    }

    async fn sum(&self, column: &str, table: &str) -> Result<i64> {
        let statement = format!("SELECT coalesce(sum({column}), 0)::bigint FROM {table}");
        Ok(self.admin.query_one(&statement, &[]).await?.get(0))
    }

    /// Connections that wait for a lock at this instant.
    pub(super) async fn lock_waiters(&self) -> Result<f64> {
        let statement = "SELECT count(*) FROM pg_stat_activity \
                         WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting: i64 = self.admin.query_one(statement, &[]).await?.get(0);
        Ok(number(u64::try_from(waiting)?))
    }

    /// Cuts the connections of lanes; how many.
    pub(super) async fn cut_lanes(&self) -> Result<i64> {
        let statement = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                         WHERE datname = current_database() AND application_name = $1";
        Ok(self.admin.query_one(statement, &[&LANES_CONNECTION]).await?.get(0))
    }

    /// Makes every commit's flush wait that much longer, as on a slow volume; zero undoes it.
    pub(super) async fn delay_flush(&self, delay: Duration) -> Result<()> {
        let wanted = delay.as_micros().to_string();
        for statement in [
            format!("ALTER SYSTEM SET commit_delay = {wanted}"),
            "ALTER SYSTEM SET commit_siblings = 0".to_owned(),
            "SELECT pg_reload_conf()".to_owned(),
        ] {
            self.admin.batch_execute(&statement).await.context("delaying the flush")?;
        }
        let since = Instant::now();
        loop {
            let row = self.link().await?.query_one("SHOW commit_delay", &[]).await?;
            if row.get::<_, &str>(0) == wanted {
                return Ok(());
            }
            ensure!(since.elapsed() < SETTLES_WITHIN, "Postgres does not delay its flushes");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Kills Redis and starts it again, from its last snapshot if it has one.
    pub(super) async fn restart_redis(&mut self) -> Result<()> {
        self.stores.redis().restart()?;
        self.redis = connect(&self.stores).await?;
        Ok(())
    }
}

async fn connect(stores: &PrivateStores) -> Result<MultiplexedConnection> {
    let client = redis::Client::open(stores.redis_url())?;
    client.get_multiplexed_async_connection().await.context("connecting to Redis")
}

//! What the stores have been told to do so far.

use std::fmt;

use anyhow::{Context, Result};

use super::house::House;

/// Counts of both stores.
pub(super) struct Written {
    commands: u64,
    keys: u64,
    memory: u64,
    rows: u64,
}

impl Written {
    pub(super) async fn read(house: &House) -> Result<Self> {
        let redis = redis::Client::open(house.stores.redis_url())?;
        let mut redis = redis.get_multiplexed_async_connection().await?;
        let info: String = redis::cmd("INFO").query_async(&mut redis).await?;
        let of = |name: &str| -> Result<u64> {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            Ok(line.with_context(|| format!("INFO without {name}"))?.trim().parse()?)
        };
        let keys = redis::cmd("DBSIZE").query_async(&mut redis).await?;
        let url = &house.installation.database_url;
        let (postgres, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
        #[expect(clippy::disallowed_methods, reason = "ends with its connection, a few lines on")]
        let running = tokio::spawn(connection);
        let rows = "SELECT (tup_inserted + tup_updated)::bigint FROM pg_stat_database \
                    WHERE datname = current_database()";
        let rows: i64 = postgres.query_one(rows, &[]).await?.get(0);
        drop(postgres);
        running.await??;
        let (commands, memory) = (of("total_commands_processed")?, of("used_memory")?);
        Ok(Self { commands, keys, memory, rows: rows.try_into()? })
    }

    /// What came on top.
    pub(super) fn since(&self, before: &Self) -> impl fmt::Display {
        format!(
            "{} commands of Redis, {} keys, {} KiB; {} rows of Postgres",
            self.commands - before.commands,
            self.keys.saturating_sub(before.keys),
            self.memory.saturating_sub(before.memory) / 1024,
            self.rows - before.rows
        )
    }
}

//! One connection to Postgres, as one client of the article's program has it.

use std::ops::Deref;
use std::time::SystemTime;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use super::tally::{Lock, micros};

/// A connection; it ends when it is dropped.
pub(super) struct Link {
    client: Client,
    _driver: JoinSet<()>,
}

impl Link {
    pub(super) async fn open(url: &str) -> Result<Self> {
        let opened = tokio_postgres::connect(url, NoTls).await;
        let (client, connection) = opened.context("connecting to Postgres")?;
        let mut driver = JoinSet::new();
        driver.spawn(async {
            // Whoever uses the connection hears of it too.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke");
            }
        });
        Ok(Self { client, _driver: driver })
    }
}

impl Deref for Link {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Microseconds since an instant that Postgres, on this machine, has told; none if it is to come.
pub(super) fn elapsed_us(since: SystemTime) -> Option<u64> {
    since.elapsed().ok().map(micros)
}

/// How long a take has locked the row that Postgres says to have locked then.
pub(super) fn locked_since(then: SystemTime) -> Lock {
    elapsed_us(then).map_or(Lock::Unseen, Lock::Alone)
}

//! A primary named by Sentinels: found at the first call, and looked for anew after each failure.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::select_ok;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{AsyncConnectionConfig, ConnectionInfo, RedisConnectionInfo, RedisError, RedisResult};

use super::connection::{CONNECT_TIMEOUT, is_outage};

/// While no primary is found, the Sentinels are asked this often, however many callers wait.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// The primary as last found.
#[derive(Clone)]
pub(super) struct Primary {
    pub(super) connection: MultiplexedConnection,
    found: u64,
}

/// Finds the primary.
pub(super) struct Sentinel {
    config: AsyncConnectionConfig,
    current: Mutex<Option<Primary>>,
    /// Held while looking, so that many callers are one search.
    search: tokio::sync::Mutex<Search>,
}

struct Search {
    /// Sentinels seldom have the primary's password: asked with and without.
    clients: Vec<SentinelClient>,
    found: u64,
    failed: Option<(Instant, RedisError)>,
}

impl Sentinel {
    pub(super) fn new(
        sentinels: &[ConnectionInfo],
        master: &str,
        credentials: &RedisConnectionInfo,
        response_timeout: Duration,
    ) -> RedisResult<Self> {
        let primary = SentinelNodeConnectionInfo::default()
            .set_redis_connection_info(credentials.clone())
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        let client = |with_password: bool| {
            let plain = |sentinel: &ConnectionInfo| {
                let asked = if with_password {
                    credentials.clone()
                } else {
                    RedisConnectionInfo::default()
                };
                sentinel.clone().set_redis_settings(asked.set_db(0))
            };
            SentinelClient::build(
                sentinels.iter().map(plain).collect(),
                master.to_owned(),
                Some(primary.clone()),
                SentinelServerType::Master,
            )
        };
        let has_password = credentials.password().is_some();
        let ways = [false, true].into_iter().filter(|with| !with || has_password);
        let clients = ways.map(client).collect::<RedisResult<_>>()?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(response_timeout));
        let search = Search { clients, found: 0, failed: None };
        Ok(Self { config, current: Mutex::default(), search: tokio::sync::Mutex::new(search) })
    }

    /// The primary that is known, or the one that the Sentinels name.
    pub(super) async fn primary(&self) -> RedisResult<Primary> {
        if let Some(primary) = self.current() {
            return Ok(primary);
        }
        let mut search = self.search.lock().await;
        if let Some(primary) = self.current() {
            return Ok(primary);
        }
        if let Some((at, error)) = &search.failed
            && at.elapsed() < ASK_EVERY
        {
            return Err(error.clone());
        }
        match search.find(&self.config).await {
            Ok(connection) => {
                search.found += 1;
                search.failed = None;
                let primary = Primary { connection, found: search.found };
                *self.lock() = Some(primary.clone());
                Ok(primary)
            }
            Err(error) => {
                search.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Passes an answer on. A primary that is gone, silent or demoted is let go; the next call
    /// looks for a new one, this one is not sent again.
    pub(super) fn heard<T>(&self, from: &Primary, answer: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &answer
            && (is_outage(error) || error.is_unrecoverable_error())
        {
            let mut current = self.lock();
            if current.as_ref().is_some_and(|primary| primary.found == from.found) {
                *current = None;
            }
        }
        answer
    }

    fn current(&self) -> Option<Primary> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Primary>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Search {
    async fn find(&mut self, config: &AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
        if self.clients.is_empty() {
            return Err((redis::ErrorKind::EmptySentinelList, "no Sentinel is given").into());
        }
        // Both ways at once: a host that is gone would use up the time of both.
        let ways = self.clients.iter_mut().map(|client| Box::pin(client.async_get_client()));
        let (primary, _) = select_ok(ways).await?;
        primary.get_multiplexed_async_connection_with_config(config).await
    }
}

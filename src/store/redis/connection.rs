//! The connection: one shared, self-healing socket per process, every wait bounded.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, Cmd, FromRedisValue, IntoConnectionInfo, ScriptInvocation};

/// Redis answers in microseconds; half a second without an answer is a failure.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Waiting for a new connection and then for the answer.
const CALL_TIMEOUT: Duration = Duration::from_millis(1_500);
const RECONNECT_DELAY: Duration = Duration::from_millis(50);

/// Why Redis gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum RedisFailure {
    /// The step may have run all the same.
    #[error("Redis did not answer in time")]
    Late,
    /// Refused, cut off, or an error said by Redis; after a cut the step may have run.
    #[error("Redis: {0}")]
    Failed(#[from] redis::RedisError),
    /// An answer of another shape than the script gives.
    #[error("Redis answered something unexpected: {0}")]
    Garbled(String),
}

impl RedisFailure {
    /// Whether Redis could not be reached, rather than having answered something wrong.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Late => true,
            Self::Failed(error) => error.is_io_error() || error.is_connection_dropped(),
            Self::Garbled(_) => false,
        }
    }
}

/// A handle on Redis, cheap to clone.
#[derive(Clone)]
pub struct RedisStore {
    manager: ConnectionManager,
}

/// A handle on the Redis at `redis://…`. It connects at the first call and again after each
/// loss, so a node may start while Redis is down. Must be called inside the runtime.
pub fn connect(url: &str) -> Result<RedisStore, RedisFailure> {
    // Off by default in this client: small scripts would wait for delayed acknowledgements.
    let tcp = TcpSettings::default().set_nodelay(true);
    let client = Client::open(url.into_connection_info()?.set_tcp_settings(tcp))?;
    let config = ConnectionManagerConfig::new()
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_min_delay(RECONNECT_DELAY)
        .set_max_delay(RECONNECT_DELAY)
        .set_number_of_retries(1);
    Ok(RedisStore { manager: ConnectionManager::new_lazy_with_config(client, config)? })
}

impl RedisStore {
    /// Runs a script. Sent again only when Redis did not know the script, never otherwise: a
    /// step that was cut off may have been done.
    pub async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, RedisFailure> {
        let mut connection = self.manager.clone();
        within(script.invoke_async(&mut connection)).await
    }

    /// Sends one command.
    pub async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, RedisFailure> {
        let mut connection = self.manager.clone();
        within(command.query_async(&mut connection)).await
    }
}

async fn within<T>(call: impl Future<Output = redis::RedisResult<T>>) -> Result<T, RedisFailure> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Err(_) => Err(RedisFailure::Late),
        Ok(Err(error)) if error.is_timeout() => Err(RedisFailure::Late),
        Ok(answer) => Ok(answer?),
    }
}

//! The connection: one shared, self-healing handle per process, every wait bounded. Whether it is
//! a single server, a primary named by Sentinels or a cluster, nobody else knows.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{Client, Cmd, ConnectionInfo, FromRedisValue, IntoConnectionInfo, ScriptInvocation};
use redis::{ErrorKind, ServerErrorKind};

use super::cluster::Cluster;
use super::sentinel::Sentinel;
use crate::config::settings::RedisMode;

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const RECONNECT_DELAY: Duration = Duration::from_millis(50);
/// Redis answers in microseconds; half a second without an answer is a failure.
const BRISK: Waits =
    Waits { response: Duration::from_millis(500), call: Duration::from_millis(1_500) };
/// For calls that wait for something to happen.
const PATIENT: Waits = Waits { response: Duration::from_secs(4), call: Duration::from_secs(5) };

/// How long is waited for one answer, and for a new connection and then the answer.
#[derive(Debug, Clone, Copy)]
struct Waits {
    response: Duration,
    call: Duration,
}

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
    /// Whether Redis could not be reached, or has no primary just now, rather than having
    /// answered something wrong.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Late => true,
            Self::Failed(error) => is_outage(error),
            Self::Garbled(_) => false,
        }
    }
}

pub(super) fn is_outage(error: &redis::RedisError) -> bool {
    let between_primaries = matches!(
        error.kind(),
        ErrorKind::ClusterConnectionNotFound
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::Server(
                ServerErrorKind::ClusterDown
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::BusyLoading
                    | ServerErrorKind::ReadOnly
                    | ServerErrorKind::TryAgain
                    | ServerErrorKind::Moved
                    | ServerErrorKind::Ask
            )
    );
    between_primaries || error.is_io_error() || error.is_connection_dropped()
}

/// Where Redis is.
#[derive(Debug, Clone)]
struct Target {
    mode: RedisMode,
    /// The server, the Sentinels, or some nodes of the cluster; at least one.
    nodes: Vec<ConnectionInfo>,
    /// The primary's name at the Sentinels.
    master: String,
}

/// A handle on Redis, cheap to clone.
#[derive(Clone)]
pub struct RedisStore {
    link: Link,
    waits: Waits,
    target: Arc<Target>,
}

#[derive(Clone)]
pub(super) enum Link {
    Single(ConnectionManager),
    Sentinel(Arc<Sentinel>),
    Cluster(Cluster),
}

/// A handle on the Redis at `redis://…`. It connects at the first call and again after each
/// loss, so a node may start while Redis is down. Must be called inside the runtime.
pub fn connect(url: &str) -> Result<RedisStore, RedisFailure> {
    connect_as(RedisMode::Single, url, "")
}

/// The same for each mode: `urls` are the server, the Sentinels of `master`, or some nodes of the
/// cluster, separated by commas. User, password and database number of the first Sentinel's URL
/// are the primary's.
pub fn connect_as(mode: RedisMode, urls: &str, master: &str) -> Result<RedisStore, RedisFailure> {
    // Off by default in this client: small scripts would wait for delayed acknowledgements.
    let tcp = TcpSettings::default().set_nodelay(true);
    let urls = urls.split(',').map(str::trim).filter(|url| !url.is_empty());
    let nodes: Vec<_> = urls
        .map(|url| Ok(url.into_connection_info()?.set_tcp_settings(tcp.clone())))
        .collect::<Result<_, redis::RedisError>>()?;
    let numbered = nodes.iter().any(|node| node.redis_settings().db() != 0);
    if mode == RedisMode::Single && nodes.len() > 1 {
        return Err(wrong("several URLs are for redis.mode = \"sentinel\" or \"cluster\""));
    }
    if mode == RedisMode::Cluster && numbered {
        return Err(wrong("a cluster has no numbered databases"));
    }
    let target = Target { mode, nodes, master: master.to_owned() };
    RedisStore::on(Arc::new(target), BRISK)
}

fn wrong(what: &'static str) -> RedisFailure {
    RedisFailure::Failed((ErrorKind::InvalidClientConfig, what).into())
}

impl RedisStore {
    fn on(target: Arc<Target>, waits: Waits) -> Result<Self, RedisFailure> {
        let Some(first) = target.nodes.first() else { return Err(wrong("no URL is given")) };
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(waits.response))
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_min_delay(RECONNECT_DELAY)
            .set_max_delay(RECONNECT_DELAY)
            .set_number_of_retries(1);
        let link = match target.mode {
            RedisMode::Sentinel => {
                let credentials = first.redis_settings();
                let sentinel =
                    Sentinel::new(&target.nodes, &target.master, credentials, waits.response)?;
                Link::Sentinel(Arc::new(sentinel))
            }
            RedisMode::Cluster => Link::Cluster(Cluster::new(&target.nodes, config)?),
            RedisMode::Single => {
                let client = Client::open(first.clone())?;
                Link::Single(ConnectionManager::new_lazy_with_config(client, config)?)
            }
        };
        Ok(Self { link, waits, target })
    }

    /// A handle with connections of its own, for calls that block up to three seconds: behind one
    /// on a shared connection everybody would wait.
    pub fn patient(&self) -> Result<Self, RedisFailure> {
        Self::on(Arc::clone(&self.target), PATIENT)
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Runs a script. Sent again only when Redis did not know the script, or when a cluster's node
    /// said that it belongs elsewhere, never otherwise: a step that was cut off may have been done.
    pub async fn run<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, RedisFailure> {
        match &self.link {
            Link::Single(manager) => self.within(script.invoke_async(&mut manager.clone())).await,
            // Large: it may have to find a primary first.
            Link::Sentinel(sentinel) => {
                let call = Box::pin(async {
                    let mut primary = sentinel.primary().await?;
                    let answer = script.invoke_async(&mut primary.connection).await;
                    sentinel.heard(&primary, answer)
                });
                self.within(call).await
            }
            Link::Cluster(cluster) => {
                self.within(Box::pin(script.invoke_async(&mut cluster.clone()))).await
            }
        }
    }

    /// Sends one command.
    pub async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, RedisFailure> {
        match &self.link {
            Link::Single(manager) => self.within(command.query_async(&mut manager.clone())).await,
            Link::Sentinel(sentinel) => {
                let call = Box::pin(async {
                    let mut primary = sentinel.primary().await?;
                    let answer = command.query_async(&mut primary.connection).await;
                    sentinel.heard(&primary, answer)
                });
                self.within(call).await
            }
            Link::Cluster(cluster) => {
                self.within(Box::pin(command.query_async(&mut cluster.clone()))).await
            }
        }
    }

    pub(super) async fn within<T>(
        &self,
        call: impl Future<Output = redis::RedisResult<T>>,
    ) -> Result<T, RedisFailure> {
        match tokio::time::timeout(self.waits.call, call).await {
            Err(_) => Err(RedisFailure::Late),
            Ok(Err(error)) if error.is_timeout() => Err(RedisFailure::Late),
            Ok(answer) => Ok(answer?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn urls_that_do_not_fit_their_mode_are_refused_with_the_reason() {
        let two = "redis://127.0.0.1:1, redis://127.0.0.1:2/";
        let refused = |mode, urls| connect_as(mode, urls, "shop").err().unwrap().to_string();
        assert!(refused(RedisMode::Single, " , ").contains("no URL"));
        assert!(refused(RedisMode::Single, two).contains("several URLs"));
        assert!(refused(RedisMode::Cluster, "redis://h/3").contains("numbered databases"));
        assert!(connect_as(RedisMode::Cluster, two, "").is_ok());
        assert!(connect_as(RedisMode::Sentinel, two, "shop").is_ok());
        assert!(connect_as(RedisMode::Single, "http://h", "").is_err());
    }
}

//! A cluster. The client finds the node of a key; what it does after a failure is ours: it would
//! send a step again that may have run.

use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::cluster::{ClusterClientBuilder, ClusterConfig};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo};
use redis::io::tcp::TcpSettings;
use redis::{Cmd, ConnectionInfo, ErrorKind, Pipeline, RedisFuture, RedisResult, ServerErrorKind};
use redis::{RedisError, Value};

use super::connection::CONNECT_TIMEOUT;

/// How often a step is sent on to the node that is said to have its slot now.
const REDIRECTS_MAX: usize = 4;

/// Connections to all nodes, kept by the client.
#[derive(Clone)]
pub(super) struct Cluster {
    nodes: ClusterConnection,
}

impl Cluster {
    pub(super) fn new(seeds: &[ConnectionInfo], response_timeout: Duration) -> RedisResult<Self> {
        let client = ClusterClientBuilder::new(seeds.iter().cloned())
            .retries(0)
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(response_timeout)
            .overall_response_timeout(None)
            .tcp_settings(TcpSettings::default().set_nodelay(true))
            .build()?;
        Ok(Self { nodes: client.get_pending_async_connection_with_config(ClusterConfig::new()) })
    }

    /// Asks every primary the same; their addresses and answers.
    pub(super) async fn ask_all(&self, command: Cmd) -> RedisResult<Value> {
        let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        self.nodes.clone().route_command(command, all).await
    }

    async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        let mut answer = self.nodes.req_packed_command(command).await;
        for _ in 0..REDIRECTS_MAX {
            // A node that says so has not run it; the client has learnt from it meanwhile.
            let redirected = match &answer {
                Err(error) => redirect(error),
                Ok(_) => return answer,
            };
            answer = match redirected {
                Redirect::None => return answer,
                Redirect::Moved => self.nodes.req_packed_command(command).await,
                Redirect::Ask(host, port) => self.asking(command, host, port).await,
            };
        }
        answer
    }

    /// While a slot moves, its new node takes only what announces itself.
    async fn asking(&mut self, command: &Cmd, host: String, port: u16) -> RedisResult<Value> {
        let mut both = Pipeline::with_capacity(2);
        both.add_command(redis::cmd("ASKING")).ignore().add_command(command.clone());
        let node = SingleNodeRoutingInfo::ByAddress { host, port };
        let answers = self.nodes.route_pipeline(both, 0, 2, node).await?;
        answers.into_iter().nth(1).unwrap_or(Value::Nil).extract_error()
    }
}

enum Redirect {
    None,
    Moved,
    Ask(String, u16),
}

fn redirect(error: &RedisError) -> Redirect {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::Moved) => Redirect::Moved,
        ErrorKind::Server(ServerErrorKind::Ask) => {
            let address = error.redirect_node().and_then(|(address, _)| {
                let (host, port) = address.rsplit_once(':')?;
                Some((host.to_owned(), port.parse().ok()?))
            });
            address.map_or(Redirect::None, |(host, port)| Redirect::Ask(host, port))
        }
        _ => Redirect::None,
    }
}

impl ConnectionLike for Cluster {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.send(command))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.nodes.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        0
    }
}

//! A cluster: each call goes to the node that has its key. A call is sent on when a node says that
//! it belongs elsewhere, since then it has not run, and never after a failure.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::{
    Arg, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, Pipeline, RedisError, RedisFuture,
    RedisResult, ServerErrorKind, Value,
};

use super::connection::is_outage;
use super::topology::{Node, Topology, redirect, slot};

/// How often a call is sent on.
const REDIRECTS_MAX: usize = 4;
/// While the cluster does not know who has a slot, it is asked this often at most.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// A handle on the cluster; a clone shares its connections.
#[derive(Clone)]
pub(super) struct Cluster {
    shared: Arc<Shared>,
    /// Where this handle's last call went: a script is loaded where it was missed.
    last: Option<Node>,
}

struct Shared {
    seeds: Vec<(Node, ConnectionInfo)>,
    config: ConnectionManagerConfig,
    known: Mutex<Known>,
    /// Held while asking, so that many callers ask once.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    topology: Topology,
    /// A node failed or moved a slot since the cluster was asked.
    is_doubtful: bool,
    asked: Option<Instant>,
    turn: usize,
    connections: HashMap<Node, ConnectionManager>,
}

impl Cluster {
    pub(super) fn new(
        seeds: &[ConnectionInfo],
        config: ConnectionManagerConfig,
    ) -> RedisResult<Self> {
        let named = |info: &ConnectionInfo| match info.addr() {
            ConnectionAddr::Tcp(host, port) => Ok(((host.clone(), *port), info.clone())),
            _ => Err(RedisError::from((
                ErrorKind::InvalidClientConfig,
                "a cluster's nodes are redis://HOST:PORT",
            ))),
        };
        let seeds = seeds.iter().map(named).collect::<RedisResult<_>>()?;
        let known = Mutex::new(Known { is_doubtful: true, ..Known::default() });
        let asking = tokio::sync::Mutex::default();
        Ok(Self { shared: Arc::new(Shared { seeds, config, known, asking }), last: None })
    }

    /// Asks every primary the same; their addresses and answers.
    pub(super) async fn ask_all(&self, command: &Cmd) -> RedisResult<Vec<(Node, Value)>> {
        self.shared.ask_if_doubtful().await?;
        let mut answers = Vec::new();
        let primaries = self.shared.known().topology.primaries();
        for node in primaries {
            let answer = self.shared.send(&node, command).await?;
            answers.push((node, answer));
        }
        Ok(answers)
    }

    async fn route(&mut self, command: &Cmd) -> RedisResult<Value> {
        let slot = key(command).map(slot);
        let mut node = match (slot, &self.last) {
            (None, Some(last)) => last.clone(),
            _ => self.shared.node_of(slot).await?,
        };
        for _ in 0..REDIRECTS_MAX {
            self.last = Some(node.clone());
            let error = match self.shared.send(&node, command).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Server(ServerErrorKind::Moved) => {
                    let (slot, to) = redirect(&error, &node)?;
                    let mut known = self.shared.known();
                    known.topology.moved(slot, to.clone());
                    known.is_doubtful = true;
                    node = to;
                }
                ErrorKind::Server(ServerErrorKind::Ask) => {
                    let (_, to) = redirect(&error, &node)?;
                    return self.shared.send_asking(&to, command).await;
                }
                _ => {
                    if is_outage(&error) {
                        self.shared.known().is_doubtful = true;
                    }
                    return Err(error);
                }
            }
        }
        Err(RedisError::from((ErrorKind::ClusterConnectionNotFound, "sent on in circles")))
    }
}

impl Shared {
    /// Whom to ask about a slot; for no slot, anybody.
    async fn node_of(&self, slot: Option<u16>) -> RedisResult<Node> {
        self.ask_if_doubtful().await?;
        let known = self.known();
        let node = match slot {
            Some(slot) => known.topology.primary(slot),
            None => known.topology.nodes.first(),
        };
        let nobody = || RedisError::from((ErrorKind::ClusterConnectionNotFound, "no node has it"));
        node.cloned().ok_or_else(nobody)
    }

    /// Asks any node who has what, if that is in doubt; each time another one begins.
    async fn ask_if_doubtful(&self) -> RedisResult<()> {
        if !self.known().is_doubtful {
            return Ok(());
        }
        let _only = self.asking.lock().await;
        let (mut nodes, turn) = {
            let mut known = self.known();
            let lately = known.asked.is_some_and(|at| at.elapsed() < ASK_EVERY);
            if !known.is_doubtful || (lately && !known.topology.nodes.is_empty()) {
                return Ok(());
            }
            known.asked = Some(Instant::now());
            known.turn = known.turn.wrapping_add(1);
            (known.topology.nodes.clone(), known.turn)
        };
        nodes.extend(self.seeds.iter().map(|(node, _)| node.clone()));
        let start = turn % nodes.len().max(1);
        nodes.rotate_left(start);
        let ask = redis::cmd("CLUSTER").arg("SLOTS").to_owned();
        let mut last = RedisError::from((ErrorKind::ClusterConnectionNotFound, "no node is known"));
        for node in nodes {
            let told = self.send(&node, &ask).await;
            match told.and_then(|answer| Topology::read(answer, &node)) {
                Ok(topology) if topology.nodes.is_empty() => {}
                Ok(topology) => {
                    self.learn(topology);
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn learn(&self, topology: Topology) {
        let mut known = self.known();
        // Connections to nodes that have gone are closed; so the map stays bounded.
        known.connections.retain(|node, _| topology.nodes.contains(node));
        known.topology = topology;
        known.is_doubtful = false;
    }

    async fn send(&self, to: &Node, command: &Cmd) -> RedisResult<Value> {
        self.connection(to)?.send_packed_command(command).await?.extract_error()
    }

    /// While a slot moves, its new node takes only what announces itself.
    async fn send_asking(&self, to: &Node, command: &Cmd) -> RedisResult<Value> {
        let mut both = Pipeline::with_capacity(2);
        both.add_command(redis::cmd("ASKING")).add_command(command.clone());
        let answers = self.connection(to)?.send_packed_commands(&both, 0, 2).await?;
        answers.into_iter().nth(1).unwrap_or(Value::Nil).extract_error()
    }

    /// It connects at its first call and again after each loss.
    fn connection(&self, to: &Node) -> RedisResult<ConnectionManager> {
        let mut known = self.known();
        if let Some(connection) = known.connections.get(to) {
            return Ok(connection.clone());
        }
        let seed = self.seeds.iter().find(|(node, _)| node == to).or(self.seeds.first());
        let (_, seed) = seed.ok_or_else(|| {
            RedisError::from((ErrorKind::InvalidClientConfig, "no node is given"))
        })?;
        // What the URLs say of user, password and sockets is true of all nodes.
        let info = seed.clone().set_addr(ConnectionAddr::Tcp(to.0.clone(), to.1));
        let client = Client::open(info)?;
        let connection = ConnectionManager::new_lazy_with_config(client, self.config.clone())?;
        known.connections.insert(to.clone(), connection.clone());
        Ok(connection)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first key of a call: of a script behind their number, else the first argument.
fn key(command: &Cmd) -> Option<&[u8]> {
    let argument = |at: usize| match command.args_iter().nth(at) {
        Some(Arg::Simple(bytes)) => Some(bytes),
        _ => None,
    };
    let name = argument(0)?.to_ascii_uppercase();
    match name.as_slice() {
        b"EVALSHA" | b"EVAL" => argument(3),
        b"SCRIPT" | b"PING" | b"INFO" | b"CONFIG" | b"CLUSTER" | b"FLUSHALL" | b"SAVE" => None,
        _ => argument(1),
    }
}

impl ConnectionLike for Cluster {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.route(command))
    }

    /// Each by itself: a pipeline may belong to several nodes.
    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let mut answers = Vec::new();
            for command in pipeline.cmd_iter() {
                answers.push(self.route(command).await?);
            }
            Ok(answers.into_iter().skip(offset).take(count).collect())
        })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_belongs_to_its_first_key() {
        let command = |words: &[&str]| Cmd::new().arg(words).to_owned();
        let of = |words| key(&command(words)).map(<[u8]>::to_vec);
        assert_eq!(of(&["EVALSHA", "abc", "2", "k1", "k2", "v"]), Some(b"k1".to_vec()));
        assert_eq!(of(&["hgetall", "k1"]), Some(b"k1".to_vec()));
        assert_eq!(of(&["XRANGE", "k1", "-", "+"]), Some(b"k1".to_vec()));
        assert_eq!(of(&["SCRIPT", "LOAD", "return 1"]), None);
        assert_eq!(of(&["PING"]), None);
    }
}

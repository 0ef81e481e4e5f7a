//! A private cluster: three primaries, each with a replica.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::Signal;

use super::folder::Folder;
use super::redis::{Member, ask, member, reached};

const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;
/// How long a node may be silent before it counts as down: a busy machine is not a dead one.
const NODE_TIMEOUT_MS: &str = "2000";

/// Six nodes on loopback; none keeps anything on the disk but what it knows of the others.
pub struct PrivateCluster {
    // Declared first, so that the servers end before their folder is removed.
    nodes: Vec<Member>,
    _folder: Arc<Folder>,
}

impl PrivateCluster {
    /// Starts all and joins them; blocks until every slot is served and every replica in step.
    pub fn start() -> Result<Self> {
        let folder = Arc::new(Folder::create()?);
        let node = |number: usize| {
            let manner = ["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS];
            member(&folder, &format!("node-{number}"), &manner)
        };
        let nodes = (0..2 * PRIMARIES).map(node).collect::<Result<Vec<_>>>()?;
        let cluster = Self { nodes, _folder: folder };
        cluster.join()?;
        Ok(cluster)
    }

    fn join(&self) -> Result<()> {
        for (number, node) in self.nodes.iter().enumerate() {
            let epoch = (number + 1).to_string();
            ask::<()>(node.port, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
            if number < PRIMARIES {
                let first = (number * SLOTS / PRIMARIES).to_string();
                let last = ((number + 1) * SLOTS / PRIMARIES - 1).to_string();
                ask::<()>(node.port, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
            }
            let other = self.nodes[0].port.to_string();
            ask::<()>(node.port, &["CLUSTER", "MEET", "127.0.0.1", &other])?;
        }
        let known = format!("cluster_known_nodes:{}", 2 * PRIMARIES);
        for node in &self.nodes {
            reached("all nodes know each other", || {
                Ok(ask::<String>(node.port, &["CLUSTER", "INFO"])?.contains(&known))
            })?;
        }
        for (primary, replica) in self.nodes.iter().zip(&self.nodes[PRIMARIES..]) {
            let id: String = ask(primary.port, &["CLUSTER", "MYID"])?;
            reached("a replica knows its primary", || {
                Ok(ask::<()>(replica.port, &["CLUSTER", "REPLICATE", &id]).is_ok())
            })?;
            reached("a replica is in step", || {
                Ok(ask::<String>(replica.port, &["INFO", "replication"])?
                    .contains("master_link_status:up"))
            })?;
        }
        for node in &self.nodes {
            reached("all slots are served", || {
                Ok(ask::<String>(node.port, &["CLUSTER", "INFO"])?.contains("cluster_state:ok"))
            })?;
        }
        Ok(())
    }

    /// URLs of some nodes, as the program is given them.
    pub fn urls(&self) -> String {
        let url = |node: &Member| format!("redis://127.0.0.1:{}", node.port);
        self.nodes.iter().take(PRIMARIES).map(url).collect::<Vec<_>>().join(",")
    }

    /// The port of the primary that serves a key.
    pub fn primary_of(&self, key: &str) -> Result<u16> {
        let at = self.serving(key)?;
        Ok(self.nodes[at].port)
    }

    /// Kills the primary that serves a key with SIGKILL, and blocks until its replica does.
    pub fn fail_over(&self, key: &str) -> Result<()> {
        let at = self.serving(key)?;
        self.nodes[at].server.end(Signal::SIGKILL)?;
        reached("the replica has taken the slots over", || Ok(self.serving(key)? != at))
    }

    /// Which node serves a key, by whoever runs.
    fn serving(&self, key: &str) -> Result<usize> {
        let serves = |node: &Member| {
            let role: String = ask(node.port, &["INFO", "replication"])?;
            let has_it = ask::<bool>(node.port, &["EXISTS", key]).is_ok();
            anyhow::Ok(role.contains("role:master") && has_it)
        };
        let found = self.nodes.iter().position(|node| serves(node).unwrap_or(false));
        found.ok_or_else(|| anyhow!("no node serves {key}")).context("asking all nodes")
    }
}

//! The nodes' words about themselves.

use std::sync::LazyLock;

use redis::{Script, cmd};

use super::super::RedisFailure;
use super::{RoomStore, garbled, instant_ms, script};
use crate::domain::node::{NodeReport, NodeSeen, Nodes};

static NODES: LazyLock<Script> = script!("prelude.lua", "nodes.lua");

impl RoomStore {
    /// Tells of a node, and hears of all of the last minute.
    pub async fn report(&self, id: &str, report: &NodeReport) -> Result<Nodes, RedisFailure> {
        let json = serde_json::to_string(report).map_err(|error| garbled(error.to_string()))?;
        let mut call = NODES.prepare_invoke();
        call.key(self.keys.nodes()).key(self.keys.identity());
        call.arg(id).arg(json).arg(&report.identity);
        let raw: Vec<String> = self.store.run(&call).await?;
        let [now, identity, seen @ ..] = raw.as_slice() else {
            return Err(garbled("nodes"));
        };
        let mut nodes: Vec<NodeSeen> = seen.chunks_exact(2).filter_map(read).collect();
        nodes.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(Nodes { now_ms: instant_ms(now)?, identity: identity.clone(), seen: nodes })
    }

    /// A node ends and is missed by nobody.
    pub async fn farewell(&self, id: &str) -> Result<(), RedisFailure> {
        let mut forget = cmd("HDEL");
        self.store.command::<u64>(forget.arg(self.keys.nodes()).arg(id)).await.map(|_| ())
    }

    /// The installation that this Redis belongs to, if nodes have told.
    pub async fn identity(&self) -> Result<Option<String>, RedisFailure> {
        let mut get = cmd("GET");
        self.store.command(get.arg(self.keys.identity())).await
    }
}

/// A node of another version may say what is not understood: it is left out.
fn read(pair: &[String]) -> Option<NodeSeen> {
    let (at, report) = pair[1].split_once(' ')?;
    let (at_ms, report) = (instant_ms(at).ok()?, serde_json::from_str(report).ok()?);
    Some(NodeSeen { id: pair[0].clone(), at_ms, report })
}

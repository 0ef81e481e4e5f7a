//! What the nodes of an installation tell each other of themselves.

use serde::{Deserialize, Serialize};

/// A node's word about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// `all`, `gateway` or `core`.
    pub role: String,
    /// The program's version.
    pub version: String,
    /// The control record's version that it goes by.
    pub control: u64,
    /// Who tells it what is in force: `redis`, `core` or `nobody`.
    pub reach: String,
    /// Names the content of its settings file.
    pub settings: String,
    /// Its settings file is refused as it is now.
    pub settings_refused: bool,
    /// The control record is not as its file says, or keys of the file wait for a restart.
    pub settings_differ: bool,
    /// Names its keys.
    pub keys: String,
    /// Names the installation that its keys belong to.
    pub identity: String,
}

/// A node as it was last heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its name.
    pub id: String,
    /// Redis' clock, Unix milliseconds.
    pub at_ms: u64,
    /// Its word.
    pub report: NodeReport,
}

/// All nodes heard of lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// When they were asked for: Redis' clock, Unix milliseconds.
    pub now_ms: u64,
    /// The installation that was here first.
    pub identity: String,
    /// By name.
    pub seen: Vec<NodeSeen>,
}

/// A node that was not heard from for so long may be cut off, in milliseconds.
pub const SILENT_MS: u64 = 5_000;

impl Nodes {
    /// What most nodes say; of equally many the first.
    pub fn usual<'a>(&'a self, what: impl Fn(&'a NodeReport) -> &'a str) -> &'a str {
        let mut best = ("", 0);
        for node in &self.seen {
            let said = what(&node.report);
            let count = self.seen.iter().filter(|other| what(&other.report) == said).count();
            if count > best.1 {
                best = (said, count);
            }
        }
        best.0
    }

    /// How many different keys the nodes have.
    pub fn key_sets(&self) -> usize {
        let mut keys: Vec<_> = self.seen.iter().map(|node| node.report.keys.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, keys: &str) -> NodeSeen {
        let report = NodeReport {
            role: "gateway".into(),
            version: "1".into(),
            control: 1,
            reach: "redis".into(),
            settings: "s".into(),
            settings_refused: false,
            settings_differ: false,
            keys: keys.into(),
            identity: "i".into(),
        };
        NodeSeen { id: id.into(), at_ms: 1, report }
    }

    #[test]
    fn the_odd_one_out_is_told_from_the_others() {
        let seen = vec![node("a", "x"), node("b", "y"), node("c", "y")];
        let nodes = Nodes { now_ms: 1, identity: "i".into(), seen };
        assert_eq!(nodes.usual(|report| &report.keys), "y");
        assert_eq!(nodes.key_sets(), 2);
        assert_eq!(Nodes::default().usual(|report| &report.keys), "");
    }
}

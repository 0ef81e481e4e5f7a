//! What the nodes of an installation tell each other of themselves.

use std::collections::BTreeSet;

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
        let keys: BTreeSet<_> = self.seen.iter().map(|node| &node.report.keys).collect();
        keys.len()
    }

    /// How many different settings files the nodes of one role have, of the role with the most.
    pub fn settings_files(&self) -> usize {
        let files = |role: &str| {
            let of_role = self.seen.iter().filter(|node| node.report.role == role);
            of_role.map(|node| &node.report.settings).collect::<BTreeSet<_>>().len()
        };
        self.seen.iter().map(|node| files(&node.report.role)).max().unwrap_or(0)
    }

    /// How many nodes this is true of.
    pub fn count(&self, what: impl Fn(&NodeReport) -> bool) -> usize {
        self.seen.iter().filter(|node| what(&node.report)).count()
    }

    /// How many nodes a stop may not reach: they hear of no store, or are not heard from.
    pub fn out_of_reach(&self) -> usize {
        let is_silent = |node: &NodeSeen| self.now_ms.saturating_sub(node.at_ms) > SILENT_MS;
        let is_cut_off = |node: &NodeSeen| !["redis", "core"].contains(&node.report.reach.as_str());
        self.seen.iter().filter(|node| is_silent(node) || is_cut_off(node)).count()
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

    #[test]
    fn files_are_compared_within_a_role_and_who_is_silent_or_cut_off_is_out_of_reach() {
        let mut seen = vec![node("a", "x"), node("b", "x"), node("c", "x"), node("d", "x")];
        (seen[0].report.role, seen[0].report.settings) = ("core".into(), "another".into());
        let mut nodes = Nodes { now_ms: SILENT_MS, identity: "i".into(), seen };
        assert_eq!((nodes.settings_files(), nodes.out_of_reach()), (1, 0));

        nodes.seen[1].report.settings = "edited".into();
        nodes.seen[1].report.settings_refused = true;
        nodes.seen[2].report.reach = "nobody".into();
        assert_eq!((nodes.settings_files(), nodes.out_of_reach()), (2, 1));
        assert_eq!(nodes.count(|report| report.settings_refused), 1);
        nodes.now_ms = 2 * SILENT_MS;
        assert_eq!(nodes.out_of_reach(), 4);
        assert_eq!((Nodes::default().settings_files(), Nodes::default().out_of_reach()), (0, 0));
    }
}

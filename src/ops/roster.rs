//! The nodes of the installation as this one last heard of them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::domain::node::Nodes;

/// Written by the one that reports, read by the page.
pub struct Roster {
    nodes: ArcSwap<Nodes>,
    known: Gauge,
    key_sets: Gauge,
    foreign: Gauge,
}

impl Roster {
    /// Nothing heard yet; its metrics go into the registry.
    pub fn new(registry: &mut Registry) -> Self {
        let gauge = |registry: &mut Registry, name, help| {
            let gauge = Gauge::<i64>::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Self {
            nodes: ArcSwap::default(),
            known: gauge(registry, "nodes", "Nodes heard of in the last minute"),
            key_sets: gauge(
                registry,
                "nodes_key_sets",
                "Different sets of keys among the nodes; more than 1 for longer than a rotation \
                 takes to copy is an alarm",
            ),
            foreign: gauge(
                registry,
                "keys_foreign",
                "1 if this node's place key is not the one of the installation in Redis",
            ),
        }
    }

    /// What was heard.
    pub fn nodes(&self) -> Arc<Nodes> {
        self.nodes.load_full()
    }

    /// Takes over what was heard by a node whose keys belong to `identity`; whether they are those
    /// of the installation.
    pub fn heard(&self, nodes: Nodes, identity: &str) -> bool {
        let is_ours = nodes.identity == identity;
        self.known.set(i64::try_from(nodes.seen.len()).unwrap_or(i64::MAX));
        self.key_sets.set(i64::try_from(nodes.key_sets()).unwrap_or(i64::MAX));
        self.foreign.set(i64::from(!is_ours));
        self.nodes.store(Arc::new(nodes));
        is_ours
    }
}

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
    settings_files: Gauge,
    refused: Gauge,
    differ: Gauge,
    out_of_reach: Gauge,
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
            settings_files: gauge(
                registry,
                "nodes_settings_files",
                "Different settings files among the nodes of one role; more than 1 for longer than \
                 an edit takes to copy is an alarm",
            ),
            refused: gauge(
                registry,
                "nodes_settings_refused",
                "Nodes whose settings file is refused as it is now; the settings before it stay",
            ),
            differ: gauge(
                registry,
                "nodes_settings_differ",
                "Nodes whose file is not what is in force: a command came after it, or it waits \
                 for a restart",
            ),
            out_of_reach: gauge(
                registry,
                "nodes_out_of_reach",
                "Nodes that a stop may not reach: silent, or no store tells them what is in force",
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
        let set = |gauge: &Gauge, count: usize| gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        set(&self.known, nodes.seen.len());
        set(&self.key_sets, nodes.key_sets());
        set(&self.settings_files, nodes.settings_files());
        set(&self.refused, nodes.count(|report| report.settings_refused));
        set(&self.differ, nodes.count(|report| report.settings_differ));
        set(&self.out_of_reach, nodes.out_of_reach());
        self.foreign.set(i64::from(!is_ours));
        self.nodes.store(Arc::new(nodes));
        is_ours
    }
}

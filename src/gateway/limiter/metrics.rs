//! What operators see of quotas.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::telemetry::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    /// The quota, as the settings name it.
    limit: &'static str,
}

/// Counts per quota; clones count together.
#[derive(Clone)]
pub(super) struct LimitMetrics {
    keys: Family<Of, Gauge>,
    refused: Family<Of, Counter>,
}

impl LimitMetrics {
    /// Puts them into the registry.
    pub(super) fn new(metrics: &Metrics) -> Self {
        let new = Self { keys: Family::default(), refused: Family::default() };
        metrics.register(|registry| {
            let help = "Subjects that a quota keeps a count of, idle ones dropped";
            registry.register("limit_keys", help, new.keys.clone());
            let help = "Requests refused by a quota";
            registry.register("limit_refusals", help, new.refused.clone());
        });
        new
    }

    /// How many subjects are remembered.
    pub(super) fn keys(&self, limit: &'static str, keys: usize) {
        let keys = i64::try_from(keys).unwrap_or(i64::MAX);
        self.keys.get_or_create_owned(&Of { limit }).set(keys);
    }

    /// One request was refused.
    pub(super) fn refused(&self, limit: &'static str) {
        self.refused.get_or_create_owned(&Of { limit }).inc();
    }
}

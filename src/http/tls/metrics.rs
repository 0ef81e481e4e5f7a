//! What operators see of certificates: when each runs out, and whether its files were good.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::pair::{Pair, PairFiles};
use crate::telemetry::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    /// The certificate's file, as in the settings.
    certificate: String,
}

impl Of {
    fn one(files: &PairFiles) -> Self {
        Self { certificate: files.cert.display().to_string() }
    }
}

/// Gauges per certificate of the settings; those of one that is gone go too.
pub(super) struct CertificateMetrics {
    expires: Family<Of, Gauge>,
    good: Family<Of, Gauge>,
    refused: Counter,
}

impl CertificateMetrics {
    /// Puts them into the registry.
    pub(super) fn new(metrics: &Metrics) -> Self {
        let new = Self {
            expires: Family::default(),
            good: Family::default(),
            refused: Counter::default(),
        };
        metrics.register(|registry| {
            registry.register(
                "certificate_expires_in_seconds",
                "Seconds until the certificate that is served runs out; negative after",
                new.expires.clone(),
            );
            registry.register(
                "certificate_last_reload_successful",
                "1 if the files were good when last read, 0 if the old ones are still served",
                new.good.clone(),
            );
            registry.register(
                "certificate_reloads_refused",
                "Changed certificates or keys that were refused; the old ones stayed",
                new.refused.clone(),
            );
        });
        new
    }

    /// What is served now.
    pub(super) fn served(&self, pairs: &[(PairFiles, Arc<Pair>)], now_ms: u64) {
        for (files, pair) in pairs {
            let left = self.expires.get_or_create_owned(&Of::one(files));
            left.set(pair.seconds_left(now_ms));
        }
    }

    /// The files were read.
    pub(super) fn read(&self, files: &PairFiles, is_good: bool) {
        self.good.get_or_create_owned(&Of::one(files)).set(i64::from(is_good));
        if !is_good {
            self.refused.inc();
        }
    }

    /// The settings do not name it any more.
    pub(super) fn forget(&self, files: &PairFiles) {
        self.expires.remove(&Of::one(files));
        self.good.remove(&Of::one(files));
    }
}

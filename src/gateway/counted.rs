//! What the edge counts: answers, by kind.

use hyper::Response;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::respond::STANCHION_ANSWER;
use crate::http::body::Body;
use crate::telemetry::Metrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    /// `queue`, `refused`, `unavailable`, `own`, or `forwarded`.
    answer: String,
    /// `2xx` and so on.
    status: String,
}

/// The edge's counters.
pub(super) struct Counted {
    answers: Family<Labels, Counter>,
    shop_addresses_up: Gauge,
}

impl Counted {
    /// Puts them into the registry.
    pub(super) fn new(metrics: &Metrics) -> Self {
        let answers = Family::<Labels, Counter>::default();
        metrics.register(|registry| {
            let help = "Answers of the public edge, by kind and class of status";
            registry.register("answers", help, answers.clone());
        });
        let shop_addresses_up = Gauge::default();
        metrics.register(|registry| {
            let help = "Addresses of the shop that are not known to be down";
            registry.register("shop_addresses_up", help, shop_addresses_up.clone());
        });
        Self { answers, shop_addresses_up }
    }

    /// How many addresses of the shop are up.
    pub(super) fn shop(&self, up: usize) {
        self.shop_addresses_up.set(i64::try_from(up).unwrap_or(i64::MAX));
    }

    /// Counts one answer.
    pub(super) fn count(&self, response: &Response<Body>) {
        let kind = response.headers().get(STANCHION_ANSWER).and_then(|kind| kind.to_str().ok());
        let labels = Labels {
            answer: kind.unwrap_or("forwarded").to_owned(),
            status: format!("{}xx", response.status().as_u16() / 100),
        };
        self.answers.get_or_create_owned(&labels).inc();
    }
}

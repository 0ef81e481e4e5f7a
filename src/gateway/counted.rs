//! What the edge counts: answers, by kind.

use std::sync::OnceLock;

use hyper::Response;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::respond::STANCHION_ANSWER;
use crate::http::body::Body;
use crate::telemetry::{CoreCounter, Metrics};

const KINDS: [&str; 5] = ["forwarded", "queue", "refused", "unavailable", "own"];
const OWN: usize = 4;
const CLASSES: [&str; 6] = ["0xx", "1xx", "2xx", "3xx", "4xx", "5xx"];
const SUCCESS: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    /// One of [`KINDS`].
    answer: &'static str,
    /// One of [`CLASSES`].
    status: &'static str,
}

/// The edge's counters.
pub(super) struct Counted {
    answers: Family<Labels, CoreCounter>,
    /// Those of `answers`, found without a look into it.
    known: [[OnceLock<CoreCounter>; CLASSES.len()]; KINDS.len()],
    shop_addresses_up: Gauge,
}

impl Counted {
    /// Puts them into the registry.
    pub(super) fn new(metrics: &Metrics) -> Self {
        let answers = Family::<Labels, CoreCounter>::default();
        metrics.register(|registry| {
            let help = "Answers of the public edge, by kind and class of status";
            registry.register("answers", help, answers.clone());
        });
        let shop_addresses_up = Gauge::default();
        metrics.register(|registry| {
            let help = "Addresses of the shop that are not known to be down";
            registry.register("shop_addresses_up", help, shop_addresses_up.clone());
        });
        Self { answers, known: Default::default(), shop_addresses_up }
    }

    /// How many addresses of the shop are up.
    pub(super) fn shop(&self, up: usize) {
        self.shop_addresses_up.set(i64::try_from(up).unwrap_or(i64::MAX));
    }

    /// Counts one answer.
    pub(super) fn count(&self, response: &Response<Body>) {
        let kind = response
            .headers()
            .get(STANCHION_ANSWER)
            .map_or(0, |word| KINDS.iter().position(|kind| *word == *kind).unwrap_or(0));
        let class = usize::from(response.status().as_u16() / 100) % CLASSES.len();
        self.count_as(kind, class);
    }

    /// Counts a status that was told.
    pub(super) fn count_status(&self) {
        self.count_as(OWN, SUCCESS);
    }

    fn count_as(&self, kind: usize, class: usize) {
        let counter = self.known[kind][class].get_or_init(|| {
            let labels = Labels { answer: KINDS[kind], status: CLASSES[class] };
            self.answers.get_or_create_owned(&labels)
        });
        counter.inc();
    }
}

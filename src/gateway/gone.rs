//! Clients that leave before they are answered: others log 499.

use prometheus_client::metrics::counter::Counter;

use crate::telemetry::Metrics;

/// Counts them.
pub(super) struct Gone(Counter);

impl Gone {
    /// Nobody has left yet.
    pub(super) fn new(metrics: &Metrics) -> Self {
        let gone = Counter::default();
        metrics.register(|registry| {
            let help = "Requests whose client left before the answer began";
            registry.register("clients_gone", help, gone.clone());
        });
        Self(gone)
    }

    /// A request has come; dropped before it is answered, its client has left.
    pub(super) fn unless_answered(&self) -> Unanswered<'_> {
        Unanswered(Some(&self.0))
    }
}

/// A request that is being answered.
pub(super) struct Unanswered<'a>(Option<&'a Counter>);

impl Unanswered<'_> {
    /// It was.
    pub(super) fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(gone) = self.0 {
            gone.inc();
            tracing::debug!("a client left before it was answered");
        }
    }
}

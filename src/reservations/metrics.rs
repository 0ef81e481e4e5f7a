//! What the core counts.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::lane::LaneMetrics;
use crate::domain::refusal::Problem;

/// A gauge of seconds.
type Seconds = Gauge<f64, AtomicU64>;

/// An order got a hold.
pub(super) const HELD: &str = "held";
/// An order was told again what it had got.
pub(super) const REPLAY: &str = "replay";

/// Counters of the core; clones share them.
#[derive(Clone, Default)]
pub struct ReservationMetrics {
    /// The lanes; requests that reached Postgres' take function are counted there.
    pub lanes: LaneMetrics,
    /// Answers by outcome: held, replay, and the refusals by name.
    pub reserve_outcomes: Family<[(&'static str, &'static str); 1], Counter>,
    /// Orders that went to the ledger without the gate's word.
    pub gate_bypasses: Counter,
    /// Comparisons that found a gate above the ledger.
    pub gate_too_high: Counter,
    /// Comparisons that found units missing at a gate, with no take under way to explain it.
    pub gate_too_low: Counter,
    /// What the last audit found, -1 if it could not be read; anything but 0 is an alarm.
    pub audit_findings: Gauge,
    /// Holds that sweeps have expired.
    pub swept_holds: Counter,
    /// For how long the oldest transaction has kept old versions of rows alive, in seconds.
    pub oldest_snapshot: Seconds,
    /// Holds past their end for which the shop has not answered.
    pub unsettled_holds: Gauge,
    /// Payments whose orders have not come within a minute.
    pub unmatched_payments: Gauge,
}

impl ReservationMetrics {
    /// Puts them into the process' registry.
    pub fn register(&self, registry: &mut Registry) {
        self.lanes.register(registry);
        let outcomes = self.reserve_outcomes.clone();
        // There from the start, so that the first one is seen as a change.
        for name in [HELD, REPLAY, Problem::SoldOut.name()] {
            drop(outcomes.get_or_create_owned(&[("outcome", name)]));
        }
        registry.register("reserve_outcomes", "Answers to reservations, by outcome", outcomes);
        let bypasses = self.gate_bypasses.clone();
        registry.register("gate_bypasses", "Orders decided without the gate", bypasses);
        let (high, low) = (self.gate_too_high.clone(), self.gate_too_low.clone());
        registry.register("gate_too_high", "Gates found above the ledger", high);
        registry.register("gate_too_low", "Gates found below the ledger", low);
        let findings = self.audit_findings.clone();
        registry.register("audit_findings", "Rows that the last audit found", findings);
        registry.register("swept_holds", "Holds expired by sweeps", self.swept_holds.clone());
        let oldest = self.oldest_snapshot.clone();
        let help = "Age of the oldest transaction, which keeps dead rows alive";
        registry.register_with_unit("oldest_snapshot", help, Unit::Seconds, oldest);
        let unsettled = self.unsettled_holds.clone();
        registry.register("unsettled_holds", "Holds past their end without an answer", unsettled);
        let unmatched = self.unmatched_payments.clone();
        registry.register("unmatched_payments", "Payments without an order", unmatched);
    }
}

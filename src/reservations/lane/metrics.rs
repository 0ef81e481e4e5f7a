//! What lanes count.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::carries::Carries;

/// Counters of all lanes of a process together; clones share them.
#[derive(Clone)]
pub struct LaneMetrics {
    /// Orders that were sent to Postgres.
    pub attempts: Counter,
    /// Orders that wait.
    pub waiting: Gauge,
    /// Orders that were not sent, for nobody waited for them any more.
    pub unsent: Counter,
    /// Orders in one call.
    pub batch_size: Histogram,
    /// From a call to its answer, commit included, in seconds.
    pub batch_seconds: Histogram,
    /// Waiting for the stock row and changing it, in seconds.
    pub row_seconds: Histogram,
    /// Takes a second that one row can carry; 0 until there was one.
    pub row_carries: Gauge<f64, AtomicU64>,
    carries: Carries,
}

impl Default for LaneMetrics {
    fn default() -> Self {
        Self {
            attempts: Counter::default(),
            waiting: Gauge::default(),
            unsent: Counter::default(),
            batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            batch_seconds: Histogram::new(exponential_buckets(0.000_25, 2.0, 14)),
            row_seconds: Histogram::new(exponential_buckets(0.000_01, 3.0, 13)),
            row_carries: Gauge::default(),
            carries: Carries::default(),
        }
    }
}

impl LaneMetrics {
    /// Notes a call that was answered.
    pub(super) fn sent(&self, orders: usize, took: Duration, row_us: u64) {
        let orders = f64::from(u32::try_from(orders).unwrap_or(u32::MAX));
        self.batch_size.observe(orders);
        self.row_carries.set(self.carries.after(orders, took));
        self.batch_seconds.observe(took.as_secs_f64());
        self.row_seconds.observe(Duration::from_micros(row_us).as_secs_f64());
    }

    /// Puts them into the process' registry.
    pub fn register(&self, registry: &mut Registry) {
        let (attempts, unsent) = (self.attempts.clone(), self.unsent.clone());
        registry.register(
            "ledger_take_attempts",
            "Requests that reached Postgres' take function",
            attempts,
        );
        registry.register("lane_waiting", "Orders that wait in lanes", self.waiting.clone());
        registry.register("lane_unsent", "Orders dropped because nobody waited any more", unsent);
        let (size, seconds) = (self.batch_size.clone(), self.batch_seconds.clone());
        registry.register("lane_batch_size", "Orders in one call", size);
        registry.register("lane_batch_seconds", "A call of a lane, commit included", seconds);
        registry.register(
            "lane_row_seconds",
            "Waiting for the stock row's lock and changing the row",
            self.row_seconds.clone(),
        );
        registry.register(
            "lane_row_carries",
            "Takes a second that one stock row can carry; 0 until there was one",
            self.row_carries.clone(),
        );
    }
}

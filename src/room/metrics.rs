//! The rooms as metrics: read from their snapshots at each scrape, so nothing is counted twice
//! and nothing is kept.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::{Reach, Room, Snapshot};

/// The rooms of a node.
pub struct RoomMetrics {
    rooms: Vec<Arc<Room>>,
}

impl RoomMetrics {
    /// Puts the rooms' metrics into a registry; the labels are the sales' ids.
    pub fn register(registry: &mut Registry, rooms: Vec<Arc<Room>>) {
        registry.register_collector(Box::new(Self { rooms }));
    }
}

impl fmt::Debug for RoomMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rooms.iter().map(|room| room.sale())).finish()
    }
}

/// Name, help, and the value at an instant of the room's clock.
type Row = (&'static str, &'static str, fn(&Snapshot, u64) -> f64);

#[expect(clippy::cast_precision_loss, reason = "counts of one sale stay far below 2^53")]
const ROWS: [Row; 9] = [
    ("room_line", "Places in line; before the draw, entries", |seen, _| seen.line as f64),
    ("room_called", "Places called", |seen, _| seen.cursor as f64),
    ("room_admitted", "Called places that have claimed in this epoch", |seen, _| {
        seen.claimed as f64
    }),
    ("room_open_admissions", "Admissions that have not ended", |seen, _| seen.active as f64),
    ("room_rate", "Admissions per second as set", |seen, _| seen.control.rate.get()),
    ("room_lead_seconds", "How far the booked slots reach ahead", |seen, now_ms| {
        seen.meter.lead_ms(now_ms as f64) / 1_000.0
    }),
    ("room_paused", "1 while the line stands still", |seen, now_ms| {
        f64::from(u8::from(seen.is_paused(now_ms)))
    }),
    ("room_live", "1 while Redis answers and has the room", |seen, now_ms| {
        f64::from(u8::from(seen.is_live(now_ms)))
    }),
    ("room_stoppable", "1 while a store tells this node what is in force", |seen, now_ms| {
        f64::from(u8::from(seen.reach(now_ms) != Reach::Nobody))
    }),
];

impl Collector for RoomMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for (name, help, value) in ROWS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for room in &self.rooms {
                let value = ConstGauge::new(value(&room.snapshot(), room.now_ms()));
                value.encode(family.encode_family(&[("sale", room.sale().as_str())])?)?;
            }
        }
        Ok(())
    }
}

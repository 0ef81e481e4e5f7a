//! The rooms as metrics: read from their snapshots at each scrape, so nothing is counted twice
//! and nothing is kept.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
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
const ROWS: [Row; 13] = [
    ("room_line", "People with a place, now or once; before the draw, entries", |seen, _| {
        seen.line_counts().joined as f64
    }),
    ("room_waiting", "People in line who have not been called", |seen, _| {
        seen.line_counts().waiting as f64
    }),
    ("room_present", "Those near the front of them that were heard from lately", |seen, _| {
        seen.line_counts().present as f64
    }),
    ("room_called", "People called", |seen, _| seen.line_counts().called as f64),
    ("room_admitted", "People let in since the last stop", |seen, _| {
        seen.line_counts().admitted as f64
    }),
    ("room_missed", "People called and not let in within their window", |seen, _| {
        seen.line_counts().missed as f64
    }),
    ("room_open_admissions", "Admissions that have not ended", |seen, _| {
        seen.line_counts().open_admissions as f64
    }),
    ("room_undecided", "Those that may still take units", |seen, _| {
        seen.line_counts().undecided as f64
    }),
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

impl RoomMetrics {
    /// Prediction against what came.
    fn encode_waits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Places of a sample, called before, inside or after the range of wait that this \
                    node first told them, at rates that did not change meanwhile";
        let mut family =
            encoder.encode_descriptor("room_waits", help, None, MetricType::Counter)?;
        for room in &self.rooms {
            let kept = room.waits_kept();
            for (outcome, count) in
                [("before", kept.before), ("inside", kept.inside), ("after", kept.after)]
            {
                let labels = [("sale", room.sale().as_str()), ("outcome", outcome)];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// The same of the room itself; counters only rise.
type JoinRow = (&'static str, &'static str, MetricType, fn(&Room) -> u64);

const JOIN_ROWS: [JoinRow; 2] = [
    ("room_joins_waiting", "Joins that wait to be written down", MetricType::Gauge, |room| {
        u64::try_from(room.joins.max_capacity() - room.joins.capacity()).unwrap_or(u64::MAX)
    }),
    (
        "room_joins_told_to_come_again",
        "Joins that found no room to wait",
        MetricType::Counter,
        |room| room.joins_refused.load(Ordering::Relaxed),
    ),
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
        for (name, help, kind, value) in JOIN_ROWS {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for room in &self.rooms {
                let labels = [("sale", room.sale().as_str())];
                let encoder = family.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => ConstCounter::new(value(room)).encode(encoder)?,
                    _ => ConstGauge::new(i64::try_from(value(room)).unwrap_or(i64::MAX))
                        .encode(encoder)?,
                }
            }
        }
        self.encode_waits(&mut encoder)
    }
}

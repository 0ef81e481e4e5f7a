//! The pulse of the sales on this node: sampled once a second, for the page and the alarms.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::domain::id::SaleId;
use crate::domain::standing::{LineWatch, Sight, Standing};
use crate::room::Room;

const EVERY: Duration = Duration::from_secs(1);
/// How many seconds are kept.
pub const SECONDS_KEPT: usize = 60;
/// The rate achieved is that of the last so many.
const SECONDS_OF_RATE: usize = 10;

/// What is sampled.
pub struct Pulse {
    sales: Vec<(Arc<Room>, Mutex<SalePulse>)>,
    stuck: Family<Labels, Gauge>,
    states: Family<Labels, Gauge>,
}

type Labels = Vec<(&'static str, String)>;

/// Of one sale.
#[derive(Debug, Default)]
struct SalePulse {
    watch: LineWatch,
    is_stuck: bool,
    /// As it was told last.
    told: Option<Standing>,
    admitted: Option<u64>,
    /// Admissions in each of the last seconds, the newest last.
    seconds: VecDeque<u64>,
}

/// One sale's pulse as it is now.
#[derive(Debug, Clone)]
pub struct Beat {
    /// What is seen of it.
    pub sight: Sight,
    /// Whether the line moves.
    pub standing: Standing,
    /// Admissions in each of the last seconds, the newest last; at most [`SECONDS_KEPT`].
    pub seconds: Vec<u64>,
    /// Admissions per second lately.
    pub rate: f64,
}

impl Pulse {
    /// The pulse of these rooms; its alarm goes into the registry.
    pub fn new(rooms: &[Arc<Room>], registry: &mut Registry) -> Self {
        let (stuck, states) = (Family::<Labels, Gauge>::default(), Family::default());
        registry.register(
            "line_stuck",
            "1 while people wait, units are free and nobody is admitted",
            stuck.clone(),
        );
        registry.register(
            "line_state",
            "1 for the one reason why the line moves or stands; light is green, amber or red",
            states.clone(),
        );
        let sales = rooms.iter().map(|room| (Arc::clone(room), Mutex::default())).collect();
        let pulse = Self { sales, stuck, states };
        for (room, _) in &pulse.sales {
            pulse.tell(room.sale(), false);
        }
        pulse
    }

    /// Samples until cancelled.
    pub async fn run(self: Arc<Self>, ending: CancellationToken) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while ending.run_until_cancelled(ticks.tick()).await.is_some() {
            for (room, pulse) in &self.sales {
                let sight = sight(room);
                let mut pulse = pulse.lock().unwrap_or_else(PoisonError::into_inner);
                let was_stuck = pulse.is_stuck;
                pulse.sample(&sight);
                if pulse.is_stuck != was_stuck {
                    tell_log(room.sale(), pulse.is_stuck, &sight);
                    self.tell(room.sale(), pulse.is_stuck);
                }
                let standing = Standing::of(&sight, pulse.is_stuck);
                self.tell_state(room.sale(), pulse.told.replace(standing), standing);
            }
        }
    }

    fn tell(&self, sale: &SaleId, is_stuck: bool) {
        let labels = vec![("sale", sale.to_string())];
        self.stuck.get_or_create_owned(&labels).set(i64::from(is_stuck));
    }

    /// One is 1; what a sale has been before stays, at 0.
    fn tell_state(&self, sale: &SaleId, before: Option<Standing>, now: Standing) {
        let state = |standing: Standing| {
            let light = standing.light().as_str().to_owned();
            let labels = vec![
                ("sale", sale.to_string()),
                ("state", standing.name().to_owned()),
                ("light", light),
            ];
            self.states.get_or_create_owned(&labels)
        };
        if let Some(before) = before {
            state(before).set(0);
        }
        state(now).set(1);
    }

    /// The sales' rooms with their pulse.
    pub fn beats(&self) -> impl Iterator<Item = (&Arc<Room>, Beat)> {
        self.sales.iter().map(|(room, pulse)| {
            let pulse = pulse.lock().unwrap_or_else(PoisonError::into_inner);
            let sight = sight(room);
            let beat = Beat {
                standing: Standing::of(&sight, pulse.is_stuck),
                sight,
                seconds: pulse.seconds.iter().copied().collect(),
                rate: pulse.rate(),
            };
            (room, beat)
        })
    }
}

fn tell_log(sale: &SaleId, is_stuck: bool, sight: &Sight) {
    if is_stuck {
        tracing::error!(
            %sale, waiting = sight.waiting, admitted = sight.admitted,
            "line.stuck: people wait, units are free, and nobody is admitted"
        );
    } else {
        tracing::info!(%sale, "line.moving again");
    }
}

impl SalePulse {
    fn sample(&mut self, sight: &Sight) {
        self.is_stuck = self.watch.look(sight);
        // What was there before the first look was not admitted in its second; after a stop the
        // count begins anew.
        let before = self.admitted.replace(sight.admitted).unwrap_or(sight.admitted);
        let new = sight.admitted.checked_sub(before).unwrap_or(sight.admitted);
        self.seconds.push_back(new);
        while self.seconds.len() > SECONDS_KEPT {
            self.seconds.pop_front();
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a minute")]
    fn rate(&self) -> f64 {
        let lately = self.seconds.iter().rev().take(SECONDS_OF_RATE);
        let count = lately.len();
        if count == 0 { 0.0 } else { lately.sum::<u64>() as f64 / count as f64 }
    }
}

/// What this node sees of a sale.
fn sight(room: &Room) -> Sight {
    let (seen, now_ms) = (room.snapshot(), room.now_ms());
    let (control, counts) = (&seen.control, seen.line_counts());
    Sight {
        now_ms,
        phase: seen.phase(now_ms),
        is_live: seen.is_live(now_ms),
        shop_is_down: seen.shop_is_down,
        round: seen.round,
        is_paused: control.paused,
        is_bypassed: room.is_bypassed(),
        stock: seen.stock(now_ms),
        waiting: counts.waiting,
        admitted: counts.admitted,
        is_full: control.max_active > 0 && seen.open.all >= u64::from(control.max_active),
        is_spoken_for: room.is_spoken_for(),
        rate: control.rate,
        opens_ms: control.opens_ms,
        closes_ms: control.closes_ms,
    }
}

//! What a core process holds: the stores, the sales' terms, and bounds on what runs at once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::confirming::Confirms;
use super::gating::Gating;
use super::lane::Lanes;
use super::loading::Loads;
use super::metrics::ReservationMetrics;
use super::news::News;
use super::passes::REDEEMING_MAX;
use super::refuse::unknown_end;
use super::shelf::Shelves;
use super::unmarked::Unmarked;
use crate::clock::Clock;
use crate::config::settings::{LatePayment, Sale};
use crate::domain::admission::Admission;
use crate::domain::id::{SaleId, Sku};
use crate::domain::refusal::Refusal;
use crate::domain::reservation::Reservation;
use crate::domain::sale::Control;
use crate::store::postgres::{DatabaseError, Ledger, Loaded, Push, SkuLoad};
use crate::store::redis::gate::{Gate, UNITS_MAX};
use crate::store::redis::room::RoomStore;

/// Carts of several SKUs at the ledger at once, waiting for their turn included. They have half of
/// the connections, so that payments never wait for the other half.
const CARTS_MAX: usize = 64;
/// Orders at once while no gate shields the ledger: about as many as a lane sends in one call.
const BYPASS_MAX: usize = 512;
/// How old a control record may be.
const CONTROLS_EVERY: Duration = Duration::from_millis(250);

fn controls_grid() -> tokio::time::Interval {
    let mut grid = tokio::time::interval(CONTROLS_EVERY);
    grid.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    grid
}

/// Verifies an admission's signature; whether it counts is decided here.
pub type ReadAdmission = Arc<dyn Fn(&str) -> Option<Arc<Admission>> + Send + Sync>;

/// What a sale's settings say about its reservations.
#[derive(Debug, Clone)]
pub struct Terms {
    /// How much longer a hold may be extended in all, in milliseconds.
    pub hold_extension_ms: u64,
    /// What becomes of a payment after the hold's end.
    pub late_payment: LatePayment,
    /// Unix milliseconds; the control record's close goes before it.
    pub closes_ms: u64,
}

/// The state of a core process, shared by its API and its loops.
pub struct Reservations {
    pub(super) ledger: Ledger,
    pub(super) gate: Gate,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: ReservationMetrics,
    /// Orders run here, so that a client that leaves never cancels a transaction.
    pub(super) tasks: TaskTracker,
    pub(super) terms: HashMap<SaleId, Terms>,
    pub(super) shelves: Shelves,
    pub(super) loads: Loads,
    pub(super) lanes: Lanes,
    pub(super) gating: Gating,
    pub(super) confirms: Confirms,
    pub(super) carts: Semaphore,
    pub(super) carts_sent: Semaphore,
    pub(super) bypassing: Semaphore,
    pub(super) redeeming: Semaphore,
    /// Control records, merged from what either store has told.
    controls: ArcSwap<HashMap<SaleId, Control>>,
    /// SKUs whose ledger moved without their gate; it follows as soon as Redis answers.
    strayed: Mutex<HashSet<(SaleId, Sku)>>,
    pub(super) unmarked: Unmarked,
    pub(super) news: News,
    loads_wanted: Vec<SkuLoad>,
}

impl Reservations {
    /// The state for these sales; nothing is asked of the stores yet.
    pub fn new(
        ledger: Ledger,
        gate: Gate,
        sales: &[Sale],
        clock: Arc<dyn Clock>,
        tasks: TaskTracker,
    ) -> Self {
        let metrics = ReservationMetrics::default();
        Self {
            gating: Gating::new(
                gate.clone(),
                tasks.clone(),
                sales.iter().map(|sale| sale.id.clone()),
            ),
            confirms: Confirms::new(ledger.clone(), tasks.clone()),
            carts_sent: Semaphore::new((ledger.database().connections() / 2).max(1)),
            lanes: Lanes::new(ledger.clone(), tasks.clone(), metrics.lanes.clone()),
            ledger,
            gate,
            clock,
            metrics,
            tasks,
            terms: sales.iter().map(|sale| (sale.id.clone(), terms(sale))).collect(),
            shelves: Shelves::default(),
            loads: Loads::default(),
            carts: Semaphore::new(CARTS_MAX),
            bypassing: Semaphore::new(BYPASS_MAX),
            redeeming: Semaphore::new(REDEEMING_MAX),
            controls: ArcSwap::default(),
            strayed: Mutex::default(),
            unmarked: Unmarked::default(),
            news: News::default(),
            loads_wanted: sales.iter().flat_map(loads).collect(),
        }
    }

    /// Loads units first seen, and reads what the API answers from.
    pub async fn prepare(&self) -> anyhow::Result<()> {
        for load in &self.loads_wanted {
            anyhow::ensure!(
                load.units <= UNITS_MAX,
                "sale.sku.units: {} has more than {UNITS_MAX} units; load fewer",
                load.sku
            );
            match self.ledger.load_sku(load).await? {
                Loaded::New => {
                    tracing::info!(sku = %load.sku, units = load.units, "stock loaded");
                    self.warn_of_lookalikes(&load.sku).await?;
                }
                Loaded::Known => self.warn_of_other_shards(load).await?,
                Loaded::OtherSale => anyhow::bail!(
                    "sale.sku: {} belongs to another sale than {}; a SKU belongs to one sale",
                    load.sku,
                    load.sale
                ),
            }
        }
        self.refresh_controls().await?;
        self.refresh_shelves().await?;
        Ok(())
    }

    /// The ledger, for the keeper's figures and records.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What is counted here, to be registered.
    pub fn metrics(&self) -> &ReservationMetrics {
        &self.metrics
    }

    /// The room's clock, Unix milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Whether a sale is in the settings.
    pub(super) fn knows(&self, sale: &SaleId) -> bool {
        self.terms.contains_key(sale)
    }

    /// The control record of a sale, as last read.
    pub(super) fn control(&self, sale: &SaleId) -> Option<Control> {
        self.controls.load().get(sale).cloned()
    }

    /// When a sale closes: by its control record, else by the settings.
    pub(super) fn closes_ms(&self, sale: &SaleId) -> u64 {
        let control = self.controls.load().get(sale).map(|control| control.closes_ms);
        control.or_else(|| self.terms.get(sale).map(|terms| terms.closes_ms)).unwrap_or(0)
    }

    /// Reads the control records again.
    pub async fn refresh_controls(&self) -> Result<(), DatabaseError> {
        self.learn(self.ledger.database().controls().await?);
        Ok(())
    }

    /// Merged: an older record of one store does not undo what the other has told.
    fn learn(&self, told: impl IntoIterator<Item = (SaleId, Control)>) {
        let told: Vec<_> = told.into_iter().collect();
        self.controls.rcu(|known| {
            let mut all = HashMap::clone(known);
            for (sale, control) in &told {
                let merged = match all.get(sale) {
                    Some(known) => known.merged(control),
                    None => control.clone(),
                };
                all.insert(sale.clone(), merged);
            }
            all
        });
    }

    /// Keeps the control records fresh until `stop`, from both stores: a command is in the rooms
    /// first, and what was last read stays while a store is away.
    pub async fn watch_controls(
        self: Arc<Self>,
        rooms: Vec<(SaleId, RoomStore)>,
        stop: CancellationToken,
    ) {
        let durable = async {
            let mut grid = controls_grid();
            loop {
                grid.tick().await;
                if let Err(error) = self.refresh_controls().await {
                    tracing::warn!(%error, "the control records could not be read");
                }
            }
        };
        let mirrored = async {
            let mut grid = controls_grid();
            loop {
                grid.tick().await;
                for (sale, room) in &rooms {
                    // The keeper of the room says that Redis is away.
                    if let Ok(Some(control)) = room.control().await {
                        self.learn([(sale.clone(), control)]);
                    }
                }
            }
        };
        let both = Box::pin(async { tokio::join!(durable, mirrored) });
        stop.run_until_cancelled(both).await;
    }

    /// Runs to its end even if the caller goes away: what is committed is told to the gate.
    pub(super) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Refusal> {
        match self.tasks.spawn(work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(unknown_end()),
        }
    }

    /// Tells the gate what came back. A push that fails is made up for by the next comparison.
    pub(super) async fn tell_gate(&self, pushes: &[Push]) {
        for Push { sale, sku, shard, returned } in pushes {
            if let Err(error) = self.gate.push(sale, sku, *shard, *returned).await {
                tracing::warn!(%error, %sku, "the gate was not told of returned units");
                self.stray(sale, sku);
            }
        }
    }

    /// Each gate of a reservation may differ: what moved its units, or their answer, went astray.
    pub(super) fn stray_lines(&self, Reservation { sale, lines, .. }: &Reservation) {
        for line in lines {
            self.stray(sale, &line.sku);
        }
    }

    /// Notes that a gate may differ from the ledger for a known reason.
    pub(super) fn stray(&self, sale: &SaleId, sku: &Sku) {
        self.strayed().insert((sale.clone(), sku.clone()));
    }

    /// The gates that must follow the ledger; each is handed out once.
    pub(super) fn take_strayed(&self) -> HashSet<(SaleId, Sku)> {
        std::mem::take(&mut self.strayed())
    }

    fn strayed(&self) -> std::sync::MutexGuard<'_, HashSet<(SaleId, Sku)>> {
        self.strayed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn terms(sale: &Sale) -> Terms {
    Terms {
        hold_extension_ms: sale.hold_extension.ms(),
        late_payment: sale.late_payment,
        closes_ms: u64::try_from(sale.closes.as_millisecond()).unwrap_or(0),
    }
}

fn loads(sale: &Sale) -> impl Iterator<Item = SkuLoad> {
    sale.skus.iter().map(|sku| SkuLoad {
        sku: sku.sku.clone(),
        sale: sale.id.clone(),
        units: sku.units,
        units_per_buyer: sku.units_per_buyer,
        hold_ms: sale.hold.ms(),
        shards: sku.shards,
    })
}

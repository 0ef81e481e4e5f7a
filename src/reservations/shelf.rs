//! What the core remembers of each sale's stock: "sold out" is answered from here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio_util::sync::CancellationToken;

use super::state::Reservations;
use crate::domain::id::{BuyerId, SaleId, Sku};
use crate::store::postgres::{DatabaseError, Stock};

/// How old a shelf gets.
const REFRESH_EVERY: Duration = Duration::from_millis(500);
/// Reading who has a live hold may take a twentieth of the time, or this.
const COST_SHARE: u32 = 20;
const CHEAP: Duration = Duration::from_millis(5);
/// So often the room is told of all of them: after a stop they claim anew and count as undecided.
const READS_PER_TELLING: u32 = 10;

/// One sale's stock, as the ledger last told it.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// Its SKUs.
    pub(super) stock: HashMap<Sku, Stock>,
    /// Who has a live hold, and so may be shown it when nothing is left.
    pub(super) holders: Arc<Holders>,
}

/// Who has a live hold, and what it cost to find out.
#[derive(Debug)]
pub(super) struct Holders {
    buyers: HashSet<BuyerId>,
    /// How often they were read.
    reads: u32,
    read_at: Instant,
    cost: Duration,
}

impl Holders {
    pub(super) fn contains(&self, buyer: &BuyerId) -> bool {
        self.buyers.contains(buyer)
    }

    /// Whether they are to be read again: there may be a hundred thousand of them.
    fn are_due(&self, now: Instant) -> bool {
        self.cost < CHEAP || now.duration_since(self.read_at) >= self.cost * COST_SHARE
    }
}

impl Default for Holders {
    fn default() -> Self {
        Self { buyers: HashSet::new(), reads: 0, read_at: Instant::now(), cost: Duration::ZERO }
    }
}

/// The shelves of all sales of this core.
#[derive(Default)]
pub(super) struct Shelves(ArcSwap<HashMap<SaleId, Arc<Shelf>>>);

impl Shelves {
    /// A sale's shelf; empty for a sale that the core does not know.
    pub(super) fn of(&self, sale: &SaleId) -> Arc<Shelf> {
        self.0.load().get(sale).cloned().unwrap_or_default()
    }

    /// The sale that has this SKU on its shelf.
    pub(super) fn sale_of(&self, sku: &Sku) -> Option<SaleId> {
        let shelves = self.0.load();
        let mut having = shelves.iter().filter(|(_, shelf)| shelf.stock.contains_key(sku));
        having.next().map(|(sale, _)| sale.clone())
    }
}

impl Reservations {
    /// Reads all shelves again.
    pub(super) async fn refresh_shelves(&self) -> Result<(), DatabaseError> {
        let mut shelves = HashMap::new();
        for sale in self.terms.keys() {
            let stock = self.ledger.stock(Some(sale), None).await?;
            let known = Arc::clone(&self.shelves.of(sale).holders);
            let holders = if known.are_due(Instant::now()) {
                let now = self.read_holders(sale, known.reads.wrapping_add(1)).await?;
                if now.reads.is_multiple_of(READS_PER_TELLING) {
                    self.tell_of_holders(sale, now.buyers.iter());
                } else {
                    self.tell_of_holders(sale, now.buyers.difference(&known.buyers));
                }
                Arc::new(now)
            } else {
                known
            };
            let stock = stock.into_iter().map(|stock| (stock.sku.clone(), stock)).collect();
            shelves.insert(sale.clone(), Arc::new(Shelf { stock, holders }));
        }
        self.shelves.0.store(Arc::new(shelves));
        Ok(())
    }

    async fn read_holders(&self, sale: &SaleId, reads: u32) -> Result<Holders, DatabaseError> {
        let read_at = Instant::now();
        let buyers = self.ledger.holders(sale).await?.into_iter().collect();
        Ok(Holders { buyers, reads, read_at, cost: read_at.elapsed() })
    }

    /// Keeps the shelves fresh until `stop`, and lets strayed gates follow the ledger.
    pub async fn watch_shelves(self: Arc<Self>, stop: CancellationToken) {
        let mut grid = tokio::time::interval(REFRESH_EVERY);
        grid.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(grid.tick()).await.is_some() {
            if let Err(error) = self.refresh_shelves().await {
                tracing::warn!(%error, "the stock could not be read");
            }
            self.mark_unmarked().await;
            for (sale, sku) in self.take_strayed() {
                self.follow(&sale, &sku).await;
            }
        }
    }
}

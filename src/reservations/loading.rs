//! Loading a gate from the ledger: once, however many orders find it empty.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Mutex as AsyncMutex;
use uuid::Uuid;

use super::state::Reservations;
use crate::domain::id::{SaleId, Sku};
use crate::store::postgres::{DatabaseError, MARKERS_PAGE, Marker, STANDSTILL_MAX};
use crate::store::redis::RedisFailure;

/// So few keys are marked within a moment.
const LITTLE: usize = 100;
/// How often what came meanwhile is marked.
const CATCH_UP_MAX: usize = 8;

/// Why a gate could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadFailure {
    /// The ledger did not answer.
    #[error(transparent)]
    Ledger(#[from] DatabaseError),
    /// Redis did not answer.
    #[error(transparent)]
    Gate(#[from] RedisFailure),
    /// The gate was lost while it was compared.
    #[error("the gate is not loaded any more")]
    NotLoaded,
    /// The ledger does not know the SKU.
    #[error("no such SKU")]
    UnknownSku,
    /// Another one loaded it meanwhile, and failed.
    #[error("{0}")]
    Another(String),
}

/// The load of one gate: one at a time, and whoever waited takes the outcome of one that began after
/// it asked.
#[derive(Default)]
struct Load {
    begun: AtomicU64,
    last: AsyncMutex<Last>,
}

/// The load that ended last.
#[derive(Default)]
struct Last {
    number: u64,
    failed: Option<String>,
}

/// The loads of all gates. SKUs are bounded by the ledger.
#[derive(Default)]
pub(super) struct Loads(Mutex<HashMap<Sku, Arc<Load>>>);

impl Loads {
    fn of(&self, sku: &Sku) -> Arc<Load> {
        let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loads.entry(sku.clone()).or_default().clone()
    }

    /// Loads, unless another one did from now on.
    async fn once(
        &self,
        sku: &Sku,
        loading: impl Future<Output = Result<(), LoadFailure>>,
    ) -> Result<(), LoadFailure> {
        let load = self.of(sku);
        let begun = load.begun.load(Ordering::SeqCst);
        let mut last = load.last.lock().await;
        if last.number > begun {
            return last.failed.clone().map_or(Ok(()), |failed| Err(LoadFailure::Another(failed)));
        }
        let number = load.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let outcome = loading.await;
        let failed = outcome.as_ref().err().map(ToString::to_string);
        *last = Last { number, failed };
        outcome
    }
}

impl Reservations {
    /// Loads the gate of a SKU that was found empty or of another generation, and learns the
    /// generation that it was loaded in: once, however many ask for it.
    pub(super) async fn load_gate(&self, sale: &SaleId, sku: &Sku) -> Result<(), LoadFailure> {
        let loading = async {
            self.load_gate_now(sale, sku).await?;
            Ok(self.refresh_shelves().await?)
        };
        self.loads.once(sku, loading).await
    }

    /// Markers go first: a retry of a known order must find the ledger even when nothing is left.
    async fn load_gate_now(&self, sale: &SaleId, sku: &Sku) -> Result<(), LoadFailure> {
        let truth = self.ledger.gate_truth(sku).await?.ok_or(LoadFailure::UnknownSku)?;
        let counter = self.gate.counter(sale, sku).await?;
        if let Some(counter) = counter {
            // Of this very moment, then; else of a life that a restored ledger has not seen.
            let truth = self.ledger.gate_truth(sku).await?.ok_or(LoadFailure::UnknownSku)?;
            if counter.generation == truth.generation {
                return Ok(());
            }
            self.gate.forget(sale, sku, counter.generation).await?;
        }
        let began = self.ledger.known_now().await?;
        self.mark_known(sku, &truth.sale).await?;
        // What came meanwhile: while orders go on, as often as it gets less, so that little is left
        // for the moment in which they stand still.
        let mut caught_up = began;
        for _ in 0..CATCH_UP_MAX {
            let now = self.ledger.known_now().await?;
            let new = self.ledger.new_markers(&truth.sale, sku, &caught_up).await?;
            self.mark_keys(sku, &truth.sale, &new).await?;
            caught_up = now;
            if new.len() <= LITTLE {
                break;
            }
        }
        let mut client = self.ledger.database().client().await?;
        let still = self.ledger.stand_still(&mut client, sku).await?;
        let still = still.ok_or(LoadFailure::UnknownSku)?;
        let load = async {
            let new = still.new_markers(sku, &caught_up).await?;
            self.mark_keys(sku, &truth.sale, &new).await?;
            let units = (still.truth.generation, still.truth.available);
            Ok::<_, LoadFailure>(self.gate.load(sale, sku, units, &still.truth.returned).await?)
        };
        let loaded = tokio::time::timeout(STANDSTILL_MAX, load).await;
        let loaded = loaded.map_err(|_| DatabaseError::Contended)??;
        if loaded {
            tracing::info!(%sku, available = still.truth.available, "the gate was loaded from the ledger");
        }
        Ok(())
    }

    /// Marks the keys that the ledger knows.
    async fn mark_known(&self, sku: &Sku, sale: &SaleId) -> Result<(), LoadFailure> {
        let mut after = Uuid::nil();
        loop {
            let page = self.ledger.markers(sale, sku, after).await?;
            self.mark_keys(sku, sale, &page).await?;
            match page.last() {
                Some(last) if page.len() == MARKERS_PAGE => after = last.id,
                _ => return Ok(()),
            }
        }
    }

    async fn mark_keys(
        &self,
        sku: &Sku,
        sale: &SaleId,
        known: &[Marker],
    ) -> Result<(), RedisFailure> {
        for page in known.chunks(MARKERS_PAGE) {
            let orders: Vec<_> = page.iter().map(|m| (m.order.marker(), m.id)).collect();
            self.gate.mark(sale, sku, self.closes_ms(sale), &orders).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn a_hundred_who_ask_at_once_load_once_and_share_what_came_of_it() {
        let (loads, sku) = (Loads::default(), Sku::parse("S").unwrap());
        let count = AtomicU64::new(0);
        let ask = |fails: bool| {
            let (loads, sku, count) = (&loads, &sku, &count);
            loads.once(sku, async move {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                if fails { Err(LoadFailure::NotLoaded) } else { Ok(()) }
            })
        };
        let failed = join_all((0..100).map(|_| ask(true))).await;
        assert!(failed.iter().all(Result::is_err), "whoever waited hears of it");
        assert_eq!(count.load(Ordering::SeqCst), 2, "the first began before the others asked");

        assert!(ask(false).await.is_ok(), "what failed before is no word for later");
        assert!(ask(false).await.is_ok());
        assert_eq!(count.load(Ordering::SeqCst), 4);
    }
}

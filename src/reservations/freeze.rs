//! A SKU taken out of the sale and put back, and spread over other rows in between.

use std::sync::Arc;

use super::refuse::unavailable;
use super::state::Reservations;
use crate::domain::id::Sku;
use crate::domain::near::Lookalikes;
use crate::domain::refusal::{Problem, Refusal};
use crate::store::postgres::{DatabaseError, SkuLoad, Stock, Turned};

impl Reservations {
    /// Freezes a SKU or thaws it: its generation rises, and its gate is rebuilt from the ledger.
    /// Again is the same as once.
    pub async fn freeze(self: &Arc<Self>, sku: &Sku, frozen: bool) -> Result<Stock, Refusal> {
        let (this, sku) = (Arc::clone(self), sku.clone());
        self.to_its_end(async move {
            let seen = this.seen_at_gate(&sku).await;
            let turned = this.ledger.freeze(&sku, frozen).await.map_err(|e| unavailable(&e))?;
            this.turned(&sku, turned, seen).await
        })
        .await
    }

    /// Spreads the available units of a frozen SKU over `shards` rows, 1 to
    /// [`SHARDS_MAX`](crate::domain::stock::SHARDS_MAX). What is held stays where it was taken.
    pub async fn set_shards(self: &Arc<Self>, sku: &Sku, shards: u32) -> Result<Stock, Refusal> {
        let (this, sku) = (Arc::clone(self), sku.clone());
        self.to_its_end(async move {
            let seen = this.seen_at_gate(&sku).await;
            let turned = this.ledger.set_shards(&sku, shards).await.map_err(|e| unavailable(&e))?;
            this.turned(&sku, turned, seen).await
        })
        .await
    }

    async fn turned(&self, sku: &Sku, turned: Turned, seen: Option<u64>) -> Result<Stock, Refusal> {
        let stale = match turned {
            Turned::Done => seen,
            // A gate of the ledger's generation may be selling: it stays.
            Turned::Before => None,
            Turned::Unknown => {
                return Err(Refusal::new(Problem::UnknownSku, format!("sku {sku} is not known")));
            }
            Turned::ForSale => {
                let cure = "is for sale; freeze it first, set its shards, then thaw it";
                return Err(Refusal::bad_request("sku", cure)
                    .status(409)
                    .with("value", sku.as_str()));
            }
        };
        let stock = self.stock_of(sku).await?;
        self.rebuild(&stock, stale).await;
        Ok(stock)
    }

    /// The generation of the gate as it is now; none if it is not loaded or does not answer.
    async fn seen_at_gate(&self, sku: &Sku) -> Option<u64> {
        let sale = self.stock_of(sku).await.ok()?.sale;
        let counter = self.gate.counter(&sale, sku).await.ok()??;
        Some(counter.generation)
    }

    /// The gate as it was before is forgotten, whatever generation it was of: after a restore the
    /// ledger's numbers may be lower than they were. One that another core loaded meanwhile stays.
    async fn rebuild(&self, Stock { sale, sku, .. }: &Stock, stale: Option<u64>) {
        let rebuilt = async {
            if let Some(generation) = stale {
                self.gate.forget(sale, sku, generation).await?;
            }
            self.load_gate(sale, sku).await
        };
        if let Err(error) = rebuilt.await {
            tracing::warn!(%error, %sku, "the gate is rebuilt when it is asked next");
            self.stray(sale, sku);
        }
    }

    /// Says of a SKU that is new what it might be taken for.
    pub(super) async fn warn_of_lookalikes(&self, sku: &Sku) -> Result<(), DatabaseError> {
        let others: Lookalikes =
            self.ledger.skus().await?.iter().filter(|other| *other != sku).collect();
        if let Some(other) = others.meant(sku) {
            tracing::warn!(%sku, %other, "this SKU might be taken for another one");
        }
        Ok(())
    }

    /// Rows are made when a SKU is first seen; the settings do not change them later.
    pub(super) async fn warn_of_other_shards(&self, load: &SkuLoad) -> Result<(), DatabaseError> {
        let stock = self.ledger.stock(None, Some(&load.sku)).await?;
        if let Some(stock) = stock.first().filter(|stock| stock.shards != load.shards) {
            tracing::warn!(
                sku = %load.sku, shards = stock.shards, settings = load.shards,
                "the settings name another number of shards; `stanchion stock shards` changes it"
            );
        }
        Ok(())
    }
}

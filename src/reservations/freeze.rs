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
            let turned = this.ledger.freeze(&sku, frozen).await.map_err(|e| unavailable(&e))?;
            this.turned(&sku, turned).await
        })
        .await
    }

    /// Spreads the available units of a frozen SKU over `shards` rows, 1 to
    /// [`SHARDS_MAX`](crate::domain::stock::SHARDS_MAX). What is held stays where it was taken.
    pub async fn set_shards(self: &Arc<Self>, sku: &Sku, shards: u32) -> Result<Stock, Refusal> {
        let (this, sku) = (Arc::clone(self), sku.clone());
        self.to_its_end(async move {
            let turned = this.ledger.set_shards(&sku, shards).await.map_err(|e| unavailable(&e))?;
            this.turned(&sku, turned).await
        })
        .await
    }

    async fn turned(&self, sku: &Sku, turned: Turned) -> Result<Stock, Refusal> {
        let is_new = match turned {
            Turned::Done => true,
            Turned::Before => false,
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
        self.rebuild(&stock, is_new).await;
        Ok(stock)
    }

    /// What the gate knew is forgotten, whatever generation it was of: after a restore the ledger's
    /// numbers may be lower than they were. The gate of a SKU that was so before may be selling: it
    /// stays if it is of the ledger's generation.
    async fn rebuild(&self, Stock { sale, sku, .. }: &Stock, is_new: bool) {
        let rebuilt = async {
            if is_new {
                self.gate.forget(sale, sku).await?;
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

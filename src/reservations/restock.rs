//! Changing stock while it is sold.

use std::sync::Arc;

use super::refuse::unavailable;
use super::state::Reservations;
use crate::domain::id::Sku;
use crate::domain::refusal::{Problem, Refusal};
use crate::store::postgres::{DatabaseError, Push, Stock, StockChange};

impl Reservations {
    /// Adds units, or takes available ones away, once for each operation key.
    pub async fn restock(
        self: &Arc<Self>,
        sku: &Sku,
        delta: i64,
        op_key: &str,
    ) -> Result<Stock, Refusal> {
        let (this, sku, op_key) = (Arc::clone(self), sku.clone(), op_key.to_owned());
        self.to_its_end(async move {
            let change = this.ledger.restock(&sku, delta, &op_key).await;
            this.restocked(&sku, change).await
        })
        .await
    }

    /// Sets what was ever loaded, if the stock still has the version that the caller saw.
    pub async fn set_loaded(
        self: &Arc<Self>,
        sku: &Sku,
        loaded: u64,
        version: u64,
    ) -> Result<Stock, Refusal> {
        let (this, sku) = (Arc::clone(self), sku.clone());
        self.to_its_end(async move {
            let change = this.ledger.set_loaded(&sku, loaded, version).await;
            this.restocked(&sku, change).await
        })
        .await
    }

    /// A SKU's stock, read now.
    pub async fn stock_of(&self, sku: &Sku) -> Result<Stock, Refusal> {
        let found = self.ledger.stock(None, Some(sku)).await.map_err(|e| unavailable(&e))?;
        found
            .into_iter()
            .next()
            .ok_or_else(|| Refusal::new(Problem::UnknownSku, format!("sku {sku} is not known")))
    }

    async fn restocked(
        &self,
        sku: &Sku,
        change: Result<StockChange, DatabaseError>,
    ) -> Result<Stock, Refusal> {
        let change = change.map_err(|e| unavailable(&e))?;
        let stock = self.stock_of(sku).await?;
        let taken = stock.held + stock.confirmed;
        let (problem, detail) = match change {
            StockChange::Done | StockChange::Replay => {
                self.gate_follows(&stock).await;
                return Ok(stock);
            }
            StockChange::KeyReused => {
                (Problem::KeyReused, "op_key: was used for another change; use a new one".into())
            }
            StockChange::Unknown => (Problem::UnknownSku, format!("sku {sku} is not known")),
            StockChange::BelowTaken => (
                Problem::BelowTaken,
                format!("{taken} units of {sku} are held or confirmed; loaded cannot go below"),
            ),
            StockChange::VersionMismatch => {
                // If that was by this very call, whose link broke, the gate has not heard of it.
                self.stray(&stock.sale, sku);
                (
                    Problem::VersionMismatch,
                    format!("the stock of {sku} is at version {} by now", stock.version),
                )
            }
        };
        Err(Refusal::new(problem, detail)
            .with("loaded", stock.loaded)
            .with("available", stock.available)
            .with("held", stock.held)
            .with("confirmed", stock.confirmed)
            .with("version", stock.version))
    }

    /// Units added are pushed at once; lowered stock makes the gate follow.
    async fn gate_follows(&self, stock: &Stock) {
        let (sale, sku) = (stock.sale.clone(), stock.sku.clone());
        match self.ledger.gate_truth(&sku).await {
            Ok(Some(truth)) => {
                let push = |(shard, returned)| Push {
                    sale: sale.clone(),
                    sku: sku.clone(),
                    shard,
                    returned,
                };
                let pushes: Vec<_> = truth.returned.into_iter().map(push).collect();
                self.tell_gate(&pushes).await;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, %sku, "the gate will follow the restock later"),
        }
        self.follow(&sale, &sku).await;
    }
}

//! Reconcile: the ledger against itself, then every gate against the ledger, one core at a time.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use super::compare::Action;
use super::compare::{Reason, Sight, judge};
use super::loading::LoadFailure;
use super::state::Reservations;
use crate::domain::id::{SaleId, Sku};
use crate::store::postgres::{DatabaseError, Finding, GateTruth, STANDSTILL_MAX, Still, TURN_MAX};
use crate::store::redis::gate_compare::Counter;

/// How often a comparison is tried while orders go on, before the stock row is locked for it.
const TRIES: usize = 20;

/// One SKU after a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reconciled {
    /// The SKU.
    pub sku: Sku,
    /// Units available in the ledger.
    pub ledger: u64,
    /// Units at the gate before anything was done; none if it was not loaded or does not answer.
    pub gate: Option<i64>,
    /// What was done.
    pub action: Action,
}

impl Reservations {
    /// Audits the ledger, then compares every gate with it. Waits for another core that is at it.
    pub async fn reconcile(&self) -> Result<(Vec<Finding>, Vec<Reconciled>), DatabaseError> {
        let mut client = self.ledger.database().client().await?;
        let _turn = self.ledger.turn(&mut client).await?;
        let round = tokio::time::timeout(TURN_MAX, self.round()).await;
        round.map_err(|_| DatabaseError::Contended)?
    }

    async fn round(&self) -> Result<(Vec<Finding>, Vec<Reconciled>), DatabaseError> {
        // A ledger too large to be audited in time is still compared with its gates.
        let findings = self.audit().await.unwrap_or_else(|error| {
            self.metrics.audit_findings.set(-1);
            tracing::error!(%error, "the audit could not be read");
            Vec::new()
        });
        if let Err(error) = self.look_for_signs().await {
            tracing::warn!(%error, "signs of trouble could not be looked for");
        }
        let mut done = Vec::new();
        for sale in self.terms.keys() {
            for stock in self.ledger.stock(Some(sale), None).await? {
                let (sku, ledger) = (stock.sku, stock.available);
                done.push(match self.compare(sale, &sku, Reason::Round).await {
                    Ok(reconciled) => reconciled,
                    Err(LoadFailure::Ledger(DatabaseError::Contended)) => {
                        Reconciled { sku, ledger, gate: None, action: Action::Busy }
                    }
                    Err(LoadFailure::Ledger(error)) => return Err(error),
                    Err(error) => {
                        tracing::warn!(%error, %sku, "a gate could not be compared");
                        Reconciled { sku, ledger, gate: None, action: Action::Unreachable }
                    }
                });
            }
        }
        Ok((findings, done))
    }

    /// The ledger against itself; what is found is an alarm.
    pub async fn audit(&self) -> Result<Vec<Finding>, DatabaseError> {
        let findings = self.ledger.audit().await?;
        self.metrics.audit_findings.set(i64::try_from(findings.len()).unwrap_or(i64::MAX));
        for Finding { finding, sku, detail } in &findings {
            tracing::error!(finding, sku, detail, "the ledger does not add up");
        }
        Ok(findings)
    }

    /// Reconciles on a grid until `stop`.
    pub async fn keep_reconciling(self: Arc<Self>, every: Duration, stop: CancellationToken) {
        let mut grid = tokio::time::interval(every);
        grid.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(grid.tick()).await.is_some() {
            if let Err(error) = self.reconcile().await {
                tracing::warn!(%error, "gate and ledger will be compared later");
            }
        }
    }

    /// Lets a gate follow the ledger, which moved without it for a known reason.
    pub(super) async fn follow(&self, sale: &SaleId, sku: &Sku) {
        if let Err(error) = self.compare(sale, sku, Reason::Follow).await {
            tracing::warn!(%error, %sku, "a gate could not follow the ledger yet");
            self.stray(sale, sku);
        }
    }

    async fn compare(
        &self,
        sale: &SaleId,
        sku: &Sku,
        reason: Reason,
    ) -> Result<Reconciled, LoadFailure> {
        let truth = self.truth(sku).await?;
        // Pushes that were lost are made up for first: that is exact and no correction.
        for (shard, returned) in &truth.returned {
            self.gate.push(sale, sku, *shard, *returned).await?;
        }
        let counter = self.gate.counter(sale, sku).await?;
        let sku = sku.clone();
        let Some(counter) = counter.filter(|there| there.generation == truth.generation) else {
            self.load_gate(sale, &sku).await?;
            let (ledger, action) = (truth.available, Action::Loaded);
            return Ok(Reconciled { sku, ledger, gate: None, action });
        };
        let (ledger, gate) = (truth.available, Some(counter.count));
        let sight = self.sight(sale, &sku, truth, counter).await?;
        let (action, correction) = judge(&sight, reason);
        if let Some(correction) = correction {
            self.gate.correct(sale, &sku, &correction).await?;
        }
        if reason == Reason::Round {
            self.tell(&sku, &sight, action);
        }
        Ok(Reconciled { sku, ledger, gate, action })
    }

    fn tell(&self, sku: &Sku, sight: &Sight, action: Action) {
        let (ledger, gate) = (sight.available, sight.counter.count);
        match action {
            Action::Lowered => {
                self.metrics.gate_too_high.inc();
                tracing::error!(%sku, ledger, gate, "the gate was above the ledger; lowered");
            }
            Action::Noted => tracing::info!(%sku, ledger, gate, "units are missing at the gate"),
            Action::Raised => {
                self.metrics.gate_too_low.inc();
                tracing::warn!(%sku, ledger, gate, "units were missing at the gate; given back");
            }
            Action::None | Action::Loaded | Action::Unreachable | Action::Busy => {}
        }
    }

    /// Gate and ledger at one instant.
    async fn sight(
        &self,
        sale: &SaleId,
        sku: &Sku,
        mut truth: GateTruth,
        counter: Counter,
    ) -> Result<Sight, LoadFailure> {
        // The common case is cheap: equal, and the ledger stood still meanwhile.
        let equal = u64::try_from(counter.count) == Ok(truth.available);
        if equal && counter.gap.is_none() && self.truth(sku).await?.version == truth.version {
            let (available, pending) = (signed(truth.available), Vec::new());
            return Ok(Sight { available, counter, pending, at_ms: self.clock.now_ms() });
        }
        for _ in 0..TRIES {
            let sight = self.look(sale, sku, &truth, None).await?;
            let after = self.truth(sku).await?;
            if after.version == truth.version {
                return Ok(sight);
            }
            truth = after;
        }
        let mut client = self.ledger.database().client().await?;
        let still = self.ledger.stand_still(&mut client, sku).await?;
        let still = still.ok_or(LoadFailure::UnknownSku)?;
        let look = self.look(sale, sku, &still.truth, Some(&still));
        let look = tokio::time::timeout(STANDSTILL_MAX, look).await;
        look.map_err(|_| DatabaseError::Contended)?
    }

    async fn look(
        &self,
        sale: &SaleId,
        sku: &Sku,
        truth: &GateTruth,
        still: Option<&Still<'_>>,
    ) -> Result<Sight, LoadFailure> {
        for (shard, returned) in &truth.returned {
            self.gate.push(sale, sku, *shard, *returned).await?;
        }
        let (counter, marks) = self.gate.read(sale, sku).await?.ok_or(LoadFailure::NotLoaded)?;
        let owing: Vec<_> = marks.into_iter().filter(|mark| mark.qty > 0).collect();
        let ids: Vec<Uuid> = owing.iter().map(|mark| mark.id).collect();
        let missing = match still {
            Some(still) => still.missing(&ids).await?,
            None => self.ledger.missing(&ids).await?,
        };
        let pending = owing.into_iter().filter(|mark| missing.contains(&mark.id)).collect();
        let at_ms = self.clock.now_ms();
        Ok(Sight { available: signed(truth.available), counter, pending, at_ms })
    }

    async fn truth(&self, sku: &Sku) -> Result<GateTruth, LoadFailure> {
        self.ledger.gate_truth(sku).await?.ok_or(LoadFailure::UnknownSku)
    }
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

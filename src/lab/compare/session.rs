//! One comparison from beginning to end: each approach on clean tables, one after the other.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::approach::Approach;
use super::batches;
use super::counter::{reset_script_time, script_us};
use super::drive::{Until, drive};
use super::failure;
use super::ground::Ground;
use super::plan::{BATCHES, PLENTY, Plan};
use super::progress::Progress;
use super::ratios::ratios;
use super::report::{LanesReport, Report, SlowFlush};
use super::row::{Correctness, Row, Speed, lost};
use super::taker::Taker;

/// A cap that nobody reaches, but that has to be looked after.
const CAP: u32 = 4;
/// How often it is counted who waits for a lock.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What all runs share.
pub(super) struct Session<'a> {
    pub(super) plan: &'a Plan,
    pub(super) ground: Ground,
    pub(super) progress: Progress,
    lanes: Option<LanesReport>,
}

/// Runs the whole plan.
pub(super) async fn compare(plan: &Plan) -> Result<Report> {
    let progress = Progress::of(plan.runs());
    progress.show("starting a private Postgres and Redis");
    let ground = Ground::start(plan.clients_max(), plan.shards).await?;
    let mut session = Session { plan, ground, progress, lanes: None };
    let mut rows = vec![];
    for approach in &plan.approaches {
        let measured = session.approach(*approach).await;
        rows.extend(measured.with_context(|| approach.name().to_owned())?);
    }
    let slow_flush = match plan.slow_flush {
        Some(delay) => Some(session.slow(delay).await.context("with slow flushes")?),
        None => None,
    };
    let ratios = ratios(&rows, plan.clients);
    Ok(Report::of(plan, rows, session.lanes.take(), ratios, slow_flush))
}

impl Session<'_> {
    async fn approach(&mut self, approach: Approach) -> Result<Vec<Row>> {
        if approach == Approach::Lanes {
            self.lanes = Some(self.batches().await?);
        }
        let counts = self.plan.counts(approach);
        let most = counts.iter().copied().max().unwrap_or_default();
        let crowd = Taker::crowd(&self.ground, approach, most).await?;
        let (mut crowd, seen) = self.sell_out(approach, crowd).await?;
        let mut rows: Vec<Row> = vec![];
        for clients in counts {
            let (again, speed) = self.some(approach, crowd, clients).await?;
            crowd = again;
            let mut row = speed.row((approach, clients), self.plan.shards, seen);
            if rows.is_empty() {
                row.failure = Some(failure::measured(self, seen, &speed, &row).await?);
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// What lanes cost by the size of their batches, and with a cap.
    async fn batches(&mut self) -> Result<LanesReport> {
        let mut rows = vec![];
        for takes in BATCHES {
            self.progress.next(&format!("lanes: batches of {takes}"));
            rows.push(batches::measured(&self.ground, takes, self.plan.aside()).await?);
        }
        self.progress.next("lanes: with a cap of units per buyer");
        self.ground.lay_ledger(PLENTY, CAP).await?;
        let crowd = Taker::crowd(&self.ground, Approach::Lanes, self.plan.clients).await?;
        let (_, capped) = self.speed(Approach::Lanes, crowd, self.plan.aside()).await?;
        Ok(LanesReport {
            batch_fit: batches::fit(&rows, |row| row.batch_us),
            lock_fit: batches::fit(&rows, |row| row.lock_us),
            batches: rows,
            capped_takes_per_second: capped.takes_per_second(),
        })
    }

    /// Few units and many clients: who is told what, and what the store says.
    async fn sell_out(
        &mut self,
        approach: Approach,
        mut crowd: Vec<Taker>,
    ) -> Result<(Vec<Taker>, Correctness)> {
        let units = self.plan.units;
        self.progress.next(&format!("{}: {units} units to the last", approach.name()));
        self.ground.lay(approach, i32::from(units)).await?;
        let rest = crowd.split_off(usize::from(self.plan.clients));
        let (mut crowd, tally) = drive(crowd, self.plan.correctness()).await?;
        crowd.extend(rest);
        let truth = self.ground.truth(approach, i32::from(units)).await?;
        Ok((crowd, Correctness::of(u64::from(units), tally.granted, truth)))
    }

    /// Measures some of the clients.
    async fn some(
        &mut self,
        approach: Approach,
        mut crowd: Vec<Taker>,
        clients: u16,
    ) -> Result<(Vec<Taker>, Speed)> {
        self.progress.next(&format!("{}: {clients} clients", approach.name()));
        self.ground.lay(approach, PLENTY).await?;
        let rest = crowd.split_off(usize::from(clients));
        let (mut crowd, speed) = self.speed(approach, crowd, self.plan.speed(clients)).await?;
        crowd.extend(rest);
        Ok((crowd, speed))
    }

    /// Plenty of units, laid out before: how fast, and whether the store knows of every grant.
    pub(super) async fn speed(
        &self,
        approach: Approach,
        crowd: Vec<Taker>,
        until: Until,
    ) -> Result<(Vec<Taker>, Speed)> {
        let is_redis = approach == Approach::RedisLua;
        if is_redis {
            reset_script_time(&self.ground).await?;
        }
        let mut waiters = vec![];
        let (crowd, tally) = tokio::select! {
            driven = drive(crowd, until) => driven?,
            Err(error) = look(&self.ground, &mut waiters) => return Err(error),
        };
        ensure!(tally.refused == 0, "{} orders were refused with plenty of units", tally.refused);
        let truth = self.ground.truth(approach, PLENTY).await?;
        let lock_us = if is_redis {
            Some(script_us(&self.ground).await?)
        } else {
            tally.lock_us().or_else(|| self.share_of_batch(tally.batch_mean()?))
        };
        let looks = f64::from(u32::try_from(waiters.len().max(1))?);
        let speed = Speed {
            seconds: until.time.as_secs_f64(),
            lock_us,
            lock_waiters: waiters.iter().sum::<f64>() / looks,
            lost: lost(tally.granted, truth),
            tally,
        };
        Ok((crowd, speed))
    }

    /// Microseconds that a batch of so many locks the row, for each of them.
    fn share_of_batch(&self, takes: f64) -> Option<f64> {
        let fit = self.lanes.as_ref()?.lock_fit?;
        Some(fit.at(takes).max(0.0) / takes)
    }

    /// What the ratios need, with every flush so much longer.
    async fn slow(&mut self, delay: Duration) -> Result<SlowFlush> {
        self.ground.delay_flush(delay).await?;
        let mut rows = vec![];
        for approach in self.plan.approaches.clone() {
            let counts = self.plan.slow_counts(approach);
            let Some(most) = counts.iter().copied().max() else { continue };
            let mut crowd = Taker::crowd(&self.ground, approach, most).await?;
            for clients in counts {
                let (again, speed) = self.some(approach, crowd, clients).await?;
                crowd = again;
                let (loaded, shards) = (u64::try_from(PLENTY)?, self.plan.shards);
                let seen = Correctness { loaded, granted: 0, oversold: 0, lost: 0 };
                rows.push(speed.row((approach, clients), shards, seen));
            }
        }
        self.ground.delay_flush(Duration::ZERO).await?;
        let ratios = ratios(&rows, self.plan.clients);
        Ok(SlowFlush { delay_ms: delay.as_secs_f64() * 1e3, rows, ratios })
    }
}

/// Counts who waits for a lock, again and again.
async fn look(ground: &Ground, waiters: &mut Vec<f64>) -> Result<Infallible> {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        waiters.push(ground.lock_waiters().await?);
    }
}

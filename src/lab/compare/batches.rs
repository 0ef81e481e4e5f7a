//! What a batch costs by its size: the very call that a lane makes, one after the other.

use std::time::Instant;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;

use super::drive::Until;
use super::fit::Fit;
use super::ground::Ground;
use super::lanes::take;
use super::link::elapsed_us;
use super::order::Order;
use super::plan::PLENTY;
use super::report::BatchRow;
use super::tally::{empty, micros, number};
use crate::store::postgres::Taken;

/// Measures batches of so many takes. Medians: a flush now and then takes ten times as long.
pub(super) async fn measured(ground: &Ground, takes: u16, until: Until) -> Result<BatchRow> {
    ground.lay_ledger(PLENTY, 0).await?;
    let client = ground.ledger.database().lane_client().await?;
    let (mut calls, mut locks) = (empty(), empty());
    let from = Instant::now() + until.warm_up;
    let to = from + until.time;
    loop {
        // Made before the clock runs: a lane fills up while the last call is under way.
        let orders: Vec<_> = (0..takes).map(|_| take(&Order::new())).collect::<Result<_>>()?;
        let batch: Vec<_> = orders.iter().map(|take| (take, false)).collect();
        let began = Instant::now();
        let answer = ground.ledger.take_batch(&client, 0, &batch).await?;
        let (ended, lock_us) = (Instant::now(), answer.locked_at.and_then(elapsed_us));
        let held = answer.answers.iter().filter(|said| matches!(said, Some(Taken::Held(_))));
        ensure!(
            held.count() == batch.len(),
            "a batch was not granted: {:?}",
            answer.answers.first()
        );
        if from <= ended {
            calls.saturating_record(micros(ended - began).max(1));
            if let Some(us) = lock_us {
                locks.saturating_record(us.max(1));
            }
        }
        if ended >= to {
            break;
        }
    }
    let median = |times: &Histogram<u64>| number(times.value_at_quantile(0.5));
    let (batch_us, lock_us) = (median(&calls), median(&locks));
    Ok(BatchRow {
        takes,
        takes_per_second: f64::from(takes) * 1e6 / batch_us,
        batch_us,
        lock_us,
        lock_hold_us: lock_us / f64::from(takes),
    })
}

/// The line through one figure of all batches.
pub(super) fn fit(batches: &[BatchRow], figure: fn(&BatchRow) -> f64) -> Option<Fit> {
    let points: Vec<_> =
        batches.iter().map(|batch| (f64::from(batch.takes), figure(batch))).collect();
    Fit::through(&points)
}

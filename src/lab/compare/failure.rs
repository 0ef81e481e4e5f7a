//! The failure to plan for with each approach: brought about here, and told in numbers.

use std::time::Duration;

use anyhow::Result;

use super::approach::Approach;
use super::counter::drift_after_restart;
use super::order::Order;
use super::plan::PLENTY;
use super::reservation::abandon;
use super::row::{Correctness, Row, Speed};
use super::session::Session;
use super::taker::Taker;
use super::tally::Outcome;

/// How often a lane's connection is cut.
const CUT_EVERY: Duration = Duration::from_millis(300);

/// In a sentence. `row` is of the run with as many clients as were asked for.
pub(super) async fn measured(
    session: &mut Session<'_>,
    seen: Correctness,
    speed: &Speed,
    row: &Row,
) -> Result<String> {
    let units = i32::from(session.plan.units);
    Ok(match row.approach {
        Approach::ReadThenWrite | Approach::ReadCommitted => format!(
            "silent oversell and phantom units: {} sold of {}; at speed {} of {} grants are \
             missing from the count",
            seen.granted, seen.loaded, speed.lost, speed.tally.granted
        ),
        Approach::ForUpdate | Approach::AtomicUpdate | Approach::OneRoundTrip => format!(
            "lock queue on the hot row: {:.0} of {} connections waited for it, p99 is {:.0} \
             times p50",
            row.lock_waiters,
            row.clients,
            row.p99_ms / row.p50_ms.max(0.001)
        ),
        Approach::RedisLua => {
            session.ground.lay(row.approach, units).await?;
            let drift = drift_after_restart(&mut session.ground, units / 2 + 1).await?;
            format!(
                "drift after a restart: killed after a snapshot and started again, the counter \
                 is {drift} too high; and expiry returns no stock"
            )
        }
        Approach::ReservationTtl => frozen(session, row).await?,
        Approach::Shards => stranded(session, row).await?,
        Approach::Lanes => cut_off(session, row).await?,
    })
}

async fn frozen(session: &Session<'_>, row: &Row) -> Result<String> {
    let ground = &session.ground;
    ground.lay(row.approach, i32::from(session.plan.units)).await?;
    let mut crowd = Taker::crowd(ground, row.approach, 1).await?;
    for taker in &mut crowd {
        while taker.take(&Order::new()).await? != Outcome::SoldOut {}
    }
    let frozen = abandon(ground).await?;
    Ok(format!(
        "abandoned holds freeze stock: {} units for 10 minutes; then {} were free until the \
         sweeper had come, {} after it ({:.1} ms)",
        frozen.held,
        frozen.free_when_lapsed,
        frozen.free_when_swept,
        frozen.sweep.as_secs_f64() * 1e3
    ))
}

async fn stranded(session: &Session<'_>, row: &Row) -> Result<String> {
    let ground = &session.ground;
    let shards = i32::from(session.plan.shards);
    ground.lay(row.approach, shards).await?;
    let mut crowd = Taker::crowd(ground, row.approach, 1).await?;
    let mut refused = 0;
    for taker in &mut crowd {
        let pair = Order { qty: 2, ..Order::new() };
        refused += u32::from(taker.take(&pair).await? == Outcome::SoldOut);
    }
    let left = i64::from(shards) - ground.truth(row.approach, shards).await?.gone;
    let answer = if refused > 0 { "told \"sold out\"" } else { "served" };
    Ok(format!(
        "stranded units: with {left} left, one in each row, a buyer of 2 is {answer} after \
         {shards} tries"
    ))
}

/// Cuts the lane's connection again and again while it is busy.
async fn cut_off(session: &Session<'_>, row: &Row) -> Result<String> {
    let ground = &session.ground;
    ground.lay(row.approach, PLENTY).await?;
    let crowd = Taker::crowd(ground, row.approach, row.clients).await?;
    let mut cuts = 0;
    let cutting = async {
        loop {
            tokio::time::sleep(CUT_EVERY).await;
            match ground.cut_lanes().await {
                Ok(cut) => cuts += cut,
                Err(error) => break error,
            }
        }
    };
    let until = session.plan.aside();
    let (_, speed) = tokio::select! {
        ran = session.speed(row.approach, crowd, until) => ran?,
        error = cutting => return Err(error),
    };
    Ok(format!(
        "one connection carries all: cut {cuts} times under load, {} of {} takes were lost and \
         the slowest answer took {:.0} ms",
        speed.lost,
        speed.tally.granted,
        speed.tally.latency_ms(1.0)
    ))
}

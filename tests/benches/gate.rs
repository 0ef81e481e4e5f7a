//! The gate: several takes in one call against one script call for each, over the connection that
//! a core has. As many takes are under way either way. Nothing is asserted.
//!
//! Run: `cargo bench --bench gate` (`CARGO_PROFILE_BENCH_LTO=off` builds sooner). Half a minute.

mod rounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rounds::{ROUNDS, median, run, say};
use stanchion::domain::id::{SaleId, Sku};
use stanchion::domain::quantity::Quantity;
use stanchion::domain::reservation::Line;
use stanchion::servers::PrivateRedis;
use stanchion::store::redis::connect;
use stanchion::store::redis::gate::{Gate, Pass, UNITS_MAX, Word};
use tokio::task::JoinSet;
use uuid::Uuid;

const TIME: Duration = Duration::from_secs(1);
/// Takes under way.
const UNDER_WAY: [usize; 2] = [64, 256];
/// Takes in one call, of [`UNDER_WAY`] at most.
const TOGETHER: [usize; 4] = [1, 16, 64, 128];
/// In the far future, Unix milliseconds.
const CLOSES_MS: u64 = 4_102_444_800_000;

fn main() -> Result<()> {
    run(measure())
}

async fn measure() -> Result<()> {
    let redis = PrivateRedis::start()?;
    let gate = Gate::new(connect(&redis.url())?);
    let (sale, sku) = (SaleId::parse("bench")?, Sku::parse("HOT")?);
    gate.load(&sale, &sku, (1, UNITS_MAX), &[(0, 0)]).await?;
    for under_way in UNDER_WAY {
        let shapes: Vec<_> = TOGETHER.into_iter().filter(|of| *of <= under_way).collect();
        let mut rates = vec![vec![]; shapes.len()];
        for _ in 0..ROUNDS {
            for (together, rates) in shapes.iter().zip(&mut rates) {
                rates.push(takes_per_second(&gate, under_way / together, *together).await?);
            }
        }
        let single = rates.first().map_or(0.0, |rates| median(rates));
        for (together, rates) in shapes.iter().zip(&rates) {
            let (rate, times) = (median(rates), median(rates) / single);
            say(&format!(
                "{under_way:>4} under way, {together:>4} in a call: {rate:>10.0} takes/s  \
                 {times:>5.2} x of one in a call (bar 2)"
            ))?;
        }
    }
    Ok(())
}

/// `callers` call one after the other, each for so many takes at a time.
async fn takes_per_second(gate: &Gate, callers: usize, together: usize) -> Result<f64> {
    let taken = Arc::new(AtomicU64::new(0));
    let (from, mut running) = (Instant::now() + TIME / 5, JoinSet::new());
    for _ in 0..callers {
        let (gate, taken) = (gate.clone(), Arc::clone(&taken));
        running.spawn(async move {
            while Instant::now() < from + TIME {
                let passes = (0..together).map(|_| pass()).collect::<Result<Vec<_>>>()?;
                let words = gate.take_all(&passes.iter().collect::<Vec<_>>()).await?;
                ensure!(words.iter().all(|word| *word == Word::Try), "the gate said {words:?}");
                if Instant::now() >= from {
                    taken.fetch_add(u64::try_from(together)?, Ordering::Relaxed);
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let taken = u32::try_from(taken.load(Ordering::Relaxed))?;
    Ok(f64::from(taken) / TIME.as_secs_f64())
}

fn pass() -> Result<Pass> {
    let line = Line { sku: Sku::parse("HOT")?, qty: Quantity::new(1)? };
    Ok(Pass {
        sale: SaleId::parse("bench")?,
        closes_ms: CLOSES_MS,
        marker: format!("{:032x}", rand::random::<u128>()),
        id: Uuid::now_v7(),
        lines: vec![(line, 1)],
    })
}

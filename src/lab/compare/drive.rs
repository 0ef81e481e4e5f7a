//! A closed loop: each client sends its next order when the last one is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::order::Order;
use super::taker::Taker;
use super::tally::{Outcome, Tally};

/// When a run ends, whichever comes first; a client also ends when it is told "sold out".
#[derive(Debug, Clone, Copy)]
pub(super) struct Until {
    /// Not measured, at the beginning.
    pub(super) warm_up: Duration,
    /// Measured, after that.
    pub(super) time: Duration,
    /// Takes granted in all.
    pub(super) takes: u64,
}

struct Run {
    until: Until,
    start: Barrier,
    granted: AtomicU64,
}

/// Lets all clients loose at once; gives them back with what they saw.
pub(super) async fn drive(crowd: Vec<Taker>, until: Until) -> Result<(Vec<Taker>, Tally)> {
    let start = Barrier::new(crowd.len());
    let run = Arc::new(Run { until, start, granted: AtomicU64::new(0) });
    // Whoever is left over when one fails, or we are dropped, ends with the set.
    let mut clients = JoinSet::new();
    for taker in crowd {
        clients.spawn(client(taker, Arc::clone(&run)));
    }
    let (mut crowd, mut all) = (Vec::new(), Tally::default());
    while let Some(ended) = clients.join_next().await {
        let (taker, seen) = ended??;
        crowd.push(taker);
        all.add(&seen);
    }
    Ok((crowd, all))
}

async fn client(mut taker: Taker, run: Arc<Run>) -> Result<(Taker, Tally)> {
    let mut seen = Tally::default();
    run.start.wait().await;
    let from = Instant::now() + run.until.warm_up;
    let to = from + run.until.time;
    loop {
        let began = Instant::now();
        if began >= to || run.granted.load(Ordering::Relaxed) >= run.until.takes {
            break;
        }
        let outcome = taker.take(&Order::new()).await?;
        let ended = Instant::now();
        match outcome {
            Outcome::SoldOut => {
                seen.refused += 1;
                break;
            }
            Outcome::Granted(lock) => {
                run.granted.fetch_add(1, Ordering::Relaxed);
                seen.granted += 1;
                if from <= ended && ended <= to {
                    seen.measure(ended - began, lock);
                }
            }
        }
    }
    Ok((taker, seen))
}

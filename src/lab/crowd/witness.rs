//! Watches the stock while the crowd is at work.

use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::plan::{CoreAccess, Plan};
use crate::clock::{Clock, SystemClock};
use crate::lab::client::Client;

const EVERY: Duration = Duration::from_millis(200);
const TAKES: &str = "stanchion_ledger_take_attempts_total";

/// What was seen of the core during a run.
#[derive(Debug, Clone, Default)]
pub struct Witness {
    /// The stock, every 200 ms.
    pub samples: Vec<StockSample>,
    /// Take attempts that the core had counted before the run.
    pub takes_before: Option<u64>,
}

/// The stock between two instants of the crowd's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockSample {
    /// When it was asked for, Unix milliseconds.
    pub sent_ms: u64,
    /// When the answer was there.
    pub received_ms: u64,
    /// Each SKU.
    pub skus: Vec<SkuSample>,
}

/// One SKU in a sample.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SkuSample {
    /// The SKU.
    pub sku: String,
    /// Units ever loaded.
    pub loaded: u64,
    /// Units that could be held.
    pub available: i64,
    /// Units in live holds.
    pub held: u64,
    /// Units sold.
    pub confirmed: u64,
    /// Raised by every change of the stock row.
    pub version: u64,
}

#[derive(Deserialize)]
struct Stock {
    skus: Vec<SkuSample>,
}

/// Samples until `done` says so.
pub(super) async fn watch(plan: Plan, client: Client, mut done: watch::Receiver<bool>) -> Witness {
    let takes_before = match &plan.core_ops {
        Some(ops) => takes(&client, ops).await,
        None => None,
    };
    let mut witness = Witness { samples: Vec::new(), takes_before };
    let Some(core) = &plan.core else { return witness };
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => witness.samples.extend(sample(&client, core).await),
            changed = done.changed() => if changed.is_err() || *done.borrow() { return witness },
        }
    }
}

/// A sample that fails is a gap, which the judge sees.
async fn sample(client: &Client, core: &CoreAccess) -> Option<StockSample> {
    let authorization = format!("Bearer {}", core.key);
    let headers = [("authorization", authorization.as_str())];
    let sent_ms = SystemClock.now_ms();
    let answer = client.get(&format!("{}/v1/stock", core.url), &headers).await.ok()?;
    let stock: Stock = answer.json().ok()?;
    Some(StockSample { sent_ms, received_ms: SystemClock.now_ms(), skus: stock.skus })
}

/// The sum of the core's counter of take attempts; nothing if it tells of none.
pub(crate) async fn takes(client: &Client, ops: &str) -> Option<u64> {
    let answer = client.get(&format!("{ops}/metrics"), &[]).await.ok()?;
    let text = answer.text();
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(TAKES)?;
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    });
    let values: Vec<f64> = values.collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let sum = values.iter().sum::<f64>() as u64;
    (!values.is_empty()).then_some(sum)
}

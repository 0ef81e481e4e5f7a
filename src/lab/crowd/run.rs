//! Runs a whole crowd and collects what it saw.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::field::Field;
use super::flush;
use super::observations::{Observations, ShopperSeen, Trespass};
use super::plan::{Plan, arrival_ms};
use super::shopper::Shopper;
use super::steer::steer;
use super::trespasser::trespass;
use super::wire::Wire;
use super::witness;
use crate::domain::draw::Proof;
use crate::domain::status::Status;
use crate::lab::client::Client;

const STARTING_EVERY: Duration = Duration::from_millis(100);
const STARTING_TRIES: u32 = 100;
const SIGN_IN_TRIES: u32 = 3;
/// An account that only tries to sign in.
const TRIES: &str = "nobody@crowd.test";

/// Lets the whole crowd live, and tells what it saw. Fails only if the sale cannot be found.
pub async fn run(plan: Plan) -> Result<Observations> {
    if plan.gateways.is_empty() {
        bail!("a crowd needs the address of at least one gateway");
    }
    let client = Client::new(plan.sockets_max);
    let first = patiently(|| look(&client, &plan)).await?;
    let opens = Instant::now() + Duration::from_millis(opens_in_ms(&first));
    let draw_before = patiently(|| committed(&client, &plan)).await.ok();
    let sku = match &plan.sku {
        Some(sku) => sku.clone(),
        None => patiently(|| first_sku(&client, &plan)).await?,
    };
    let field = Arc::new(Field::new(client.clone(), &plan, &sku));
    let redis = match &plan.flush {
        Some(flush) => Some(flush::reach(flush).await?),
        None => None,
    };
    let no_accounts = no_accounts(&plan, &field).await;

    let (done, is_done) = watch::channel(false);
    #[expect(clippy::disallowed_methods, reason = "it is awaited below")]
    let watching = tokio::spawn(witness::watch(plan.clone(), Client::new(2), is_done));
    let (mut flushing, mut steering) = (JoinSet::new(), JoinSet::new());
    if let (Some(flush), Some(redis)) = (&plan.flush, redis) {
        flushing.spawn(flush::flush(field.clone(), redis, opens + flush.after));
    }
    if let Some(controls) = plan.controls.clone() {
        steering.spawn(steer(field.clone(), plan.clone(), controls, opens));
    }
    let living = live(&plan, &field, opens, no_accounts.is_none());
    let (shoppers, trespasses) = living.await?;
    flushing.join_next().await.transpose().context("the flush")?.transpose()?;
    let steering = steering.join_next().await.transpose().context("the steering")?;
    done.send(true).context("the witness is gone")?;
    let witness = watching.await.context("the witness failed")?;
    let rate_told = look(&client, &plan).await.ok().map(|status| status.rate);

    let latencies = field.latencies.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let reserving_peak = field.reserving_peak.load(Ordering::Relaxed);
    Ok(Observations {
        sale: plan.sale,
        sku,
        shoppers,
        trespasses,
        latencies,
        witness,
        draw_before,
        rate_told,
        reserving_peak,
        no_accounts,
        accounts_asked: plan.accounts_asked,
        upheavals: field.upheavals(),
        steering,
    })
}

/// Sends everybody on their way and waits for the last.
async fn live(
    plan: &Plan,
    field: &Arc<Field>,
    opens: Instant,
    accounts: bool,
) -> Result<(Vec<ShopperSeen>, Vec<Trespass>)> {
    let mut rng = StdRng::seed_from_u64(plan.seed);
    let (start, deadline) = (Instant::now(), Instant::now() + plan.patience);
    let opens_in = opens.saturating_duration_since(start);
    let opens_in_ms = u64::try_from(opens_in.as_millis()).unwrap_or(0);
    // Another crowd at the same sale is made of other people.
    let crowd = format!("{:08x}", rand::random::<u32>());
    let mut shoppers = JoinSet::new();
    for (number, mut role) in (1..).zip(plan.roles(&mut rng)) {
        if !accounts {
            role.become_stranger();
        }
        let arrives = start + Duration::from_millis(arrival_ms(role, opens_in_ms, &mut rng));
        let account = role.signed_in.then(|| format!("{crowd}-{number}@crowd.test"));
        let shopper = Shopper::new(Wire::new(field.clone(), number), role, account);
        shoppers.spawn(async move { (number, shopper.live(arrives, deadline).await) });
    }
    let mut intruders = JoinSet::new();
    for number in 0..plan.trespassers() {
        let wire = Wire::new(field.clone(), plan.shoppers + 1 + number);
        let at = start + Duration::from_millis(opens_in_ms + rng.random_range(0..5_000));
        intruders.spawn(async move { trespass(&wire, at, deadline).await });
    }
    let mut seen = Vec::with_capacity(plan.shoppers);
    while let Some(lived) = shoppers.join_next().await {
        seen.push(lived.context("a shopper failed")?);
    }
    seen.sort_unstable_by_key(|(number, _)| *number);
    let mut trespasses = Vec::new();
    while let Some(tried) = intruders.join_next().await {
        trespasses.extend(tried.context("a trespasser failed")?);
    }
    Ok((seen.into_iter().map(|(_, seen)| seen).collect(), trespasses))
}

/// Whether nobody can be signed in though some are to be, and why: only the sample shop's sign-in
/// is known here.
async fn no_accounts(plan: &Plan, field: &Arc<Field>) -> Option<String> {
    if plan.mix.accounts == 0.0 {
        return None;
    }
    let wire = Wire::new(field.clone(), 0);
    for _ in 1..SIGN_IN_TRIES {
        if wire.sign_in(TRIES).await.is_ok() {
            return None;
        }
        tokio::time::sleep(STARTING_EVERY).await;
    }
    let error = wire.sign_in(TRIES).await.err()?;
    Some(format!("the shop's sign-in is not the sample shop's: {error:#}"))
}

/// A sale that has just been started may take a few seconds to know its stock.
async fn patiently<T, F: Future<Output = Result<T>>>(ask: impl Fn() -> F) -> Result<T> {
    for _ in 0..STARTING_TRIES {
        if let Ok(answer) = ask().await {
            return Ok(answer);
        }
        tokio::time::sleep(STARTING_EVERY).await;
    }
    ask().await
}

async fn look(client: &Client, plan: &Plan) -> Result<Status> {
    ours(client, plan, "status").await.context("the sale cannot be looked at")
}

/// One of the sale's own public answers, read by nobody in particular.
async fn ours<T: serde::de::DeserializeOwned>(
    client: &Client,
    plan: &Plan,
    what: &str,
) -> Result<T> {
    let url = format!("{}/_stanchion/{}/{what}", plan.gateways[0], plan.sale);
    let answer = client.get(&url, &[("accept", "application/json")]).await?;
    answer.json().with_context(|| format!("GET {url}"))
}

/// The draw as far as it is told; nobody should join before there is a commitment.
async fn committed(client: &Client, plan: &Plan) -> Result<Proof> {
    let proof = proof(client, &plan.gateways[0], &plan.sale).await?;
    anyhow::ensure!(!proof.commitment.is_empty(), "the seed is not committed to yet");
    Ok(proof)
}

#[derive(Deserialize)]
struct Offer {
    skus: Vec<OfferedSku>,
}

#[derive(Deserialize)]
struct OfferedSku {
    sku: String,
}

async fn first_sku(client: &Client, plan: &Plan) -> Result<String> {
    let offer: Offer = ours(client, plan, "stock").await?;
    let first = offer.skus.into_iter().next().context("the sale tells of no SKU; name one")?;
    Ok(first.sku)
}

/// How long it is until the opening, by the sale's own clock.
fn opens_in_ms(status: &Status) -> u64 {
    let at =
        |text: &str| text.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_millisecond);
    u64::try_from(at(&status.opens_at) - at(&status.server_time)).unwrap_or(0)
}

/// The proof of the draw, complete once the sale is open.
pub(crate) async fn proof(client: &Client, gateway: &str, sale: &str) -> Result<Proof> {
    let url = format!("{gateway}/_stanchion/{sale}/draw");
    client.get(&url, &[("accept", "application/json")]).await?.json()
}

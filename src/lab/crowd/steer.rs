//! Steers the sale in its middle: another rate, a pause and a stop, and everything as it was.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::field::Field;
use super::kept::Event;
use super::plan::{Controls, Plan};
use super::probe::{Probe, Prober};
use super::steered::{Act, NodeSeen, Steering, Step};
use crate::clock::{Clock, SystemClock};
use crate::domain::sale::Phase;
use crate::lab::client::{Client, request};

/// From the opening to the first step.
const BEGINS: Duration = Duration::from_millis(500);
/// How long a step is left as it is: the second that it may take, and what is judged after it.
const LASTS: Duration = Duration::from_millis(1_400);
/// No step is taken so shortly before the flush, or after it.
const CLEAR: Duration = Duration::from_millis(2_500);
/// From going on to the stop, so that there are admissions to be voided.
const GOES_ON: Duration = Duration::from_millis(1_200);
/// The sale or its flush is waited for so long.
const PATIENCE: Duration = Duration::from_secs(20);
/// A node that has not followed by then never does.
const FOLLOWS: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_millis(50);
/// Slow enough that people still wait for the next steps.
const SLOWER: f64 = 4.0;

/// Takes all steps; what fails is in `trouble`, and the sale is as it was in any case.
pub(super) async fn steer(
    field: Arc<Field>,
    plan: Plan,
    controls: Controls,
    opens: Instant,
) -> Steering {
    let client = Client::new(16);
    let prober = Prober::new(client.clone(), &plan);
    let flush_at = plan.flush.as_ref().map(|flush| opens + flush.after);
    let mut wheel =
        Wheel { field, controls, client, prober, flush_at, seen: Steering::default(), down: false };
    sleep_until(opens + BEGINS).await;
    if let Err(error) = wheel.steps().await {
        wheel.seen.trouble = Some(format!("{error:#}"));
        tracing::warn!(error = format!("{error:#}"), "the steering was given up");
        wheel.leave_as_found().await;
    }
    wheel.seen
}

struct Wheel {
    field: Arc<Field>,
    controls: Controls,
    client: Client,
    prober: Prober,
    flush_at: Option<Instant>,
    seen: Steering,
    /// Whether the sale is paused by us.
    down: bool,
}

impl Wheel {
    async fn steps(&mut self) -> Result<()> {
        let before = self.open().await?;
        self.seen.rate_before = before;
        self.step(Act::Rate(before / SLOWER)).await?;
        self.step(Act::Pause).await?;
        self.step(Act::Resume).await?;
        self.step(Act::Stop).await?;
        self.step(Act::Resume).await?;
        self.field.upheaval_ends(Event::Stop);
        self.step(Act::Rate(before)).await
    }

    /// Waits until the sale is open; its rate.
    async fn open(&self) -> Result<f64> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.prober.status(0).await
                && status.phase == Phase::Open
            {
                return Ok(status.rate);
            }
            sleep(EVERY).await;
        }
        bail!("the sale did not open")
    }

    async fn step(&mut self, act: Act) -> Result<()> {
        if act != Act::Resume {
            self.keep_clear().await;
        }
        let probes = self.probes(act).await?;
        if act == Act::Stop {
            self.field.upheaval_begins(Event::Stop);
        }
        let sent_ms = SystemClock.now_ms();
        self.ask(act).await?;
        let acked_ms = SystemClock.now_ms();
        self.down = matches!(act, Act::Pause | Act::Stop);
        tracing::info!(act = act.name(), "steered");
        let least = Instant::now() + if act == Act::Resume { GOES_ON } else { LASTS };
        let nodes = self.watch(probes, act == Act::Resume, least).await;
        self.seen.steps.push(Step { act, sent_ms, acked_ms, nodes });
        Ok(())
    }

    /// Pausing and stopping last until they are taken back, which must not fall into the flush.
    async fn keep_clear(&self) {
        let Some(at) = self.flush_at else { return };
        if Instant::now() + CLEAR < at {
            return;
        }
        let until = at + PATIENCE;
        let over = |u: &super::Upheaval| u.event == Event::Flush && u.over_ms.is_some();
        while Instant::now() < until && !self.field.upheavals().iter().any(over) {
            sleep(EVERY).await;
        }
        sleep_until(at + CLEAR).await;
    }

    /// What is asked of every node to see whether it follows.
    async fn probes(&self, act: Act) -> Result<Vec<Probe>> {
        let gateways = 0..self.field.gateways.len();
        Ok(match act {
            Act::Rate(rate) => gateways.map(|gateway| Probe::Rate(gateway, rate)).collect(),
            Act::Pause => gateways.map(|gateway| Probe::Paused(gateway, true)).collect(),
            Act::Resume => gateways.map(|gateway| Probe::Paused(gateway, false)).collect(),
            Act::Stop => {
                let now = self.prober.status(0).await.context("a gateway does not answer")?;
                let admission = self.prober.one_that_counts(&self.field.in_hand()).await;
                let epoch = now.epoch;
                let mut probes: Vec<_> =
                    gateways.clone().map(|gateway| Probe::Epoch(gateway, epoch)).collect();
                if let Some(admission) = admission {
                    let door = |gateway| Probe::Door(gateway, admission.clone());
                    probes.extend(gateways.map(door));
                    probes.extend(self.prober.has_core().then(|| Probe::Core(admission.clone())));
                }
                probes
            }
        })
    }

    /// Asks all nodes over and over, at least until `least`, and until each has followed. While
    /// figures are stale a resumed sale is told to be paused still, so only its end counts.
    async fn watch(&self, probes: Vec<Probe>, lenient: bool, least: Instant) -> Vec<NodeSeen> {
        let until = Instant::now() + FOLLOWS;
        let watched = probes.into_iter().map(|probe| async move {
            let mut seen = NodeSeen { name: probe.name(), stale_ms: None, fresh_ms: None };
            while Instant::now() < until && (seen.fresh_ms.is_none() || Instant::now() < least) {
                let sent_ms = SystemClock.now_ms();
                match self.prober.follows(&probe).await {
                    Some(true) => seen.fresh_ms = seen.fresh_ms.or(Some(sent_ms)),
                    Some(false) if !lenient => seen.stale_ms = Some(sent_ms),
                    Some(false) | None => {}
                }
                sleep(EVERY).await;
            }
            seen
        });
        futures_util::future::join_all(watched).await
    }

    /// As an operator asks for it.
    async fn ask(&self, act: Act) -> Result<()> {
        let (method, what, body) = match act {
            Act::Rate(rate) => (Method::PUT, "rate", json!({ "rate": rate })),
            Act::Pause => (Method::POST, "pause", json!({})),
            Act::Stop => (Method::POST, "stop", json!({})),
            Act::Resume => (Method::POST, "resume", json!({})),
        };
        let ops = &self.controls.ops;
        let url = format!("{}/v1/sales/{}/{what}", ops.url, self.field.sale);
        let authorization = format!("Bearer {}", ops.key);
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
            ("stanchion-author", "crowd"),
        ];
        let body = Bytes::from(Value::to_string(&body));
        let answer = self.client.send(request(method, &url, &headers, body)?).await?;
        let status = answer.status;
        anyhow::ensure!(status.is_success(), "{what} was answered by {status}: {}", answer.text());
        Ok(())
    }

    /// After a failure half way.
    async fn leave_as_found(&self) {
        let rate = Act::Rate(self.seen.rate_before);
        let changed = self.seen.steps.iter().any(|step| matches!(step.act, Act::Rate(_)));
        for act in [self.down.then_some(Act::Resume), changed.then_some(rate)] {
            let Some(act) = act else { continue };
            if let Err(error) = self.ask(act).await {
                tracing::warn!(error = format!("{error:#}"), "{} failed", act.name());
            }
        }
    }
}

//! From what was seen to the report.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::evidence::Evidence;
use super::promise::{Promise, Verdict};
use super::{door, line, page, place, rate, steering, stock, usage};
use crate::domain::draw::Proof;
use crate::lab::crowd::{Ending, Event, NodeSeen, Observations, ShopperSeen, Step};

/// Refusals that are the line at work, not a "no".
const ORDINARY: [&str; 5] = ["waiting", "not-called", "sold-out", "insufficient", "closed"];

/// What a run came to.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// How many shoppers there were.
    pub shoppers: u64,
    /// How many had a join acknowledged.
    pub joined: u64,
    /// How many received an admission.
    pub admitted: u64,
    /// Units that were held at some time.
    pub held: u64,
    /// Units sold.
    pub confirmed: u64,
    /// Orders whose hold ran out.
    pub expired: u64,
    /// Shoppers who left because nothing was left.
    pub sold_out: u64,
    /// Answers that refused for another reason than the line or the stock.
    pub refused: u64,
    /// The same by problem, for people.
    #[serde(skip)]
    pub refused_by: BTreeMap<String, u64>,
    /// Answers that were lost or made no sense.
    pub errors: u64,
    /// Units sold or held beyond those loaded; nothing if the ledger was not read.
    pub oversold: Option<i64>,
    /// Take attempts that reached Postgres; nothing if the core was not asked.
    pub ledger_attempts: Option<u64>,
    /// The rate set and the rate seen.
    pub admissions_per_second: AdmissionsPerSecond,
    /// How long answers took.
    pub latency_ms: Waits,
    /// The draw's proof; nothing if it could not be read.
    pub draw: Option<Proof>,
    /// Who was signed in.
    pub accounts: Accounts,
    /// Places seen to survive something, by what it was.
    pub places_kept: BTreeMap<&'static str, u64>,
    /// When Redis was emptied, Unix milliseconds.
    pub flushed_ms: Option<u64>,
    /// How the sale was steered.
    pub steering: Vec<Steered>,
    /// All twelve promises.
    pub promises: BTreeMap<&'static str, Verdict>,
    /// Those without which the run is not good.
    #[serde(skip)]
    pub required: Vec<Promise>,
}

/// Shoppers with an account.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Accounts {
    /// How many were signed in.
    pub signed_in: u64,
    /// How many of them joined on two devices.
    pub two_devices: u64,
}

/// A step of the steering.
#[derive(Debug, Clone, Serialize)]
pub struct Steered {
    /// What was asked for.
    pub act: String,
    /// When it was acknowledged, Unix milliseconds.
    pub acked_ms: u64,
    /// How long each node still did as before, in milliseconds; nothing if it never followed.
    pub late_ms: BTreeMap<String, Option<u64>>,
}

/// Admissions by their slots.
#[derive(Debug, Clone, Serialize)]
pub struct AdmissionsPerSecond {
    /// The rate set.
    pub set: Option<f64>,
    /// The median of the run's seconds.
    pub p50: u64,
    /// The most in any window of a second.
    pub max_1s: u64,
    /// Each second from the first admission on, for a day at most.
    pub seconds: Vec<u64>,
}

/// By step.
#[derive(Debug, Clone, Serialize)]
pub struct Waits {
    /// `POST …/join`.
    pub join: Percentiles,
    /// `GET …/status`.
    pub status: Percentiles,
    /// `POST …/claim`.
    pub claim: Percentiles,
    /// `POST …/reservations`.
    pub reserve: Percentiles,
}

/// Milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Percentiles {
    /// Half of the answers were there by then.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
}

impl Report {
    /// Whether every promise that a crowd has to check was found true and none false.
    pub fn is_good(&self) -> bool {
        let required = self.required.iter().all(|promise| {
            self.promises.get(promise.name()).is_some_and(|verdict| verdict.holds == Some(true))
        });
        required && self.promises.values().all(|verdict| verdict.holds != Some(false))
    }
}

/// Judges a run. Pure: the same observations and evidence give the same report.
pub fn judge(seen: &Observations, evidence: &Evidence) -> Report {
    let count =
        |is: &dyn Fn(&ShopperSeen) -> bool| whole(seen.shoppers.iter().filter(|s| is(s)).count());
    let slots = rate::slots(seen);
    let ledger = evidence.ledger.as_ref().ok();
    let refused_by = refusals(seen);
    let ended = |ending: Ending| count(&|shopper| shopper.ending == ending);
    Report {
        shoppers: whole(seen.shoppers.len()),
        joined: count(&|shopper| shopper.joined),
        admitted: count(&|shopper| !shopper.admissions.is_empty()),
        held: ledger.map_or_else(|| count(&holds), |ledger| ledger.holds_granted),
        confirmed: ledger.map_or_else(
            || count(&|shopper| shopper.paid.is_some()),
            |ledger| ledger.skus.iter().map(|sku| u64::try_from(sku.confirmed).unwrap_or(0)).sum(),
        ),
        expired: ledger.map_or_else(
            || ended(Ending::Abandoned) + ended(Ending::Lapsed),
            |ledger| ledger.by_status.iter().filter(|(s, _)| s == "expired").map(|(_, n)| n).sum(),
        ),
        sold_out: ended(Ending::SoldOut),
        refused: refused_by.values().sum(),
        refused_by,
        errors: seen.shoppers.iter().map(|shopper| shopper.errors_count).sum(),
        oversold: ledger.map(stock::oversold),
        ledger_attempts: attempts(seen, evidence),
        admissions_per_second: AdmissionsPerSecond {
            set: evidence.rate.as_ref().ok().map(|set| set.per_second),
            p50: rate::median_per_second(&slots),
            max_1s: whole(rate::most_in_a_second(&slots)),
            seconds: rate::per_second(&slots),
        },
        latency_ms: Waits {
            join: percentiles(&seen.latencies.join),
            status: percentiles(&seen.latencies.status),
            claim: percentiles(&seen.latencies.claim),
            reserve: percentiles(&seen.latencies.reserve),
        },
        draw: evidence.draw.as_ref().ok().cloned(),
        accounts: Accounts {
            signed_in: count(&|shopper| shopper.account.is_some() && shopper.joined),
            two_devices: count(&|s| s.second.as_ref().is_some_and(|d| !d.tickets.is_empty())),
        },
        places_kept: place::kept_by(seen),
        flushed_ms: seen.upheavals.iter().find(|u| u.event == Event::Flush).map(|u| u.from_ms),
        steering: seen.steering.iter().flat_map(|steering| &steering.steps).map(steered).collect(),
        promises: promises(seen, evidence),
        required: required(seen),
    }
}

/// Always eight, and those that the crowd was told to put to the test.
fn required(seen: &Observations) -> Vec<Promise> {
    let mut required = Promise::REQUIRED.to_vec();
    let early = |shopper: &ShopperSeen| {
        shopper.joined && shopper.role.detour.is_some() && !shopper.role.detours_late
    };
    let asked = [
        (Promise::PlaceKept, seen.shoppers.iter().any(early)),
        (Promise::OnePlacePerAccount, seen.accounts_asked),
        (Promise::StopInASecond, seen.steering.is_some()),
    ];
    required.extend(asked.into_iter().filter_map(|(promise, asked)| asked.then_some(promise)));
    required
}

fn steered(step: &Step) -> Steered {
    let late = |node: &NodeSeen| node.fresh_ms.map(|_| node.late_ms(step));
    Steered {
        act: step.act.name(),
        acked_ms: step.acked_ms,
        late_ms: step.nodes.iter().map(|node| (node.name.clone(), late(node))).collect(),
    }
}

fn promises(seen: &Observations, evidence: &Evidence) -> BTreeMap<&'static str, Verdict> {
    let verdict = |promise: Promise| match promise {
        Promise::NeverOversell => stock::never_oversell(seen, evidence),
        Promise::NoUnitLost => stock::no_unit_lost(evidence),
        Promise::OneClickOneOrder => stock::one_click_one_order(seen, evidence),
        Promise::LedgerShielded => stock::ledger_shielded(seen, evidence),
        Promise::ExactRate => rate::exact_rate(seen, evidence),
        Promise::FairDraw => line::fair_draw(seen, evidence),
        Promise::OnlyTheAdmitted => door::only_the_admitted(seen, evidence),
        Promise::HonestPage => page::honest_page(seen, evidence),
        Promise::FullUse => usage::full_use(seen, evidence),
        Promise::PlaceKept => place::place_kept(seen, evidence),
        Promise::OnePlacePerAccount => place::one_place_per_account(seen, evidence),
        Promise::StopInASecond => steering::stop_in_a_second(seen, evidence),
    };
    Promise::ALL.into_iter().map(|promise| (promise.name(), verdict(promise))).collect()
}

fn holds(shopper: &ShopperSeen) -> bool {
    shopper.orders.iter().flat_map(|order| &order.answers).any(|a| a.reservation.is_some())
}

fn refusals(seen: &Observations) -> BTreeMap<String, u64> {
    let mut by_name = BTreeMap::new();
    for (name, times) in seen.shoppers.iter().flat_map(|shopper| &shopper.refusals) {
        if !ORDINARY.contains(&name.as_str()) {
            *by_name.entry(name.clone()).or_default() += times;
        }
    }
    by_name
}

fn attempts(seen: &Observations, evidence: &Evidence) -> Option<u64> {
    let takes = evidence.takes.as_ref().ok()?;
    takes.checked_sub(seen.witness.takes_before.unwrap_or(0))
}

/// From microseconds, to a hundredth of a millisecond.
fn percentiles(of: &Histogram<u64>) -> Percentiles {
    #[expect(clippy::cast_precision_loss, reason = "at most two minutes")]
    let at = |quantile| (of.value_at_quantile(quantile) as f64 / 10.0).round() / 100.0;
    Percentiles { p50: at(0.5), p99: at(0.99) }
}

fn whole(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

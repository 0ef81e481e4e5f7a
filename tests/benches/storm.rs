//! 200,000 people who join within two seconds, over at most 8,000 kept-alive sockets, each from an
//! address of its own: how many are told to come again and when, whether anybody is lost, and what
//! it costs in memory. Nothing is asserted but that the program works.
//!
//! Run: `cargo bench --bench storm` (about half a minute), with other figures
//! `-- --people 200000 --seconds 2 --sockets 8000 --gateways 1 --holds 8192`.

#[path = "storm/visitors.rs"]
mod visitors;
mod wire;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use stanchion::clock::{Clock, SystemClock};
use stanchion::lab::client::{Client, request};
use stanchion::lab::rig::{ConfigFile, Installation, Layout, Node, SalePlan};
use stanchion::servers::PrivateStores;
use visitors::{Seen, Visitor, storm};

const SALE: &str = "storm";

/// What is asked for.
struct Plan {
    people: u32,
    seconds: u32,
    sockets: u32,
    gateways: u32,
    /// Joins that a gateway holds.
    holds: u32,
}

impl Plan {
    fn read() -> Result<Self> {
        let mut plan =
            Self { people: 200_000, seconds: 2, sockets: 8_000, gateways: 1, holds: 8_192 };
        let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
        while let Some(name) = args.next() {
            let value = args.next().with_context(|| format!("{name} needs a number"))?;
            let value = value.parse().with_context(|| format!("{name} {value}"))?;
            match name.as_str() {
                "--people" => plan.people = value,
                "--seconds" => plan.seconds = value,
                "--sockets" => plan.sockets = value,
                "--gateways" => plan.gateways = value,
                "--holds" => plan.holds = value,
                _ => anyhow::bail!("{name} is not known"),
            }
        }
        Ok(plan)
    }
}

fn main() -> Result<()> {
    let plan = Plan::read()?;
    rlimit::increase_nofile_limit(u64::MAX)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(&plan))
}

async fn measure(plan: &Plan) -> Result<()> {
    let stores = PrivateStores::start()?;
    let house = house(plan, &stores)?;
    let gateways: Vec<_> =
        house.gateways.iter().map(|node| Ok(host(&node.url("public")?))).collect::<Result<_>>()?;
    loaded(&gateways).await?;
    let sockets = plan.sockets as usize;
    let before = Cost::of(&house.gateways, &stores).await?;

    let within = Duration::from_secs(plan.seconds.into());
    let (came, seen) = storm(&gateways, SALE, plan.people, sockets, within).await?;
    let after = Cost::of(&house.gateways, &stores).await?;
    // Everybody asks once more, with nothing but the key: whoever is not known was lost.
    let (again, _) = storm(&gateways, SALE, plan.people, sockets, Duration::from_secs(20)).await?;

    tell_joins(plan, &came, &seen)?;
    let lost = came.iter().zip(&again).filter(|(a, b)| a.entry != b.entry || !b.known).count();
    let mut entries: Vec<_> = came.iter().filter_map(|visitor| visitor.entry).collect();
    entries.sort_unstable();
    let gapless = entries.iter().copied().eq(0..u64::from(plan.people));
    say("lost of those acknowledged", &lost)?;
    say("entries unique and without a gap", &gapless)?;
    say("drawn at the opening", &drawn(&house, &gateways[0]).await?)?;
    before.tell(&after, plan)
}

fn house(plan: &Plan, stores: &PrivateStores) -> Result<Installation> {
    let sale = SalePlan::opening_in(SALE, SystemClock.now_ms(), 600_000, 500);
    let mut settings = ConfigFile::new("http://127.0.0.1:9", &[sale])?;
    settings.set("public.trusted_proxies", vec!["127.0.0.1/32"])?;
    settings.set("limits.max_joins_waiting", i64::from(plan.holds))?;
    let urls = (stores.create_database(SALE)?, stores.redis_url());
    let layout = Layout { gateways: plan.gateways as usize, cores: 1 };
    let executable = Path::new(env!("CARGO_BIN_EXE_stanchion"));
    Installation::start(executable, &stores.workspace(SALE)?, urls, layout, settings)
}

/// Waits until every gateway has the room.
async fn loaded(gateways: &[String]) -> Result<()> {
    for gateway in gateways {
        for tries in 0.. {
            let proof = proof(gateway).await;
            if proof.is_ok_and(|proof| proof["commitment"].as_str().is_some_and(|c| !c.is_empty()))
            {
                break;
            }
            ensure!(tries < 1_000, "the room was never loaded");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

async fn proof(gateway: &str) -> Result<Value> {
    Client::new(1).get(&format!("http://{gateway}/_stanchion/{SALE}/draw"), &[]).await?.json()
}

/// Opens the sale; how many are in the draw.
async fn drawn(house: &Installation, gateway: &str) -> Result<Value> {
    let ops = house.gateways[0].url("ops")?;
    let opens = jiff::Timestamp::now() + Duration::from_secs(1);
    let bearer = format!("Bearer {}", house.secrets.ops_key);
    let (url, headers) =
        (format!("{ops}/v1/sales/{SALE}/times"), [("authorization", bearer.as_str())]);
    let body = json!({ "opens": opens.to_string() }).to_string();
    let asked = request(http::Method::PUT, &url, &headers, body.into())?;
    let told = Client::new(1).send(asked).await?;
    ensure!(told.status.is_success(), "{}", told.text());
    for _ in 0..500 {
        let proof = proof(gateway).await?;
        if proof["seed"].as_str().is_some_and(|seed| !seed.is_empty()) {
            return Ok(proof["n"].clone());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    anyhow::bail!("the sale never opened")
}

fn tell_joins(plan: &Plan, came: &[Visitor], seen: &Seen) -> Result<()> {
    let acknowledged = came.iter().filter(|visitor| visitor.entry.is_some()).count();
    let refused: Vec<_> = came.iter().filter(|visitor| !visitor.waits.is_empty()).collect();
    let all_in_ms = came.iter().map(|visitor| visitor.in_at_ms).max().unwrap_or_default();
    say("people, joining within seconds", &format!("{}, {}", plan.people, plan.seconds))?;
    say("sockets, gateways, joins held by each", &[plan.sockets, plan.gateways, plan.holds])?;
    say("acknowledged", &acknowledged)?;
    say("people told to come again", &refused.len())?;
    let tries = came.iter().map(|visitor| visitor.waits.len());
    say("refusals, most of one person", &[tries.clone().sum(), tries.max().unwrap_or(0)])?;
    say("all in after seconds", &(f64::from(all_in_ms) / 1_000.0))?;
    let per_second = f64::from(plan.people) * 1_000.0 / f64::from(all_in_ms.max(1));
    say("joins a second", &per_second.round())?;
    say("acknowledged in each second", &by_second(came.iter().map(|visitor| visitor.in_at_ms)))?;
    say("came again in each second", &by_second(seen.came_again_ms.iter().copied()))?;
    let waits = came.iter().flat_map(|visitor| visitor.waits.iter().copied()).collect();
    say("waits told, ms: least, middle, p99, most", &spread(waits))?;
    say("answers, µs: least, middle, p99, most", &spread(seen.took_us.clone()))
}

fn by_second(instants_ms: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut seconds = vec![];
    for at in instants_ms {
        let second = (at / 1_000) as usize;
        if seconds.len() <= second {
            seconds.resize(second + 1, 0);
        }
        seconds[second] += 1;
    }
    seconds
}

fn spread(mut figures: Vec<u32>) -> Vec<u32> {
    figures.sort_unstable();
    let at = |part: usize| figures.get((figures.len() * part / 100).min(figures.len() - 1));
    if figures.is_empty() {
        return vec![];
    }
    [0, 50, 99, 100].into_iter().filter_map(at).copied().collect()
}

/// What gateways and Redis have used so far.
struct Cost {
    /// Resident memory of each gateway now and at its most, in KiB.
    memory_kib: Vec<[u64; 2]>,
    /// Processor time of all gateways, in ticks of 10 ms.
    ticks: u64,
    redis_bytes: u64,
}

impl Cost {
    async fn of(gateways: &[Node], stores: &PrivateStores) -> Result<Self> {
        let (mut memory_kib, mut ticks) = (vec![], 0);
        for node in gateways {
            let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid()))?;
            memory_kib.push([field(&status, "VmRSS:")?, field(&status, "VmHWM:")?]);
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", node.pid()))?;
            let times = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
            ticks += times.take(2).filter_map(|time| time.parse::<u64>().ok()).sum::<u64>();
        }
        let client = redis::Client::open(stores.redis_url())?;
        let mut redis = client.get_multiplexed_async_connection().await?;
        let info: String = redis::cmd("INFO").arg("memory").query_async(&mut redis).await?;
        Ok(Self { memory_kib, ticks, redis_bytes: field(&info, "used_memory:")? })
    }

    fn tell(&self, after: &Self, plan: &Plan) -> Result<()> {
        say("gateways' memory before, KiB: now, most", &self.memory_kib)?;
        say("gateways' memory after, KiB: now, most", &after.memory_kib)?;
        let people = u64::from(plan.people);
        let sum = |cost: &Self| cost.memory_kib.iter().map(|[now, _]| now * 1_024).sum::<u64>();
        let growth = sum(after).saturating_sub(sum(self));
        say("gateways' growth for each person, bytes", &(growth / people))?;
        let redis = after.redis_bytes.saturating_sub(self.redis_bytes);
        say("Redis' growth for each person, bytes", &(redis / people))?;
        let us = (after.ticks - self.ticks) * 10_000 / people;
        say("gateways' processor time for each person, µs", &us)
    }
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).with_context(|| format!("no {name} in {text}"))
}

fn host(url: &str) -> String {
    url.trim_start_matches("http://").to_owned()
}

fn say(what: &str, figure: &impl std::fmt::Debug) -> Result<()> {
    writeln!(std::io::stdout(), "{what:<48}{figure:?}").context("writing to standard output")
}

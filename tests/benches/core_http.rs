//! Orders over HTTP against the lanes alone, and "sold out" against our own status polls: real
//! processes and stores, the load on the same cores. Nothing is asserted.
//!
//! Run: `cargo bench --bench core_http` (`CARGO_PROFILE_BENCH_LTO=off` builds sooner). About two
//! minutes.

mod load;
mod rounds;
mod wire;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use load::{Requests, Seen, load};
use rounds::{ROUNDS, median, run, say};
use serde_json::Value;
use stanchion::clock::{Clock, SystemClock};
use stanchion::domain::admission::Admission;
use stanchion::domain::id::SaleId;
use stanchion::domain::ticket::{Cohort, Ticket};
use stanchion::lab::client::Client;
use stanchion::lab::rig::{ConfigFile, Installation, Layout, SalePlan};
use stanchion::room::keys::Keys;
use stanchion::servers::PrivateStores;

const SALE: &str = "bench";
const TIME: Duration = Duration::from_secs(2);
/// Sockets, and clients of the lanes.
const CLIENTS: [usize; 2] = [64, 256];
/// Admissions that the core knows already, as of shoppers who order again.
const KNOWN: u64 = 4_096;
/// Admissions that it sees for the first time; those of the first come around unless there are
/// more than it remembers.
const FRESH: u64 = 65_536;
/// Those who are told "sold out" are the [`KNOWN`] after them, who hold nothing.
const EMPTY_HANDED: u64 = FRESH;
const VISITORS: u64 = 64;

fn main() -> Result<()> {
    run(measure())
}

async fn measure() -> Result<()> {
    let house = House::build().await?;
    let mut figures: Vec<(String, Vec<f64>)> = vec![];
    let mut note = |name: String, figure: f64| match figures.iter_mut().find(|(n, _)| *n == name) {
        Some((_, all)) => all.push(figure),
        None => figures.push((name, vec![figure])),
    };
    for _ in 0..ROUNDS {
        let lanes = lanes_alone()?;
        for clients in CLIENTS {
            let alone = lanes.iter().find(|(of, _)| *of == clients).map_or(0.0, |(_, rate)| *rate);
            let order = house.run(clients, &house.orders("HOT", 0, KNOWN), 201).await?;
            let fresh = house.run(clients, &house.orders("HOT", 0, FRESH), 201).await?;
            let sold_out =
                house.run(clients, &house.orders("GONE", EMPTY_HANDED, KNOWN), 409).await?;
            let polls = house.run(clients, &house.polls, 200).await?;
            let of = |what: &str| format!("{clients:>4} clients: {what}");
            note(of("lanes alone, takes/s"), alone);
            note(of("orders over HTTP, per second"), order.per_second);
            note(of("orders over HTTP, p99 ms"), order.p99_ms);
            note(of("the same by shoppers not seen before, per second"), fresh.per_second);
            note(of("orders : lanes alone (bar 0.35)"), order.per_second / alone);
            note(of("sold out over HTTP, per second"), sold_out.per_second);
            note(of("status polls, per second"), polls.per_second);
            note(of("sold out : status polls (bar 0.6)"), sold_out.per_second / polls.per_second);
        }
    }
    for (name, all) in figures {
        let rounds: Vec<_> = all.iter().map(|figure| format!("{figure:.2}")).collect();
        say(&format!("{name:<66}{:>12.2}   [{}]", median(&all), rounds.join(", ")))?;
    }
    Ok(())
}

/// Takes per second by clients, of the program's own comparison.
fn lanes_alone() -> Result<Vec<(usize, f64)>> {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_stanchion"))
        .args(["compare", "--json", "--seconds", "2", "--approach", "lanes"])
        .output()?;
    ensure!(out.status.success(), "compare: {}", String::from_utf8_lossy(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout)?;
    let rows = report["rows"].as_array().context("compare without rows")?;
    let row = |row: &Value| {
        let clients = usize::try_from(row["clients"].as_u64()?).ok()?;
        Some((clients, row["takes_per_second"].as_f64()?))
    };
    Ok(rows.iter().filter_map(row).collect())
}

/// A core and a gateway with a sale that is open.
struct House {
    admissions: Arc<Vec<String>>,
    polls: Requests,
    core: String,
    public: String,
    core_key: String,
    next: Arc<AtomicU64>,
    // In this order, so that the stores go last.
    _installation: Installation,
    _stores: PrivateStores,
}

impl House {
    async fn build() -> Result<Self> {
        let stores = PrivateStores::start_with(&["max_wal_size=8GB".to_owned()])?;
        let urls = (stores.create_database(SALE)?, stores.redis_url());
        let folder = stores.workspace(SALE)?;
        let executable = Path::new(env!("CARGO_BIN_EXE_stanchion"));
        let layout = Layout { gateways: 1, cores: 1 };
        let installation = Installation::start(executable, &folder, urls, layout, settings()?)?;
        let core = host(&installation.cores[0].url("core")?);
        let public = host(&installation.gateways[0].url("public")?);
        let keys = Keys::load(&folder.join("keys"))?;
        let admissions = (0..EMPTY_HANDED + KNOWN).map(|number| admission(&keys, number));
        let house = Self {
            admissions: Arc::new(admissions.collect::<Result<_>>()?),
            polls: polls(&public).await?,
            core,
            public,
            core_key: installation.secrets.core_key.clone(),
            next: Arc::default(),
            _installation: installation,
            _stores: stores,
        };
        // The one unit of the SKU that is sold out from here on.
        load(&house.core, 1, TIME / 20, &house.next, &house.orders("GONE", 0, 1)).await?;
        Ok(house)
    }

    /// One unit for the next of so many shoppers from the `first` on, each time under another
    /// order key.
    fn orders(&self, sku: &str, first: u64, shoppers: u64) -> Requests {
        let (admissions, key) = (Arc::clone(&self.admissions), self.core_key.clone());
        let body = format!(r#"{{"lines":[{{"sku":"{sku}","qty":1}}]}}"#);
        let length = body.len();
        Arc::new(move |number| {
            let shopper = usize::try_from(first + number % shoppers).unwrap_or_default();
            format!(
                "POST /v1/reservations HTTP/1.1\r\nhost: core\r\nauthorization: Bearer {key}\r\n\
                 stanchion-admission: {}\r\nidempotency-key: k{number}\r\n\
                 content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}",
                admissions[shopper]
            )
            .into_bytes()
        })
    }

    async fn run(&self, sockets: usize, requests: &Requests, wanted: u16) -> Result<Seen> {
        let address = if Arc::ptr_eq(requests, &self.polls) { &self.public } else { &self.core };
        let seen = load(address, sockets, TIME, &self.next, requests).await?;
        let others: Vec<_> =
            seen.statuses.iter().filter(|(status, _)| **status != wanted).collect();
        ensure!(others.is_empty(), "not all were answered {wanted}: {:?}", seen.statuses);
        Ok(seen)
    }
}

fn settings() -> Result<ConfigFile> {
    let plan = SalePlan {
        hold: "10m".into(),
        skus: vec![("HOT".into(), 1_000_000_000, 0), ("GONE".into(), 1, 0)],
        ..SalePlan::opening_in(SALE, SystemClock.now_ms(), 500, 0)
    };
    let mut settings = ConfigFile::new("http://127.0.0.1:9", &[plan])?;
    settings.set("public.trusted_proxies", vec!["127.0.0.1/32"])?;
    settings.set("limits.poll", quota())?;
    settings.set("limits.per_ip", quota())?;
    Ok(settings)
}

/// So high that it refuses nobody.
fn quota() -> toml::Table {
    let mut quota = toml::Table::new();
    quota.insert("rate".into(), "1000000/s".into());
    quota.insert("burst".into(), 1_000_000.into());
    quota
}

fn host(url: &str) -> String {
    url.trim_start_matches("http://").to_owned()
}

fn admission(keys: &Keys, number: u64) -> Result<String> {
    let ticket = Ticket {
        sale: SaleId::parse(SALE)?,
        run: 1,
        sub: format!("shopper-{number}"),
        cohort: Cohort::Entry(number),
        account: None,
        issued_at: 1,
    };
    let jti = format!("j{number}");
    let slot = SystemClock.now_ms();
    Ok(keys.mint_admission(&Admission::at_slot(&ticket, 1, number, slot, 3_600_000, jti)))
}

/// Polls of visitors who have joined and wait.
async fn polls(public: &str) -> Result<Requests> {
    let client = Client::new(8);
    let mut tickets = vec![];
    for number in 0..VISITORS {
        let (key, from) = (format!("join-{number}"), format!("10.0.0.{number}"));
        let headers = [("idempotency-key", key.as_str()), ("x-forwarded-for", &from)];
        let url = format!("http://{public}/_stanchion/{SALE}/join");
        let answer = client.post_json(&url, &headers, &serde_json::json!({})).await?;
        let body: Value = answer.json()?;
        let ticket = body["ticket"].as_str().with_context(|| format!("join: {body}"))?;
        tickets.push(ticket.to_owned());
    }
    let host = public.to_owned();
    Ok(Arc::new(move |number| {
        let visitor = usize::try_from(number % VISITORS).unwrap_or_default();
        format!(
            "GET /_stanchion/{SALE}/status HTTP/1.1\r\nhost: {host}\r\n\
             x-forwarded-for: 10.0.0.{visitor}\r\nstanchion-ticket: {}\r\n\r\n",
            tickets[visitor]
        )
        .into_bytes()
    }))
}

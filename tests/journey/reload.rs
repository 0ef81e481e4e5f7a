//! The settings file of nodes that run: nothing changes that was not changed, what may not change
//! is named, and what was changed by other means is kept.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use stanchion::domain::id::SaleId;
use stanchion::domain::rate::Rate;
use stanchion::domain::sale::Control;
use stanchion::lab::rig::{Client, ConfigFile, Layout, Node, SalePlan};
use stanchion::store::postgres::{Database, Options};

use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, client, now_ms};

const ONE: Layout = Layout { gateways: 1, cores: 1 };
const NO_SHOP: &str = "http://127.0.0.1:9";
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

fn config(plan: &SalePlan) -> ConfigFile {
    let mut config = ConfigFile::new(NO_SHOP, std::slice::from_ref(plan)).unwrap();
    config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
    config
}

async fn until<F: Future<Output = bool>>(what: &str, wanted: impl Fn() -> F) {
    let since = Instant::now();
    while !wanted().await {
        assert!(since.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(POLL).await;
    }
}

async fn metric(client: &Client, node: &Node, name: &str) -> String {
    let url = format!("{}/metrics", node.url("ops").unwrap());
    let metrics = client.get(&url, &[]).await.unwrap().text();
    let start = format!("stanchion_{name} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&start));
    value.unwrap_or_else(|| panic!("no {name} in\n{metrics}")).to_owned()
}

async fn status(client: &Client, gateway: &str, sale: &str) -> Value {
    let url = format!("{gateway}/_stanchion/{sale}/status");
    let answer = client.get(&url, &[("x-forwarded-for", "192.0.2.1")]).await.unwrap();
    answer.json().unwrap()
}

/// How often a node has said this.
fn said(ground: &Ground, node: &str, words: &str) -> usize {
    let log = std::fs::read_to_string(ground.folder.join(node)).unwrap_or_default();
    log.lines().filter(|line| line.contains(words)).count()
}

/// The record in force, as the core keeps it.
async fn record(ground: &Ground, sale: &str) -> Control {
    let database = Database::open(&ground.database_url, Options::default()).await.unwrap();
    database.control(&SaleId::parse(sale).unwrap()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_69_and_wr_70_a_file_that_says_the_same_changes_nobodys_place_and_no_record() {
    let ground = Ground::new("same");
    let plan = ground.sale_opening_in(600_000, 50);
    let house = ground.install(ONE, config(&plan));
    let (client, gateway) = (client(), house.gateways[0].url("public").unwrap());
    let before = Shopper::join(&client, &gateway, &plan.id, 1).await;
    let asked = before.status().await;
    let as_kept = record(&ground, &plan.id).await;

    let file = house.config_file("gateway", 0);
    let text = std::fs::read_to_string(&file).unwrap();
    let node = &house.gateways[0];
    let read_again = async |text: &str| {
        let before = said(&ground, "gateway-0.log", "settings: no change");
        std::fs::write(&file, text).unwrap();
        node.signal(Signal::SIGHUP).unwrap();
        until("a reload", async || said(&ground, "gateway-0.log", "settings: no change") > before)
            .await;
    };
    for reload in 0..100 {
        // The same bytes again, and every tenth time another comment.
        read_again(&format!("# look {}\n{text}", reload / 10)).await;
    }
    // Then its tables in another order.
    let (head, tail) = text.split_at(text.find("[[sale]]").unwrap());
    read_again(&format!("{tail}\n# the rest\n{head}")).await;
    until("a good file", async || {
        metric(&client, node, "config_last_reload_successful").await == "1"
    })
    .await;

    assert_eq!(said(&ground, "gateway-0.log", "settings changed"), 0);
    assert_eq!(said(&ground, "gateway-0.log", "read only at the start"), 0);
    assert_eq!(record(&ground, &plan.id).await, as_kept, "the record was written");
    let again = before.status().await;
    for key in ["place", "eta_seconds", "run", "epoch", "rate", "opens_at"] {
        assert_eq!(again[key], asked[key], "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_adopts_the_record_and_says_where_the_file_differs() {
    let ground = Ground::new("adopt");
    let plan = ground.sale_opening_in(600_000, 50);
    let mut house = ground.install(ONE, config(&plan));
    let client = client();
    house.reconfigure("sale.0.rate", "37/s").unwrap();
    let gateway = house.gateways[0].url("public").unwrap();
    until("the rate", async || status(&client, &gateway, &plan.id).await["rate"] == 37.0).await;
    // Every node forgets, and the file says again what it said at first.
    house.gateways[0].stop().unwrap();
    house.cores[0].stop().unwrap();
    house.set("sale.0.rate", "100/s").unwrap();

    house.replace_core(0).unwrap();
    house.replace_gateway(0).unwrap();

    let gateway = house.gateways[0].url("public").unwrap();
    for (node, log) in [(&house.gateways[0], "gateway-0.log"), (&house.cores[0], "core-0.log")] {
        until("what differs", async || metric(&client, node, "config_keys_differing").await == "1")
            .await;
        let words = format!("{} rate: file 100/s, in force 37/s", plan.id);
        assert_eq!(said(&ground, log, &words), 1, "{}", node.said());
    }
    assert_eq!(status(&client, &gateway, &plan.id).await["rate"], 37.0, "the record is kept");
    // Only what changes in the file from here on is published.
    house.reconfigure("sale.0.burst", 3).unwrap();
    until("the burst", async || record(&ground, &plan.id).await.burst == 3).await;
    assert_eq!(record(&ground, &plan.id).await.rate, Rate::whole(37));
}

#[tokio::test(flavor = "multi_thread")]
async fn times_follow_the_file_until_the_draw_and_are_refused_by_name_after_it() {
    let ground = Ground::new("times");
    let plan = ground.sale_opening_in(600_000, 50);
    let mut house = ground.install(ONE, config(&plan));
    let (client, gateway) = (client(), house.gateways[0].url("public").unwrap());
    let time = |ms: u64| {
        jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap().to_string()
    };

    house.reconfigure("sale.0.opens", time(now_ms() + 1_500)).unwrap();
    until("the draw", async || status(&client, &gateway, &plan.id).await["phase"] == "open").await;

    let late = time(now_ms() + 500_000);
    house.reconfigure("sale.0.opens", late).unwrap();
    house.reconfigure("sale.0.sku.0.units", 70).unwrap();
    house.reconfigure("sale.0.hold", "7m").unwrap();
    for node in house.gateways.iter().chain(&house.cores) {
        until("the refusals", async || metric(&client, node, "config_keys_refused").await != "0")
            .await;
        until("the wait", async || metric(&client, node, "config_keys_waiting").await != "0").await;
    }
    for words in
        [format!("{} opens", plan.id), "sale[0].sku[0].units".to_owned(), "sale[0].hold".to_owned()]
    {
        until("a name", async || said(&ground, "core-0.log", &words) > 0).await;
    }
    assert_eq!(status(&client, &gateway, &plan.id).await["phase"], "open");
    let url = format!("{}/v1/stock", house.cores[0].url("core").unwrap());
    let key = format!("Bearer {}", house.secrets.core_key);
    let stock: Value = client.get(&url, &[("authorization", &key)]).await.unwrap().json().unwrap();
    assert_eq!(stock["skus"][0]["loaded"], 50, "{stock}");
}

#[tokio::test(flavor = "multi_thread")]
async fn networks_and_origins_of_a_node_follow_the_file() {
    let ground = Ground::new("hot");
    let plan = ground.sale_opening_in(600_000, 50);
    let mut house = ground.install(ONE, config(&plan));
    let (client, gateway) = (client(), house.gateways[0].url("public").unwrap());
    let url = format!("{gateway}/_stanchion/{}/status", plan.id);
    let origin = "https://elsewhere.example";
    let shared = async || {
        let answer = client.get(&url, &[("origin", origin)]).await.unwrap();
        answer.header("access-control-allow-origin") == origin
    };
    let secure = async || {
        let url = format!("{gateway}/_stanchion/{}/join", plan.id);
        let headers = [("x-forwarded-proto", "https"), ("idempotency-key", "one")];
        let answer = client.post_json(&url, &headers, &json!({})).await.unwrap();
        assert!(answer.status.is_success(), "{}", answer.text());
        answer.header("set-cookie").contains("Secure")
    };
    assert!(!shared().await);
    assert!(secure().await, "the proxy is believed");

    house.reconfigure("public.cors_origins", vec![origin]).unwrap();
    house.reconfigure("public.trusted_proxies", vec!["192.0.2.0/24"]).unwrap();

    until("the origin", shared).await;
    until("the network", async || !secure().await).await;
}

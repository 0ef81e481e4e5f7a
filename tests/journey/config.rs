//! The settings file: what is refused, what follows while a sale runs, and readiness.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use serde_json::Value;
use stanchion::lab::rig::{Client, ConfigFile, Installation, Layout, Node, SalePlan};
use stanchion::servers::PrivateStores;

use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, client, executable, now_ms, quiet_shop};

const PAIR: Layout = Layout { gateways: 2, cores: 1 };
/// What a change in the file may take to be seen on every node.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

fn config(plan: &SalePlan) -> ConfigFile {
    let mut config = ConfigFile::new(quiet_shop(), std::slice::from_ref(plan)).unwrap();
    config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
    config
}

fn urls(nodes: &[Node], listener: &str) -> Vec<String> {
    nodes.iter().map(|node| node.url(listener).unwrap()).collect()
}

/// How long it took until `wanted` held.
async fn until<F: Future<Output = bool>>(wanted: impl Fn() -> F) -> Duration {
    let since = Instant::now();
    while !wanted().await {
        assert!(since.elapsed() < PATIENCE, "waited in vain");
        tokio::time::sleep(POLL).await;
    }
    since.elapsed()
}

/// Whether every gateway's status has this value.
async fn all_say(
    client: &Client,
    gateways: &[String],
    sale: &str,
    key: &str,
    value: Value,
) -> bool {
    let said = gateways.iter().map(async |gateway| {
        let url = format!("{gateway}/_stanchion/{sale}/status");
        let answer = client.get(&url, &[("x-forwarded-for", "192.0.2.1")]).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json::<Value>().unwrap()[key] == value
    });
    join_all(said).await.into_iter().all(|same| same)
}

/// Claims as an honest script does: again when told to.
async fn claimed(mut shopper: Shopper) -> u64 {
    let since = Instant::now();
    loop {
        let answer = shopper.claim().await;
        if answer.status == 200 {
            return slot(&shopper.admission);
        }
        assert!(since.elapsed() < PATIENCE, "{} {}", answer.status, answer.text());
        let told = answer.json::<Value>().unwrap()["retry_after_ms"].as_u64();
        tokio::time::sleep(Duration::from_millis(told.unwrap_or(500).min(500))).await;
    }
}

/// The meter slot that an admission was signed at.
fn slot(admission: &str) -> u64 {
    let claims = admission.split('.').nth(1).unwrap();
    let claims: Value =
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    claims["slot"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_changed_in_the_file_under_load_is_followed_on_both_gateways_within_a_second() {
    let ground = Ground::new("rate");
    let mut plan = ground.sale_opening_in(4_000, 500);
    plan.rate = "10/s".into();
    let mut house = ground.install(PAIR, config(&plan));
    let (client, gateways) = (client(), urls(&house.gateways, "public"));
    let crowd = Shopper::crowd(&client, &gateways, &plan.id, 160).await;
    let claims = crowd.into_iter().map(|shopper| tokio::spawn(claimed(shopper)));
    let claims: Vec<_> = claims.collect();
    tokio::time::sleep(Duration::from_millis(plan.opens_ms.saturating_sub(now_ms()) + 2_500)).await;

    let changed_ms = now_ms();
    house.reconfigure("sale.0.rate", "50/s").unwrap();

    let took = until(|| all_say(&client, &gateways, &plan.id, "rate", 50.0.into())).await;
    assert!(took < FOLLOWED_WITHIN, "it took {took:?}");
    let mut slots: Vec<u64> = Vec::new();
    for claim in claims {
        slots.push(claim.await.unwrap());
    }
    slots.sort_unstable();
    let between = |from_ms: u64, to_ms: u64| {
        slots.iter().filter(|slot| (from_ms..to_ms).contains(slot)).count()
    };
    let before = between(changed_ms - 1_000, changed_ms);
    assert!((9..=11).contains(&before), "{before} in the second before the change");
    let after = between(changed_ms + 1_000, changed_ms + 2_000);
    assert!((49..=51).contains(&after), "{after} in the second after the next");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_in_the_file_holds_both_gateways_and_its_end_lets_them_go_on() {
    let ground = Ground::new("pause");
    let plan = ground.sale_opening_in(500, 50);
    let mut house = ground.install(PAIR, config(&plan));
    let (client, gateways) = (client(), urls(&house.gateways, "public"));
    until(|| all_say(&client, &gateways, &plan.id, "phase", "open".into())).await;
    until(|| all_say(&client, &gateways, &plan.id, "paused", false.into())).await;

    house.reconfigure("sale.0.paused", true).unwrap();

    let took = until(|| all_say(&client, &gateways, &plan.id, "paused", true.into())).await;
    assert!(took < FOLLOWED_WITHIN, "it took {took:?}");
    let mut late = Shopper::join(&client, &gateways[0], &plan.id, 1).await;
    assert_ne!(late.claim().await.status, 200, "admitted while paused");

    house.reconfigure("sale.0.paused", false).unwrap();
    late.admitted().await;
}

async fn reload_succeeded(client: &Client, node: &Node) -> bool {
    let url = format!("{}/metrics", node.url("ops").unwrap());
    let metrics = client.get(&url, &[]).await.unwrap().text();
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("stanchion_config_last_reload_successful "));
    line.unwrap_or_else(|| panic!("no such metric in\n{metrics}")) == "1"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_keeps_the_old_settings_and_says_so() {
    let ground = Ground::new("broken");
    let plan = ground.sale_opening_in(600_000, 50);
    let mut house = ground.install(PAIR, config(&plan));
    let (client, gateways) = (client(), urls(&house.gateways, "public"));
    let reloads = async |house: &Installation, good: bool| {
        for node in house.gateways.iter().chain(&house.cores) {
            until(async || reload_succeeded(&client, node).await == good).await;
        }
    };
    reloads(&house, true).await;

    house.reconfigure("sale.0.rate", "fast").unwrap();
    reloads(&house, false).await;
    // Broken throughout: first both, then the burst alone.
    house.reconfigure("sale.0.burst", 0).unwrap();
    house.reconfigure("sale.0.rate", "50/s").unwrap();
    house.reconfigure("sale.0.paused", true).unwrap();
    for node in house.gateways.iter().chain(&house.cores) {
        until(async || node.said().contains("sale[0].burst: must be at least 1")).await;
    }
    reloads(&house, false).await;
    assert!(all_say(&client, &gateways, &plan.id, "rate", 100.0.into()).await);
    assert!(all_say(&client, &gateways, &plan.id, "paused", false.into()).await);

    house.reconfigure("sale.0.burst", 1).unwrap();
    reloads(&house, true).await;
    until(|| all_say(&client, &gateways, &plan.id, "paused", true.into())).await;
}

async fn ready(client: &Client, node: &Node) -> (u16, Value) {
    let url = format!("{}/readyz", node.url("ops").unwrap());
    let answer = client.get(&url, &[]).await.unwrap();
    (answer.status.as_u16(), answer.json().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_what_a_role_needs_and_lists_the_rest() {
    let ground = Ground::new("ready");
    let stores = PrivateStores::start().unwrap();
    let plan = ground.sale_opening_in(600_000, 50);
    let urls = (stores.database_url(), stores.redis_url());
    let layout = Layout { gateways: 1, cores: 1 };
    let mut config = config(&plan);
    config.set("shop.origins", vec!["http://127.0.0.1:9"]).unwrap();
    let house = Installation::start(executable(), &ground.folder, urls, layout, config).unwrap();
    let client = client();
    let (gateway, core) = (&house.gateways[0], &house.cores[0]);
    let becomes = async |node: &Node, status: u16| {
        until(async || ready(&client, node).await.0 == status).await;
    };
    becomes(gateway, 200).await;
    becomes(core, 200).await;
    let (_, said) = ready(&client, gateway).await;
    assert_eq!(said["dependencies"]["shop"]["ok"], false, "{said}");
    assert_eq!(said["dependencies"]["core"]["ok"], true, "{said}");

    stores.redis().kill().unwrap();
    becomes(gateway, 503).await;
    assert_eq!(ready(&client, core).await.0, 200, "the core works without the gate");
    stores.redis().restart().unwrap();
    becomes(gateway, 200).await;

    stores.postgres().kill().unwrap();
    becomes(core, 503).await;
    assert_eq!(ready(&client, gateway).await.0, 200, "a gateway does not need Postgres");
    stores.postgres().restart().unwrap();
    becomes(core, 200).await;
}

/// `serve` with this file in the environment of an operator who has forgotten nothing.
fn serve(file: &Path, ground: &Ground) -> Command {
    let mut command = Command::new(executable());
    command.args(["serve", "-c"]).arg(file);
    command
        .env("STANCHION_CORE_KEY", "core-key")
        .env("STANCHION_OPS_KEY", "ops-key")
        .env("REDIS_URL", &ground.redis_url)
        .env("DATABASE_URL", &ground.database_url);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_is_all_roles_makes_its_own_keys_and_stops_softly() {
    let ground = Ground::new("all");
    let plan = ground.sale_opening_in(600_000, 50);
    let file = ground.folder.join("all.toml");
    let keys = ground.folder.join("fresh-keys");
    let mut config = config(&plan);
    config.set("keys.dir", keys.to_str().unwrap()).unwrap();
    config.write(&file).unwrap();
    let command = || serve(&file, &ground);

    let mut node = Node::start(command(), &ground.folder.join("all.log")).unwrap();

    let client = client();
    until(async || ready(&client, &node).await.0 == 200).await;
    let (_, said) = ready(&client, &node).await;
    let named: Vec<_> = said["dependencies"].as_object().unwrap().keys().collect();
    assert_eq!(named, ["core", "postgres", "redis", "shop"]);
    Shopper::join(&client, &node.url("public").unwrap(), &plan.id, 1).await;
    assert!(node.stop().unwrap().success(), "{}", node.said());

    let made = std::fs::read_dir(&keys).unwrap().count();
    let mut again = Node::start(command(), &ground.folder.join("again.log")).unwrap();
    assert_eq!(std::fs::read_dir(&keys).unwrap().count(), made, "keys were made twice");
    assert!(again.stop().unwrap().success());
}

#[test]
fn a_node_of_one_role_makes_no_keys_of_its_own_and_a_missing_secret_is_named() {
    let ground = Ground::new("refused");
    let plan = ground.sale_opening_in(600_000, 50);
    let file = ground.folder.join("refused.toml");
    let mut config = config(&plan);
    config.set("keys.dir", ground.folder.join("no-keys").to_str().unwrap()).unwrap();
    config.write(&file).unwrap();

    let out = serve(&file, &ground).args(["--role", "core"]).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("stanchion keys new"), "{said}");

    let out = serve(&file, &ground).env_remove("STANCHION_CORE_KEY").output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(78), "{said}");
    assert!(said.contains("core.key_env: the environment variable STANCHION_CORE_KEY"), "{said}");
}

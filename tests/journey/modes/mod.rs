//! The program on a single Redis, on a primary with Sentinels, and on a cluster: the same journey.

mod cluster;
mod evicting;
mod sentinel;
mod single;

use std::ops::Range;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;
use stanchion::lab::rig::{Client, ConfigFile, Installation, Layout, SalePlan};

use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, client, executable, quiet_shop};

const PAIR: Layout = Layout { gateways: 2, cores: 2 };

/// Two gateways and two cores on a Redis of some mode.
struct House {
    installation: Installation,
    client: Client,
    sale: String,
    sku: String,
}

fn plan(ground: &Ground) -> SalePlan {
    let mut plan = ground.sale_opening_in(4_000, 40);
    plan.rate = "50/s".into();
    plan.burst = 5;
    plan
}

fn config(plan: &SalePlan, mode: &str, master: &str) -> ConfigFile {
    let mut config = ConfigFile::new(quiet_shop(), std::slice::from_ref(plan)).unwrap();
    config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
    // More are let in than there are units.
    config.set("sale.0.stock_aware", false).unwrap();
    config.set("redis.mode", mode).unwrap();
    config.set("redis.master", master).unwrap();
    for limit in ["per_ip", "per_account", "per_admission", "poll"] {
        config.set(&format!("limits.{limit}.rate"), "10000/s").unwrap();
        config.set(&format!("limits.{limit}.burst"), 10_000).unwrap();
    }
    config
}

impl House {
    fn start(ground: &Ground, mode: &str, master: &str, redis_urls: &str) -> Self {
        let plan = plan(ground);
        let stores = (ground.database_url.clone(), redis_urls.to_owned());
        let config = config(&plan, mode, master);
        let installation = Installation::start(executable(), &ground.folder, stores, PAIR, config);
        let installation = installation.unwrap_or_else(|error| panic!("{error:#}"));
        let sku = plan.skus[0].0.clone();
        Self { installation, client: client(), sale: plan.id, sku }
    }

    async fn crowd(&self, numbers: Range<u32>) -> Vec<Shopper> {
        let gateways: Vec<_> =
            self.installation.gateways.iter().map(|node| node.url("public").unwrap()).collect();
        let joins = numbers.map(|number| {
            let gateway = &gateways[number as usize % gateways.len()];
            Shopper::join(&self.client, gateway, &self.sale, number)
        });
        join_all(joins).await
    }

    /// The same units are held as were granted, and the audit finds nothing.
    async fn sold(&self, units: usize) {
        let core = self.installation.cores[0].url("core").unwrap();
        let bearer = format!("Bearer {}", self.installation.secrets.core_key);
        let auth = [("authorization", bearer.as_str())];
        let audit = self.client.get(&format!("{core}/v1/audit"), &auth).await.unwrap();
        assert_eq!(audit.json::<Value>().unwrap()["rows"], serde_json::json!([]));
        let url = format!("{core}/v1/stock/{}", self.sku);
        let stock: Value = self.client.get(&url, &auth).await.unwrap().json().unwrap();
        assert_eq!((&stock["held"], &stock["available"]), (&units.into(), &(40 - units).into()));
    }

    /// Orders one unit of those that are there.
    async fn buy(&self, buyer: &Shopper, key: &str) {
        assert!(self.try_to_buy(buyer, key).await, "sold out too early");
    }

    /// Orders one unit; who is told to come back comes back. Whether there was one.
    async fn try_to_buy(&self, buyer: &Shopper, key: &str) -> bool {
        let since = Instant::now();
        loop {
            let answer = buyer.reserve(&self.sku, 1, key).await;
            match answer.status.as_u16() {
                200 | 201 => return true,
                409 => return false,
                503 => {}
                other => panic!("{other}: {}", answer.text()),
            }
            assert!(since.elapsed() < Duration::from_secs(30), "never sold: {}", answer.text());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Joins, is drawn, claims, and reserves; in between `strikes`, and nobody loses a place.
    async fn journey(&self, strikes: impl FnOnce()) {
        let crowd = self.crowd(0..30).await;
        let (first, second) = crowd.split_at(10);
        let first = join_all(first.iter().cloned().map(Shopper::admitted)).await;
        join_all(first.iter().map(|buyer| self.buy(buyer, "first"))).await;
        let before = positions(second).await;

        tokio::task::block_in_place(strikes);

        let newcomers = self.newcomers().await;
        assert_eq!(positions(second).await, before, "a place was lost");
        let last = before.iter().max().unwrap();
        assert!(positions(&newcomers).await.iter().all(|new| new > last), "a newcomer jumped");
        let second = join_all(second.iter().cloned().map(Shopper::admitted)).await;
        join_all(second.iter().map(|buyer| self.buy(buyer, "second"))).await;
        // A retry of what was sold before is that same order.
        join_all(first.iter().map(|buyer| self.buy(buyer, "first"))).await;
        self.sold(30).await;
    }

    /// Latecomers, who come back until they are taken.
    async fn newcomers(&self) -> Vec<Shopper> {
        let gateways: Vec<_> =
            self.installation.gateways.iter().map(|node| node.url("public").unwrap()).collect();
        let since = Instant::now();
        let mut all = Vec::new();
        while all.len() < 5 {
            let number = 100 + u32::try_from(all.len()).unwrap();
            let gateway = &gateways[all.len() % gateways.len()];
            match Shopper::try_to_join(&self.client, gateway, &self.sale, number).await {
                Ok(shopper) => all.push(shopper),
                Err(answer) => {
                    assert_eq!(answer.status, 503, "{}", answer.text());
                    assert!(since.elapsed() < Duration::from_secs(30), "{}", answer.text());
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        all
    }
}

/// Everybody's position; waits for the draw.
async fn positions(crowd: &[Shopper]) -> Vec<u64> {
    let since = Instant::now();
    loop {
        let all = join_all(crowd.iter().map(Shopper::status)).await;
        let found: Vec<_> = all.iter().filter_map(|it| it["place"]["position"].as_u64()).collect();
        if found.len() == crowd.len() {
            return found;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "the draw did not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

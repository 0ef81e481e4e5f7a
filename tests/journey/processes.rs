//! Two gateways and two cores as processes of their own, on one Redis and one Postgres.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use stanchion::lab::rig::{Answer, Client, ConfigFile, Installation, Layout, SalePlan};
use stanchion::servers::PrivateStores;

use crate::fixture::shopper::{Shopper, text};
use crate::fixture::{Ground, client, executable, now_ms, quiet_shop};

const PAIR: Layout = Layout { gateways: 2, cores: 2 };

/// A running installation with its one SKU, and what is needed to talk to it.
struct House {
    installation: Installation,
    client: Client,
    sale: String,
    sku: String,
}

/// Limits out of the way: these journeys are about stock and places, and many more are let in than
/// there are units.
fn config(plan: &SalePlan) -> ConfigFile {
    let mut config = ConfigFile::new(quiet_shop(), std::slice::from_ref(plan)).unwrap();
    config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
    config.set("core.sweep_every", "1s").unwrap();
    config.set("sale.0.stock_aware", false).unwrap();
    for limit in ["per_ip", "per_account", "per_admission", "poll"] {
        config.set(&format!("limits.{limit}.rate"), "10000/s").unwrap();
        config.set(&format!("limits.{limit}.burst"), 10_000).unwrap();
    }
    config
}

impl House {
    fn start(ground: &Ground, plan: &SalePlan) -> Self {
        let installation = ground.install(PAIR, config(plan));
        Self::around(installation, plan)
    }

    fn around(installation: Installation, plan: &SalePlan) -> Self {
        let sku = plan.skus[0].0.clone();
        Self { installation, client: client(), sale: plan.id.clone(), sku }
    }

    fn gateways(&self) -> Vec<String> {
        self.installation.gateways.iter().map(|node| node.url("public").unwrap()).collect()
    }

    async fn crowd(&self, count: u32) -> Vec<Shopper> {
        Shopper::crowd(&self.client, &self.gateways(), &self.sale, count).await
    }

    async fn admitted(&self, count: u32) -> Vec<Shopper> {
        let crowd = self.crowd(count).await;
        join_all(crowd.into_iter().map(Shopper::admitted)).await
    }

    async fn confirm(&self, id: &str, payment_ref: &str) -> Answer {
        let core = self.installation.cores[1].url("core").unwrap();
        let bearer = format!("Bearer {}", self.installation.secrets.core_key);
        let url = format!("{core}/v1/reservations/{id}/confirm");
        let body = json!({ "payment_ref": payment_ref });
        self.client.post_json(&url, &[("authorization", &bearer)], &body).await.unwrap()
    }

    /// The SKU's stock as the core tells it, and that its audit finds nothing.
    async fn sound_stock(&self) -> Value {
        let core = self.installation.cores[0].url("core").unwrap();
        let bearer = format!("Bearer {}", self.installation.secrets.core_key);
        let auth = [("authorization", bearer.as_str())];
        let audit = self.client.get(&format!("{core}/v1/audit"), &auth).await.unwrap();
        assert_eq!(audit.json::<Value>().unwrap()["rows"], json!([]), "the audit found rows");
        let url = format!("{core}/v1/stock/{}", self.sku);
        let stock = self.client.get(&url, &auth).await.unwrap();
        assert_eq!(stock.status, 200, "{}", stock.text());
        stock.json().unwrap()
    }
}

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

fn fast(ground: &Ground, units: u64) -> SalePlan {
    let mut plan = ground.sale_opening_in(2_000, units);
    plan.rate = "2000/s".into();
    plan.burst = 50;
    plan
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_01_two_hundred_parallel_buyers_of_the_last_unit_get_one_hold() {
    let ground = Ground::new("lastunit");
    let house = House::start(&ground, &fast(&ground, 1));
    let buyers = house.admitted(200).await;

    let asks = (0u32..).zip(&buyers).map(|(number, buyer)| {
        let key = format!("order-{number}");
        let sku = house.sku.clone();
        async move { buyer.reserve(&sku, 1, &key).await }
    });
    let answers = join_all(asks).await;

    assert_eq!((count(&answers, 201), count(&answers, 409)), (1, 199));
    let stock = house.sound_stock().await;
    assert_eq!((&stock["available"], &stock["held"]), (&json!(0), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_17_twenty_parallel_clicks_of_one_key_make_one_order() {
    let ground = Ground::new("clicks");
    let house = House::start(&ground, &fast(&ground, 5));
    let buyer = house.admitted(1).await.remove(0);

    let clicks = (0..20).map(|click| {
        let mut buyer = buyer.clone();
        buyer.gateway = house.gateways().remove(click % 2);
        let sku = house.sku.clone();
        async move { buyer.reserve(&sku, 1, "the-key").await }
    });
    let answers = join_all(clicks).await;

    assert_eq!((count(&answers, 201), count(&answers, 200)), (1, 19));
    let bodies: Vec<Value> = answers.iter().map(|answer| answer.json().unwrap()).collect();
    assert!(bodies.iter().all(|body| body["id"] == bodies[0]["id"]));
    assert!(bodies.iter().all(|body| body["expires_at"] == bodies[0]["expires_at"]));
    assert_eq!(house.sound_stock().await["available"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_holds_unit_is_sold_to_another_and_a_confirmed_key_replays_for_ever() {
    let ground = Ground::new("lapse");
    let mut plan = fast(&ground, 1);
    plan.hold = "2s".into();
    let house = House::start(&ground, &plan);
    let buyers = house.admitted(2).await;
    assert_eq!(buyers[0].reserve(&house.sku, 1, "leaves").await.status, 201);

    let since = Instant::now();
    let sold = loop {
        let answer = buyers[1].reserve(&house.sku, 1, "stays").await;
        if answer.status == 201 {
            break answer.json::<Value>().unwrap();
        }
        assert_eq!(answer.json::<Value>().unwrap()["code"], "sold-out");
        assert!(since.elapsed() < Duration::from_secs(20), "the lapsed unit never came back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };

    let confirmed = house.confirm(&text(&sold, "id"), "psp-1").await;
    assert_eq!(confirmed.status, 200, "{}", confirmed.text());
    let gone = buyers[0].reserve(&house.sku, 1, "leaves").await.json::<Value>().unwrap();
    assert_eq!(gone["code"], "hold-expired");
    let ends: jiff::Timestamp = text(&sold, "expires_at").parse().unwrap();
    let ends_ms = u64::try_from(ends.as_millisecond()).unwrap();
    while now_ms() <= ends_ms {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let replay = buyers[1].reserve(&house.sku, 1, "stays").await;
    assert_eq!(replay.status, 200);
    assert_eq!(replay.header("idempotent-replayed"), "true");
    assert_eq!(replay.json::<Value>().unwrap()["status"], "confirmed");
    assert_eq!(house.sound_stock().await["confirmed"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_killed_and_restarted_loses_no_place() {
    let ground = Ground::new("killed");
    let mut plan = ground.sale_opening_in(3_000, 5);
    plan.rate = "1/s".into();
    let mut house = House::start(&ground, &plan);
    let crowd = house.crowd(40).await;

    house.installation.replace_gateway(0).unwrap();
    let entries = join_all(crowd.iter().map(Shopper::status)).await;
    let mut numbers: Vec<_> = entries.iter().map(|s| s["place"]["entry"].as_u64()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq((0..40).map(Some)), "every entry is still there");

    let before = positions_once_open(&crowd).await;
    house.installation.replace_gateway(0).unwrap();
    house.installation.replace_gateway(1).unwrap();
    assert_eq!(positions_once_open(&crowd).await, before);
}

/// Everybody's position; waits for the draw.
async fn positions_once_open(crowd: &[Shopper]) -> Vec<u64> {
    let since = Instant::now();
    loop {
        let all = join_all(crowd.iter().map(Shopper::status)).await;
        let positions: Vec<_> =
            all.iter().filter_map(|s| s["place"]["position"].as_u64()).collect();
        if positions.len() == crowd.len() {
            return positions;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "the draw did not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Buys as long as anything is to be had: one unit an order, asking again when told to.
async fn buy(house: &House, buyer: &Shopper, number: usize) -> usize {
    let since = Instant::now();
    loop {
        let answer = buyer.reserve(&house.sku, 1, &format!("order-{number}")).await;
        match answer.status.as_u16() {
            200 | 201 => return 1,
            409 => return 0,
            503 => {}
            other => panic!("{other}: {}", answer.text()),
        }
        assert!(since.elapsed() < Duration::from_secs(25), "never answered: {}", answer.text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_61_a_script_flush_and_a_redis_restart_in_mid_sale_do_not_oversell() {
    let stores = PrivateStores::start().unwrap();
    let ground = Ground::new("flush");
    let plan = fast(&ground, 60);
    let urls = (stores.create_database("flush").unwrap(), stores.redis_url());
    let folder = stores.workspace("flush").unwrap();
    let installation =
        Installation::start(executable(), &folder, urls, PAIR, config(&plan)).unwrap();
    let house = House::around(installation, &plan);
    let buyers = house.admitted(150).await;

    let sales = (0..).zip(&buyers).map(|(number, buyer)| buy(&house, buyer, number));
    let faults = async {
        let redis = redis::Client::open(stores.redis_url()).unwrap();
        let mut redis = redis.get_multiplexed_async_connection().await.unwrap();
        let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut redis).await.unwrap();
        tokio::task::block_in_place(|| stores.redis().kill().unwrap());
        tokio::task::block_in_place(|| stores.redis().restart().unwrap());
    };
    let (sold, ()) = futures_util::future::join(join_all(sales), faults).await;

    assert_eq!(sold.into_iter().sum::<usize>(), 60);
    let stock = house.sound_stock().await;
    assert_eq!((&stock["available"], &stock["held"]), (&json!(0), &json!(60)));
}

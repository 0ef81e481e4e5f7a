//! WR-73: Redis away, Postgres away, a core that takes ten seconds. The queue page stays up, who is
//! admitted goes on browsing, nothing passes ungated, nothing is oversold, and everybody can see it.

use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use stanchion::lab::client::Answer;
use stanchion::lab::fault_proxy::FaultProxy;
use stanchion::lab::rig::{Installation, Node};

use crate::control_ground::{Steered, config, until};
use crate::edge::origin::Origin;
use crate::faults::link_to;
use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, executable};

const UNITS: u64 = 4;
const BUYERS: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(40);
const SLOW: Duration = Duration::from_secs(10);

/// One gateway and one core, with a link of its own between any two.
struct House {
    steered: Steered,
    shop: Origin,
    redis: FaultProxy,
    postgres: FaultProxy,
    core: FaultProxy,
    buyers: Vec<Shopper>,
}

impl House {
    async fn start(ground: &Ground) -> Self {
        let mut plan = ground.sale_opening_in(1_000, UNITS);
        (plan.rate, plan.burst, plan.hold) = ("500/s".into(), 50, "10m".into());
        plan.skus[0].2 = 0;
        let shop = Origin::start();
        let redis = link_to(&ground.redis_url).await;
        let postgres = link_to(&ground.database_url).await;
        let mut config = config(&plan);
        config.set("shop.origins", vec![shop.url()]).unwrap();
        config.set("sale.0.stock_aware", false).unwrap();
        // No more than the buyers: nobody else walks in while the line is empty.
        config.set("sale.0.max_active", i64::from(BUYERS)).unwrap();
        config.set("core.sweep_every", "1h").unwrap();
        let urls = (postgres.url(&ground.database_url), redis.url(&ground.redis_url));
        let mut house =
            Installation::start_cores(executable(), &ground.folder, urls, 1, config).unwrap();
        let core = link_to(&house.cores[0].url("core").unwrap()).await;
        // A gateway beside no core of the installation keeps the address that it is told.
        let cores = std::mem::take(&mut house.cores);
        house.set("core.url", format!("http://{}", core.addr())).unwrap();
        house.add_gateways(1).unwrap();
        house.cores = cores;
        let steered = Steered::around(house, &plan);
        until("the sale opens", || steered.all_say("phase", json!("open"))).await;
        let crowd = Shopper::crowd(&steered.client, &steered.gateways(), &plan.id, BUYERS).await;
        let buyers = join_all(crowd.into_iter().map(Shopper::admitted)).await;
        Self { steered, shop, redis, postgres, core, buyers }
    }

    fn gateway(&self) -> &Node {
        &self.steered.house.gateways[0]
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let url = format!("{}{path}", self.steered.gateways()[0]);
        self.steered.client.get(&url, headers).await.unwrap()
    }

    /// What holds in every outage: `what` names it in paths that the shop writes down.
    async fn stands(&self, what: &str) {
        let page = [("accept", "text/html"), ("sec-fetch-mode", "navigate")];
        let queue = self.get(&format!("/checkout/stranger-{what}"), &page).await;
        assert_eq!(queue.status, 200, "{what}: {}", queue.text());
        assert_eq!(queue.header("stanchion-answer"), "queue", "{what}");
        let script = self.get(&format!("/checkout/stranger-{what}"), &[]).await;
        assert_eq!(script.status, 429, "{what}: {}", script.text());
        let forged = [("stanchion-admission", "eyJhbGciOiJub25lIn0.e30.")];
        assert_eq!(self.get(&format!("/checkout/stranger-{what}"), &forged).await.status, 429);
        for buyer in &self.buyers[..3] {
            let inside = self.get(&format!("/checkout/buyer-{what}"), &buyer.identity()).await;
            assert_eq!(inside.status, 200, "{what}: {}", inside.text());
        }
        assert_eq!(self.shop.heads(&format!("buyer-{what}")).len(), 3, "who is in goes on");
        assert_eq!(self.shop.heads(&format!("stranger-{what}")), Vec::<String>::new(), "{what}");
        let room = self.get(&format!("/_stanchion/{}", self.steered.sale), &page).await;
        assert_eq!(room.status, 200, "{what}");
    }

    /// Status, page, the operators' view and metrics say that nobody is let in.
    async fn says_paused(&self, what: &str) {
        until(what, || self.steered.all_say("paused", json!(true))).await;
        let page = [("accept", "text/html"), ("sec-fetch-mode", "navigate")];
        let shown = self.get("/checkout/look", &page).await.text();
        assert!(shown.contains("data-state=\"paused\""), "{what}: {shown}");
        let ops = self.gateway().url("ops").unwrap();
        let metrics = self.steered.client.get(&format!("{ops}/metrics"), &[]).await.unwrap();
        let line = format!("stanchion_room_paused{{sale=\"{}\"}} 1", self.steered.sale);
        assert!(metrics.text().contains(&line), "{what}: {}", metrics.text());
    }

    async fn goes_on(&self) {
        until("the line goes on", || self.steered.all_say("paused", json!(false))).await;
    }

    async fn reserve(&self, buyer: usize) -> Answer {
        self.buyers[buyer].reserve(&self.steered.sku, 1, &format!("order-{buyer}")).await
    }

    /// Orders until the answer is more than "try again with the same key"; whether it was granted.
    async fn insist(&self, buyer: usize) -> bool {
        let since = Instant::now();
        loop {
            let answer = self.reserve(buyer).await;
            match answer.status.as_u16() {
                200 | 201 => return true,
                409 => return false,
                503 => {}
                other => panic!("{other}: {}", answer.text()),
            }
            assert!(since.elapsed() < PATIENCE, "never answered: {}", answer.text());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The code and the cure of a 503.
fn put_off(answer: &Answer) -> String {
    let body: Value = answer.json().unwrap();
    assert_eq!(answer.status, 503, "{body}");
    assert!(body["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{body}");
    assert!(!answer.header("retry-after").is_empty());
    body["code"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_73_without_redis_postgres_or_a_quick_core_nothing_passes_and_nothing_is_oversold() {
    let ground = Ground::new("outages");
    let house = House::start(&ground).await;

    house.redis.refuse(true);
    house.redis.cut();
    house.says_paused("Redis is away").await;
    house.stands("redis").await;
    let client = &house.steered.client;
    let gateway = &house.steered.gateways()[0];
    let joined = Shopper::try_to_join(client, gateway, &house.steered.sale, 77).await;
    assert_eq!(put_off(&joined.err().unwrap()), "paused");
    // The ledger decides by itself, behind a bound.
    assert!(house.insist(0).await);
    house.redis.refuse(false);
    house.goes_on().await;

    house.postgres.refuse(true);
    house.postgres.cut();
    house.says_paused("Postgres is away").await;
    house.stands("postgres").await;
    assert_eq!(put_off(&house.reserve(1).await), "core-unavailable");
    house.postgres.refuse(false);
    house.goes_on().await;

    house.core.delay(SLOW);
    let slow = house.reserve(2);
    let meanwhile = async {
        house.says_paused("the core is slow").await;
        house.stands("slow").await;
        // And one that does not move at all: its figures grow old.
        house.steered.house.cores[0].signal(Signal::SIGSTOP).unwrap();
        house.says_paused("the core stands still").await;
        house.stands("still").await;
        house.steered.house.cores[0].signal(Signal::SIGCONT).unwrap();
        house.goes_on().await;
    };
    let (answer, ()) = join(slow, meanwhile).await;
    if answer.status != 201 {
        assert_eq!(put_off(&answer), "core-unavailable");
    }
    house.core.delay(Duration::ZERO);

    let all = join_all((0..BUYERS as usize).map(|buyer| house.insist(buyer))).await;
    let granted = all.into_iter().filter(|granted| *granted).count();
    assert_eq!(granted as u64, UNITS, "each unit once, whatever was away");
    let core = house.steered.house.cores[0].url("core").unwrap();
    let bearer = format!("Bearer {}", house.steered.house.secrets.core_key);
    let auth = [("authorization", bearer.as_str())];
    let audit = client.get(&format!("{core}/v1/audit"), &auth).await.unwrap();
    assert_eq!(audit.json::<Value>().unwrap()["rows"], json!([]));
    let stock = client.get(&format!("{core}/v1/stock/{}", house.steered.sku), &auth).await.unwrap();
    let stock: Value = stock.json().unwrap();
    assert_eq!((&stock["available"], &stock["held"]), (&json!(0), &json!(UNITS)), "{stock}");
}

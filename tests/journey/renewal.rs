//! An admission lasts as long as its visitor's hold, however the hold was made, and no longer.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stanchion::domain::admission::{Admission, Origin};
use stanchion::domain::id::SaleId;
use stanchion::lab::rig::{Answer, ConfigFile, Installation, Layout, SalePlan};
use stanchion::room::keys::Keys;

use crate::edge::origin::{Origin as Shop, header};
use crate::fixture::issuer::{Device, claims};
use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, client, now_ms};

const PATIENCE: Duration = Duration::from_secs(30);

/// One gateway and one core in front of a shop that writes down what reached it.
struct House {
    installation: Installation,
    shop: Shop,
    plan: SalePlan,
    keys: Keys,
}

impl House {
    fn start(ground: &Ground, plan: SalePlan, turn: impl FnOnce(&mut ConfigFile)) -> Self {
        let shop = Shop::start();
        let mut config = ConfigFile::new(&shop.url(), std::slice::from_ref(&plan)).unwrap();
        for limit in ["per_ip", "per_account", "per_admission", "poll"] {
            config.set(&format!("limits.{limit}.rate"), "10000/s").unwrap();
            config.set(&format!("limits.{limit}.burst"), 10_000).unwrap();
        }
        config.set("sale.0.token_ttl", "10s").unwrap();
        config.set("sale.0.hold_extension", "60s").unwrap();
        turn(&mut config);
        let installation = ground.install(Layout { gateways: 1, cores: 1 }, config);
        let keys = Keys::load(&installation.folder().join("keys")).unwrap();
        Self { installation, shop, plan, keys }
    }

    fn open(topic: &str) -> Self {
        let ground = Ground::new(topic);
        Self::start(&ground, ground.sale_opening_in(0, 10), |_| {})
    }

    fn gateway(&self) -> String {
        self.installation.gateways[0].url("public").unwrap()
    }

    /// An admission past the line whose time began at `from_ms` and ends ten seconds later.
    fn admission(&self, sub: &str, from_ms: u64) -> Admission {
        Admission {
            sale: SaleId::parse(&self.plan.id).unwrap(),
            sub: sub.into(),
            epoch: 1,
            account: None,
            origin: Origin::Pass,
            jti: format!("jti-of-{sub}"),
            iat: from_ms / 1000,
            exp: from_ms / 1000 + 10,
        }
    }

    fn device(&self, admission: &Admission) -> Device {
        let mut device = Device::new(&client(), &self.gateway(), &self.plan.id);
        device.admission = self.keys.mint_admission(admission);
        device
    }

    /// Takes a unit as the shop's back end does, past the gateway.
    async fn hold(&self, admission: &str, key: &str) -> Value {
        let since = Instant::now();
        loop {
            let url =
                format!("{}/v1/reservations", self.installation.cores[0].url("core").unwrap());
            let bearer = format!("Bearer {}", self.installation.secrets.core_key);
            let headers = [
                ("authorization", bearer.as_str()),
                ("stanchion-admission", admission),
                ("idempotency-key", key),
            ];
            let order = json!({"lines": [{"sku": self.plan.skus[0].0, "qty": 1}]});
            let answer = client().post_json(&url, &headers, &order).await.unwrap();
            if answer.status == 201 {
                return answer.json().unwrap();
            }
            assert!(since.elapsed() < PATIENCE, "no hold: {} {}", answer.status, answer.text());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn core(&self, path: &str, body: &Value) -> Answer {
        let url = format!("{}{path}", self.installation.cores[0].url("core").unwrap());
        let bearer = format!("Bearer {}", self.installation.secrets.core_key);
        client().post_json(&url, &[("authorization", &bearer)], body).await.unwrap()
    }
}

fn ends_ms(reservation: &Value) -> u64 {
    let at: jiff::Timestamp = reservation["expires_at"].as_str().unwrap().parse().unwrap();
    u64::try_from(at.as_millisecond()).unwrap()
}

/// The pass that an answer hands out in its cookie, if it does.
fn pass(answer: &Answer) -> Option<String> {
    let cookies = answer.headers.get_all("set-cookie").iter();
    let mut lines = cookies.filter_map(|line| line.to_str().ok());
    let line = lines.find(|line| line.starts_with("stanchion-pass-"))?;
    Some(line.split(['=', ';']).nth(1).unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_45_a_shopper_whose_admission_ran_out_stays_in_the_payment_by_the_hold() {
    let house = House::open("payment");
    let now_ms = now_ms();
    let fresh = house.keys.mint_admission(&house.admission("ann", now_ms));
    let reservation = house.hold(&fresh, "order-1").await;
    let old = house.admission("ann", now_ms - 25_000);
    let mut payer = house.device(&old);

    let arrived = payer.get("/checkout/pay").await;

    assert_eq!((arrived.status.as_u16(), arrived.text().as_str()), (200, "ok"));
    let renewed = pass(&arrived).expect("a renewed pass");
    assert_eq!(arrived.header("stanchion-admission"), renewed);
    assert_eq!(arrived.header("cache-control"), "private, no-store");
    let (before, after) = (claims(&payer.admission), claims(&renewed));
    assert_eq!(before["jti"], after["jti"]);
    assert_eq!(before["iat"], after["iat"]);
    assert_eq!(after["exp"], (ends_ms(&reservation) + 60_000) / 1000);
    let head = house.shop.heads("/checkout/pay").remove(0);
    assert_eq!(header(&head, "stanchion-admission"), Some(renewed.as_str()));

    // One visible extension, a moment later: the hold and the pass with it.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    payer.admission = renewed.clone();
    let id = reservation["id"].as_str().unwrap();
    let extended = payer.post(&format!("reservations/{id}/extend"), &[], &json!({})).await;
    let body: Value = extended.json().unwrap();
    assert_eq!(extended.status, 200, "{body}");
    assert!(ends_ms(&body) > ends_ms(&reservation), "{body}");
    let longer = pass(&extended).expect("a longer pass");
    assert_eq!(body["admission"], longer);
    assert_eq!(claims(&longer)["exp"], (ends_ms(&body) + 60_000) / 1000);

    // Nobody without a hold is let in by an admission that has run out.
    let refused = house.device(&house.admission("bob", now_ms - 25_000)).get("/checkout/pay").await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert_eq!(pass(&refused), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_45_the_order_is_sent_as_the_admission_runs_out_and_is_taken() {
    let house = House::open("justlate");
    let now_ms = now_ms();
    let warm = house.keys.mint_admission(&house.admission("warm", now_ms));
    house.hold(&warm, "warm").await;
    let order = json!({"lines": [{"sku": house.plan.skus[0].0, "qty": 1}]});
    let key = [("idempotency-key", "order-1")];

    // Ran out ten seconds ago: the core has a minute's grace for what was under way.
    let late = house.device(&house.admission("ann", now_ms - 20_000));
    let taken = late.post("reservations", &key, &order).await;
    assert_eq!(taken.status, 201, "{}", taken.text());
    let body: Value = taken.json().unwrap();
    let renewed = pass(&taken).expect("a pass as long as the hold");
    assert_eq!(body["admission"], renewed);
    assert_eq!(claims(&renewed)["exp"], (ends_ms(&body) + 60_000) / 1000);
    let mut payer = late.clone();
    payer.admission = renewed;
    assert_eq!(payer.get("/checkout/pay").await.status, 200);

    let too_late = house.device(&house.admission("bob", now_ms - 75_000));
    let refused = too_late.post("reservations", &key, &order).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_given_back_or_paid_for_is_seen_by_the_pass() {
    let house = House::open("settled");
    let now_ms = now_ms();
    let old = |sub: &str| house.device(&house.admission(sub, now_ms - 25_000));
    let mut ids = Vec::new();
    for sub in ["payer", "giver"] {
        let fresh = house.keys.mint_admission(&house.admission(sub, now_ms));
        ids.push(house.hold(&fresh, "order").await["id"].as_str().unwrap().to_owned());
    }
    let paid = format!("/v1/reservations/{}/confirm", ids[0]);
    assert_eq!(house.core(&paid, &json!({"payment_ref": "p-1"})).await.status, 200);
    let given = format!("/v1/reservations/{}/release", ids[1]);
    assert_eq!(house.core(&given, &json!({})).await.status, 200);

    assert_eq!(old("payer").get("/checkout/thanks").await.status, 200, "back from the provider");
    assert_eq!(old("giver").get("/checkout/thanks").await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_46_a_tab_that_polls_on_is_ended_by_the_hard_cap_though_it_holds_again() {
    let house = House::open("tab");
    // token_ttl 10 s + hold 8 s + extension 60 s + 60 s: the cap is a few seconds away.
    let began_ms = now_ms() - 134_000;
    let cap_ms = (began_ms / 1000) * 1000 + 138_000;
    let fresh = house.keys.mint_admission(&house.admission("tab", now_ms()));
    house.hold(&fresh, "order-1").await;
    let mut tab = house.device(&house.admission("tab", began_ms));

    // Background polls do not renew.
    let polled = house.gateway() + "/_stanchion/" + &house.plan.id + "/status";
    let status = tab.client.get(&polled, &tab.identity()).await.unwrap();
    assert_eq!((status.status.as_u16(), pass(&status)), (200, None));

    let arrived = tab.get("/checkout").await;
    if now_ms() < cap_ms {
        assert_eq!(arrived.status, 200, "{}", arrived.text());
        tab.admission = pass(&arrived).expect("renewed to the cap");
        assert_eq!(claims(&tab.admission)["exp"], cap_ms / 1000);
    }
    let since = Instant::now();
    while tab.get("/checkout").await.status == 200 {
        assert!(since.elapsed() < PATIENCE, "the hard cap does not end it");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // The hold is still there; the admission is not.
    assert!(now_ms() >= cap_ms);
    house.hold(&fresh, "order-2").await;
    assert_eq!(tab.get("/checkout").await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_33_whoever_holds_something_when_the_gate_arms_goes_on_and_new_ones_queue() {
    let ground = Ground::new("arming");
    let mut plan = ground.sale_opening_in(600_000, 10);
    plan.lobby_opens_ms = now_ms() + 8_000;
    let arms_ms = plan.lobby_opens_ms;
    let house = House::start(&ground, plan, |_| {});
    let began_ms = now_ms() - 25_000;
    let fresh = house.keys.mint_admission(&house.admission("staff", now_ms()));
    let holder = house.device(&house.admission("staff", began_ms));
    let stranger = Device::new(&client(), &house.gateway(), &house.plan.id);
    house.hold(&fresh, "order").await;
    if now_ms() + 1_000 < arms_ms {
        assert_eq!(stranger.get("/checkout").await.status, 200, "the gate is not armed");
    }

    let since = Instant::now();
    while stranger.get("/checkout").await.status == 200 {
        assert!(since.elapsed() < PATIENCE, "never armed");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert!(now_ms() + 50 >= arms_ms);
    assert_eq!(holder.get("/checkout/pay").await.status, 200);
    assert_eq!(stranger.get("/checkout/pay").await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_lost_the_pass_and_still_holds_something_claims_it_back() {
    let ground = Ground::new("claimback");
    let mut plan = ground.sale_opening_in(0, 10);
    plan.hold = "40s".into();
    let house = House::start(&ground, plan, |_| {});
    let mut shopper = Shopper::join(&client(), &house.gateway(), &house.plan.id, 1).await;
    shopper = shopper.admitted().await;
    let (first, holds) = (shopper.admission.clone(), "order");
    let reservation = house.hold(&first, holds).await;
    let mut idle = Shopper::join(&client(), &house.gateway(), &house.plan.id, 2).await;
    idle = idle.admitted().await;

    // Until both have run out.
    let ended_ms = claims(&idle.admission)["exp"].as_u64().unwrap() * 1000 + 2_500;
    tokio::time::sleep(Duration::from_millis(ended_ms.saturating_sub(now_ms()))).await;
    for one in [&mut shopper, &mut idle] {
        one.admission.clear();
    }

    let claimed = shopper.claim().await;
    assert_eq!(claimed.status, 200, "{}", claimed.text());
    let (before, after) = (claims(&first), claims(&shopper.admission));
    assert_eq!((&before["jti"], &before["slot"]), (&after["jti"], &after["slot"]));
    assert_eq!(after["exp"], (ends_ms(&reservation) + 60_000) / 1000);
    let missed = idle.claim().await;
    assert_eq!(missed.json::<Value>().unwrap()["code"], "missed");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_core_a_pass_that_ran_out_is_nothing_and_one_that_counts_goes_on() {
    let mut house = House::open("coreless");
    let now_ms = now_ms();
    let fresh = house.keys.mint_admission(&house.admission("ann", now_ms));
    house.hold(&fresh, "order").await;
    house.installation.cores[0].kill().unwrap();

    assert_eq!(house.device(&house.admission("ann", now_ms)).get("/checkout").await.status, 200);
    let name = format!("stanchion-pass-{}", house.plan.id);
    let old = house.keys.mint_admission(&house.admission("ann", now_ms - 25_000));
    let cookie = format!("{name}={old}");
    let headers = [("cookie", cookie.as_str()), ("accept", "text/html")];
    let page = client().get(&format!("{}/checkout", house.gateway()), &headers).await.unwrap();
    assert_eq!(page.header("stanchion-answer"), "queue");
    assert_eq!(pass(&page), None, "the cookie is kept for when the core is back");
}

//! One place per account, on any device; what happens to an anonymous place at sign-in.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use stanchion::lab::rig::{Client, ConfigFile, Installation, Layout};

use crate::fixture::issuer::{Device, Issuer, claims};
use crate::fixture::{Ground, client, quiet_shop};

const PATIENCE: Duration = Duration::from_secs(30);

/// Two gateways that believe the shop's signature.
struct House {
    installation: Installation,
    issuer: Issuer,
    client: Client,
    sale: String,
}

impl House {
    fn start(topic: &str, opens_in_ms: u64, turn: impl FnOnce(&mut ConfigFile)) -> Self {
        let ground = Ground::new(topic);
        let plan = ground.sale_opening_in(opens_in_ms, 10);
        let mut config = ConfigFile::new(quiet_shop(), &[plan]).unwrap();
        let issuer = Issuer::new();
        issuer.introduce(&ground.folder, &mut config);
        config.set("public.trusted_proxies", vec!["127.0.0.1/32"]).unwrap();
        for limit in ["per_ip", "per_account", "per_admission", "poll"] {
            config.set(&format!("limits.{limit}.rate"), "10000/s").unwrap();
            config.set(&format!("limits.{limit}.burst"), 10_000).unwrap();
        }
        turn(&mut config);
        let installation = ground.install(Layout { gateways: 2, cores: 1 }, config);
        Self { installation, issuer, client: client(), sale: ground.sale }
    }

    fn device(&self, gateway: usize) -> Device {
        let url = self.installation.gateways[gateway].url("public").unwrap();
        Device::new(&self.client, &url, &self.sale)
    }

    fn signed_in(&self, gateway: usize, account: &str) -> Device {
        let mut device = self.device(gateway);
        device.session = self.issuer.session(account);
        device
    }

    /// Waits until both gateways know the draw.
    async fn until_open(&self) {
        for gateway in 0..2 {
            let since = Instant::now();
            while self.device(gateway).status().await["phase"] != "open" {
                assert!(since.elapsed() < PATIENCE, "never open");
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        }
    }
}

fn account(ticket: &str) -> Value {
    claims(ticket)["acct"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_17_fifty_joins_of_one_account_on_every_device_are_one_entry() {
    let house = House::start("oneplace", 600_000, |_| {});
    let mut browser = house.signed_in(0, "ann");
    assert_eq!(browser.join("first").await["entry"], 0);
    let sub = claims(&browser.ticket)["sub"].clone();

    // Reloads with the ticket, private windows without it and with other keys, a phone elsewhere.
    let joins = (0..50).map(|i| {
        let mut device = match i % 3 {
            0 => browser.clone(),
            1 => house.signed_in(0, "ann"),
            _ => house.signed_in(1, "ann"),
        };
        async move {
            let place = device.join(&format!("join-{i}")).await;
            (place["entry"].clone(), claims(&device.ticket))
        }
    });
    for (entry, ticket) in join_all(joins).await {
        assert_eq!((entry, &ticket["sub"], &ticket["acct"]), (json!(0), &sub, &json!("ann")));
    }
    assert_eq!(house.signed_in(1, "bob").join("b").await["entry"], 1, "no number is missing");
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_17_two_devices_that_join_in_the_same_instant_get_one_place() {
    let house = House::start("race", 600_000, |_| {});
    house.signed_in(0, "warm").join("w").await;
    house.signed_in(1, "warm").join("w").await;
    for round in 0..20 {
        let name = format!("racer-{round}");
        let (mut phone, mut laptop) = (house.signed_in(0, &name), house.signed_in(1, &name));
        let (one, two) = tokio::join!(phone.join("phone"), laptop.join("laptop"));
        assert_eq!(one["entry"], two["entry"]);
        assert_eq!(one["entry"], round + 1, "one number for both");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_in_before_the_draw_ties_an_anonymous_place_unless_the_account_has_one() {
    let house = House::start("tie", 600_000, |_| {});
    let (mut browser, mut tablet) = (house.device(0), house.device(1));
    assert_eq!(browser.join("browser").await["entry"], 0);
    assert_eq!(tablet.join("tablet").await["entry"], 1);
    let copy = browser.clone();
    assert_eq!(account(&browser.ticket), Value::Null);

    browser.session = house.issuer.session("ann");
    assert_eq!(browser.join("browser").await["entry"], 0, "her place is hers now");
    assert_eq!(account(&browser.ticket), "ann");
    assert_eq!(house.signed_in(1, "ann").join("phone").await["entry"], 0);

    // The account has a place: that one is used and the tablet's is left.
    tablet.session = house.issuer.session("ann");
    assert_eq!(tablet.join("tablet").await["entry"], 0);
    assert_eq!(account(&tablet.ticket), "ann");

    // A copy of the ticket from before the tie makes no second account of the same place.
    let mut thief = copy;
    thief.session = house.issuer.session("bob");
    assert_eq!(thief.join("browser").await["entry"], 2);
    assert_eq!(account(&thief.ticket), "bob");
}

#[tokio::test(flavor = "multi_thread")]
async fn coming_back_from_signing_in_is_enough_to_tie_the_place() {
    let house = House::start("comeback", 600_000, |_| {});
    let page = format!("/_stanchion/{}", house.sale);
    let person = ("accept", "text/html");
    let name = format!("stanchion-ticket-{}", house.sale);
    // Of two who come back, the first ties her place; the second finds that the account has one.
    for (key, account) in [("first", "ann"), ("second", "ann"), ("third", "cid")] {
        let mut browser = house.device(0);
        browser.join(key).await;
        let headers = [browser.identity(), vec![person]].concat();
        let url = format!("{}{page}", browser.gateway);
        let anonymous = browser.client.get(&url, &headers).await.unwrap();
        assert!(!anonymous.headers.contains_key("set-cookie"));
        let session = house.issuer.session(account);
        let cookie = format!("{session}; {name}={}", browser.ticket);
        let headers = [("cookie", cookie.as_str()), person];
        for path in [page.as_str(), "/checkout"] {
            let url = format!("{}{path}", browser.gateway);
            let back = browser.client.get(&url, &headers).await.unwrap();
            let set = back.header("set-cookie");
            let token = set.strip_prefix(&format!("{name}=")).expect("a tied ticket");
            let told = claims(token.split(';').next().unwrap());
            let entry = if account == "ann" { 0 } else { 2 };
            assert_eq!((&told["acct"], &told["entry"]), (&json!(account), &json!(entry)));
        }
    }
    let mut nobody = house.signed_in(1, "dora");
    nobody.ticket.clear();
    let seen = nobody.get(&page).await;
    assert!(!seen.headers.contains_key("set-cookie"), "a page joins nobody");
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_in_after_the_draw_leaves_an_anonymous_place_as_it_is() {
    let house = House::start("tielate", 4_000, |_| {});
    let mut early = house.device(0);
    assert_eq!(early.join("early").await["entry"], 0);
    assert_eq!(house.signed_in(1, "ann").join("phone").await["entry"], 1);
    house.until_open().await;

    early.session = house.issuer.session("cid");
    assert_eq!(early.join("early").await["entry"], 0);
    assert_eq!(account(&early.ticket), Value::Null, "it goes on without the account");
    early.session = house.issuer.session("ann");
    assert_eq!(early.join("early").await["entry"], 1, "an account's own place comes first");
    assert_eq!(account(&early.ticket), "ann");
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_25_a_farm_gets_no_place_beyond_its_real_accounts() {
    let house = House::start("farm", 600_000, |config| {
        config.set("sale.0.require_account", true).unwrap();
        config.set("sale.0.places_per_ip", 0).unwrap();
    });
    house.signed_in(0, "first").join("f").await;

    let anonymous = (0..1_000).map(|i| {
        let mut device = house.device(i % 2);
        device.address = format!("192.0.2.{}", i % 20);
        async move { device.try_join(&format!("farm-{i}")).await }
    });
    for refused in join_all(anonymous).await {
        assert_eq!(refused.status, 401, "{}", refused.text());
        assert_eq!(refused.json::<Value>().unwrap()["code"], "sign-in-required");
    }
    let honest = (0..100).map(|i| {
        let mut device = house.signed_in(i % 2, &format!("honest-{i}"));
        async move { device.join("key").await["entry"].as_u64().unwrap() }
    });
    let bought = (0..100).map(|i| {
        let mut device = house.signed_in(i % 2, &format!("bought-{}", i % 5));
        device.address = format!("192.0.2.{}", i % 20);
        async move { device.join(&format!("again-{i}")).await["entry"].as_u64().unwrap() }
    });
    let (honest, bought) = tokio::join!(join_all(honest), join_all(bought));
    let count = |mut entries: Vec<u64>| {
        entries.sort_unstable();
        entries.dedup();
        entries.len()
    };
    assert_eq!((count(honest), count(bought)), (100, 5));
    assert_eq!(house.signed_in(0, "last").join("l").await["entry"], 106);
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_30_whoever_is_signed_in_loses_no_place_with_the_cookie() {
    let house = House::start("lost", 3_000, |config| {
        config.set("sale.0.rate", "0.2/s").unwrap();
    });
    let others = (0..20).map(|i| {
        let mut device = house.device(i % 2);
        async move { device.join(&format!("other-{i}")).await }
    });
    join_all(others).await;
    let mut ann = house.signed_in(0, "ann");
    ann.join("mine").await;
    house.until_open().await;
    let before = ann.status().await["place"].clone();

    let mut again = house.signed_in(1, "ann");
    again.join("another browser").await;
    let after = again.status().await["place"].clone();
    assert_eq!(before["position"], after["position"]);
    assert!(after["ahead"].as_u64() <= before["ahead"].as_u64(), "{before} {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_44_an_address_that_changes_has_no_effect_on_a_place() {
    let house = House::start("roaming", 600_000, |config| {
        config.set("sale.0.places_per_ip", 1).unwrap();
    });
    let mut phone = house.device(0);
    let place = phone.join("phone").await;
    for address in ["203.0.113.9", "2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "::ffff:198.51.100.7"]
    {
        address.clone_into(&mut phone.address);
        assert_eq!(phone.status().await["place"]["entry"], place["entry"]);
        assert_eq!(phone.join("phone").await["entry"], place["entry"], "{address}");
    }
    // The address of the first join has its one place still, the others have none.
    let mut neighbour = house.device(1);
    "203.0.113.9".clone_into(&mut neighbour.address);
    neighbour.join("neighbour").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn authorization_is_the_shops_and_says_nothing_to_us() {
    let house = House::start("bearer", 600_000, |config| {
        config.set("sale.0.require_account", true).unwrap();
    });
    house.signed_in(0, "warm").join("w").await;
    let session = house.issuer.session("ann");
    let bearer = format!("Bearer {}", session.trim_start_matches("session="));
    let device = house.device(0);
    let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k")];
    let refused = device.post("join", &headers, &json!({})).await;
    assert_eq!(refused.status, 401, "{}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shops_new_keys_are_taken_over_while_running_and_a_bad_file_keeps_the_old() {
    let house = House::start("rotation", 600_000, |config| {
        config.set("sale.0.require_account", true).unwrap();
    });
    house.signed_in(0, "ann").join("a").await;
    let file = house.installation.folder().join("jwks.json");
    std::fs::write(&file, "{").unwrap();
    let refused = Instant::now();
    while !house.installation.gateways[0].said().contains("the old keys stay") {
        assert!(refused.elapsed() < PATIENCE, "nothing is said of the bad file");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    house.signed_in(0, "bob").join("b").await;

    let successor = Issuer::new();
    successor.introduce(house.installation.folder(), &mut ConfigFile::parse("").unwrap());
    let (mut old, mut new) = (house.device(0), house.device(0));
    old.session = house.issuer.session("cid");
    new.session = successor.session("dora");
    let since = Instant::now();
    while new.try_join("d").await.status == 401 {
        assert!(since.elapsed() < PATIENCE, "the new key is never taken over");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(new.join("d").await["entry"], 2);
    assert_eq!(old.try_join("c").await.status, 401, "the old key is gone");
}

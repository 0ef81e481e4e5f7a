//! Joins by HTTP at a node that cannot write all of them down: each is told a turn of its own, and
//! a retry is the same join, by script and without.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;
use stanchion::domain::id::SaleId;
use stanchion::lab::client::Client;
use stanchion::lab::fault_proxy::FaultProxy;
use stanchion::lab::rig::{Installation, Layout};
use stanchion::store::redis::connect;
use stanchion::store::redis::room::RoomStore;

use crate::control_ground::{Steered, config, until};
use crate::faults::link_to;
use crate::fixture::browser::Browser;
use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, executable};

const PEOPLE: u32 = 300;
const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway that holds few joins, by a link of its own to Redis.
async fn crowded(ground: &Ground) -> (Steered, FaultProxy) {
    let plan = ground.sale_opening_in(600_000, 10);
    let link = link_to(&ground.redis_url).await;
    let mut config = config(&plan);
    config.set("limits.max_joins_waiting", 32).unwrap();
    let urls = (ground.database_url.clone(), link.url(&ground.redis_url));
    let layout = Layout { gateways: 1, cores: 1 };
    let house = Installation::start(executable(), &ground.folder, urls, layout, config).unwrap();
    let mut steered = Steered::around(house, &plan);
    steered.client = Client::new(PEOPLE as usize);
    let drawn = async || {
        let url = format!("{}/_stanchion/{}/draw", steered.gateways()[0], steered.sale);
        let draw: Value = steered.client.get(&url, &[]).await.unwrap().json().unwrap();
        draw["commitment"].as_str().is_some_and(|commitment| !commitment.is_empty())
    };
    until("the room is loaded", drawn).await;
    (steered, link)
}

/// Joins as a script does; how often it was told to come again.
async fn come(steered: &Steered, number: u32) -> (Shopper, usize) {
    let gateway = &steered.gateways()[0];
    for tries in 0.. {
        let refused =
            match Shopper::try_to_join(&steered.client, gateway, &steered.sale, number).await {
                Ok(shopper) => return (shopper, tries),
                Err(refused) => refused,
            };
        let body: Value = refused.json().unwrap();
        assert_eq!(refused.status, 503, "{body}");
        assert_eq!(refused.header("stanchion-answer"), "unavailable");
        let wait = body["retry_after_ms"].as_u64().unwrap();
        assert_eq!(refused.header("retry-after"), wait.div_ceil(1_000).to_string());
        if body["code"] == "overloaded" {
            assert!((500..=30_000).contains(&wait), "{body}");
        }
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
    unreachable!("it comes until it is in")
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_77_whoever_finds_no_room_is_told_when_and_gets_one_place_by_the_same_key() {
    let ground = Ground::new("doors");
    let (steered, link) = crowded(&ground).await;
    link.delay(Duration::from_millis(20));

    let came = join_all((0..PEOPLE).map(|number| come(&steered, number))).await;

    link.delay(Duration::ZERO);
    let told: usize = came.iter().map(|(_, tries)| tries).sum();
    assert!(told > 0, "nobody was refused");
    let statuses = join_all(came.iter().map(|(shopper, _)| shopper.status())).await;
    let mut entries: Vec<_> =
        statuses.iter().map(|status| status["place"]["entry"].as_u64().unwrap()).collect();
    entries.sort_unstable();
    assert!(entries.into_iter().eq(0..u64::from(PEOPLE)), "unique and without a gap");
    let ops = steered.house.gateways[0].url("ops").unwrap();
    let metrics = steered.client.get(&format!("{ops}/metrics"), &[]).await.unwrap().text();
    let name =
        format!("stanchion_room_joins_told_to_come_again_total{{sale=\"{}\"}} ", steered.sale);
    let counted = metrics.lines().find_map(|line| line.strip_prefix(name.as_str()));
    assert!(counted.is_some_and(|count| count.parse::<usize>().unwrap() > 0), "{metrics}");

    without_script(&ground, &steered, &link).await;
}

/// The page says that there was no room, comes again by itself, and its button is the same join.
async fn without_script(ground: &Ground, steered: &Steered, link: &FaultProxy) {
    let redis = connect(&ground.redis_url).unwrap();
    let room = RoomStore::new(redis, &SaleId::parse(&steered.sale).unwrap());
    let entries = async || room.look().await.unwrap().1.unwrap().counters.entries;
    let before = entries().await;
    let mut browser = Browser::new(&steered.client, &steered.gateways()[0]);
    browser.visit("/checkout/x?a=1").await;
    let key = join_key(&browser);

    link.freeze();
    browser.submit("/join", &[]).await;
    assert_eq!(browser.status, 503, "{}", browser.page);
    for part in [
        "Your place is kept; please try again",
        "http-equiv=\"refresh\"",
        "data-retry=\"",
        "url=/checkout/x?a=1",
    ] {
        assert!(browser.page.contains(part), "{part} is not in {}", browser.page);
    }
    assert_eq!(join_key(&browser), key, "the same join");
    // What was sent is done now that it comes through, and the retry finds it.
    link.thaw();
    let since = Instant::now();
    while !browser.page.contains("You are in the draw") {
        assert!(since.elapsed() < PATIENCE, "never in: {}", browser.page);
        assert_eq!(join_key(&browser), key, "the same join");
        tokio::time::sleep(Duration::from_millis(100)).await;
        browser.submit("/join", &[]).await;
    }
    assert_eq!(entries().await, before + 1, "one place");
}

fn join_key(browser: &Browser) -> String {
    let (_, rest) = browser.page.split_once("name=\"join_key\" value=\"").expect("a join form");
    rest.split('"').next().unwrap().to_owned()
}

//! Steering a sale that runs: every command acts on two gateways and the core within a second.

use std::time::Instant;

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};

use crate::control_ground::{Steered, done, refused, soon, until};
use crate::fixture::Ground;
use crate::fixture::shopper::Shopper;

/// A sale that opens at once.
fn open_now(topic: &str, rate: &str) -> (Ground, Steered) {
    let ground = Ground::new(topic);
    let mut plan = ground.sale_opening_in(300, 50);
    plan.rate = rate.into();
    let steered = Steered::start(&ground, &plan);
    (ground, steered)
}

async fn is_open(steered: &Steered) {
    until("the sale opens", || steered.all_say("phase", json!("open"))).await;
    until("the line moves", || steered.all_say("paused", json!(false))).await;
}

async fn state(shopper: &Shopper, gateway: &str) -> Value {
    let mut there = shopper.clone();
    there.gateway = gateway.to_owned();
    there.status().await["place"]["state"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_80_a_stop_voids_admissions_everywhere_within_a_second_and_all_claim_anew() {
    let (_ground, steered) = open_now("stop", "100/s");
    is_open(&steered).await;
    let crowd = Shopper::crowd(&steered.client, &steered.gateways(), &steered.sale, 6).await;
    let crowd = join_all(crowd.into_iter().map(Shopper::admitted)).await;
    assert_eq!(steered.order(&crowd[0], "before").await.status, 201);
    let positions = async |crowd: &[Shopper]| {
        let all = join_all(crowd.iter().map(Shopper::status)).await;
        all.iter().map(|status| status["place"]["position"].clone()).collect::<Vec<_>>()
    };
    let before = positions(&crowd).await;

    let since = Instant::now();
    let stopped = steered.act("stop", json!({})).await;
    assert_eq!((&stopped["paused"], &stopped["epoch"]), (&json!(true), &json!(2)));
    for gateway in steered.gateways() {
        let voided = async || {
            let states = join_all(crowd.iter().map(|shopper| state(shopper, &gateway))).await;
            states.iter().all(|state| *state != "admitted")
        };
        soon(since, "the stop reaches a gateway", voided).await;
    }
    let refuses = async || steered.order(&crowd[1], "after").await.status == 403;
    soon(since, "the stop reaches the core", refuses).await;
    for shopper in &crowd {
        assert_eq!(shopper.clone().claim().await.status, 202, "a claim waits");
    }

    let since = Instant::now();
    steered.act("resume", json!({})).await;
    let resumed = || steered.all_say("paused", json!(false));
    soon(since, "the resume reaches both gateways", resumed).await;
    let anew = join_all(crowd.iter().map(|shopper| {
        let mut shopper = shopper.clone();
        shopper.admission.clear();
        shopper.admitted()
    }));
    let anew = anew.await;
    assert_eq!(positions(&anew).await, before, "everybody kept their place");
    for (old, new) in crowd.iter().zip(&anew) {
        assert_ne!(old.admission, new.admission);
        assert_eq!(steered.order(old, "old").await.status, 403);
    }
    let again = steered.order(&anew[0], "before").await;
    assert_eq!(again.status, 200, "the same buyer as before: {}", again.text());
    assert_eq!(steered.order(&anew[1], "new").await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_pause_and_resume_act_on_both_gateways_within_a_second_from_any_node() {
    let (_ground, steered) = open_now("steer", "5/s");
    is_open(&steered).await;

    let since = Instant::now();
    let changed = done(&steered.put("rate", json!({"rate": "40/s", "burst": 2})).await);
    assert_eq!((&changed["rate"], &changed["burst"]), (&json!("40/s"), &json!(2)));
    soon(since, "the rate", || steered.all_say("rate", json!(40.0))).await;

    let path = format!("/v1/sales/{}/pause", steered.sale);
    let since = Instant::now();
    let core = &steered.house.cores[0];
    let paused = done(&steered.ops(core, Method::POST, &path, Value::Null).await);
    assert_eq!((&paused["paused"], &paused["version"]), (&json!(true), &json!(3)));
    soon(since, "the pause", || steered.all_say("paused", json!(true))).await;
    let mut late = Shopper::join(&steered.client, &steered.gateways()[1], &steered.sale, 1).await;
    assert_ne!(late.claim().await.status, 200, "admitted while paused");
    assert_eq!(steered.act("pause", json!({})).await["version"], 3, "nothing changes");

    steered.act("resume", json!({})).await;
    late.admitted().await;

    let nodes = steered.house.gateways.iter().chain(&steered.house.cores);
    for node in nodes {
        let agrees = async || {
            let seen = steered.seen_by(node).await;
            seen["control"]["version"] == 4 && seen["phase"] == "open"
        };
        until("every node tells the same", agrees).await;
        let seen = steered.seen_by(node).await;
        assert_eq!(seen["id"], json!(steered.sale));
        assert_eq!(seen["stop_reaches"], true);
        assert_eq!(seen["control"]["rate"], "40/s");
        assert_eq!(seen["line"]["joined"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_delayed_until_the_draw_and_not_after_and_closed_at_once() {
    let ground = Ground::new("delay");
    let plan = ground.sale_opening_in(600_000, 50);
    let steered = Steered::start(&ground, &plan);
    let at = |ms: u64| {
        jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap().to_string()
    };
    let moved = at(plan.opens_ms + 60_000);

    let since = Instant::now();
    let delayed = done(&steered.put("times", json!({"opens": moved})).await);
    assert_eq!(delayed["opens_ms"], plan.opens_ms + 60_000);
    let shown = async || {
        let seen = steered.seen_by(&steered.house.gateways[0]).await;
        seen["control"]["opens_ms"] == plan.opens_ms + 60_000
    };
    soon(since, "the delay", shown).await;
    let bad = [
        (json!({"opens": at(plan.closes_ms)}), 400, "closes"),
        (json!({"opens": at(plan.lobby_opens_ms - 1_000)}), 400, "lobby_opens"),
        (json!({"closes": at(plan.lobby_opens_ms)}), 400, "closes"),
        (json!({"opens": "soon"}), 400, "opens"),
        (json!({}), 400, "opens"),
    ];
    for (body, status, field) in bad {
        let problem = refused(&steered.put("times", body).await, status);
        assert_eq!(problem["field"], field, "{problem}");
    }

    let soon_ms = crate::fixture::now_ms() + 700;
    done(&steered.put("times", json!({"opens": at(soon_ms)})).await);
    is_open(&steered).await;
    let problem = refused(&steered.put("times", json!({"opens": moved})).await, 409);
    assert!(problem["detail"].as_str().unwrap().contains("the draw has begun"), "{problem}");
    refused(&steered.try_act("reset", json!({})).await, 409);

    let since = Instant::now();
    steered.act("close", json!({})).await;
    soon(since, "the close", || steered.all_say("phase", json!("closed"))).await;
    let join = format!("/_stanchion/{}/join", steered.sale);
    let gateway = &steered.gateways()[0];
    let late = steered.call(gateway, Method::POST, &join, &[], json!({})).await;
    assert_eq!(refused(&late, 409)["code"], "closed");
}

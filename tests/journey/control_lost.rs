//! Steering while a store is away: a stop reaches every node by the other one.

use std::time::Instant;

use futures_util::future::join_all;
use serde_json::json;
use stanchion::lab::rig::Installation;
use stanchion::room::{ControlChange, Publish};
use stanchion::servers::{PrivateRedis, PrivateStores};

use crate::control_ground::{PAIR, Steered, config, done, refused, soon, until};
use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, executable};
use crate::room_ground::{self, RoomGround};

fn on_own_stores(topic: &str) -> (PrivateStores, Steered) {
    let stores = PrivateStores::start().unwrap();
    let ground = Ground::new(topic);
    let mut plan = ground.sale_opening_in(300, 50);
    plan.rate = "100/s".into();
    let urls = (stores.create_database(topic).unwrap(), stores.redis_url());
    let folder = stores.workspace(topic).unwrap();
    let house = Installation::start(executable(), &folder, urls, PAIR, config(&plan)).unwrap();
    (stores, Steered::around(house, &plan))
}

async fn voided(crowd: &[Shopper], gateway: &str) -> bool {
    let states = crowd.iter().map(|shopper| async {
        let mut there = shopper.clone();
        there.gateway = gateway.to_owned();
        there.status().await["place"]["state"].clone()
    });
    join_all(states).await.iter().all(|state| *state != "admitted")
}

#[tokio::test(flavor = "multi_thread")]
async fn with_redis_down_a_stop_goes_by_the_core_and_voids_admissions_within_a_second() {
    let (stores, steered) = on_own_stores("redisdown");
    until("the sale opens", || steered.all_say("phase", json!("open"))).await;
    let crowd = Shopper::crowd(&steered.client, &steered.gateways(), &steered.sale, 4).await;
    let crowd = join_all(crowd.into_iter().map(Shopper::admitted)).await;
    assert_eq!(steered.order(&crowd[0], "before").await.status, 201);

    stores.redis().kill().unwrap();
    until("both gateways notice", || steered.all_say("paused", json!(true))).await;
    assert!(!voided(&crowd, &steered.gateways()[0]).await, "what was issued goes on counting");

    let since = Instant::now();
    let stopped = steered.act("stop", json!({})).await;
    assert_eq!((&stopped["paused"], &stopped["epoch"]), (&json!(true), &json!(2)));
    for gateway in steered.gateways() {
        soon(since, "the stop reaches a gateway", || voided(&crowd, &gateway)).await;
    }
    let refuses = async || steered.order(&crowd[1], "after").await.status == 403;
    soon(since, "the stop reaches the core", refuses).await;
    let slower = done(&steered.put("rate", json!({"rate": "50/s"})).await);
    assert_eq!((&slower["version"], &slower["epoch"]), (&json!(3), &json!(2)));
    for node in &steered.house.gateways {
        let seen = steered.seen_by(node).await;
        assert_eq!((&seen["reach"], &seen["stop_reaches"]), (&json!("core"), &json!(true)));
    }

    stores.redis().restart().unwrap();
    let back = async || {
        let seen = join_all(steered.house.gateways.iter().map(|node| steered.seen_by(node))).await;
        seen.iter().all(|seen| seen["reach"] == "redis" && seen["control"]["version"] == 3)
    };
    until("Redis has it too", back).await;
    assert!(voided(&crowd, &steered.gateways()[1]).await, "the stop holds on");
    steered.act("resume", json!({})).await;
    let anew = join_all(crowd.into_iter().map(Shopper::admitted)).await;
    assert_eq!(steered.order(&anew[1], "anew").await.status, 201);
    let trail = steered.trail(&steered.house.gateways[0], 4).await;
    let actions: Vec<_> = trail.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["create", "stop", "rate", "resume"], "{trail:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_both_stores_a_node_keeps_its_values_and_says_that_no_stop_can_reach_it() {
    let (stores, mut steered) = on_own_stores("bothdown");
    until("the sale opens", || steered.all_say("phase", json!("open"))).await;
    done(&steered.put("rate", json!({"rate": "30/s"})).await);
    until("the rate", || steered.all_say("rate", json!(30.0))).await;

    steered.house.cores[0].kill().unwrap();
    stores.redis().kill().unwrap();

    let alone = async || {
        let seen = steered.seen_by(&steered.house.gateways[0]).await;
        seen["reach"] == "nobody" && seen["stop_reaches"] == false
    };
    until("the node knows", alone).await;
    assert!(steered.all_say("rate", json!(30.0)).await, "the values last known stay");
    let problem = refused(&steered.try_act("stop", json!({})).await, 503);
    assert_eq!(problem["code"], "core-unavailable", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("no core answers"), "{problem}");
    assert!(problem["retry_after_ms"].is_u64());

    stores.redis().restart().unwrap();
    steered.house.cores[0] = steered.house.start_core(0).unwrap();
    steered.act("stop", json!({})).await;
    until("the stop", || steered.all_say("epoch", json!(2))).await;
}

#[tokio::test]
async fn a_pause_that_redis_took_and_lost_is_handed_back_by_a_node_that_heard_of_it() {
    let redis = PrivateRedis::start().unwrap();
    let ground = RoomGround::on(Some(redis.url()), "handback", 60_000, 10.0).await;
    let core = ground.keep().await;
    let room = ground.room().await;
    core.cancel();
    // The core that goes may still be carrying.
    let pause = ControlChange { paused: Some(true), ..ControlChange::default() };
    assert_eq!(room.publish("ops", &pause).await.unwrap(), Publish::Changed(2));
    room_ground::until("the node is paused", || room.snapshot().control.paused).await;

    redis.restart().unwrap();
    ground.keep().await;

    let database = ground.ledger.database();
    loop {
        let durable = database.control(&ground.sale).await.unwrap().unwrap();
        if durable.paused {
            assert_eq!(durable.version, 2);
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    room_ground::until("the room is back", || room.snapshot().is_live(room.now_ms())).await;
    assert!(room.snapshot().control.paused);
    let trail = database.audit_trail(Some(&ground.sale), 0).await.unwrap().entries;
    assert_eq!(trail.last().unwrap().action, "pause");
}

//! A sale that is run once more: another draw, nothing of the old one counts, never stuck.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use stanchion::room::{ControlChange, Publish};

use crate::control_ground::{Steered, done, refused, soon, until};
use crate::fixture::shopper::{Shopper, text};
use crate::fixture::{Ground, now_ms};
use crate::room_ground::{self, RoomGround, anonymous, until_open};

fn rfc3339(ms: u64) -> String {
    jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap().to_string()
}

async fn commitment(steered: &Steered) -> String {
    let path = format!("/_stanchion/{}/draw", steered.sale);
    let gateway = &steered.gateways()[0];
    text(&done(&steered.call(gateway, Method::GET, &path, &[], Value::Null).await), "commitment")
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_68_a_reset_voids_every_place_and_promises_another_draw() {
    let ground = Ground::new("reset");
    let plan = ground.sale_opening_in(600_000, 50);
    let steered = Steered::start(&ground, &plan);
    let before = Shopper::crowd(&steered.client, &steered.gateways(), &steered.sale, 3).await;
    let promised = commitment(&steered).await;

    let since = Instant::now();
    let reset = steered.act("reset", json!({})).await;
    assert_eq!((&reset["run"], &reset["epoch"]), (&json!(2), &json!(2)));
    soon(since, "the next run", || steered.all_say("run", json!(2))).await;
    until("the next room", async || {
        let seen = steered.seen_by(&steered.house.gateways[0]).await;
        seen["paused"] == false
    })
    .await;

    assert_ne!(commitment(&steered).await, promised);
    for shopper in &before {
        assert_eq!(shopper.status().await["place"]["state"], "none", "an old place counts");
    }
    let anew = Shopper::join(&steered.client, &steered.gateways()[1], &steered.sale, 2).await;
    assert_eq!(anew.status().await["place"]["entry"], 0);
    let trail = steered.trail(&steered.house.gateways[1], 2).await;
    assert_eq!(trail[1]["changes"]["run"], json!({"from": 1, "to": 2}), "{trail:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_68_a_sale_that_is_over_is_reset_first_and_gets_its_times_later() {
    let ground = Ground::new("again");
    let steered = Steered::start(&ground, &ground.sale_opening_in(300, 50));
    until("the sale opens", || steered.all_say("phase", json!("open"))).await;
    refused(&steered.try_act("reset", json!({})).await, 409);
    steered.act("close", json!({})).await;
    until("the close", || steered.all_say("phase", json!("closed"))).await;

    let reset = steered.act("reset", json!({})).await;
    assert_eq!(reset["run"], 2);
    until("the next run", || steered.all_say("run", json!(2))).await;
    assert!(steered.all_say("phase", json!("closed")).await, "its times have passed");

    let at = now_ms();
    let times = json!({
        "lobby_opens": rfc3339(at), "opens": rfc3339(at + 1_500), "closes": rfc3339(at + 600_000)
    });
    done(&steered.put("times", times).await);
    // On a slow machine the lobby may be over by the time that it is seen.
    until("joining", async || {
        steered.seen_by(&steered.house.gateways[0]).await["phase"] != "closed"
    })
    .await;
    let shopper = Shopper::join(&steered.client, &steered.gateways()[0], &steered.sale, 1).await;
    let admitted = shopper.admitted().await;
    assert_eq!(steered.order(&admitted, "second run").await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_68_cores_killed_in_the_middle_of_resets_leave_nothing_stuck() {
    let ground = Ground::new("killed");
    let plan = ground.sale_opening_in(600_000, 50);
    let mut steered = Steered::start(&ground, &plan);

    for (round, wait_ms) in (2_u64..).zip([0, 30, 80, 140, 220]) {
        let reset = steered.act("reset", json!({})).await;
        assert_eq!(reset["run"], round);
        // Where the core is in its work by then is chance, and must not matter.
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        steered.house.replace_core(0).unwrap();
        until("the next run", || steered.all_say("run", json!(round))).await;
        let number = u32::try_from(round).unwrap();
        until("the next room", async || {
            let seen = steered.seen_by(&steered.house.gateways[0]).await;
            seen["paused"] == false
        })
        .await;
        let gateway = &steered.gateways()[0];
        let shopper = Shopper::join(&steered.client, gateway, &steered.sale, number).await;
        assert_eq!(shopper.status().await["place"]["entry"], 0, "run {round}");
    }
}

#[tokio::test]
async fn wr_68_a_reset_cut_short_at_any_step_is_finished_by_the_next_core() {
    let ground = RoomGround::new("cutshort", 60_000, 10.0).await;
    let core = ground.keep().await;
    let room = ground.room().await;
    let (store, database) = (ground.store(), ground.ledger.database());
    let promised = room.snapshot().commitment.clone();
    room.join(anonymous("before")).await.unwrap();
    core.cancel();
    let reset = ControlChange { next_run: true, ..ControlChange::default() };

    // Redis has it, no core has seen it.
    assert!(matches!(store.publish("ops", &reset).await.unwrap(), Publish::Changed(_)));
    room_ground::until("the node goes by it", || room.snapshot().control.run == 2).await;
    assert!(room.join(anonymous("between")).await.is_err(), "joined a run that is not there yet");
    let core = ground.keep().await;
    room_ground::until("run 2", || room.snapshot().is_live(room.now_ms())).await;
    assert_ne!(room.snapshot().commitment, promised);
    core.cancel();

    // Postgres has it as well, but neither seed nor room are made.
    store.publish("ops", &reset).await.unwrap();
    let control = store.control().await.unwrap().unwrap();
    database.merge_control(&ground.sale, &control).await.unwrap();
    let core = ground.keep().await;
    room_ground::until("run 3", || {
        room.snapshot().is_live(room.now_ms()) && room.snapshot().control.run == 3
    })
    .await;
    core.cancel();

    // Postgres alone has it: the core took it while Redis did not answer.
    let mut next = room.snapshot().control.clone();
    (next.run, next.epoch, next.version) = (4, next.epoch + 1, next.version + 1);
    database.put_control(&ground.sale, &next, now_ms()).await.unwrap().unwrap();
    ground.keep().await;
    room_ground::until("run 4", || {
        room.snapshot().is_live(room.now_ms()) && room.snapshot().control.run == 4
    })
    .await;
    room.join(anonymous("after")).await.unwrap();
    room_ground::until("one place", || room.snapshot().line == 1).await;
}

#[tokio::test]
async fn a_sale_whose_times_have_passed_is_not_opened_by_a_reset() {
    let ground = RoomGround::new("notopened", 0, 10.0).await;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let store = ground.store();
    let close = ControlChange { close: true, ..ControlChange::default() };
    store.publish("ops", &close).await.unwrap();
    let reset = ControlChange { next_run: true, ..ControlChange::default() };
    store.publish("ops", &reset).await.unwrap();
    room_ground::until("run 2", || {
        room.snapshot().is_live(room.now_ms()) && room.snapshot().control.run == 2
    })
    .await;

    // A core looks after the room ten times a second.
    tokio::time::sleep(Duration::from_millis(400)).await;

    assert!(room.snapshot().draw.is_none());
    let opens_ms = Some(now_ms() + 60_000);
    let later =
        ControlChange { opens_ms, closes_ms: Some(now_ms() + 90_000), ..Default::default() };
    assert!(matches!(store.publish("ops", &later).await.unwrap(), Publish::Changed(_)));
}

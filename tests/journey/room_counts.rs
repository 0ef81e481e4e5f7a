//! The line in numbers, and what a visitor is told of windows: on every node alike.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stanchion::domain::queue::PlaceState;
use stanchion::domain::refusal::Problem;
use stanchion::domain::ticket::Ticket;
use stanchion::room::{Claimed, ControlChange, JoinRequest, Room};

use crate::control_ground::{Steered, config, until as eventually};
use crate::fixture::shopper::Shopper;
use crate::fixture::{Ground, executable};
use crate::room_ground::{RoomGround, admitted_at, anonymous, join_all, until, until_open};

/// What the operators' page, API, metrics and command line of a gateway say of the line.
async fn told_by(steered: &Steered, gateway: usize) -> [(Value, Value, Value); 4] {
    let node = &steered.house.gateways[gateway];
    let ops = node.url("ops").unwrap();
    let line = steered.seen_by(node).await["line"].clone();
    let api = (line["waiting"].clone(), line["missed"].clone(), line["admitted"].clone());
    let text = async |path: &str| {
        let answer = steered.client.get(&format!("{ops}{path}"), &[]).await.unwrap();
        answer.text()
    };
    let number = |text: &str, from: &str, to: &str| {
        let found = text.split_once(from).and_then(|(_, rest)| rest.split_once(to));
        found.map_or(Value::Null, |(number, _)| serde_json::from_str(number).unwrap())
    };
    let page = text("/").await;
    let tile = |word: &str| number(&page, &format!("<span>{word}</span><b>"), "</b>");
    let metrics = text("/metrics").await;
    let gauge = |name: &str| {
        let from = format!("stanchion_room_{name}{{sale=\"{}\"}} ", steered.sale);
        let whole = number(&metrics, &from, "\n");
        // Gauges are written with or without a fraction.
        whole.as_f64().map_or(Value::Null, |value| number(&format!("{value:.0};"), "", ";"))
    };
    let out = Command::new(executable())
        .env("STANCHION_OPS_KEY", &steered.house.secrets.ops_key)
        .args(["sale", "status", "--ops", &ops])
        .output()
        .unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    let word = |name: &str| {
        let before = said.split_once(&format!(" {name}")).map_or("", |(before, _)| before);
        let number = before.rsplit([' ', '\n']).next().unwrap_or_default();
        serde_json::from_str(number).unwrap_or(Value::Null)
    };
    [
        api,
        (tile("Waiting"), tile("Missed"), tile("Admitted")),
        (gauge("waiting"), gauge("missed"), gauge("admitted")),
        (word("waiting"), word("missed"), word("admitted")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_02_who_let_the_window_lapse_is_counted_as_missed_and_not_as_waiting() {
    let ground = Ground::new("lapsed");
    let mut plan = ground.sale_opening_in(300, 4);
    plan.rate = "100/s".into();
    let mut config = config(&plan);
    config.set("sale.0.claim_window", "5s").unwrap();
    let pair = crate::control_ground::PAIR;
    let steered = Steered::around(ground.install(pair, config), &plan);
    eventually("the sale opens", || steered.all_say("phase", json!("open"))).await;
    eventually("the line moves", || steered.all_say("paused", json!(false))).await;
    let gateways = steered.gateways();
    let mut six = Vec::new();
    for number in 0..6 {
        let gateway = &gateways[number as usize % 2];
        six.push(Shopper::join(&steered.client, gateway, &steered.sale, number).await);
    }

    // Four are called for four units; two of them come and take theirs.
    let state = async |shopper: &Shopper| shopper.status().await["place"]["state"].clone();
    eventually("four are called", || async { state(&six[3]).await == "called" }).await;
    assert_eq!(state(&six[4]).await, "waiting", "there is no fifth unit");
    for shopper in &six[..2] {
        let shopper = shopper.clone().admitted().await;
        assert_eq!(steered.order(&shopper, "one").await.status, 201);
    }
    // Two do not; what they leave is for the next two, who come.
    for shopper in &six[4..] {
        let shopper = shopper.clone().admitted().await;
        assert_eq!(steered.order(&shopper, "one").await.status, 201);
    }

    let counted = (json!(0), json!(2), json!(4));
    eventually("two are missed", || async {
        told_by(&steered, 0).await[0] == counted && told_by(&steered, 1).await[0] == counted
    })
    .await;
    for gateway in 0..2 {
        for told in told_by(&steered, gateway).await {
            assert_eq!(told, counted, "gateway {gateway}");
        }
    }
    let core = steered.seen_by(&steered.house.cores[0]).await["line"].clone();
    let told = [&core["joined"], &core["called"], &core["missed"], &core["open_admissions"]];
    assert_eq!(told, [&json!(6), &json!(6), &json!(2), &json!(4)], "{core}");
}

/// The line stands, pages are answered.
async fn hold(room: &Room) {
    let pause = ControlChange { paused: Some(true), ..ControlChange::default() };
    room.publish("ops", &pause).await.unwrap();
    until("the line stands", || room.snapshot().control.paused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_heard_from_on_one_node_is_present_on_another_and_absent_when_silent() {
    let ground = RoomGround::new("present", 700, 1.0).await;
    ground.keep().await;
    let (one, two) = (ground.room().await, ground.room().await);
    let places = join_all(&one, "a", 40).await;
    hold(&one).await;
    until_open(&one).await;
    until_open(&two).await;
    assert_eq!(two.snapshot().line_counts().present, 0);

    let since = Instant::now();
    while two.snapshot().line_counts().present != 15 {
        for place in &places[..15] {
            one.status(Some(&place.ticket), None);
        }
        assert!(since.elapsed() < Duration::from_secs(10), "never: 15 of 40 are present");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let counts = two.snapshot().line_counts();
    assert_eq!((counts.waiting, counts.called, counts.joined), (40, 0, 40), "{counts:?}");
    until("nobody is heard any more", || two.snapshot().line_counts().present == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_a_lost_redis_skipped_neither_wait_nor_miss() {
    let ground = RoomGround::new("skipped", 0, 100.0).await;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let before = join_all(&room, "before", 5).await;
    for place in &before {
        admitted_at(&room, &place.ticket).await;
    }

    ground.redis.command::<()>(&redis::cmd("FLUSHDB")).await.unwrap();
    until("the room is back", || room.snapshot().line >= 1_000).await;
    hold(&room).await;
    let place = loop {
        if let Ok(place) = room.join(anonymous("after")).await {
            break place;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    until("it is seen", || room.snapshot().line_counts().waiting == 1).await;

    let counts = room.snapshot().line_counts();
    assert!(counts.joined < 20 && counts.missed == 0, "{counts:?}");
    assert!(room.snapshot().line > 1_000, "{:?}", place.ticket.cohort);
}

/// Claims, and does not come back to collect: the slot is ahead.
async fn books(room: &Room, ticket: &Ticket) {
    let claim = room.claim(ticket).await.unwrap();
    assert!(matches!(claim, Claimed::Wait { slot_ms: Some(_), .. }), "{claim:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_28_a_window_missed_while_hidden_is_followed_by_one_more_and_then_by_a_clear_end() {
    let mut ground = RoomGround::new("hidden", 0, 1.0).await;
    ground.file.claim_window_ms = 400;
    ground.keep().await;
    let (room, other) = (ground.room().await, ground.room().await);
    until_open(&room).await;
    let places = join_all(&room, "late", 4).await;
    let hidden = &places[3].ticket;
    until("all are called", || room.snapshot().cursor >= 4).await;
    until("the first window lapses", || room.snapshot().line_counts().missed == 4).await;

    // Back: still called, and the claim gets the second chance, in the order of the claims.
    let back = room.status(Some(hidden), None).place;
    assert_eq!((back.state, back.lapsed), (PlaceState::Called, true), "the last is told to be it");
    for place in &places {
        let claim = room.claim(&place.ticket).await;
        assert!(claim.is_ok(), "everybody has a second chance: {claim:?}");
    }
    books(&room, hidden).await;

    // Hidden again, past the slot and the second window: nobody has to claim to be told.
    for node in [&room, &other] {
        until("the page tells", || {
            node.status(Some(hidden), None).place.state == PlaceState::Missed
        })
        .await;
    }
    let told = room.status(Some(hidden), None);
    assert!(told.poll_after_ms > 1_000, "there is nothing to wait for");
    assert_eq!(room.claim(hidden).await.unwrap_err().problem, Problem::Missed);
    let again = JoinRequest { lapsed: Some(hidden.clone()), ..anonymous("late-3") };
    let again = room.join(again).await.unwrap();
    assert_ne!(again.ticket.cohort, hidden.cohort, "a new place, behind everybody");
    assert_ne!(room.status(Some(&again.ticket), None).place.state, PlaceState::Missed);

    // A stop voids the turns of all: whoever was called may claim anew.
    let stop = ControlChange { next_epoch: true, ..ControlChange::default() };
    room.publish("ops", &stop).await.unwrap();
    until("the second chance is back", || {
        let place = room.status(Some(hidden), None).place;
        place.state == PlaceState::Called && !place.lapsed
    })
    .await;
    admitted_at(&room, hidden).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_29_joins_that_race_from_one_fresh_browser_are_one_place_on_any_node() {
    let ground = Ground::new("racing");
    let plan = ground.sale_opening_in(600_000, 10);
    let steered = Steered::start(&ground, &plan);
    eventually("the lobby is open", || steered.all_say("phase", json!("lobby"))).await;
    let gateways = steered.gateways();

    let race =
        (0..12).map(|tab| Shopper::join(&steered.client, &gateways[tab % 2], &steered.sale, 7));
    let tabs = futures_util::future::join_all(race).await;

    for tab in &tabs {
        let place = tab.status().await["place"].clone();
        assert_eq!((&place["state"], &place["entry"]), (&json!("entered"), &json!(0)), "{place}");
    }
    let next = Shopper::join(&steered.client, &gateways[1], &steered.sale, 8).await;
    assert_eq!(next.status().await["place"]["entry"], 1, "no number was used up");
    let line = async || steered.seen_by(&steered.house.gateways[0]).await["line"]["joined"].clone();
    eventually("two have joined", || async { line().await == 2 }).await;
}

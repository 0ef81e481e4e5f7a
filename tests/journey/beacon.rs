//! A draw with a beacon: the sale waits for its round, believes no other, and proves it.

use std::io::Write;
use std::process::{Command, Stdio};

use http::Method;
use serde_json::json;
use stanchion::domain::beacon::{self, Published};
use stanchion::domain::control::{ControlChange, ControlNo};
use stanchion::domain::sale::{Control, Phase};
use stanchion::domain::ticket::Cohort;
use stanchion::store::redis::room::Publish;

use crate::control_ground::{PAIR, Steered, config};
use crate::fixture::{Ground, executable, now_ms};
use crate::room_ground::{RoomGround, join_all, until, until_open};

/// Published in 2023; no opening of today may use it, so the keeper is given it by hand.
pub(crate) fn round_1000() -> Published {
    Published {
        round: 1000,
        signature: "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125\
            e342b73a8dd2bacbe47e4b6b63ed5e39"
            .into(),
        randomness: None,
    }
}

/// Has the run commit to round 1000, as one that opened in 2023 could; then come the real times.
pub(crate) async fn commit_to_1000(ground: &mut RoomGround) {
    let file = Control { version: 2, ..ground.file.clone() };
    ground.beacon_round = 1000;
    ground.file.opens_ms = beacon::published_at_ms(1000) - 60_000;
    ground.file.lobby_opens_ms = ground.file.opens_ms;
    ground.keeper().boot().await.unwrap();
    ground.ledger.database().merge_control(&ground.sale, &file).await.unwrap();
    ground.file = file;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_takes_another_round_and_none_that_could_be_known_before_the_opening() {
    let mut ground = RoomGround::new("beaconreset", 600_000, 50.0).await;
    let old = beacon::first_for(ground.file.opens_ms);
    ground.beacon_round = old;
    ground.keep().await;
    let room = ground.room().await;
    assert_eq!(room.snapshot().proof(&ground.sale).unwrap().round, old);

    let opens_ms = ground.file.opens_ms + 600_000;
    let later = ControlChange { opens_ms: Some(opens_ms), ..ControlChange::default() };
    let refused = ground.store().publish("test", &later).await.unwrap();
    assert_eq!(refused, Publish::Refused(ControlNo::BeaconPassed(old)));
    let reset = ControlChange { next_run: true, ..later };
    let done = ground.store().publish("test", &reset).await.unwrap();
    assert!(matches!(done, Publish::Changed(_)), "{done:?}");

    let since = std::time::Instant::now();
    let error = loop {
        // Once the running core has carried the reset to the ledger, no other may start with this.
        match ground.keeper().boot().await {
            Err(error) => break error.to_string(),
            Ok(()) => assert!(since.elapsed().as_secs() < 60, "the old round is committed to"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let first = beacon::first_for(opens_ms);
    assert!(error.contains("beacon_round") && error.contains(&first.to_string()), "{error}");
    assert!(ground.ledger.database().draw(&ground.sale, 2).await.unwrap().is_none());

    ground.beacon_round = first;
    ground.keep().await;
    until("the next run has its round", || {
        let seen = room.snapshot();
        let proof = seen.proof(&ground.sale);
        seen.is_live(room.now_ms()) && proof.is_some_and(|it| (it.run, it.round) == (2, first))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sale_waits_for_its_beacon_and_draws_with_it() {
    let mut ground = RoomGround::new("beacon", 1_500, 50.0).await;
    commit_to_1000(&mut ground).await;
    ground.keep().await;
    let room = ground.room().await;
    let places = join_all(&room, "a", 20).await;
    let committed = room.snapshot().proof(&ground.sale).unwrap();
    assert_eq!((committed.round, committed.signature.as_str()), (1000, ""));

    // By Redis' clock, which joins go by: a node's is a few milliseconds before or behind it.
    until("entries are closed", || {
        let seen = room.snapshot();
        seen.phase(seen.seen_ms()) == Phase::Drawing
    })
    .await;
    let late = join_all(&room, "late", 3).await;
    assert_eq!(room.snapshot().phase(room.now_ms()), Phase::Drawing);
    let waiting = room.snapshot().proof(&ground.sale).unwrap();
    assert_eq!((waiting.seed, waiting.n), (None, None));

    let signature = round_1000().verified().unwrap();
    ground.ledger.database().keep_beacon(&ground.sale, 1, &signature).await.unwrap();
    until_open(&room).await;
    let proof = room.snapshot().proof(&ground.sale).unwrap();
    assert_eq!(proof.commitment, committed.commitment);
    assert_eq!(proof.beacon, hex::encode(beacon::randomness(&signature)));
    let draw = proof.verify().unwrap();
    assert_eq!(draw.n(), 20);
    let seen = room.snapshot();
    for place in &places {
        let Cohort::Entry(entry) = place.ticket.cohort else { panic!("joined in the lobby") };
        assert_eq!(place.ticket.cohort.position(seen.draw.as_ref().unwrap()), draw.position(entry));
    }
    for place in &late {
        assert!(place.ticket.cohort.position(seen.draw.as_ref().unwrap()).unwrap() >= 20);
    }
}

fn tell(steered: &Steered, round: &str) -> (i32, String) {
    let mut command = Command::new(executable());
    command.args(["draw", "beacon", "--sale", &steered.sale, "-", "--core"]);
    command.arg(steered.house.cores[0].url("core").unwrap());
    command.env("STANCHION_OPS_KEY", &steered.house.secrets.ops_key);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    running.stdin.take().unwrap().write_all(round.as_bytes()).unwrap();
    let done = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    (done.status.code().unwrap(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_round_committed_to_is_taken_and_the_opening_never_moves_past_it() {
    let ground = Ground::new("round");
    let plan = ground.sale_opening_in(600_000, 10);
    let round = beacon::first_for(now_ms() + 900_000);
    let mut config = config(&plan);
    config.set("sale.0.beacon_round", i64::try_from(round).unwrap()).unwrap();
    let steered = Steered::around(ground.install(PAIR, config), &plan);
    let url = steered.house.cores[0].url("core").unwrap();
    let bearer = format!("Bearer {}", steered.house.secrets.ops_key);
    let key = [("authorization", bearer.as_str())];
    let path = format!("/v1/draw/{}/beacon", steered.sale);

    let published = round_1000();
    let other = json!(published);
    let refused = steered.call(&url, Method::POST, &path, &key, other).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains(&format!("must be {round}")), "{}", refused.text());
    let forged = json!({ "round": round, "signature": published.signature });
    let refused = steered.call(&url, Method::POST, &path, &key, forged.clone()).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("signature: is not that of this round"), "{}", refused.text());
    let problem: serde_json::Value = refused.json().unwrap();
    assert_eq!(problem["field"], "signature");
    let (code, said) = tell(&steered, &forged.to_string());
    assert_eq!(code, 1);
    assert!(said.contains("signature: is not that of this round"), "{said}");
    let (code, said) = tell(&steered, "<html>");
    assert_eq!(code, 1);
    assert!(said.contains("as drand answers it"), "{said}");
    let shop_bearer = format!("Bearer {}", steered.house.secrets.core_key);
    let shop_key = [("authorization", shop_bearer.as_str())];
    let refused = steered.call(&url, Method::POST, &path, &shop_key, forged).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let nobody =
        steered.call(&url, Method::POST, "/v1/draw/nobody/beacon", &key, json!(published)).await;
    assert_eq!(nobody.status, 404);

    let opens = jiff::Timestamp::from_millisecond(i64::try_from(now_ms() + 1_200_000).unwrap());
    let late = steered.put("times", json!({ "opens": opens.unwrap().to_string() })).await;
    assert_eq!(late.status, 400, "{}", late.text());
    assert!(late.text().contains(&format!("beacon round {round}")), "{}", late.text());
    let ops = [("authorization", bearer.as_str())];
    let path = format!("/v1/control/{}", steered.sale);
    let record = steered.call(&url, Method::GET, &path, &shop_key, json!(null)).await;
    let mut record: serde_json::Value = record.json().unwrap();
    record["version"] = json!(record["version"].as_u64().unwrap() + 1);
    record["opens_ms"] = json!(now_ms() + 1_200_000);
    let late = steered.call(&url, Method::PUT, &path, &ops, record).await;
    assert_eq!(late.status, 400, "the core's own door: {}", late.text());
    assert!(late.text().contains(&format!("beacon round {round}")), "{}", late.text());
    let opens = jiff::Timestamp::from_millisecond(i64::try_from(now_ms() + 800_000).unwrap());
    let fine = steered.put("times", json!({ "opens": opens.unwrap().to_string() })).await;
    assert_eq!(fine.status, 200, "{}", fine.text());
}

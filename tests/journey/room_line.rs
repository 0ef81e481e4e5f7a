//! The line of a room: joining, opening, claiming, by way of the real steps.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join_all as all;
use stanchion::domain::queue::PlaceState;
use stanchion::domain::refusal::Problem;
use stanchion::domain::sale::Phase;
use stanchion::domain::ticket::Cohort;
use stanchion::room::metrics::RoomMetrics;
use stanchion::room::{Claimed, ControlChange, Publish};
use stanchion::telemetry::Metrics;

use crate::room_ground::{RoomGround, admitted_at, anonymous, join_all, until, until_open};

#[tokio::test]
async fn a_place_goes_from_entry_over_the_draw_to_an_admission() {
    let ground = RoomGround::new("roadroom", 700, 50.0).await;
    ground.keep().await;
    let room = ground.room().await;
    assert_eq!(room.snapshot().commitment.len(), 64);
    let places = join_all(&room, "a", 5).await;
    let status = room.status(Some(&places[0].ticket), None);
    assert_eq!((status.phase, status.place.state), (Phase::Lobby, PlaceState::Entered));

    until_open(&room).await;

    let proof = room.snapshot().proof(&ground.sale).unwrap();
    let draw = proof.verify().unwrap();
    for place in &places {
        let status = room.status(Some(&place.ticket), None);
        assert_eq!(status.place.position, place.ticket.cohort.position(&draw));
    }
    let slots = all(places.iter().map(|place| admitted_at(&room, &place.ticket))).await;
    let mut sorted = slots.clone();
    sorted.sort_unstable();
    assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 19), "{sorted:?}");
    let late = room.join(anonymous("late")).await.unwrap();
    assert_eq!(late.ticket.cohort, Cohort::Late(0));
    admitted_at(&room, &late.ticket).await;
}

#[tokio::test]
async fn joins_straddling_the_opening_go_each_to_one_cohort() {
    let ground = RoomGround::new("straddle", 600, 50.0).await;
    ground.keep().await;
    let (one, two) = (ground.room().await, ground.room().await);
    let mut tickets = Vec::new();
    while two.snapshot().draw.is_none() {
        let at = tickets.len();
        let (first, second) = (format!("one-{at}"), format!("two-{at}"));
        let (ones, twos) = tokio::join!(join_all(&one, &first, 7), join_all(&two, &second, 7));
        tickets.extend(ones.into_iter().chain(twos).map(|place| place.ticket));
    }

    let numbers: HashSet<_> = tickets.iter().map(|ticket| ticket.cohort).collect();
    assert_eq!(numbers.len(), tickets.len(), "no number twice");
    let seen = two.snapshot();
    let draw = seen.draw.clone().unwrap();
    let entries = numbers.iter().filter(|cohort| matches!(cohort, Cohort::Entry(_))).count();
    assert_eq!(draw.n(), entries as u64, "everybody told they are in the draw is in it");
    let positions: HashSet<_> = numbers.iter().map(|cohort| cohort.position(&draw)).collect();
    assert!(!positions.contains(&None));
    assert_eq!(positions.len(), tickets.len(), "no position twice");
}

#[tokio::test]
async fn wr_17_the_same_join_key_50_times_is_one_entry() {
    let ground = RoomGround::new("again", 60_000, 50.0).await;
    ground.keep().await;
    let (one, two) = (ground.room().await, ground.room().await);
    let joins = (0..50).map(|i| {
        let room = if i % 2 == 0 { &one } else { &two };
        room.join(anonymous("mine"))
    });

    let places: Vec<_> = all(joins).await.into_iter().map(Result::unwrap).collect();

    assert!(places.iter().all(|place| place.ticket.cohort == Cohort::Entry(0)));
    assert_eq!(places.iter().filter(|place| !place.known).count(), 1);
    assert_eq!(one.join(anonymous("other")).await.unwrap().ticket.cohort, Cohort::Entry(1));
}

#[tokio::test]
async fn wr_16_a_refused_join_uses_up_no_number() {
    let mut ground = RoomGround::new("refused", 60_000, 50.0).await;
    ground.places_per_ip = 2;
    ground.max_places = 3;
    ground.keep().await;
    let room = ground.room().await;
    let mut homeless = anonymous("no address");
    homeless.address = None;

    for expected in 0..2 {
        let place = room.join(anonymous(&format!("in-{expected}"))).await.unwrap();
        assert_eq!(place.ticket.cohort, Cohort::Entry(expected));
        let refused = room.join(anonymous("beyond the cap"));
        if expected == 1 {
            assert_eq!(refused.await.unwrap_err().problem, Problem::TooManyPlaces);
        }
    }
    let third = room.join(homeless).await.unwrap();
    assert_eq!(third.ticket.cohort, Cohort::Entry(2));
    let mut fourth = anonymous("one too many");
    fourth.address = None;
    assert_eq!(room.join(fourth).await.unwrap_err().problem, Problem::SaleFull);
    assert_eq!(room.join(anonymous("in-0")).await.unwrap().ticket.cohort, Cohort::Entry(0));
}

#[tokio::test]
async fn those_who_come_too_early_are_told_to_come_after_the_opening_and_not_all_at_once() {
    let mut ground = RoomGround::new("early", 120_000, 50.0).await;
    ground.file.lobby_opens_ms = ground.file.opens_ms - 60_000;
    ground.keep().await;
    let room = ground.room().await;
    let joins = all((0..20).map(|i| room.join(anonymous(&format!("early-{i}"))))).await;
    let until_ms = ground.file.lobby_opens_ms.saturating_sub(room.now_ms());

    let refusals = joins.into_iter().map(Result::unwrap_err);
    let waits: HashSet<u64> = refusals
        .map(|refusal| {
            assert_eq!(refusal.problem, Problem::NotOpen);
            refusal.retry_after_ms.unwrap()
        })
        .collect();

    assert!(waits.iter().all(|wait_ms| *wait_ms >= until_ms), "{until_ms}: {waits:?}");
    let (first, last) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(last - first > 1_000, "spread out: {waits:?}");
}

#[tokio::test]
async fn a_sale_that_nobody_joined_opens_cleanly_and_once_with_two_keepers() {
    let ground = RoomGround::new("nobody", 400, 50.0).await;
    ground.keep().await;
    ground.keep().await;
    let room = ground.room().await;

    until_open(&room).await;

    assert_eq!(room.snapshot().draw.as_ref().unwrap().n(), 0);
    let (first, second) = (room.snapshot().proof(&ground.sale), ground.room().await);
    assert_eq!(second.snapshot().proof(&ground.sale), first);
    let late = room.join(anonymous("late")).await.unwrap();
    admitted_at(&room, &late.ticket).await;
}

#[tokio::test]
async fn wr_06_twenty_parallel_claims_of_one_ticket_spend_one_slot() {
    let ground = RoomGround::new("claims", 0, 1_000.0).await;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let ticket = room.join(anonymous("mine")).await.unwrap().ticket;
    admitted_at(&room, &ticket).await;

    let claims = all((0..20).map(|_| room.claim(&ticket))).await;

    let mut seen = HashSet::new();
    for claim in claims {
        let Ok(Claimed::Admitted { admission, .. }) = claim else { panic!("{claim:?}") };
        seen.insert((admission.slot_ms(), admission.jti));
    }
    assert_eq!(seen.len(), 1);
    until("the claim is counted", || room.snapshot().claimed == 1).await;
    assert_eq!(room.snapshot().meter.next(), 1);
}

#[tokio::test]
async fn with_an_empty_line_and_an_open_meter_the_first_claim_is_an_admission() {
    let ground = RoomGround::new("nowait", 0, 10.0).await;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    until("the core is healthy", || !room.snapshot().is_paused(room.now_ms())).await;
    // A room that was loaded just now has its first slot ahead.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
    let lead_ms = || room.snapshot().meter.lead_ms(room.now_ms() as f64);
    until("the meter is open", || lead_ms() <= 0.0).await;

    let ticket = room.join(anonymous("only")).await.unwrap().ticket;

    let claim = room.claim(&ticket).await.unwrap();
    assert!(matches!(claim, Claimed::Admitted { .. }), "{claim:?}");
}

#[tokio::test]
async fn the_rooms_are_told_as_metrics_by_sale() {
    let ground = RoomGround::new("metrics", 60_000, 7.5).await;
    ground.keep().await;
    let room = ground.room().await;
    join_all(&room, "a", 3).await;
    until("the joins are seen", || room.snapshot().line == 3).await;
    let metrics = Metrics::new("gateway");
    metrics.register(|registry| RoomMetrics::register(registry, vec![room.clone()]));

    let text = metrics.text();

    let sale = &ground.sale;
    assert!(text.contains(&format!("stanchion_room_line{{sale=\"{sale}\"}} 3")), "{text}");
    assert!(text.contains(&format!("stanchion_room_rate{{sale=\"{sale}\"}} 7.5")), "{text}");
    assert!(text.contains(&format!("stanchion_room_live{{sale=\"{sale}\"}} 1")), "{text}");
}

#[tokio::test]
async fn wr_69_publishing_what_is_in_force_changes_nothing() {
    let ground = RoomGround::new("unchanged", 0, 10.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let before = room.snapshot();
    let same = ControlChange {
        paused: Some(false),
        rate: Some(before.control.rate),
        opens_ms: Some(before.control.opens_ms),
        ..ControlChange::default()
    };

    for _ in 0..100 {
        assert_eq!(room.publish("config@a", &same).await.unwrap(), Publish::Same(1));
    }

    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(room.snapshot().control, before.control);
    assert_eq!(room.snapshot().meter, before.meter);
}

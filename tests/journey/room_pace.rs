//! The pace of a room: what changes of rate, pauses, absentees and caps do to its slots.

use std::time::Duration;

use futures_util::future::join_all as all;
use stanchion::domain::rate::Rate;
use stanchion::domain::refusal::Problem;
use stanchion::domain::ticket::Ticket;
use stanchion::room::{Claimed, ControlChange, Room};

use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, admitted_at, join_all, until, until_open};

fn rate(per_second: f64) -> ControlChange {
    ControlChange { rate: Some(Rate::per_second(per_second).unwrap()), ..ControlChange::default() }
}

fn paused(paused: bool) -> ControlChange {
    ControlChange { paused: Some(paused), ..ControlChange::default() }
}

/// The slot booked for a called ticket.
async fn booked(room: &Room, ticket: &Ticket) -> Option<u64> {
    match room.claim(ticket).await.unwrap() {
        Claimed::Admitted { admission, .. } => admission.slot_ms(),
        Claimed::Wait { slot_ms, .. } => slot_ms,
    }
}

/// `count` latecomers, all called.
async fn called(room: &Room, count: usize) -> Vec<Ticket> {
    until_open(room).await;
    let places = join_all(room, "late", count).await;
    until("all are called", || room.snapshot().cursor >= count as u64).await;
    places.into_iter().map(|place| place.ticket).collect()
}

#[tokio::test]
async fn a_rate_change_acts_on_the_next_slot_and_keeps_the_order() {
    let ground = RoomGround::new("rate", 0, 1.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let tickets = called(&room, 6).await;
    for ticket in &tickets {
        booked(&room, ticket).await;
    }

    let changed_ms = now_ms();
    room.publish("ops", &rate(100.0)).await.unwrap();

    let slots = all(tickets.iter().map(|ticket| admitted_at(&room, ticket))).await;
    assert!(slots.is_sorted(), "{slots:?}");
    let after: Vec<_> = slots.into_iter().filter(|slot| *slot > changed_ms).collect();
    assert!(after.len() >= 4, "most were still to come: {after:?}");
    assert!(after.windows(2).all(|pair| (9..=11).contains(&(pair[1] - pair[0]))), "{after:?}");
    assert!(after[0] <= changed_ms + 200, "{after:?} {changed_ms}");
}

#[tokio::test]
async fn nothing_is_signed_between_pause_and_resume_and_the_line_goes_on_after() {
    let ground = RoomGround::new("pause", 0, 5.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let tickets = called(&room, 4).await;
    let first = admitted_at(&room, &tickets[0]).await;
    booked(&room, &tickets[1]).await;
    booked(&room, &tickets[2]).await;

    room.publish("ops", &paused(true)).await.unwrap();

    tokio::time::sleep(Duration::from_secs(1)).await;
    for ticket in &tickets[1..] {
        assert_eq!(
            room.claim(ticket).await.unwrap(),
            Claimed::Wait { slot_ms: None, retry_after_ms: None }
        );
    }
    assert_eq!(booked(&room, &tickets[0]).await, Some(first), "what is signed stays signed");
    assert!(room.status(Some(&tickets[1]), None).paused);

    let resumed_ms = now_ms();
    room.publish("ops", &paused(false)).await.unwrap();
    let slots = all(tickets[1..].iter().map(|ticket| admitted_at(&room, ticket))).await;
    assert!(slots.is_sorted() && slots[0] >= resumed_ms + 150, "{slots:?} {resumed_ms}");
    assert!(slots[0] <= resumed_ms + 500, "{slots:?} {resumed_ms}");
}

#[tokio::test]
async fn a_stop_voids_what_was_signed_and_all_claim_anew_with_another_jti() {
    let ground = RoomGround::new("stop", 0, 100.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let tickets = called(&room, 2).await;
    admitted_at(&room, &tickets[0]).await;
    let Ok(Claimed::Admitted { token, admission }) = room.claim(&tickets[0]).await else {
        panic!("not admitted")
    };
    assert!(room.admission(&token).is_some());

    let stop = ControlChange { next_epoch: true, ..paused(true) };
    room.publish("ops", &stop).await.unwrap();

    until("the old admission is void", || room.admission(&token).is_none()).await;
    room.publish("ops", &paused(false)).await.unwrap();
    let slot = admitted_at(&room, &tickets[0]).await;
    assert!(slot > admission.since_ms());
    let Ok(Claimed::Admitted { admission: anew, .. }) = room.claim(&tickets[0]).await else {
        panic!("not admitted")
    };
    assert_ne!(anew.jti, admission.jti);
    assert_eq!(anew.sub, admission.sub);
}

#[tokio::test]
async fn wr_09_a_rate_below_one_a_second_spaces_its_slots_evenly() {
    let ground = RoomGround::new("slow", 0, 0.2).await;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let places = join_all(&room, "late", 3).await;
    let mut slots = vec![admitted_at(&room, &places[0].ticket).await];
    for place in &places[1..] {
        // The slot is told when it is booked; nobody has to wait for it here.
        let slot = loop {
            match room.claim(&place.ticket).await {
                Ok(Claimed::Wait { slot_ms: Some(slot), .. }) => break slot,
                Ok(other) => panic!("{other:?}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        slots.push(slot);
    }
    assert!(
        slots.windows(2).all(|pair| (4_999..=5_001).contains(&(pair[1] - pair[0]))),
        "{slots:?}"
    );
}

#[tokio::test]
async fn wr_04_the_present_are_in_soon_though_nine_of_ten_never_return() {
    let ground = RoomGround::new("absent", 900, 20.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let places = join_all(&room, "a", 400).await;
    until_open(&room).await;
    let opened_ms = now_ms();

    let present = places.iter().step_by(10);
    let mut slots = all(present.map(|place| admitted_at(&room, &place.ticket))).await;

    slots.sort_unstable();
    assert_eq!(slots.len(), 40);
    assert!(slots.windows(2).all(|pair| pair[1] - pair[0] >= 49), "{slots:?}");
    let took_ms = slots[39] - opened_ms;
    assert!(took_ms < 10_000, "40 slots at 20/s took {took_ms} ms");
}

#[tokio::test]
async fn an_unclaimed_call_lapses_once_gets_a_fresh_window_and_is_missed_then() {
    let mut ground = RoomGround::new("window", 0, 1_000.0).await;
    ground.file.claim_window_ms = 300;
    // Nobody collects a second time: an admission that is used up is not signed again.
    ground.token_ttl_ms = 1_000;
    ground.keep().await;
    let room = ground.room().await;
    let tickets = called(&room, 2).await;
    tokio::time::sleep(Duration::from_millis(800)).await;

    // Lapsed: one fresh window, at once.
    let slot = admitted_at(&room, &tickets[0]).await;
    assert!(slot + 1_000 > now_ms());
    until("the admission ends", || now_ms() > slot + 1_050).await;
    assert_eq!(room.claim(&tickets[0]).await.unwrap_err().problem, Problem::Missed);
    admitted_at(&room, &tickets[1]).await;
}

#[tokio::test]
async fn a_number_that_nobody_collects_is_given_up_and_its_owner_books_anew() {
    let ground = RoomGround::new("giveup", 0, 10.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let tickets = called(&room, 3).await;
    booked(&room, &tickets[0]).await;
    booked(&room, &tickets[1]).await;
    let lost = booked(&room, &tickets[2]).await.unwrap();

    until("the number is given up", || now_ms() > lost + 2_100).await;

    let slot = admitted_at(&room, &tickets[2]).await;
    assert!(slot > lost + 2_000, "{slot} {lost}");
    assert_eq!(room.snapshot().claimed, 3, "one person is one claim");
}

#[tokio::test]
async fn no_more_than_max_active_hold_an_admission_at_once() {
    let mut ground = RoomGround::new("active", 0, 1_000.0).await;
    ground.file.max_active = 2;
    ground.token_ttl_ms = 1_500;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let places = join_all(&room, "late", 6).await;

    let mut slots = all(places.iter().map(|place| admitted_at(&room, &place.ticket))).await;

    slots.sort_unstable();
    for trio in slots.windows(3) {
        assert!(trio[2] >= trio[0] + 1_499, "three at once: {slots:?}");
    }
}

#[tokio::test]
async fn without_a_healthy_core_nobody_is_admitted_and_the_page_says_paused() {
    let ground = RoomGround::new("nocore", 0, 100.0).await;
    let core = ground.keep().await;
    let room = ground.room().await;
    let tickets = called(&room, 2).await;
    admitted_at(&room, &tickets[0]).await;

    core.cancel();

    until("the figures are stale", || room.snapshot().stock(room.now_ms()).is_none()).await;
    let status = room.status(Some(&tickets[1]), None);
    assert!(status.paused && !status.sold_out && status.stock.is_none());
    assert_eq!(booked(&room, &tickets[1]).await, None);
    ground.keep().await;
    admitted_at(&room, &tickets[1]).await;
}

#[tokio::test]
async fn ahead_never_rises() {
    let ground = RoomGround::new("ahead", 500, 100.0).await;
    ground.keep().await;
    let (one, two) = (ground.room().await, ground.room().await);
    let places = join_all(&one, "a", 300).await;
    until_open(&one).await;
    until_open(&two).await;
    let mut last = vec![u64::MAX; places.len()];

    while one.snapshot().cursor < 300 {
        for (place, last) in places.iter().zip(&mut last) {
            let ahead = one.status(Some(&place.ticket), None).place.ahead.unwrap();
            assert!(ahead <= *last, "{ahead} after {last}");
            *last = ahead;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

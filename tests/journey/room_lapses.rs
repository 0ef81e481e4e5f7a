//! Windows that lapse: who has missed both may join again whatever stands still, and is known as such
//! for good.

use std::sync::Arc;

use futures_util::future::join_all as all;
use stanchion::domain::queue::PlaceState;
use stanchion::domain::refusal::Problem;
use stanchion::domain::ticket::Ticket;
use stanchion::room::{Claimed, ControlChange, JoinRequest, Room};
use stanchion::store::redis::room::Advance;

use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, anonymous, until, until_open};

/// A place that was called twice in vain, and a room that knows it.
async fn missed(ground: &mut RoomGround) -> (Arc<Room>, Ticket) {
    ground.file.claim_window_ms = 200;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let ticket = room.join(anonymous("missed")).await.unwrap().ticket;
    until("it is called", || room.snapshot().cursor == 1).await;
    until("the first window lapses", || room.snapshot().line_counts().missed == 1).await;
    // Booked ahead, in the second window, and not collected.
    ground.set("meter", &[("anchors", format!("0,{},1", now_ms() + 500))]).await;
    assert!(matches!(room.claim(&ticket).await, Ok(Claimed::Wait { slot_ms: Some(_), .. })));
    until("it is missed", || state(&room, &ticket) == PlaceState::Missed).await;
    (room, ticket)
}

fn state(room: &Room, ticket: &Ticket) -> PlaceState {
    room.status(Some(ticket), None).place.state
}

#[tokio::test]
async fn whoever_missed_hears_it_while_the_line_is_paused_the_house_full_or_the_shop_away() {
    let mut ground = RoomGround::new("missedstill", 0, 1.0).await;
    let (room, ticket) = missed(&mut ground).await;
    let is_told = async |why: &str| {
        let told = room.claim(&ticket).await.map_err(|refusal| refusal.problem);
        assert_eq!(told, Err(Problem::Missed), "{why}");
    };
    is_told("while the line moves").await;

    room.shop_is_down(true);
    is_told("without a shop").await;
    room.shop_is_down(false);

    let full = ControlChange { max_active: Some(1), ..ControlChange::default() };
    room.publish("ops", &full).await.unwrap();
    let mut inside = redis::cmd("ZADD");
    inside.arg(format!("stanchion:{{{}}}:active", ground.sale)).arg(now_ms() + 60_000).arg("other");
    let () = ground.redis.command(&inside).await.unwrap();
    is_told("a full house").await;

    let paused = ControlChange { paused: Some(true), ..ControlChange::default() };
    room.publish("ops", &paused).await.unwrap();
    is_told("paused").await;
}

#[tokio::test]
async fn a_missed_place_goes_on_as_one_new_place_beside_no_other_and_past_no_cap() {
    let mut ground = RoomGround::new("missedcaps", 0, 1.0).await;
    (ground.places_per_ip, ground.max_places) = (1, 1);
    let (room, ticket) = missed(&mut ground).await;
    let again = |key: &str, lapsed: &Ticket| {
        room.join(JoinRequest { lapsed: Some(lapsed.clone()), ..anonymous(key) })
    };

    let next = again("missed", &ticket).await.unwrap();

    assert!(!next.known && next.ticket.cohort != ticket.cohort, "{next:?}");
    for key in ["missed", "fresh", "fresher"] {
        let same = again(key, &ticket).await.unwrap();
        assert_eq!((same.known, same.ticket.cohort), (true, next.ticket.cohort), "{key}");
    }
    // One place in the house as before, and one again when the new one is given up; not two.
    assert_eq!(room.join(anonymous("other")).await.unwrap_err().problem, Problem::SaleFull);
    let address = anonymous("any").address;
    room.leave(&ticket, address).await.unwrap();
    assert_eq!(room.join(anonymous("other")).await.unwrap_err().problem, Problem::SaleFull);
    room.leave(&next.ticket, address).await.unwrap();
    assert!(!again("freshest", &next.ticket).await.unwrap().known);
    assert_eq!(room.join(anonymous("other")).await.unwrap_err().problem, Problem::SaleFull);
    assert_eq!(again("once more", &ticket).await.unwrap_err().problem, Problem::SaleFull);
}

#[tokio::test]
async fn a_window_stands_still_while_the_line_is_paused() {
    let mut ground = RoomGround::new("windowstill", 0, 100.0).await;
    ground.file.claim_window_ms = 3_000;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let ticket = room.join(anonymous("called")).await.unwrap().ticket;
    let told = || room.status(Some(&ticket), None);
    let pause = async |paused| {
        let change = ControlChange { paused: Some(paused), ..ControlChange::default() };
        room.publish("ops", &change).await.unwrap();
        until("it is known", || told().paused == paused).await;
        now_ms()
    };
    until("it is called", || told().place.state == PlaceState::Called).await;

    let paused_ms = pause(true).await;
    until("two windows are over by the clock", || now_ms() > paused_ms + 6_500).await;
    let resumed_ms = pause(false).await;

    until("lapses were looked for", || now_ms() > resumed_ms + 300).await;
    let place = told().place;
    assert_eq!((place.state, place.lapsed), (PlaceState::Called, false));
    until("the rest of the window is over", || told().place.lapsed).await;
    assert!(now_ms() > resumed_ms + 1_000, "{} ms", now_ms() - resumed_ms);
}

#[tokio::test]
async fn a_place_that_was_used_does_not_go_on_as_another_past_the_caps() {
    let mut ground = RoomGround::new("usedcaps", 0, 100.0).await;
    (ground.places_per_ip, ground.token_ttl_ms) = (1, 1_000);
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let ticket = room.join(anonymous("used")).await.unwrap().ticket;
    until("it is called", || room.snapshot().cursor == 1).await;
    let Ok(Claimed::Admitted { admission, .. }) = room.claim(&ticket).await else {
        panic!("it is not admitted")
    };
    until("the admission is over", || now_ms() > (admission.exp + 1) * 1_000).await;
    assert_eq!(room.claim(&ticket).await.unwrap_err().problem, Problem::Missed);

    let again = JoinRequest { lapsed: Some(ticket), ..anonymous("again") };

    assert_eq!(room.join(again).await.unwrap_err().problem, Problem::TooManyPlaces);
}

#[tokio::test]
async fn looks_at_the_same_moment_read_what_is_new_once() {
    let ground = RoomGround::new("looks", 0, 1.0).await;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let join = async |key: String| room.join(anonymous(&key)).await.unwrap().ticket;

    for position in 100..120_u64 {
        let mut missed = redis::cmd("ZADD");
        missed.arg(format!("stanchion:{{{}}}:missed", ground.sale)).arg(position).arg(position);
        let () = ground.redis.command(&missed).await.unwrap();
        // Who leaves is known at once; the room looks by itself as well.
        let tickets = all((0..8).map(|number| join(format!("{position}-{number}")))).await;
        for left in all(tickets.iter().map(|ticket| room.leave(ticket, None))).await {
            left.unwrap();
        }
        assert!(tickets.iter().all(|ticket| room.has_left(ticket)));
        assert!(room.snapshot().has_missed(position), "{position} is forgotten");
    }
}

const CALLS: u64 = 3_300;

#[tokio::test]
async fn first_windows_of_five_minutes_lapse_on_a_line_that_is_called_ten_times_a_second() {
    // No node is at work here: this test is the pacer, and makes the time pass.
    let mut ground = RoomGround::new("longwindow", 0, 10.0).await;
    ground.file.claim_window_ms = 300_000;
    ground.keep().await;
    let store = ground.store();
    let is_open = async || {
        let (at_ms, state) = store.look().await.unwrap();
        let figures = state.and_then(|state| state.opening.and(state.figures));
        figures.is_some_and(|figures| figures.fresh(at_ms))
    };
    let since_ms = now_ms();
    while !is_open().await {
        assert!(now_ms() < since_ms + 10_000, "never open");
    }
    let mut called = 0;
    while called < CALLS {
        assert!(now_ms() < since_ms + 60_000, "stuck at {called}");
        let before =
            [("late", CALLS), ("cursor_ceiling", CALLS), ("sale_at", now_ms() - 100), ("tick", 0)];
        ground.set("room", &before.map(|(field, value)| (field, value.to_string()))).await;
        if let Advance::Moved(to) = store.advance(called, called + 1).await.unwrap() {
            called = to;
        }
    }

    let (_, state) = store.look().await.unwrap();

    let lapsed = state.unwrap().lapses.to;
    assert!((200..CALLS / 2).contains(&lapsed), "called more than five minutes ago: {lapsed}");
}

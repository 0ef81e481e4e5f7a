//! The meter under change, and absentees, on real stores: what was booked before, what comes after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all as all;
use stanchion::domain::queue::PlaceState;
use stanchion::domain::rate::Rate;
use stanchion::domain::ticket::Ticket;
use stanchion::room::{Claimed, ControlChange, Room};
use stanchion::servers::PrivateRedis;
use stanchion::store::postgres::Which;
use tokio::task::JoinSet;

use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, admitted_at, join_all, until, until_open};
use crate::room_stock::order;

fn rate(per_second: f64) -> ControlChange {
    ControlChange { rate: Some(Rate::per_second(per_second).unwrap()), ..ControlChange::default() }
}

/// Everybody claims as soon as called; whoever has a slot ahead keeps it in mind.
async fn book_all(room: &Room, tickets: &[Ticket]) -> Vec<u64> {
    let book = async |ticket: &Ticket| loop {
        match room.claim(ticket).await {
            Ok(Claimed::Admitted { admission, .. }) => return admission.since_ms(),
            Ok(Claimed::Wait { slot_ms: Some(slot), .. }) => return slot,
            Ok(Claimed::Wait { .. }) | Err(_) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    all(tickets.iter().map(book)).await
}

async fn late(room: &Room, count: usize) -> Vec<Ticket> {
    let places = join_all(room, "late", count).await;
    places.into_iter().map(|place| place.ticket).collect()
}

/// No window holds more than the rate over it and one.
pub(crate) fn is_within(slots: &[u64], per_second: u64) {
    for (number, from) in slots.iter().enumerate() {
        for (count, to) in (1_u64..).zip(&slots[number..]) {
            let allowed = (to + 1 - from) * per_second / 1_000 + 1;
            assert!(count <= allowed, "{count} from {from} to {to}: {slots:?}");
        }
    }
}

#[tokio::test]
async fn two_seconds_booked_at_200_a_second_are_spread_out_by_a_change_to_1_a_second() {
    let ground = RoomGround::new("slower", 0, 200.0).await;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let tickets = late(&room, 400).await;
    let booked = book_all(&room, &tickets[..300]).await;
    assert!(booked.iter().max().unwrap() > &now_ms(), "some slots are ahead: {booked:?}");

    room.publish("ops", &rate(1.0)).await.unwrap();
    let changed_ms = now_ms();

    // Whoever was due by then is let in; of the others one a second, the first a second later.
    let mut told = book_all(&room, &tickets[..300]).await;
    told.sort_unstable();
    let after: Vec<_> = told.into_iter().filter(|slot| *slot > changed_ms).collect();
    let [first, .., last] = after[..] else { panic!("too late to change anything: {after:?}") };
    assert!((changed_ms..=changed_ms + 1_001).contains(&first), "{first} {changed_ms}");
    let steps = (after.len() - 1) as u64;
    assert!((last - first).abs_diff(steps * 1_000) <= 2, "{after:?}");
}

#[tokio::test]
async fn a_redis_that_fails_over_in_the_middle_gives_no_slot_before_a_turn_has_passed() {
    let redis = PrivateRedis::start().unwrap();
    let ground = RoomGround::on(Some(redis.url()), "midway", 700, 20.0).await;
    let core = ground.keep().await;
    let room = ground.room().await;
    let places = join_all(&room, "a", 80).await;
    until_open(&room).await;
    let tickets: Vec<_> = places.into_iter().map(|place| place.ticket).collect();
    let draw = room.snapshot().draw.clone().unwrap();
    let mut tickets = tickets;
    tickets.sort_by_key(|ticket| ticket.cohort.position(&draw));
    let mut slots = all(tickets[..15].iter().map(|ticket| admitted_at(&room, ticket))).await;
    book_all(&room, &tickets[15..25]).await;

    core.cancel();
    redis.restart().unwrap();
    until("the room is gone", || !room.snapshot().is_live(room.now_ms())).await;
    let gone_ms = now_ms();
    ground.keep().await;
    let after = all(tickets[15..50].iter().map(|ticket| admitted_at(&room, ticket))).await;

    let first = *after.iter().min().unwrap();
    assert!(first >= gone_ms + 49, "no credit, and nothing of what was booked: {first} {gone_ms}");
    slots.extend(after);
    slots.sort_unstable();
    is_within(&slots, 20);
}

/// The next in line ask again and again for ten beats of the pacer.
async fn nobody_else_is_let_in(room: &Room, next: &[Ticket], round: usize) {
    for _ in 0..20 {
        for claim in all(next.iter().map(|ticket| room.claim(ticket))).await {
            assert!(!matches!(claim, Ok(Claimed::Admitted { .. })), "round {round}: {claim:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Asks as told by way of one node, claims when called, until let in or until its people go.
async fn visits(room: Arc<Room>, ticket: Ticket, gone: Option<Arc<AtomicBool>>) -> Option<u64> {
    loop {
        if gone.as_ref().is_some_and(|gone| gone.load(Ordering::Relaxed)) {
            return None;
        }
        let told = room.status(Some(&ticket), None);
        let mut wait_ms = told.poll_after_ms;
        if told.place.state == PlaceState::Called {
            match room.claim(&ticket).await {
                Ok(Claimed::Admitted { admission, .. }) => return Some(admission.since_ms()),
                Ok(Claimed::Wait { retry_after_ms: Some(ms), .. }) => wait_ms = ms.min(1_000),
                Ok(Claimed::Wait { .. }) | Err(_) => {}
            }
        }
        // Later than told by up to a third, as the page does.
        let late_ms = rand::random_range(0..=wait_ms * 3 / 10);
        tokio::time::sleep(Duration::from_millis(wait_ms + late_ms)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wr_05_when_six_of_ten_go_away_at_once_all_others_are_let_in_and_never_above_the_rate() {
    let ground = RoomGround::new("goaway", 1_500, 50.0).await;
    ground.keep().await;
    let (one, other) = (ground.room().await, ground.room().await);
    let places = join_all(&one, "a", 700).await;
    until_open(&one).await;
    until_open(&other).await;
    let gone = Arc::new(AtomicBool::new(false));
    let mut visitors = JoinSet::new();
    for (number, place) in places.into_iter().enumerate() {
        let room = if number % 2 == 0 { one.clone() } else { other.clone() };
        let goes = (number % 5 < 3).then(|| gone.clone());
        visitors.spawn(visits(room, place.ticket, goes));
    }

    tokio::time::sleep(Duration::from_secs(4)).await;
    gone.store(true, Ordering::Relaxed);
    let everybody = tokio::time::timeout(Duration::from_mins(1), visitors.join_all());
    let slots = everybody.await.expect("all who stayed are let in");
    let mut slots: Vec<u64> = slots.into_iter().flatten().collect();

    slots.sort_unstable();
    assert!(slots.len() >= 280, "all who stayed are in: {}", slots.len());
    is_within(&slots, 50);
}

#[tokio::test]
async fn wr_10_five_payments_free_five_places_and_none_free_none() {
    let mut ground = RoomGround::new("freedexactly", 0, 500.0).await;
    ground.file.max_active = 10;
    ground.keep().await;
    let room = ground.room().await;
    let orders = ground.orders().await;
    until_open(&room).await;
    let tickets = late(&room, 40).await;
    let mut next = 0;
    for (round, freed) in [10, 5, 0, 5].into_iter().enumerate() {
        for ticket in &tickets[next..next + freed] {
            admitted_at(&room, ticket).await;
            orders.reserve(order(&ground, ticket, 1)).await.unwrap();
        }
        next += freed;
        until("they are counted", || room.snapshot().line_counts().open_admissions == 10).await;
        nobody_else_is_let_in(&room, &tickets[next..], round).await;
        let paid = [5, 0, 5, 0][round];
        for ticket in &tickets[next - 5..next - 5 + paid] {
            let order = order(&ground, ticket, 1).order;
            let reference = format!("paid-{}", ticket.sub);
            orders.confirm(&Which::Key(order), &reference).await.unwrap();
        }
    }
}

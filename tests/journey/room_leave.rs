//! Giving a place up, and coming back to one by its code, by way of the real steps.

use stanchion::domain::queue::PlaceState;
use stanchion::domain::refusal::Problem;
use stanchion::domain::ticket::{Cohort, Ticket};
use stanchion::room::{JoinRequest, Room};

use crate::room_ground::{RoomGround, admitted_at, anonymous, join_all, until, until_open};

fn ahead(room: &Room, ticket: &Ticket) -> Option<u64> {
    room.status(Some(ticket), None).place.ahead
}

#[tokio::test]
async fn wr_34_a_place_given_up_is_free_at_once_and_joining_again_leads_behind() {
    let mut ground = RoomGround::new("leave", 0, 0.2).await;
    ground.max_places = 20;
    ground.places_per_ip = 20;
    ground.keep().await;
    let (room, other) = (ground.room().await, ground.room().await);
    until_open(&room).await;
    let places = join_all(&room, "line", 20).await;
    until("both see the line", || room.snapshot().line == 20 && other.snapshot().line == 20).await;
    let (mine, last) = (&places[9].ticket, &places[19].ticket);
    let before = ahead(&other, last).unwrap();
    let address = anonymous("any").address;

    room.leave(mine, address).await.unwrap();

    assert_eq!(room.status(Some(mine), None).place.state, PlaceState::Left);
    until("the other node knows", || other.has_left(mine)).await;
    assert_eq!(other.status(Some(mine), None).place.ahead, None);
    assert!(ahead(&other, last).unwrap() < before, "the others are nearer");
    room.leave(mine, address).await.unwrap();
    let refused = room.claim(mine).await.unwrap_err().problem;
    assert!(matches!(refused, Problem::Missed | Problem::NotCalled), "{refused:?}");
    let again = room.join(anonymous("line-9")).await.unwrap();
    assert_eq!((again.known, again.ticket.cohort), (false, Cohort::Late(20)), "one came free");
    let beyond = room.join(anonymous("beyond")).await.unwrap_err();
    assert_eq!(beyond.problem, Problem::SaleFull, "and one only");
}

#[tokio::test]
async fn who_left_before_the_draw_is_not_drawn_to_the_front_again() {
    let ground = RoomGround::new("leavelobby", 1_500, 100.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let places = join_all(&room, "lobby", 3).await;
    room.leave(&places[1].ticket, None).await.unwrap();
    let lapsed = JoinRequest { ticket: Some(places[1].ticket.clone()), ..anonymous("lobby-1") };
    let lapsed = JoinRequest { lapsed: Some(places[1].ticket.clone()), ticket: None, ..lapsed };
    let again = room.join(lapsed).await.unwrap();
    assert_eq!(again.ticket.cohort, Cohort::Entry(3));

    until_open(&room).await;

    for place in [&places[0], &places[2], &again] {
        admitted_at(&room, &place.ticket).await;
    }
    until("all are called", || room.snapshot().cursor == 4).await;
    let refusal = room.claim(&places[1].ticket).await.unwrap_err();
    assert_eq!(refusal.problem, Problem::Missed);
    assert!(refusal.detail.contains("given this place up"), "{}", refusal.detail);
}

#[tokio::test]
async fn an_account_that_left_gets_a_new_number_on_any_device() {
    let ground = RoomGround::new("leaveaccount", 60_000, 100.0).await;
    ground.keep().await;
    let (room, other) = (ground.room().await, ground.room().await);
    let account = stanchion::domain::id::AccountId::parse("ann").unwrap();
    let of = |key: &str| JoinRequest { account: Some(account.clone()), ..anonymous(key) };
    let first = room.join(of("phone")).await.unwrap();
    room.leave(&first.ticket, None).await.unwrap();

    let second = other.join(of("laptop")).await.unwrap();
    let with_ticket = JoinRequest { ticket: Some(first.ticket), ..of("phone") };
    let third = room.join(with_ticket).await.unwrap();

    assert_eq!((second.known, second.ticket.cohort), (false, Cohort::Entry(1)));
    assert_eq!((third.known, third.ticket.cohort), (true, Cohort::Entry(1)));
}

#[tokio::test]
async fn a_code_leads_back_to_the_same_buyer_on_every_node() {
    let ground = RoomGround::new("code", 60_000, 100.0).await;
    ground.keep().await;
    let (room, other) = (ground.room().await, ground.room().await);
    let place = room.join(anonymous("mine")).await.unwrap();

    let code = room.recovery_code(&place.ticket).unwrap();
    let restored = other.restored(other.recovered(&code.to_lowercase()).unwrap());

    assert_eq!(restored.ticket.sub, place.ticket.sub);
    assert_eq!(other.ticket(&restored.token).unwrap().cohort, place.ticket.cohort);
    assert!(other.recovered("0000-0000-0000-0000").is_none());
}

#[tokio::test]
async fn a_browser_that_looks_the_same_is_sent_on_once_in_a_moment_whichever_node_it_asks() {
    let ground = RoomGround::new("senton", 60_000, 100.0).await;
    ground.keep().await;
    let (room, other) = (ground.room().await, ground.room().await);

    assert!(room.may_send_on("a browser without cookies", false).await.unwrap());
    assert!(!other.may_send_on("a browser without cookies", false).await.unwrap());
    assert!(other.may_send_on("another browser", false).await.unwrap());
    let mut times = 0;
    while times < 20 && room.may_send_on("a browser with cookies", true).await.unwrap() {
        times += 1;
    }
    assert_eq!(times, 8, "far fewer than a browser takes for a loop");
}

//! A room whose Redis is lost: nothing is given twice, and nobody is admitted until it is restored.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all as all;
use stanchion::domain::id::AccountId;
use stanchion::domain::refusal::Problem;
use stanchion::domain::ticket::Cohort;
use stanchion::room::{Claimed, JoinRequest, Room};
use stanchion::servers::PrivateRedis;
use stanchion::store::redis::room::Decision;

use crate::fixture::now_ms;
use crate::room_ground::{
    RoomGround, admitted_at, anonymous, join_all, until, until_open, until_raised,
};

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn after_redis_was_emptied_in_mid_sale_no_number_is_given_twice() {
    let redis = PrivateRedis::start().unwrap();
    let ground = RoomGround::on(Some(redis.url()), "emptied", 900, 50.0).await;
    let core = ground.keep().await;
    let room = ground.room().await;
    let mut tickets: Vec<_> =
        join_all(&room, "a", 60).await.into_iter().map(|place| place.ticket).collect();
    until_open(&room).await;
    tickets.extend(join_all(&room, "late", 20).await.into_iter().map(|place| place.ticket));
    all(tickets[..5].iter().map(|ticket| admitted_at(&room, ticket))).await;
    let before = room.snapshot();

    core.cancel();
    redis.restart().unwrap();
    until("the room is gone", || !room.snapshot().is_live(room.now_ms())).await;
    let status = room.status(Some(&tickets[0]), None);
    assert!(status.paused && status.place.position.is_some(), "the place stays, paused");
    for ticket in &tickets[..5] {
        // Redis may still refuse the connection in this moment; both are the same refusal.
        assert_eq!(room.claim(ticket).await.unwrap_err().problem, Problem::Paused);
    }
    assert_eq!(room.join(anonymous("new")).await.unwrap_err().problem, Problem::Paused);

    ground.keep().await;
    until("the room is back", || room.snapshot().is_live(room.now_ms())).await;
    let after = room.snapshot();
    assert!(after.cursor >= before.cursor, "{} then {}", before.cursor, after.cursor);
    assert_eq!(after.proof(&ground.sale), before.proof(&ground.sale));
    let anew = join_all(&room, "anew", 30).await.into_iter().map(|place| place.ticket);
    tickets.extend(anew);
    let numbers: HashSet<_> = tickets.iter().map(|ticket| ticket.cohort).collect();
    assert_eq!(numbers.len(), tickets.len(), "no number twice");
    all(tickets[..10].iter().map(|ticket| admitted_at(&room, ticket))).await;
}

#[tokio::test]
async fn a_lobby_that_lost_its_redis_goes_on_with_fresh_numbers_and_opens() {
    let redis = PrivateRedis::start().unwrap();
    let ground = RoomGround::on(Some(redis.url()), "lobbyloss", 3_000, 500.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let first = join_all(&room, "a", 10).await;

    redis.restart().unwrap();
    // A core restores within a tenth of a second: the numbers go on at the ceiling.
    until("the room is back", || room.snapshot().line >= 1_000).await;

    let second = join_all(&room, "b", 10).await;
    let numbers: HashSet<_> =
        first.iter().chain(&second).map(|place| place.ticket.cohort).collect();
    assert_eq!(numbers.len(), 20);
    until_open(&room).await;
    let draw = room.snapshot().draw.clone().unwrap();
    assert!(first.iter().all(|place| place.ticket.cohort.position(&draw).is_some()));
}

#[tokio::test]
async fn a_frozen_redis_pauses_the_line_and_is_forgiven() {
    let redis = PrivateRedis::start().unwrap();
    let ground = RoomGround::on(Some(redis.url()), "frozen", 0, 50.0).await;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let ticket = room.join(anonymous("mine")).await.unwrap().ticket;
    admitted_at(&room, &ticket).await;

    redis.freeze().unwrap();
    until("the snapshot is old", || !room.snapshot().is_live(room.now_ms())).await;
    assert_eq!(room.claim(&ticket).await.unwrap_err().problem, Problem::Paused);
    assert!(room.status(Some(&ticket), None).paused);

    redis.thaw().unwrap();
    until("the room is back", || !room.snapshot().is_paused(room.now_ms())).await;
    admitted_at(&room, &ticket).await;
}

fn signed_in(key: &str, account: &str) -> JoinRequest {
    let account = AccountId::parse(account).unwrap();
    JoinRequest { account: Some(account), address: None, ..anonymous(key) }
}

#[tokio::test]
async fn an_account_has_one_place_whatever_browser_it_comes_from() {
    let ground = RoomGround::new("account", 60_000, 50.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let laptop = room.join(signed_in("laptop", "ann")).await.unwrap();

    let phone = room.join(signed_in("phone", "ann")).await.unwrap();
    assert_eq!((phone.ticket.cohort, phone.known), (laptop.ticket.cohort, true));
    assert_eq!(phone.ticket.sub, laptop.ticket.sub);

    // Somebody else signs in on the same laptop: a place of their own, ann keeps hers.
    let bob = room.join(signed_in("laptop", "bob")).await.unwrap();
    assert_ne!(bob.ticket.cohort, laptop.ticket.cohort);
    let ann = room.join(signed_in("laptop", "ann")).await.unwrap();
    assert_eq!(ann.ticket.cohort, laptop.ticket.cohort);
}

#[tokio::test]
async fn signing_in_before_the_draw_ties_the_anonymous_place_and_after_it_does_not() {
    let ground = RoomGround::new("tying", 1_000, 50.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let before = room.join(anonymous("early")).await.unwrap();
    let tied = room
        .join(JoinRequest { ticket: Some(before.ticket.clone()), ..signed_in("early", "ann") })
        .await
        .unwrap();
    assert_eq!(tied.ticket.cohort, before.ticket.cohort);
    assert_eq!(tied.ticket.account.unwrap().as_str(), "ann");
    let never = room.join(anonymous("never")).await.unwrap();

    until_open(&room).await;

    let untied = room.join(signed_in("never", "bob")).await.unwrap();
    assert_eq!(untied.ticket.cohort, never.ticket.cohort);
    assert_eq!(untied.ticket.account, None);
    let elsewhere = room.join(signed_in("other browser", "ann")).await.unwrap();
    assert_eq!(elsewhere.ticket.cohort, before.ticket.cohort);
}

#[tokio::test]
async fn an_accounts_ticket_registers_it_again_after_a_loss_and_the_lower_number_wins() {
    let redis = PrivateRedis::start().unwrap();
    let ground = RoomGround::on(Some(redis.url()), "register", 60_000, 50.0).await;
    let core = ground.keep().await;
    let room = ground.room().await;
    until_raised(&ground).await;
    // The last moment before the loss: nobody has carried it to the journal.
    core.cancel();
    let first = room.join(signed_in("laptop", "ann")).await.unwrap();

    redis.restart().unwrap();
    ground.keep().await;
    // A core restores within a tenth of a second: the numbers go on at the ceiling.
    until("the room is back", || room.snapshot().line >= 1_000).await;
    let second = room.join(signed_in("phone", "ann")).await.unwrap();
    assert!(second.ticket.cohort > first.ticket.cohort);

    let with_ticket =
        JoinRequest { ticket: Some(first.ticket.clone()), ..signed_in("laptop", "ann") };
    assert_eq!(room.join(with_ticket).await.unwrap().ticket.cohort, first.ticket.cohort);
    let phone = room.join(signed_in("phone", "ann")).await.unwrap();
    assert_eq!(phone.ticket.cohort, Cohort::Entry(0));
}

#[tokio::test]
async fn one_place_is_one_buyer_however_many_accounts_sign_in_on_it() {
    let ground = RoomGround::new("shared", 1_500, 50.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let plain = room.join(anonymous("one")).await.unwrap().ticket;
    let signed = |account| {
        room.join(JoinRequest { ticket: Some(plain.clone()), ..signed_in("one", account) })
    };
    let ann = signed("ann").await.unwrap().ticket;
    let bob = signed("bob").await.unwrap().ticket;
    assert_eq!(ann.cohort, plain.cohort);
    assert_ne!(bob.cohort, plain.cohort, "a copy of a tied ticket ties nobody else");
    until_open(&room).await;

    admitted_at(&room, &ann).await;

    assert_eq!(room.claim(&plain).await.unwrap_err().problem, Problem::Missed);
    admitted_at(&room, &ann).await;
}

#[tokio::test]
async fn who_missed_gets_a_new_number_and_not_the_old_one_again() {
    let ground = RoomGround::new("again", 60_000, 50.0).await;
    ground.keep().await;
    let room = ground.room().await;
    for request in [signed_in("laptop", "ann"), anonymous("phone")] {
        let first = room.join(request.clone()).await.unwrap().ticket;

        let lapsed = Some(first.clone());
        let again = room.join(JoinRequest { lapsed, ..request.clone() }).await.unwrap();

        assert!(!again.known && again.ticket.cohort > first.cohort, "{:?}", again.ticket);
        assert_eq!(room.join(request).await.unwrap().ticket.cohort, again.ticket.cohort);
    }
}

#[tokio::test]
async fn a_redis_lost_in_the_lobby_calls_nobody_and_fills_no_place() {
    let redis = PrivateRedis::start().unwrap();
    let mut ground = RoomGround::on(Some(redis.url()), "lobbyloss", 60_000, 200.0).await;
    ground.max_places = 3;
    ground.keep().await;
    let room = ground.room().await;
    room.join(anonymous("before")).await.unwrap();

    redis.restart().unwrap();
    until("the room is back", || room.snapshot().line >= 1_000).await;

    assert_eq!(room.snapshot().cursor, 0);
    let after = room.join(anonymous("after")).await.unwrap();
    assert!(after.ticket.cohort >= Cohort::Entry(1_000));
}

/// When the room that Redis has was loaded; 0 = it has none.
async fn loaded_ms(ground: &RoomGround) -> u64 {
    let look = ground.store().look().await;
    look.ok().and_then(|(_, state)| state).map_or(0, |state| state.loaded_ms)
}

async fn until_loaded_anew(ground: &RoomGround, room: &Room, before_ms: u64) {
    let since = Instant::now();
    while [0, before_ms].contains(&loaded_ms(ground).await)
        || room.snapshot().is_paused(room.now_ms())
    {
        assert!(since.elapsed() < PATIENCE, "never loaded anew");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn whoever_was_inside_when_redis_was_lost_still_fills_the_house() {
    let redis = PrivateRedis::start().unwrap();
    let mut ground = RoomGround::on(Some(redis.url()), "fullhouse", 0, 50.0).await;
    ground.file.max_active = 5;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let tickets: Vec<_> =
        join_all(&room, "a", 12).await.into_iter().map(|place| place.ticket).collect();
    all(tickets[..5].iter().map(|ticket| admitted_at(&room, ticket))).await;

    // Emptied, and by an older copy that another server took over.
    for (lost, next) in tickets[5..7].iter().enumerate() {
        // Some looks of the core's.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before_ms = loaded_ms(&ground).await;
        if lost == 0 {
            redis.restart().unwrap();
        } else {
            ground.set("room", &[("loaded", "another".into())]).await;
        }
        until_loaded_anew(&ground, &room, before_ms).await;

        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(1_500) {
            for ticket in &tickets[5 + lost..] {
                let claimed = room.claim(ticket).await;
                let is_in = matches!(claimed, Ok(Claimed::Admitted { .. }));
                assert!(!is_in, "five are inside: {claimed:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let paid = [(tickets[lost].buyer(), Decision::Paid)];
        ground.store().decided(&paid).await.unwrap();
        admitted_at(&room, next).await;
    }
}

#[tokio::test]
async fn a_clock_of_redis_that_is_set_back_costs_a_pause_and_lets_nobody_in_too_fast() {
    let mut ground = RoomGround::new("setback", 0, 20.0).await;
    ground.file.max_active = 60;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let tickets: Vec<_> =
        join_all(&room, "a", 60).await.into_iter().map(|place| place.ticket).collect();
    all(tickets[..5].iter().map(|ticket| admitted_at(&room, ticket))).await;
    let before_ms = loaded_ms(&ground).await;

    // What the room keeps is of an hour that the clock is to go through once more.
    let ahead_ms = now_ms() + 3_600_000;
    let fields = [("sale_at", ahead_ms.to_string()), ("tick", (ahead_ms / 100).to_string())];
    ground.set("meter", &[("anchors", format!("0,{ahead_ms},20"))]).await;
    // So many were let in then that the house is full until that hour is over.
    let mut inside = redis::cmd("ZADD");
    inside.arg(format!("stanchion:{{{}}}:active", ground.sale));
    for buyer in 0..60 {
        inside.arg(ahead_ms + 600_000).arg(format!("of-then-{buyer}"));
    }
    let () = ground.redis.command(&inside).await.unwrap();
    ground.set("room", &fields).await;
    let since = Instant::now();
    until_loaded_anew(&ground, &room, before_ms).await;
    let mut slots = all(tickets[5..].iter().map(|ticket| admitted_at(&room, ticket))).await;

    assert!(since.elapsed() < Duration::from_secs(20), "55 at 20/s: {:?}", since.elapsed());
    slots.sort_unstable();
    let gaps = slots.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.min().is_some_and(|gap| gap >= 49), "{slots:?}");
}

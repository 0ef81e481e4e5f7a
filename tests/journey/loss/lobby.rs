//! Losses before the draw: in the lobby, and while drawing.

use stanchion::domain::sale::Phase;
use stanchion::domain::ticket::{Cohort, Ticket};
use stanchion::store::postgres::OpeningRecord;
use stanchion::store::redis::room::Freeze;

use super::{
    Loss, Servers, all_different, join, loaded, nobody_is_behind_a_hole, nothing_moves, open_now,
    signed_in, until_back, until_journalled, until_noted,
};
use crate::beacon::{commit_to_1000, round_1000};
use crate::room_ground::{join_all, joined, until, until_open};

/// Half before the copy, half after it, accounts among them; then the loss, newcomers, the draw.
async fn in_the_lobby(loss: Loss) {
    let servers = Servers::single();
    let mut ground = servers.ground("loselobby", 50.0).await;
    ground.file.paused = true;
    let core = ground.keep().await;
    let room = ground.room().await;
    let accounts = |from: u32| {
        let one = |i| joined(&room, signed_in(&format!("laptop-{i}"), &format!("account-{i}")));
        futures_util::future::join_all((from..from + 10).map(one))
    };
    let mut places = join_all(&room, "a", 100).await;
    places.extend(accounts(0).await);
    loss.prepare(&ground).await;
    places.extend(join_all(&room, "b", 100).await);
    places.extend(accounts(10).await);
    let mut tickets: Vec<Ticket> = places.into_iter().map(|place| place.ticket).collect();
    until_journalled(&ground, 20).await;
    until_noted(&ground, "entries_given", 220).await;
    let before = loaded(&ground, 0).await;

    core.cancel();
    loss.strike(&ground, &servers).await;
    nothing_moves(&room, &tickets[0]).await;
    ground.keep().await;
    until_back(&ground, &room, before.loaded_ms).await;

    assert_eq!(room.snapshot().phase(room.now_ms()), Phase::Lobby);
    for i in 0..20 {
        let phone = join(&room, signed_in(&format!("phone-{i}"), &format!("account-{i}"))).await;
        let laptop = tickets.iter().find(|ticket| ticket.account == phone.account).unwrap();
        assert_eq!((phone.cohort, &phone.sub), (laptop.cohort, &laptop.sub));
    }
    tickets.extend(join_all(&room, "new", 100).await.into_iter().map(|place| place.ticket));
    all_different(&tickets);

    open_now(&ground).await;
    until_open(&room).await;
    nobody_is_behind_a_hole(&room, &tickets);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_in_the_lobby_loses_no_place_and_gives_no_number_twice() {
    in_the_lobby(Loss::Flush).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_in_the_lobby_loses_no_place_and_gives_no_number_twice() {
    in_the_lobby(Loss::Restart).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_in_the_lobby_loses_no_place_and_gives_no_number_twice() {
    in_the_lobby(Loss::OlderCopy).await;
}

/// Entries are closed and nobody is drawn yet; `durable`: a core has written n down and died.
async fn while_drawing(loss: Loss, durable: bool, beacon: bool) {
    let servers = Servers::single();
    let mut ground = servers.ground("losedraw", 50.0).await;
    ground.file.paused = true;
    if beacon {
        commit_to_1000(&mut ground).await;
    }
    let core = ground.keep().await;
    let room = ground.room().await;
    let entered = join_all(&room, "a", 60).await;
    loss.prepare(&ground).await;
    let more = join_all(&room, "b", 60).await;
    let mut tickets: Vec<Ticket> = entered.into_iter().chain(more).map(|it| it.ticket).collect();
    until_noted(&ground, "entries_given", 120).await;
    let before = loaded(&ground, 0).await;
    core.cancel();
    open_now(&ground).await;
    tickets.extend(join_all(&room, "late", 20).await.into_iter().map(|place| place.ticket));
    assert!(tickets[120..].iter().all(|ticket| matches!(ticket.cohort, Cohort::Late(_))));
    until("entries are closed", || room.snapshot().phase(room.now_ms()) == Phase::Drawing).await;
    if durable {
        let Freeze::Frozen { n, at_ms } = ground.store().freeze(1).await.unwrap() else {
            panic!("it was frozen");
        };
        let opening = OpeningRecord { n, opened_at_ms: at_ms };
        ground.ledger.database().keep_opening(&ground.sale, 1, opening).await.unwrap();
    }

    loss.strike(&ground, &servers).await;
    nothing_moves(&room, &tickets[0]).await;
    ground.keep().await;
    until_back(&ground, &room, before.loaded_ms).await;

    if beacon {
        tickets.extend(join_all(&room, "later", 20).await.into_iter().map(|place| place.ticket));
        assert_eq!(room.snapshot().phase(room.now_ms()), Phase::Drawing);
        let signature = round_1000().verified().unwrap();
        ground.ledger.database().keep_beacon(&ground.sale, 1, &signature).await.unwrap();
    }
    until_open(&room).await;
    if beacon {
        let proof = room.snapshot().proof(&ground.sale).unwrap();
        assert_eq!((proof.round, proof.verify().unwrap().n()), (1000, 120));
    }
    let drawn = room.snapshot().draw.as_ref().unwrap().n();
    assert_eq!(drawn == 120, durable, "{drawn} were drawn");
    let old: Vec<_> = tickets.iter().map(|ticket| super::position(&room, ticket)).collect();
    let new = join_all(&room, "new", 100).await.into_iter().map(|place| place.ticket);
    let new: Vec<Ticket> = new.collect();
    let last = *old.iter().max().unwrap();
    assert!(new.iter().all(|ticket| super::position(&room, ticket) > last), "somebody jumped");
    tickets.extend(new);
    all_different(&tickets);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_while_drawing_draws_everybody_who_had_entered() {
    while_drawing(Loss::Flush, false, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_while_drawing_draws_everybody_who_had_entered() {
    while_drawing(Loss::Restart, false, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_while_drawing_draws_everybody_who_had_entered() {
    while_drawing(Loss::OlderCopy, false, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_between_the_durable_n_and_the_opening_draws_by_that_n() {
    while_drawing(Loss::Flush, true, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_between_the_durable_n_and_the_opening_draws_by_that_n() {
    while_drawing(Loss::OlderCopy, true, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_while_the_sale_waits_for_its_beacon_changes_nothing_about_the_draw() {
    while_drawing(Loss::Flush, true, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_while_the_sale_waits_for_its_beacon_changes_nothing_about_the_draw() {
    while_drawing(Loss::OlderCopy, true, true).await;
}

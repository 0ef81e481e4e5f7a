//! Slots that lie far in the past when they are collected: the admission lasts as long as any.

use stanchion::domain::admission::Admission;
use stanchion::domain::rate::Rate;
use stanchion::domain::ticket::Ticket;
use stanchion::room::{Claimed, ControlChange, Room};

use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, anonymous, until, until_open};

/// The admission of a ticket whose slot is due.
async fn admitted(room: &Room, ticket: &Ticket) -> Admission {
    match room.claim(ticket).await {
        Ok(Claimed::Admitted { admission, .. }) => *admission,
        other => panic!("{other:?}"),
    }
}

/// It lasts as long as one may from `since_ms` on, is the same when it is asked for again, and its
/// buyer is counted as inside.
async fn lasts(room: &Room, ticket: &Ticket, admission: Admission, since_ms: u64, ttl_ms: u64) {
    let left_ms = (admission.exp * 1_000).saturating_sub(since_ms);
    assert!(left_ms + 1_000 >= ttl_ms, "{left_ms} of {ttl_ms} ms: {admission:?}");
    assert_eq!(admitted(room, ticket).await, admission, "the same again");
    until("it is counted", || room.snapshot().open.undecided == 1).await;
    assert_eq!(room.snapshot().open.all, 1);
}

#[tokio::test]
async fn what_an_idle_line_has_saved_up_takes_nothing_from_the_admission() {
    let mut ground = RoomGround::new("saved", 0, 1.0).await;
    ground.file.rate = Rate::parse("5/min").unwrap();
    ground.file.burst = 100;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let ticket = room.join(anonymous("first")).await.unwrap().ticket;
    until("it is called", || room.snapshot().cursor == 1).await;
    // Nobody came for an hour.
    let (since_ms, rate) = (now_ms(), ground.file.rate.get());
    ground.set("meter", &[("anchors", format!("0,{},{rate}", since_ms - 3_600_000))]).await;

    let admission = admitted(&room, &ticket).await;

    let saved_ms = 99 * 12_000;
    let slot_ms = admission.slot_ms().unwrap();
    assert!(slot_ms.abs_diff(now_ms() - saved_ms) < 5_000, "the slot stays: {admission:?}");
    assert_eq!(admission.iat, admission.exp - ground.token_ttl_ms / 1_000);
    lasts(&room, &ticket, admission, since_ms, ground.token_ttl_ms).await;
}

#[tokio::test]
async fn a_pause_longer_than_an_admission_takes_nothing_from_a_number_that_was_due_before_it() {
    let mut ground = RoomGround::new("longpause", 0, 100.0).await;
    ground.token_ttl_ms = 5_000;
    ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    let paused = |paused| ControlChange { paused: Some(paused), ..ControlChange::default() };
    let ticket = room.join(anonymous("first")).await.unwrap().ticket;
    until("it is called", || room.snapshot().cursor == 1).await;
    // Its slot is ahead, then due, then the line stands.
    let ahead_ms = now_ms() + 1_000;
    ground.set("meter", &[("anchors", format!("0,{ahead_ms},100"))]).await;
    assert!(matches!(room.claim(&ticket).await, Ok(Claimed::Wait { slot_ms: Some(_), .. })));
    until("it is due", || now_ms() > ahead_ms).await;
    room.publish("ops", &paused(true)).await.unwrap();
    until("an admission would be over", || now_ms() > ahead_ms + 6_000).await;
    let since_ms = now_ms();
    room.publish("ops", &paused(false)).await.unwrap();

    let admission = admitted(&room, &ticket).await;

    assert_eq!(admission.slot_ms(), Some(ahead_ms), "the slot stays");
    lasts(&room, &ticket, admission, since_ms, ground.token_ttl_ms).await;
}

//! A renewed admission counts as open until its new end, and its slot is freed once.

use std::time::Duration;

use stanchion::domain::admission::Admission;
use stanchion::room::Claimed;

use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, admitted_at, join_all, until_open};

#[tokio::test]
async fn wr_46_a_renewed_admission_keeps_its_slot_to_the_new_end_and_frees_it_once() {
    let mut ground = RoomGround::new("renewed", 300, 1_000.0).await;
    ground.token_ttl_ms = 1_000;
    ground.file.max_active = 1;
    ground.keep().await;
    let room = ground.room().await;
    let places = join_all(&room, "one", 3).await;
    until_open(&room).await;

    let mut tickets: Vec<_> = places.into_iter().map(|place| place.ticket).collect();
    let draw = room.snapshot().draw.clone().unwrap();
    tickets.sort_by_key(|ticket| ticket.cohort.position(&draw));
    let slot_ms = admitted_at(&room, &tickets[0]).await;
    let Ok(Claimed::Admitted { admission, .. }) = room.claim(&tickets[0]).await else {
        panic!("the same admission again")
    };
    let renewed = Admission { exp: slot_ms.div_ceil(1_000) + 3, ..(*admission).clone() };
    room.stays_active(&renewed).await;
    room.stays_active(&admission).await;

    // Nobody else is let in before the new end; then one is, and not two.
    let second = admitted_at(&room, &tickets[1]).await;
    assert!(second + 50 >= renewed.exp * 1_000, "{second} {}", renewed.exp);
    let third = room.claim(&tickets[2]).await;
    assert!(!matches!(third, Ok(Claimed::Admitted { .. })), "{third:?}");

    // Of an epoch that is over nothing is counted.
    let voided = Admission { epoch: 9, exp: now_ms() / 1_000 + 600, ..renewed };
    room.stays_active(&voided).await;
    let freed = tokio::time::timeout(Duration::from_secs(15), admitted_at(&room, &tickets[2]));
    assert!(freed.await.is_ok(), "a voided admission holds no slot");
}

//! Single steps of the room, where two nodes or two cores race.

use std::time::Duration;

use stanchion::domain::sale::Control;
use stanchion::store::redis::room::{Advance, Freeze, Opening, Publish};

use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, join_all, until_open};

#[tokio::test]
async fn the_cursor_moves_once_a_tick_only_from_where_it_is_and_never_past_the_line() {
    let ground = RoomGround::new("cursor", 0, 0.001).await;
    ground.keep().await;
    // This room is left without a pacer: its rate calls nobody on by itself for long.
    let room = ground.room().await;
    until_open(&room).await;
    join_all(&room, "late", 40).await;
    let store = ground.store();
    let cursor = room.snapshot().cursor;

    let both = tokio::join!(store.advance(cursor, cursor + 3), store.advance(cursor, cursor + 3));

    let (one, two) = (both.0.unwrap(), both.1.unwrap());
    assert!(
        matches!(
            (one, two),
            (Advance::Moved(_), Advance::Taken(_)) | (Advance::Taken(_), Advance::Moved(_))
        ),
        "{one:?} {two:?}"
    );
    assert!(matches!(store.advance(cursor, cursor + 9).await.unwrap(), Advance::Taken(_)));
    tokio::time::sleep(Duration::from_millis(150)).await;
    let at = room.snapshot().cursor;
    if let Advance::Moved(to) = store.advance(at, 1_000_000).await.unwrap() {
        assert!(to <= 40, "beyond the line: {to}");
    }
}

#[tokio::test]
async fn two_cores_open_once_and_the_first_n_wins_for_ever() {
    let ground = RoomGround::new("openonce", 0, 10.0).await;
    let keeper = ground.keeper();
    keeper.boot().await.unwrap();
    let core = ground.keep().await;
    let room = ground.room().await;
    until_open(&room).await;
    core.cancel();
    let seen = room.snapshot().proof(&ground.sale);

    let store = ground.store();
    assert_eq!(store.freeze(1).await.unwrap(), Freeze::Open);
    let other = Opening { n: 9, opened_at_ms: 1, seed: [1; 32], key: [2; 32] };
    assert!(!store.open(1, &other).await.unwrap());
    let record = stanchion::store::postgres::OpeningRecord { n: 9, opened_at_ms: 1 };
    let kept = ground.ledger.database().keep_opening(&ground.sale, 1, record).await.unwrap();
    assert_eq!(kept.n, 0);
    assert_eq!(ground.room().await.snapshot().proof(&ground.sale), seen);
}

#[tokio::test]
async fn the_newer_control_record_reaches_the_other_store() {
    let ground = RoomGround::new("carry", 60_000, 10.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let pause = stanchion::room::ControlChange { paused: Some(true), ..Default::default() };
    assert_eq!(room.publish("ops", &pause).await.unwrap(), Publish::Changed(2));

    let database = ground.ledger.database();
    let durable = wait_for(&ground, |control| control.version == 2).await;
    assert!(durable.paused && durable.author == "ops");

    let newer = Control { version: 7, paused: false, epoch: 3, ..durable };
    database.merge_control(&ground.sale, &newer).await.unwrap();
    let since = now_ms();
    while room.snapshot().control != newer {
        assert!(now_ms() < since + 1_000, "a change takes effect within a second");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn wait_for(ground: &RoomGround, is_it: impl Fn(&Control) -> bool) -> Control {
    let since = now_ms();
    loop {
        let control = ground.ledger.database().control(&ground.sale).await.unwrap().unwrap();
        if is_it(&control) {
            return control;
        }
        assert!(now_ms() < since + 1_000, "a change is durable within a second");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

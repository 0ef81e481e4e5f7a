//! Single steps of the room, where two nodes or two cores race.

use std::time::Duration;

use stanchion::domain::id::AccountId;
use stanchion::domain::sale::Control;
use stanchion::domain::ticket::{Cohort, Ticket};
use stanchion::store::redis::room::{
    Advance, Freeze, JoinAnswer, JoinStep, Joined, Lapsed, Opening, Publish, RoomStore,
};

use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, until_open, until_raised};

#[tokio::test]
async fn the_cursor_moves_once_a_tick_only_from_where_it_is_and_never_past_the_line() {
    // No node is at work here, so nobody else moves the cursor.
    let ground = RoomGround::new("cursor", 0, 10.0).await;
    ground.keep().await;
    let store = ground.store();
    opened(&store).await;
    let steps: Vec<_> = (0..40).map(late).collect();
    store.join(&steps, 0, 0).await.unwrap().unwrap();

    let both = tokio::join!(store.advance(0, 3), store.advance(0, 3));

    let (one, two) = (both.0.unwrap(), both.1.unwrap());
    let moved = [one, two].iter().filter(|it| **it == Advance::Moved(3)).count();
    assert_eq!(moved, 1, "{one:?} {two:?}");
    assert_eq!(store.advance(0, 9).await.unwrap(), Advance::Taken(3));
    assert_eq!(store.advance(3, 3).await.unwrap(), Advance::Still(3));
    let since = now_ms();
    let far = loop {
        match store.advance(3, 1_000_000).await.unwrap() {
            Advance::Moved(to) => break to,
            // The same tick still.
            _ => assert!(now_ms() < since + 1_000),
        }
    };
    assert_eq!(far, 40);
}

#[tokio::test]
async fn the_marks_of_calls_reach_back_a_whole_window_however_long_it_is() {
    let mut ground = RoomGround::new("marks", 0, 10.0).await;
    // A mark stands for a thousandth of it, which is half a minute.
    ground.file.claim_window_ms = 36_000_000;
    ground.keep().await;
    let store = ground.store();
    opened(&store).await;
    let steps: Vec<_> = (0..40).map(late).collect();
    store.join(&steps, 0, 0).await.unwrap().unwrap();

    let (since, mut cursor) = (now_ms(), 0);
    while cursor < 5 {
        if let Advance::Moved(to) = store.advance(cursor, cursor + 1).await.unwrap() {
            cursor = to;
        }
        assert!(now_ms() < since + 10_000, "it stands at {cursor}");
    }

    let calls = format!("stanchion:{{{}}}:calls", ground.sale);
    let marks: u64 = ground.redis.command(redis::cmd("ZCARD").arg(calls)).await.unwrap();
    assert!(marks <= 2, "of five calls in a second, which may end a part: {marks}");
}

fn late(number: u64) -> JoinStep {
    let key = format!("late-{number}");
    JoinStep { key, account: None, address: None, ticket: None, lapsed: None }
}

async fn opened(store: &RoomStore) {
    let since = now_ms();
    loop {
        let (at_ms, state) = store.look().await.unwrap();
        let is_open = state.as_ref().is_some_and(|state| state.opening.is_some());
        let figures = state.and_then(|state| state.figures);
        if is_open && figures.is_some_and(|figures| figures.fresh(at_ms)) {
            return;
        }
        assert!(now_ms() < since + 10_000, "never open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn joins_of_one_step_know_of_each_other_as_if_one_had_come_after_the_other() {
    let ground = RoomGround::new("onestep", 60_000, 10.0).await;
    ground.keep().await;
    ground.room().await;
    until_raised(&ground).await;
    let ann = Some(AccountId::parse("ann of e1").unwrap());
    let step = |key: &str, account: &Option<AccountId>, address: &str| JoinStep {
        key: format!("{key:0>32}"),
        account: account.clone(),
        address: Some(address.to_owned()).filter(|address| !address.is_empty()),
        ticket: None,
        lapsed: None,
    };
    let steps = [
        step("a", &None, "here"),
        step("a", &None, "here"),
        step("b", &None, "here"),
        step("c", &None, "here"),
        step("phone", &ann, ""),
        step("laptop", &ann, ""),
        step("a", &ann, ""),
        step("d", &None, "there"),
    ];
    let place = |entry: u64, known: bool, account: &Option<AccountId>| {
        let cohort = Cohort::Entry(entry);
        JoinAnswer::Joined(Joined { cohort, known, account: account.clone() })
    };

    let joins = ground.store().join(&steps, 2, 4).await.unwrap().unwrap();

    let expected = [
        place(0, false, &None),
        place(0, true, &None),
        place(1, false, &None),
        JoinAnswer::TooMany,
        place(2, false, &ann),
        place(2, true, &ann),
        place(2, true, &ann),
        place(3, false, &None),
    ];
    assert_eq!(joins.answers, expected);
    let later = [step("e", &None, "there"), step("laptop", &None, "there")];
    let joins = ground.store().join(&later, 2, 4).await.unwrap().unwrap();
    assert_eq!(joins.answers, [JoinAnswer::Full, place(2, true, &ann)]);
    let (_, state) = ground.store().look().await.unwrap();
    assert_eq!(state.unwrap().counters.entries, 4);
}

#[tokio::test]
async fn a_number_of_a_run_that_is_over_says_nothing_in_the_next() {
    let ground = RoomGround::new("oldrun", 60_000, 10.0).await;
    ground.keep().await;
    ground.room().await;
    until_raised(&ground).await;
    let ticket = |run, entry| {
        let (sale, sub) = (ground.sale.clone(), format!("{entry:032}"));
        Some(Ticket { sale, run, sub, cohort: Cohort::Entry(entry), account: None, issued_at: 1 })
    };
    let step = |key: &str, ticket, lapsed: Option<Ticket>| JoinStep {
        key: format!("{key:0>32}"),
        account: None,
        address: None,
        ticket,
        lapsed: lapsed.map(|ticket| Lapsed { ticket, position: None }),
    };
    let join = async |steps: &[JoinStep]| {
        let joins = ground.store().join(steps, 0, 0).await.unwrap().unwrap();
        let number = |answer: &JoinAnswer| match answer {
            JoinAnswer::Joined(joined) => (joined.cohort, joined.known),
            other => panic!("{other:?}"),
        };
        joins.answers.iter().map(number).collect::<Vec<_>>()
    };
    // A node that has not heard of the reset yet sends what it has.
    let old = [step("a", ticket(9, 7), None), step("b", None, None), step("b", None, ticket(9, 1))];
    let entry = Cohort::Entry;
    assert_eq!(join(&old).await, [(entry(0), false), (entry(1), false), (entry(1), true)]);
    let now = [step("c", ticket(1, 0), None), step("b", None, ticket(1, 1))];
    assert_eq!(join(&now).await, [(entry(0), true), (entry(2), false)]);
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
    let other = Opening { n: 9, opened_at_ms: 1, seed: [1; 32], key: [2; 32], signature: None };
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

//! The journal of accounts: durable within a second, one number each, the later word counts.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use stanchion::domain::id::AccountId;
use stanchion::domain::refusal::Problem;
use stanchion::domain::ticket::Cohort;
use stanchion::room::JoinRequest;

use super::{Loss, Servers, join, loaded, signed_in, until_back, until_journalled, until_noted};
use crate::fixture::now_ms;
use crate::room_ground::{RoomGround, anonymous, joined, until_raised};

async fn journalled(ground: &RoomGround) -> Vec<(AccountId, Cohort)> {
    ground.ledger.database().places_after(&ground.sale, 1, "", 100_000).await.unwrap()
}

async fn waiting_in_redis(ground: &RoomGround) -> u64 {
    let key = format!("stanchion:{{{}}}:journal", ground.sale);
    ground.redis.command(redis::cmd("XLEN").arg(key)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_of_accounts_are_durable_with_two_cores_at_it_and_redis_forgets_them() {
    let ground = RoomGround::new("journal", 3_600_000, 10.0).await;
    ground.keep().await;
    ground.keep().await;
    let room = ground.room().await;

    let one = |i| joined(&room, signed_in(&format!("key-{i}"), &format!("account-{i:04}")));
    let places = join_all((0..1_500).map(one)).await;

    until_journalled(&ground, 1_500).await;
    let mut kept = journalled(&ground).await;
    let mut given: Vec<_> = places
        .into_iter()
        .map(|place| (place.ticket.account.unwrap(), place.ticket.cohort))
        .collect();
    kept.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
    given.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
    assert_eq!(kept, given);
    let since = now_ms();
    while waiting_in_redis(&ground).await > 0 {
        assert!(now_ms() < since + 10_000, "what is durable is forgotten in Redis");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_joined_anew_after_missing_has_the_new_number_in_the_journal_too() {
    let ground = RoomGround::new("anew", 3_600_000, 10.0).await;
    ground.keep().await;
    let room = ground.room().await;
    let first = join(&room, signed_in("laptop", "ann")).await;
    until_journalled(&ground, 1).await;

    let request = JoinRequest { lapsed: Some(first.clone()), ..signed_in("laptop", "ann") };
    let second = join(&room, request).await.cohort;

    assert!(second > first.cohort);
    let since = now_ms();
    while journalled(&ground).await[0].1 != second {
        assert!(now_ms() < since + 10_000, "the later word never counted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_copy_knows_beyond_postgres_is_written_down_before_anybody_joins() {
    let servers = Servers::single();
    let ground = servers.ground("beyond", 10.0).await;
    let core = ground.keep().await;
    let room = ground.room().await;
    until_raised(&ground).await;
    let before = loaded(&ground, 0).await;
    core.cancel();
    // Nobody carries the journal now; the copy has it, as a promoted replica would.
    let laptop = join(&room, signed_in("laptop", "ann")).await;
    Loss::OlderCopy.prepare(&ground).await;
    Loss::OlderCopy.strike(&ground, &servers).await;
    assert!(journalled(&ground).await.is_empty());

    ground.keep().await;
    until_back(&ground, &room, before.loaded_ms).await;

    assert_eq!(join(&room, signed_in("phone", "ann")).await.cohort, laptop.cohort);
    assert_eq!(journalled(&ground).await[0].1, laptop.cohort);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_accounts_are_back_after_a_flush_each_with_its_number() {
    let servers = Servers::single();
    let ground = servers.ground("many", 10.0).await;
    let core = ground.keep().await;
    let room = ground.room().await;
    let before = loaded(&ground, 0).await;
    let client = ground.ledger.database().client().await.unwrap();
    let fill = "INSERT INTO place (sale, run, account, number, joined_at_ms) \
                SELECT $1, 1, 'account-' || i, 'e' || i, 0 FROM generate_series(0, 99999) AS i";
    client.execute(fill, &[&ground.sale.as_str()]).await.unwrap();
    let raise = [("entries", 200_000), ("entries_given", 200_000)];
    ground.ledger.database().keep_ceilings(&ground.sale, 1, &raise).await.unwrap();
    core.cancel();

    Loss::Flush.strike(&ground, &servers).await;
    let since = Instant::now();
    ground.keep().await;
    until_back(&ground, &room, before.loaded_ms).await;
    println!("restored within {:?}", since.elapsed());

    for i in [0_u64, 17, 31_400, 99_999] {
        let ticket = join(&room, signed_in(&format!("phone-{i}"), &format!("account-{i}"))).await;
        assert_eq!(ticket.cohort, Cohort::Entry(i));
    }
    let new = join(&room, signed_in("new", "somebody-else")).await;
    assert_eq!(new.cohort, Cohort::Entry(200_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_wait_while_the_journal_is_full_and_one_place_is_all_they_get() {
    let ground = RoomGround::new("fulljournal", 3_600_000, 10.0).await;
    let core = ground.keep().await;
    let room = ground.room().await;
    until_raised(&ground).await;
    let known = join(&room, signed_in("known", "known")).await;
    until_noted(&ground, "entries_given", 1).await;
    core.cancel();
    let fill = "for i = 1, 20000 do redis.call('XADD', KEYS[1], '*', 'run', '1', \
                'account', 'filler-' .. i, 'number', 'e' .. (i + 100000)) end return 1";
    let key = format!("stanchion:{{{}}}:journal", ground.sale);
    let patient = ground.redis.patient().unwrap();
    let fill = redis::cmd("EVAL").arg(fill).arg(1).arg(key).to_owned();
    patient.command::<i64>(&fill).await.unwrap();

    let since = Instant::now();
    let refused = room.join(signed_in("laptop", "ann")).await.unwrap_err();
    assert_eq!(refused.problem, Problem::Overloaded);
    assert!(since.elapsed() >= Duration::from_millis(900), "a join waits a second");
    let plain = join(&room, anonymous("plain")).await;
    assert_eq!(join(&room, signed_in("known", "known")).await.cohort, known.cohort);

    ground.keep().await;
    until_journalled(&ground, 20_001).await;
    let ann = join(&room, signed_in("laptop", "ann")).await;
    let (Cohort::Entry(plain), Cohort::Entry(ann)) = (plain.cohort, ann.cohort) else {
        panic!("the lobby is open");
    };
    assert_eq!(ann, plain + 1, "what was refused used up nothing");
}

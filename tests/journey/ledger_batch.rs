//! The ledger's batches: many orders in one call, calls that wait for each other, shared keys.

use std::sync::Arc;

use stanchion::domain::refusal::Problem;
use uuid::Uuid;

use crate::fixture::core::{Core, Plan, granted, problem};
use crate::fixture::now_ms;

#[tokio::test(flavor = "multi_thread")]
async fn rs_09_the_cap_holds_over_a_wait_for_the_lock() {
    let house = Core::start(&Plan::of("waits", 100).cap(2)).await;
    let mut client = house.database.client().await.unwrap();
    let slow = client.transaction().await.unwrap();
    let statement = format!(
        "SELECT coalesce(verdicts[1], 'held') FROM take_batch('S', 0, '{}', NULL, \
         ARRAY['{}']::uuid[], ARRAY['bob'], ARRAY['k1'], ARRAY[2]::bigint[], \
         ARRAY['\\x01']::bytea[], ARRAY[false])",
        house.sale_id(),
        Uuid::now_v7()
    );
    let verdict: String = slow.query_one(&statement, &[]).await.unwrap().get(0);
    assert_eq!(verdict, "held");

    let order = house.order("bob", "k2", &[("S", 2)]);
    let core = Arc::clone(&house.orders);
    let waiting = tokio::spawn(async move { core.reserve(order).await });
    let blocked = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    house.sql_says(blocked, 1).await;
    slow.commit().await.unwrap();

    assert_eq!(problem(waiting.await.unwrap()), Problem::OverCap);
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_13_a_big_order_in_the_middle_does_not_strand_what_fits() {
    let house = Core::start(&Plan::of("middle", 10).cap(4)).await;
    let client = house.database.client().await.unwrap();
    let ids: Vec<Uuid> = (0..6).map(|_| Uuid::now_v7()).collect();
    // The third is over its buyer's cap.
    let buyers = ["a", "b", "a", "c", "d", "e"].as_slice();
    let keys = ["1", "2", "3", "4", "5", "6"].as_slice();
    let quantities: &[i64] = &[4, 4, 1, 4, 2, 1];
    let hashes: Vec<&[u8]> = vec![b"x"; 6];

    let rows = client
        .query(
            "SELECT unnest(verdicts) FROM take_batch('S', 0, $1, NULL, $2, $3, $4, $5, $6, $7)",
            &[
                &house.sale_id().as_str(),
                &ids,
                &buyers,
                &keys,
                &quantities,
                &hashes,
                &vec![false; 6],
            ],
        )
        .await
        .unwrap();

    let verdicts: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let wanted = ["held", "held", "over-cap", "insufficient", "held", "sold-out"];
    assert_eq!(verdicts, wanted);
    assert_eq!(house.stock().await.available, 0);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_28_two_equal_keys_in_one_batch_take_units_once() {
    let house = Core::start(&Plan::of("equal", 10)).await;
    let client = house.database.client().await.unwrap();
    let ids = vec![Uuid::now_v7(), Uuid::now_v7()];
    let hashes: Vec<&[u8]> = vec![b"x"; 2];

    let rows = client
        .query(
            "SELECT unnest(verdicts) FROM take_batch('S', 0, $1, NULL, $2, $3, $4, $5, $6, $7)",
            &[
                &house.sale_id().as_str(),
                &ids,
                &["a", "a"].as_slice(),
                &["k", "k"].as_slice(),
                &[3_i64, 3].as_slice(),
                &hashes,
                &vec![false; 2],
            ],
        )
        .await
        .unwrap();

    let verdicts: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(verdicts, ["held", "raced"]);
    assert_eq!(house.stock().await.available, 7);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_26_batches_that_share_keys_in_any_order_do_not_deadlock() {
    let house = Core::start(&Plan::of("shuffled", 500).sku("T", 500)).await;
    let batch = |sku: &'static str, keys: Vec<String>| {
        let (database, sale) = (house.database.clone(), house.sale_id());
        async move {
            let client = database.client().await.unwrap();
            let ids: Vec<Uuid> = keys.iter().map(|_| Uuid::now_v7()).collect();
            let hashes: Vec<&[u8]> = vec![sku.as_bytes(); keys.len()];
            client
                .query(
                    "SELECT ord FROM take_batch($1, 0, $2, NULL, $3, $4, $5, $6, $7, $8) \
                     WHERE ord = 0",
                    &[
                        &sku,
                        &sale.as_str(),
                        &ids,
                        &vec!["ann"; keys.len()],
                        &keys,
                        &vec![1_i64; keys.len()],
                        &hashes,
                        &vec![false; keys.len()],
                    ],
                )
                .await
                .map(|rows| rows.len())
        }
    };

    for round in 0..10 {
        let keys: Vec<_> = (0..50).map(|n| format!("{round}-{n:02}")).collect();
        let reversed = keys.iter().rev().cloned().collect();
        let (s, t) = tokio::join!(batch("S", keys), batch("T", reversed));
        assert_eq!((s.unwrap(), t.unwrap()), (1, 1));
    }

    assert_eq!(house.sql("SELECT count(*) FROM reservation").await, 500);
    assert_eq!(house.ledger.audit().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_46_a_hold_begins_when_it_is_granted_not_when_it_was_asked_for() {
    let house = Core::start(&Plan::of("clock", 5).hold("30s")).await;
    let mut client = house.database.client().await.unwrap();
    let blocking = client.transaction().await.unwrap();
    blocking.execute("SELECT 1 FROM stock FOR NO KEY UPDATE", &[]).await.unwrap();

    let order = house.order("ann", "k", &[("S", 1)]);
    let core = Arc::clone(&house.orders);
    let waiting = tokio::spawn(async move { core.reserve(order).await });
    let blocked = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    house.sql_says(blocked, 1).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let let_go_ms = now_ms();
    blocking.rollback().await.unwrap();

    let reservation = granted(waiting.await.unwrap());
    let ends_ms = u64::try_from(reservation.expires_at.as_millisecond()).unwrap();
    assert!(ends_ms + 5 >= let_go_ms + 30_000, "{} ms lost", let_go_ms + 30_000 - ends_ms);
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_46_a_hold_begins_after_the_wait_for_its_key() {
    let house = Core::start(&Plan::of("keywait", 5).hold("30s")).await;
    house.held("warm", "up", 1).await;
    let client = house.database.client().await.unwrap();
    let same_key = format!(
        "BEGIN; INSERT INTO reservation (id, sale, buyer, order_key, status, expires_at, created_at) \
         VALUES (gen_random_uuid(), '{}', 'ann', 'k', 'released', now(), now())",
        house.sale.id
    );
    client.batch_execute(&same_key).await.unwrap();
    let order = house.order("ann", "k", &[("S", 1)]);
    let core = Arc::clone(&house.orders);
    let waiting = tokio::spawn(async move { core.reserve(order).await });
    let blocked = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    house.sql_says(blocked, 1).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let let_go_ms = now_ms();
    client.batch_execute("ROLLBACK").await.unwrap();

    let reservation = granted(waiting.await.unwrap());
    let ends_ms = u64::try_from(reservation.expires_at.as_millisecond()).unwrap();
    assert!(ends_ms + 5 >= let_go_ms + 30_000, "{} ms lost", let_go_ms + 30_000 - ends_ms);
    house.sound().await;
}

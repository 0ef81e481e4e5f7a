//! Payments confirmed together: one transaction for all that wait, and each is told its own.

use std::sync::Arc;

use futures_util::future::join_all;
use stanchion::domain::refusal::Problem;
use stanchion::domain::reservation::Status;
use stanchion::store::postgres::Which;

use crate::fixture::core::{Core, Plan, problem};

#[tokio::test(flavor = "multi_thread")]
async fn rs_30_payments_that_wait_together_are_one_transaction_and_each_is_told_its_own() {
    let house = Core::start(&Plan::of("payments", 100)).await;
    let which = |key: &str| Which::Key(house.whose("ann", key));
    for n in 0..40 {
        house.held("ann", &format!("k{n}"), 1).await;
    }
    let released = house.held("ann", "released", 1).await;
    house.orders.release(&Which::Id(released.id)).await.unwrap();
    let mut client = house.database.client().await.unwrap();
    let blocking = client.transaction().await.unwrap();
    let lock = "SELECT 1 FROM reservation WHERE order_key = 'k0' FOR NO KEY UPDATE";
    blocking.execute(lock, &[]).await.unwrap();
    let first = {
        let (core, which) = (Arc::clone(&house.orders), which("k0"));
        tokio::spawn(async move { core.confirm(&which, "pay-0").await })
    };
    let blocked = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    house.sql_says(blocked, 1).await;

    let keys: Vec<_> = (1..40).map(|n| (format!("k{n}"), format!("pay-{n}"))).collect();
    let good = join_all(keys.iter().map(|(key, paid)| {
        let (core, which) = (&house.orders, which(key));
        async move { core.confirm(&which, paid).await }
    }));
    let (unknown, gone) = (which("nobody"), which("released"));
    let others = async {
        tokio::join!(house.orders.confirm(&unknown, "pay-x"), house.orders.confirm(&gone, "pay-y"),)
    };
    // All of them are asked before this lets the first one go on.
    let letting_go = async { blocking.commit().await.unwrap() };
    let (good, (unknown, gone), ()) = tokio::join!(good, others, letting_go);

    assert_eq!(first.await.unwrap().unwrap().status, Status::Confirmed);
    assert!(good.iter().all(|paid| paid.as_ref().unwrap().status == Status::Confirmed));
    assert_eq!(problem(unknown), Problem::UnknownOrder);
    assert_eq!(problem(gone), Problem::Released);
    let written = "SELECT count(DISTINCT txid) FROM outbox WHERE type = 'confirmed'";
    assert_eq!(house.sql(written).await, 2);
    let owed = "SELECT count(*) FROM outbox WHERE type = 'refund_due'";
    assert_eq!(house.sql(owed).await, 1);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_30_two_payments_for_one_order_at_once_confirm_it_once_and_owe_one_back() {
    let house = Core::start(&Plan::of("twice", 30)).await;
    for round in 0..10 {
        let key = format!("k{round}");
        let mine = house.held("ann", &key, 1).await;
        let (by_id, by_key) = (Which::Id(mine.id), Which::Key(house.whose("ann", &key)));
        let paid = join_all([
            house.orders.confirm(&by_id, "one"),
            house.orders.confirm(&by_key, "two"),
            house.orders.confirm(&by_key, "one"),
            house.orders.confirm(&by_id, "two"),
        ])
        .await;
        let refused: Vec<_> = paid.into_iter().filter_map(Result::err).collect();
        assert_eq!(refused.len(), 2, "{refused:?}");
        assert!(refused.iter().all(|refusal| refusal.problem == Problem::PaymentConflict));
    }
    let owed = "SELECT count(*) FROM outbox WHERE type = 'refund_due'";
    assert_eq!(house.sql(owed).await, 10);
    house.sound().await;
}

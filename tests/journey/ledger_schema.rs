//! What keeps the hot row lean, and what is said when something else fattens it. Cases by their ids.

use std::time::{Duration, Instant};

use crate::fixture::core::{Core, Plan};

#[tokio::test(flavor = "multi_thread")]
async fn rs_77_nothing_refers_to_the_hot_row_and_it_has_one_index() {
    let house = Core::start(&Plan::of("schema", 3)).await;
    let referring = "SELECT count(*) FROM pg_constraint \
                     WHERE contype = 'f' AND confrelid IN ('stock'::regclass, 'reservation'::regclass)";
    assert_eq!(house.sql(referring).await, 0);
    let indexes = "SELECT count(*) FROM pg_index WHERE indrelid = 'stock'::regclass";
    assert_eq!(house.sql(indexes).await, 1);
    let triggers = "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal \
                    AND (tgrelid = 'stock'::regclass OR tgtype & 4 = 4)";
    assert_eq!(house.sql(triggers).await, 0, "a take would pay for it");

    // Multixacts are what shared locks of a row lead to.
    let members = "SELECT mxid_age(relminmxid)::bigint FROM pg_class WHERE oid = 'stock'::regclass";
    let before = house.sql(members).await;
    for n in 0..20 {
        house.held("ann", &format!("k{n}"), 1).await.id.to_string();
        if n % 2 == 0 {
            let which =
                stanchion::store::postgres::Which::Key(house.whose("ann", &format!("k{n}")));
            house.orders.release(&which).await.unwrap();
        }
        if n == 2 {
            house.orders.restock(&house.sale.skus[0].sku, 20, "more").await.unwrap();
        }
    }
    assert_eq!(house.sql(members).await, before);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_can_be_replicated_logically() {
    let house = Core::start(&Plan::of("identity", 3)).await;
    let without = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                   WHERE n.nspname = 'public' AND c.relkind = 'r' AND c.relreplident = 'd' \
                   AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)";
    assert_eq!(house.sql(without).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_78_a_transaction_that_keeps_old_rows_alive_is_noticed_until_it_ends() {
    let house = Core::start(&Plan::of("snapshot", 3)).await;
    let oldest = &house.orders.metrics().oldest_snapshot;
    house.orders.reconcile().await.unwrap();
    let quiet = oldest.get();
    let mut client = house.database.client().await.unwrap();
    let old = client
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .start()
        .await
        .unwrap();
    old.execute("SELECT count(*) FROM stock", &[]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;

    house.orders.reconcile().await.unwrap();
    assert!(oldest.get() >= 0.3 && quiet < 0.3, "{} after {quiet}", oldest.get());
    old.rollback().await.unwrap();
    let since = Instant::now();
    while oldest.get() >= 0.3 {
        assert!(since.elapsed() < Duration::from_secs(10), "{} s", oldest.get());
        house.orders.reconcile().await.unwrap();
    }
}

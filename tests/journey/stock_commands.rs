//! A SKU frozen and thawed, a ledger that was restored, a pool that does not fit, and SKUs alike.

use std::sync::Arc;

use futures_util::future::join_all;
use http::Method;
use serde_json::json;
use stanchion::clock::SystemClock;
use stanchion::domain::id::Sku;
use stanchion::domain::refusal::Problem;
use stanchion::reservations::{Reservations, Reserved};
use stanchion::store::postgres::{Database, Ledger, Options, Which};
use tokio_util::task::TaskTracker;

use crate::fixture::core::{Core, Plan, granted, problem, replayed};
use crate::fixture::served::{CORE_KEY, OPS_KEY, Served, body, is, one};

fn s() -> Sku {
    Sku::parse("S").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_sku_sells_nothing_and_what_was_ordered_lives_on() {
    let core = Served::start(&Plan::of("freeze", 5)).await;
    let held = body(&core.order("ann", "k1", one("S", 2)).await);
    let turn = |how: &'static str, key: &'static str| {
        let path = format!("/v1/stock/S/{how}");
        let core = &core;
        async move { core.call(Method::POST, &path, key, "").await }
    };

    is(&turn("freeze", CORE_KEY).await, 403, "not-admitted");
    for _ in 0..2 {
        let frozen = body(&turn("freeze", OPS_KEY).await);
        assert_eq!((&frozen["frozen"], &frozen["generation"]), (&json!(true), &json!(2)));
    }
    let attempts = core.house.attempts();
    let refusal = is(&core.order("bob", "k2", one("S", 1)).await, 409, "frozen");
    assert_eq!(refusal["sku"], "S");
    assert_eq!(core.house.attempts(), attempts, "the ledger is not asked what is known");
    assert_eq!(core.house.count().await, Some(3), "the gate has its unit back");
    assert_eq!(core.order("ann", "k1", one("S", 2)).await.status, 200);
    let id = held["id"].as_str().unwrap();
    let paid = json!({"payment_ref": "p1"});
    let confirmed = core.post(&format!("/v1/reservations/{id}/confirm"), &paid).await;
    assert_eq!(body(&confirmed)["status"], "confirmed");
    core.post(&format!("/v1/reservations/{id}/cancel"), &json!({})).await;

    let thawed = body(&turn("thaw", OPS_KEY).await);
    assert_eq!((&thawed["frozen"], &thawed["generation"]), (&json!(false), &json!(3)));
    assert_eq!(core.order("bob", "k2", one("S", 5)).await.status, 201);
    let nothing = core.call(Method::POST, "/v1/stock/NOPE/freeze", OPS_KEY, "").await;
    is(&nothing, 404, "unknown-sku");
    let trail = body(&core.call(Method::GET, "/v1/audit-trail", OPS_KEY, "").await);
    let told: Vec<_> = trail["entries"].as_array().unwrap().iter().collect();
    assert!(told.iter().any(|entry| entry["action"] == "freeze-stock"), "{trail}");
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_freeze_has_returned_nothing_more_is_taken() {
    let house = Arc::new(Core::start(&Plan::of("freezes", 100_000).shards(3)).await);
    let second = house.second().await;
    let orders = (0..24).map(|n| {
        let house = Arc::clone(&house);
        let core = Arc::clone(if n % 2 == 0 { &house.orders } else { &second });
        tokio::spawn(async move {
            for round in 0.. {
                let order = house.order(&format!("b{n}"), &format!("k{round}"), &[("S", 1)]);
                if let Err(refusal) = core.reserve(order).await {
                    return refusal.problem;
                }
            }
            unreachable!()
        })
    });
    let orders: Vec<_> = orders.collect();
    while house.sql("SELECT count(*) FROM reservation").await < 50 {
        tokio::task::yield_now().await;
    }

    house.orders.freeze(&s(), true).await.unwrap();
    let taken = house.sql("SELECT count(*) FROM reservation").await;
    for ended in join_all(orders).await {
        assert_eq!(ended.unwrap(), Problem::Frozen);
    }
    assert_eq!(house.sql("SELECT count(*) FROM reservation").await, taken);
    house.orders.freeze(&s(), false).await.unwrap();
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thawing_or_spreading_what_is_for_sale_already_leaves_its_gate_alone() {
    let house = Core::start(&Plan::of("rethaw", 10)).await;
    house.held("ann", "k1", 1).await;
    let key = format!("stanchion:{{{}}}:stock:S", house.sale.id);
    let shift = |by: i64| redis::cmd("HINCRBY").arg(&key).arg("count").arg(by).clone();
    // As two takes do that are under way.
    house.redis.command::<()>(&shift(-2)).await.unwrap();

    house.orders.freeze(&s(), false).await.unwrap();
    assert_eq!(house.count().await, Some(7));
    house.orders.set_shards(&s(), 1).await.unwrap();
    assert_eq!(house.count().await, Some(7));

    house.redis.command::<()>(redis::cmd("DEL").arg(&key)).await.unwrap();
    house.orders.freeze(&s(), false).await.unwrap();
    assert_eq!(house.count().await, Some(9), "a gate that is not there is loaded");
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_was_restored_is_older_than_its_gate_and_wins() {
    let house = Core::start(&Plan::of("restored", 10)).await;
    house.held("ann", "k1", 2).await;
    house.sql("CREATE TABLE kept_stock AS TABLE stock").await;
    house.sql("CREATE TABLE kept_sku AS TABLE sku").await;
    for frozen in [true, false, true, false] {
        house.orders.freeze(&s(), frozen).await.unwrap();
    }
    let lost = house.held("bob", "k2", 3).await;
    assert_eq!(house.count().await, Some(5));

    // As from a backup of before the freezes: bob's order is gone.
    for statement in [
        format!("DELETE FROM reservation WHERE id = '{}'", lost.id),
        format!("DELETE FROM reservation_line WHERE reservation = '{}'", lost.id),
        format!("DELETE FROM movement WHERE reservation = '{}'", lost.id),
        format!("DELETE FROM outbox WHERE reservation = '{}'", lost.id),
        "UPDATE stock s SET available = k.available, version = k.version FROM kept_stock k".into(),
        "UPDATE sku s SET generation = k.generation FROM kept_sku k".into(),
        "DROP TABLE kept_stock, kept_sku".into(),
    ] {
        house.sql(&statement).await;
    }
    house.orders.reconcile().await.unwrap();
    assert_eq!(house.count().await, Some(8), "the gate was rebuilt from the ledger");
    assert_eq!(house.orders.metrics().gate_too_high.get(), 0, "and that is no alarm");

    house.orders.freeze(&s(), true).await.unwrap();
    house.orders.freeze(&s(), false).await.unwrap();
    replayed(house.reserve("ann", "k1", 2).await);
    assert_ne!(house.held("bob", "k2", 3).await.id, lost.id);
    assert_eq!(house.orders.metrics().gate_bypasses.get(), 0);
    house.sql("SELECT 1").await;
    assert_eq!(house.ledger.audit().await.unwrap(), []);
    assert_eq!(house.count().await, Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_are_set_over_http_with_what_is_wrong_named() {
    let core = Served::start(&Plan::of("httpshards", 7)).await;
    let shards = |raw: &'static str| core.call(Method::POST, "/v1/stock/S/shards", OPS_KEY, raw);

    for bad in [r#"{"count":0}"#, r#"{"count":65}"#, r#"{"count":-1}"#, r#"{"count":"2"}"#, "{}"] {
        let refusal = is(&shards(bad).await, 400, "bad-request");
        assert_eq!(refusal["field"], "count", "{bad}");
    }
    assert_eq!(is(&shards(r#"{"count":3}"#).await, 409, "bad-request")["field"], "sku");
    core.call(Method::POST, "/v1/stock/S/freeze", OPS_KEY, "").await;
    let done = body(&shards(r#"{"count":3}"#).await);
    assert_eq!((&done["shards"], &done["available"]), (&json!(3), &json!(7)));
    // Sent again after a thaw it is what it was.
    core.call(Method::POST, "/v1/stock/S/thaw", OPS_KEY, "").await;
    assert_eq!(body(&shards(r#"{"count":3}"#).await)["shards"], 3);
    assert_eq!(core.order("ann", "k", one("S", 7)).await.status, 201);
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_62_skus_are_the_same_exact_bytes_everywhere() {
    let skus = ["A-1", "a-1", "01", "1", "caf\u{e9}", "cafe\u{301}"];
    let plan =
        skus.iter().zip(10..).fold(Plan::of("bytes", 1), |plan, (sku, units)| plan.sku(sku, units));
    let house = Core::start(&plan).await;

    for (sku, units) in skus.iter().zip(10..) {
        let mine = granted(house.reserve_lines("ann", sku, &[(sku, 1)]).await);
        assert_eq!(mine.lines[0].sku.as_str(), *sku);
        let stock = house.stock_of(sku).await;
        assert_eq!(
            (stock.available, house.count_of(sku).await),
            (units - 1, Some(i64::try_from(units).unwrap() - 1))
        );
    }
    granted(house.reserve_lines("ann", "trimmed", &[(" A-1 ", 1)]).await);
    assert_eq!(house.stock_of("A-1").await.available, 8);
    house.sound().await;
}

/// A core whose pool is its own, as a role that may have four connections at once.
async fn crowded(house: &Core, url: &str) -> Arc<Reservations> {
    let options = Options { connections: 2, lane_connections: 2, ..Options::default() };
    let ledger = Ledger::new(Database::open(url, options).await.unwrap());
    let sales = std::slice::from_ref(&house.sale);
    let (gate, clock, tasks) = (house.gate.clone(), Arc::new(SystemClock), TaskTracker::new());
    let core = Arc::new(Reservations::new(ledger, gate, sales, clock, tasks));
    core.prepare().await.unwrap();
    core
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_70_pools_that_do_not_fit_are_refused_at_the_start_or_answer_503() {
    let house = Core::start(&Plan::of("pool", 500)).await;
    let role = house.ground.sale.replace('-', "_");
    for statement in [
        format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 4"),
        format!("GRANT pg_read_all_data, pg_write_all_data TO {role}"),
        format!("GRANT CREATE ON SCHEMA public TO {role}"),
    ] {
        house.sql(&statement).await;
    }
    let url = house.ground.database_url.replace("stanchion@", &format!("{role}@"));

    let refused = Database::open(&url, Options::default()).await.err().unwrap().to_string();
    assert!(refused.contains("the role's CONNECTION LIMIT is 4: raise it"), "{refused}");
    let one = crowded(&house, &url).await;
    granted(one.reserve(house.order("first", "k", &[("S", 1)])).await);
    // The core too many: it starts, and what it cannot do it says.
    let two = crowded(&house, &url).await;
    let orders = (0..200).map(|n| {
        let core = if n % 2 == 0 { &one } else { &two };
        core.reserve(house.order(&format!("b{n}"), &format!("k{n}"), &[("S", 1)]))
    });
    let outcomes = join_all(orders).await;

    let held = outcomes.iter().filter(|outcome| matches!(outcome, Ok(Reserved::New(_)))).count();
    assert!(held >= 100, "the core that was there first goes on: {held}");
    for refusal in outcomes.into_iter().filter_map(Result::err) {
        assert_eq!(refusal.http_status(), 503, "{refusal:?}");
        assert!(refusal.retry_after_ms.is_some());
    }
    let rows = house.sql("SELECT count(*) FROM reservation").await;
    assert_eq!(rows, i64::try_from(held).unwrap() + 1);
    drop((one, two));
    let which = Which::Key(house.whose("nobody", "k"));
    assert_eq!(problem(house.orders.confirm(&which, "p").await), Problem::UnknownOrder);
    assert_eq!(house.ledger.audit().await.unwrap(), []);
}

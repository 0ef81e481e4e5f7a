//! The gate's counter stays exact: marks, give-backs, pushes, comparisons. Cases by their ids.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::redis::{Script, cmd};
use futures_util::future::join_all;
use stanchion::domain::id::Sku;
use stanchion::domain::refusal::Problem;
use stanchion::reservations::Action;
use stanchion::store::postgres::{Loaded, SkuLoad, Which};
use stanchion::store::redis::gate::{Pass, UNITS_MAX, Word};
use tokio_util::sync::CancellationToken;
use uuid::{NoContext, Timestamp, Uuid};

use crate::fixture::core::{Core, Plan, grants, problem, replayed};
use crate::fixture::now_ms;

fn s() -> Sku {
    Sku::parse("S").unwrap()
}

/// An order at the gate alone, as a core that dies right after it.
fn pass(house: &Core, buyer: &str, key: &str, qty: i64) -> Pass {
    let order = house.order(buyer, key, &[("S", qty)]);
    Pass {
        sale: house.sale_id(),
        closes_ms: now_ms() + 60_000,
        marker: order.order.marker(),
        id: an_id_of_a_minute_ago(),
        lines: order.cart.lines().iter().map(|line| (line.clone(), 1)).collect(),
    }
}

/// Made so long ago that no take of it can be under way any more.
fn an_id_of_a_minute_ago() -> Uuid {
    Uuid::new_v7(Timestamp::from_unix(NoContext, now_ms() / 1000 - 60, 0))
}

async fn set_count(house: &Core, units: i64) {
    let key = format!("stanchion:{{{}}}:stock:S", house.sale.id);
    house.redis.command::<()>(cmd("HSET").arg(key).arg("count").arg(units)).await.unwrap();
}

async fn reconcile(house: &Core) -> Action {
    house.orders.reconcile().await.unwrap().1.remove(0).action
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_20_a_core_that_died_between_gate_and_ledger_blocks_no_key_and_loses_no_unit() {
    let house = Core::start(&Plan::of("died", 5)).await;
    assert_eq!(reconcile(&house).await, Action::Loaded);
    assert_eq!(house.gate.take(&pass(&house, "ann", "k1", 2)).await.unwrap(), Word::Try);
    assert_eq!(house.count().await, Some(3));

    // The retry is granted under the same mark: the gate pays once.
    house.held("ann", "k1", 2).await;
    assert_eq!((house.count().await, house.stock().await.available), (Some(3), 3));

    // Nobody comes back for this one: two comparisons find its units.
    assert_eq!(house.gate.take(&pass(&house, "bob", "k2", 3)).await.unwrap(), Word::Try);
    assert_eq!(house.count().await, Some(0));
    assert_eq!(reconcile(&house).await, Action::Noted);
    assert_eq!(reconcile(&house).await, Action::Raised);
    assert_eq!(house.count().await, Some(3));
    house.held("bob", "k2", 3).await;
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_53_malformed_arguments_are_refused_before_anything_is_written() {
    let house = Core::start(&Plan::of("malformed", 5)).await;
    house.held("ann", "k0", 1).await;
    let script = Script::new(include_str!("../../src/store/redis/gate_take.lua"));
    let keys = [
        format!("stanchion:{{{}}}:stock:S", house.sale.id),
        format!("stanchion:{{{}}}:takes:S", house.sale.id),
    ];

    let end = (now_ms() / 1000 + 60).to_string();
    let bad_ends = ["0", "-1", "", "1e9", "1000000000000"].map(|bad| [bad, "1", "1", "1", "1"]);
    let bad_lines = ["0", "-1", "", "2", "x"].map(|bad| [&end, bad, "1", "1", "1"]);
    let bad_places = ["0", "2", "", "x"].map(|bad| [&end, "1", bad, "1", "1"]);
    let bad_generations = ["0", "-1", "", "x"].map(|bad| [&end, "1", "1", bad, "1"]);
    let bad_quantities =
        ["0", "-5", "", "1.5", "0x2", "10000000"].map(|bad| [&end, "1", "1", "1", bad]);
    let bad = bad_ends.into_iter().chain(bad_lines).chain(bad_places);
    for [end, lines, place, generation, qty] in bad.chain(bad_generations).chain(bad_quantities) {
        let mut call = script.prepare_invoke();
        call.key(&keys[0]).key(&keys[1]).arg(end);
        // A good order before it takes nothing either.
        call.arg("good").arg("id").arg(1).arg(1).arg(1).arg(1);
        call.arg("field").arg("id").arg(lines).arg(place).arg(generation).arg(qty);
        let outcome = house.redis.run::<::redis::Value>(&call).await;
        assert!(
            outcome.is_err(),
            "{end:?} {lines:?} {place:?} {generation:?} {qty:?}: {outcome:?}"
        );
    }
    assert_eq!(house.count().await, Some(4));

    // Settings that make no sense are refused by the ledger too.
    let load = SkuLoad {
        sku: Sku::parse("Z").unwrap(),
        sale: house.sale_id(),
        units: 1,
        units_per_buyer: 0,
        hold_ms: 0,
        shards: 1,
    };
    assert!(house.ledger.load_sku(&load).await.is_err());
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_57_the_gate_opens_with_the_first_unit_that_returns() {
    let house = Core::start(&Plan::of("returns", 2)).await;
    let mine = house.held("ann", "k1", 2).await;
    assert_eq!(problem(house.reserve("bob", "k2", 1).await), Problem::SoldOut);

    house.orders.release(&Which::Id(mine.id)).await.unwrap();
    house.held("bob", "k2", 2).await;
    assert_eq!(problem(house.reserve("eve", "k3", 1).await), Problem::SoldOut);

    house.orders.restock(&s(), 5, "more").await.unwrap();
    house.held("eve", "k3", 5).await;
    assert_eq!(problem(house.reserve("kim", "k4", 1).await), Problem::SoldOut);

    house.lapse().await;
    house.orders.sweep().await.unwrap();
    house.held("kim", "k4", 1).await;
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_58_refusals_by_the_ledger_leave_the_counter_exact() {
    let house = Core::start(&Plan::of("refusals", 500).cap(1)).await;
    house.held("ann", "k", 1).await;

    for round in 0..10 {
        let outcomes = join_all((0..50).map(|n| {
            let order = house.order("ann", &format!("{round}-{n}"), &[("S", 1)]);
            house.orders.reserve(order)
        }))
        .await;
        assert_eq!(grants(&outcomes), 0);
    }
    assert_eq!(house.count().await, Some(499));

    // A replay whose mark was lost passes as new, and its units come back once.
    let takes = format!("stanchion:{{{}}}:takes:S", house.sale.id);
    house.redis.command::<()>(cmd("DEL").arg(&takes)).await.unwrap();
    for _ in 0..3 {
        replayed(house.reserve("ann", "k", 1).await);
        assert_eq!(house.count().await, Some(499));
    }
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_60_more_units_than_lua_can_count_are_refused() {
    let house = Core::start(&Plan::of("precision", 1)).await;
    let (generation, returned) = (1, [(0, 0)]);
    for (units, sku) in [(9_007_199_254_740_993, "A"), (UNITS_MAX + 1, "B")] {
        let sku = Sku::parse(sku).unwrap();
        let loaded = house.gate.load(&house.sale.id, &sku, (generation, units), &returned).await;
        assert!(loaded.is_err());
    }
    let sku = Sku::parse("C").unwrap();
    house.gate.load(&house.sale.id, &sku, (generation, UNITS_MAX), &returned).await.unwrap();
    assert_eq!(house.count_of("C").await, i64::try_from(UNITS_MAX).ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_above_the_ledger_is_lowered_at_once_and_below_it_only_at_the_second_look() {
    let house = Core::start(&Plan::of("drift", 50)).await;
    house.held("ann", "k0", 10).await;

    set_count(&house, 60).await;
    assert_eq!(reconcile(&house).await, Action::Lowered);
    assert_eq!(house.count().await, Some(40));
    assert_eq!(house.orders.metrics().gate_too_high.get(), 1);

    set_count(&house, 20).await;
    assert_eq!(reconcile(&house).await, Action::Noted);
    assert_eq!(house.count().await, Some(20));
    assert_eq!(reconcile(&house).await, Action::Raised);
    assert_eq!(house.count().await, Some(40));
    assert_eq!(reconcile(&house).await, Action::None);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_was_lost_is_made_up_for_exactly() {
    let house = Core::start(&Plan::of("push", 10)).await;
    let mine = house.held("ann", "k1", 4).await;
    // The core that released it died before it told the gate.
    let (_, pushes) = house.ledger.release(&Which::Id(mine.id)).await.unwrap();
    assert_eq!(house.count().await, Some(6));

    assert_eq!(reconcile(&house).await, Action::None);
    assert_eq!(house.count().await, Some(10));
    // The push itself, late and twice, adds nothing.
    for push in pushes.iter().chain(&pushes) {
        let added =
            house.gate.push(&push.sale, &push.sku, push.shard, push.returned).await.unwrap();
        assert_eq!(added, 0);
    }
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_hears_of_what_came_back_whoever_left_and_whoever_asks_again() {
    let house = Core::start(&Plan::of("leftearly", 10)).await;
    let [left, again] = [house.held("ann", "k1", 4).await, house.held("ann", "k2", 3).await];
    let client = house.database.client().await.unwrap();
    client.batch_execute("BEGIN; SELECT 1 FROM stock FOR NO KEY UPDATE").await.unwrap();
    let core = Arc::clone(&house.orders);
    let releasing = tokio::spawn(async move { core.release(&Which::Id(left.id)).await });
    let blocked = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    house.sql_says(blocked, 1).await;
    releasing.abort();
    assert!(releasing.await.unwrap_err().is_cancelled());
    client.batch_execute("COMMIT").await.unwrap();
    gate_counts(&house, 7).await;

    // As by this very call over a link that broke: it is done, and nobody told the gate.
    house.ledger.release(&Which::Id(again.id)).await.unwrap();
    assert_eq!(house.count().await, Some(7));
    house.orders.release(&Which::Id(again.id)).await.unwrap();
    let stop = CancellationToken::new();
    let watching = tokio::spawn(Arc::clone(&house.orders).watch_shelves(stop.clone()));
    gate_counts(&house, 10).await;
    stop.cancel();
    watching.await.unwrap();
    house.sound().await;
}

async fn gate_counts(house: &Core, units: i64) {
    let since = Instant::now();
    while house.count().await != Some(units) {
        assert!(since.elapsed() < Duration::from_secs(10), "never {units} at the gate");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_shields_the_ledger_from_those_who_come_too_late() {
    let house = Core::start(&Plan::of("shield", 20)).await;
    let outcomes = join_all((0..400).map(|n| {
        house.orders.reserve(house.order(&format!("b{n}"), &format!("k{n}"), &[("S", 1)]))
    }))
    .await;

    assert_eq!(grants(&outcomes), 20);
    assert_eq!(house.attempts(), 20, "only who passed the gate reached the ledger");

    assert_eq!(problem(house.reserve("late", "x", 1).await), Problem::SoldOut);
    // Whoever asked Postgres now would wait for these locks in vain.
    let mut client = house.database.client().await.unwrap();
    let locked = client.transaction().await.unwrap();
    locked.batch_execute("LOCK TABLE sku, stock, reservation, control").await.unwrap();
    let answers = async {
        for n in 0..50 {
            let outcome = house.reserve("late", &format!("x{n}"), 1).await;
            assert_eq!(problem(outcome), Problem::SoldOut);
        }
    };
    tokio::time::timeout(Duration::from_secs(2), answers).await.expect("sold out runs SQL");
    locked.rollback().await.unwrap();
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn units_are_loaded_once_and_a_sku_belongs_to_one_sale() {
    let house = Core::start(&Plan::of("once", 10)).await;
    let load = |sale: &str, units| SkuLoad {
        sku: s(),
        sale: stanchion::domain::id::SaleId::parse(sale).unwrap(),
        units,
        units_per_buyer: 0,
        hold_ms: 1_000,
        shards: 1,
    };
    let ours = house.sale.id.as_str();

    assert_eq!(house.ledger.load_sku(&load(ours, 99)).await.unwrap(), Loaded::Known);
    assert_eq!(house.ledger.load_sku(&load("another", 99)).await.unwrap(), Loaded::OtherSale);

    assert_eq!(house.stock().await.loaded, 10);
    house.sound().await;
}

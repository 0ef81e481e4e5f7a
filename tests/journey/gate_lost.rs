//! The gate lost, evicted, flushed, dead, lying or thawed: nothing is oversold. Cases by their ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::redis::cmd;
use futures_util::future::join_all;
use stanchion::domain::id::Sku;
use stanchion::domain::refusal::Problem;
use stanchion::reservations::Reserved;
use stanchion::servers::PrivateRedis;
use stanchion::store::postgres::Which;
use tokio_util::sync::CancellationToken;

use crate::fixture::Ground;
use crate::fixture::core::{Core, Plan, grants, problem, replayed};

#[tokio::test(flavor = "multi_thread")]
async fn rs_52_a_lost_counter_is_loaded_and_never_read_as_sold_out() {
    let house = Core::start(&Plan::of("lost", 50)).await;
    house.held("ann", "k0", 1).await;

    let key = format!("stanchion:{{{}}}:stock:S", house.sale.id);
    house.redis.command::<()>(cmd("DEL").arg(&key)).await.unwrap();
    let outcomes = join_all(
        (1..=30).map(|n| house.orders.reserve(house.order("bob", &format!("k{n}"), &[("S", 1)]))),
    )
    .await;
    assert_eq!(grants(&outcomes), 30);
    assert_eq!(house.count().await, Some(19));

    assert_eq!(problem(house.reserve_lines("ann", "x", &[("NOPE", 1)]).await), Problem::UnknownSku);
    let nope = format!("stanchion:{{{}}}:stock:NOPE", house.sale.id);
    let exists: u64 = house.redis.command(cmd("EXISTS").arg(nope)).await.unwrap();
    assert_eq!(exists, 0);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_56_sweeps_and_reconciles_under_load_never_lift_the_gate_above_the_ledger() {
    const CLIENTS: i64 = 16;
    let house = Arc::new(Core::start(&Plan::of("tight", 60)).await);
    let done = Arc::new(AtomicBool::new(false));
    let orders = (0..CLIENTS).map(|client| {
        let house = Arc::clone(&house);
        tokio::spawn(async move {
            for round in 0..12 {
                let outcome = house.reserve("buyer", &format!("{client}-{round}"), 1).await;
                if let (Ok(Reserved::New(mine)), 0) = (outcome, round % 3) {
                    house.orders.release(&Which::Id(mine.id)).await.unwrap();
                }
            }
        })
    });
    let upkeep = {
        let (house, done) = (Arc::clone(&house), Arc::clone(&done));
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                house.orders.sweep().await.unwrap();
                house.orders.reconcile().await.unwrap();
                let gate = house.count().await.unwrap_or(0);
                // The ledger is read later: it may only have given more away since.
                let ledger = i64::try_from(house.stock().await.available).unwrap();
                assert!(gate <= ledger + CLIENTS, "gate {gate}, ledger {ledger}");
            }
        })
    };

    for ended in join_all(orders.collect::<Vec<_>>()).await {
        ended.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    upkeep.await.unwrap();

    assert_eq!(house.orders.metrics().gate_too_high.get(), 0, "no drift was there to correct");
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_54_a_gate_that_says_try_to_everybody_sells_nothing_twice() {
    let house = Core::start(&Plan::of("liar", 5)).await;
    house.held("ann", "k", 1).await;
    let key = format!("stanchion:{{{}}}:stock:S", house.sale.id);
    house.redis.command::<()>(cmd("HSET").arg(key).arg("count").arg(1_000)).await.unwrap();

    let outcomes = join_all((0..40).map(|n| {
        house.orders.reserve(house.order(&format!("b{n}"), &format!("k{n}"), &[("S", 1)]))
    }))
    .await;

    assert_eq!(grants(&outcomes), 4);
    let refused: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(refused.iter().all(|refusal| refusal.problem == Problem::SoldOut));
    house.sound().await;
    assert_eq!(house.count().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_flush_in_mid_sale_is_not_noticed() {
    let house = Core::start(&Plan::of("flush", 30)).await;
    let mut granted = 0;
    for round in 0..6 {
        let outcomes = join_all((0..10).map(|n| {
            house.orders.reserve(house.order("bob", &format!("{round}-{n}"), &[("S", 1)]))
        }));
        let (outcomes, flushed) = tokio::join!(outcomes, async {
            house.redis.command::<()>(cmd("SCRIPT").arg("FLUSH")).await
        });
        flushed.unwrap();
        granted += grants(&outcomes);
    }
    assert_eq!(granted, 30);
    assert_eq!(house.orders.metrics().gate_bypasses.get(), 0);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_61_a_redis_that_dies_in_mid_sale_stops_nothing_and_oversells_nothing() {
    let redis = PrivateRedis::start().unwrap();
    let house = Core::on(Ground::new("dies"), &redis.url(), &Plan::of("dies", 20)).await;
    house.held("ann", "k0", 5).await;
    redis.kill().unwrap();

    // Straight to the ledger, behind a bound.
    let orders = |from: i32| {
        join_all(
            (from..from + 10)
                .map(|n| house.orders.reserve(house.order("bob", &format!("k{n}"), &[("S", 1)]))),
        )
    };
    assert_eq!(grants(&orders(100).await), 10);
    replayed(house.reserve("ann", "k0", 5).await);

    redis.restart().unwrap();
    let outcomes = orders(200).await;
    assert_eq!(grants(&outcomes), 5);
    assert_eq!(house.stock().await.available, 0);
    house.sound().await;
    assert_eq!(house.count().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_made_while_the_gate_refused_to_write_replays_after_the_sell_out() {
    let redis = PrivateRedis::start().unwrap();
    let house = Core::on(Ground::new("readonly"), &redis.url(), &Plan::of("readonly", 3)).await;
    house.held("ann", "k0", 1).await;
    // A replica keeps its data and takes no writes.
    let replica = cmd("REPLICAOF").arg("127.0.0.1").arg(1).clone();
    house.redis.command::<()>(&replica).await.unwrap();
    let made = house.held("ann", "k1", 1).await;
    house.redis.command::<()>(cmd("REPLICAOF").arg("NO").arg("ONE")).await.unwrap();
    let stop = CancellationToken::new();
    let watching = tokio::spawn(Arc::clone(&house.orders).watch_shelves(stop.clone()));
    let since = Instant::now();
    while house.count().await != Some(1) {
        assert!(since.elapsed() < Duration::from_secs(10), "the gate did not follow");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    house.held("bob", "k2", 1).await;

    assert_eq!(problem(house.reserve("cat", "k3", 1).await), Problem::SoldOut);
    assert_eq!(replayed(house.reserve("ann", "k1", 1).await).id, made.id);
    stop.cancel();
    watching.await.unwrap();
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thawed_sku_gets_a_gate_of_the_new_generation() {
    let house = Core::start(&Plan::of("thaw", 10)).await;
    house.held("ann", "k1", 1).await;
    house.sql("UPDATE sku SET generation = generation + 1").await;
    let second = house.second().await;

    // One core knows the new generation, the other still the old one.
    let orders = [&house.orders, &second, &house.orders].into_iter().enumerate();
    let outcomes = join_all(
        orders.map(|(n, core)| core.reserve(house.order("bob", &format!("g{n}"), &[("S", 1)]))),
    )
    .await;

    assert_eq!(grants(&outcomes), 3);
    replayed(house.reserve("ann", "k1", 1).await);
    house.sound().await;
    assert_eq!(house.count().await, Some(6));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_come_while_a_gate_is_loaded_are_found_whatever_their_ids_and_when_they_began() {
    let house = Core::start(&Plan::of("loading", 50)).await;
    house.held("ann", "before", 1).await;
    let mut client = house.database.client().await.unwrap();
    let slow = client.transaction().await.unwrap();
    let order = format!(
        "WITH made AS (
            INSERT INTO reservation (id, sale, buyer, order_key, body_hash, status, expires_at,
                                     created_at)
            VALUES ('01900000-0000-7000-8000-000000000001', '{}', 'bob', 'slow', '', 'released',
                    now(), now()) RETURNING id)
         INSERT INTO outbox (at, type, reservation) SELECT now(), 'released', id FROM made",
        house.sale.id
    );
    slow.batch_execute(&order).await.unwrap();

    let seen = house.ledger.known_now().await.unwrap();
    slow.commit().await.unwrap();
    house.held("ann", "after", 1).await;
    let never = Which::Key(house.whose("cyd", "never-came"));
    house.orders.release(&never).await.unwrap();

    let (sale, sku) = (house.sale_id(), Sku::parse("S").unwrap());
    let new = house.ledger.new_markers(&sale, &sku, &seen).await.unwrap();
    let mut keys: Vec<_> = new.iter().map(|marker| marker.order.order_key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["after", "never-came", "slow"]);
    let now = house.ledger.known_now().await.unwrap();
    assert_eq!(house.ledger.new_markers(&sale, &sku, &now).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_another_core_has_loaded_since_is_not_forgotten() {
    let house = Core::start(&Plan::of("forget", 5)).await;
    house.held("ann", "k", 1).await;
    let (sale, sku) = (house.sale_id(), Sku::parse("S").unwrap());
    let seen = house.gate.counter(&sale, &sku).await.unwrap().unwrap().generation;

    house.gate.forget(&sale, &sku, seen - 1).await.unwrap();
    assert_eq!(house.count().await, Some(4), "of another generation by now");
    house.gate.forget(&sale, &sku, seen).await.unwrap();
    assert_eq!(house.count().await, None);
    house.sound().await;
}

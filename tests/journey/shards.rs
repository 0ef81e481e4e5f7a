//! A SKU's units in several rows: found wherever they are, and counted once. Cases by their ids.

use std::sync::Arc;

use futures_util::future::join_all;
use stanchion::config::settings::LatePayment;
use stanchion::domain::id::Sku;
use stanchion::domain::refusal::Problem;
use stanchion::reservations::Reserved;
use stanchion::reservations::lane::Patience;
use stanchion::store::postgres::{Confirmed, Take, Taken, Which};
use uuid::Uuid;

use crate::fixture::core::{Core, Plan, granted, grants, problem};
use crate::fixture::now_ms;

fn s() -> Sku {
    Sku::parse("S").unwrap()
}

/// Units in each row, as `5,4`.
async fn rows(house: &Core) -> String {
    let client = house.database.client().await.unwrap();
    let sql = "SELECT string_agg(available::text, ',' ORDER BY shard) FROM stock WHERE sku = 'S'";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn units_are_spread_evenly_the_first_rows_getting_one_more() {
    let house = Core::start(&Plan::of("spread", 12).shards(5)).await;
    assert_eq!(rows(&house).await, "3,3,2,2,2");
    assert_eq!(house.stock().await.shards, 5);

    house.orders.restock(&s(), 6, "more").await.unwrap();
    assert_eq!(rows(&house).await, "5,4,3,3,3");
    house.orders.restock(&s(), -10, "fewer").await.unwrap();
    let stock = house.stock().await;
    assert_eq!((stock.loaded, stock.available), (8, 8));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_16_the_last_units_are_gathered_from_whichever_rows_have_them() {
    let house = Core::start(&Plan::of("gather", 5).shards(5)).await;
    assert_eq!(rows(&house).await, "1,1,1,1,1");

    let all = house.held("ann", "k1", 5).await;
    assert_eq!(all.lines.len(), 1, "one line a SKU, whatever rows it came from");
    assert_eq!(problem(house.reserve("bob", "k2", 1).await), Problem::SoldOut);
    house.orders.release(&Which::Id(all.id)).await.unwrap();
    assert_eq!(rows(&house).await, "1,1,1,1,1", "units go back to their rows");
    assert_eq!(house.count().await, Some(5));

    house.held("ann", "k3", 2).await;
    let refusal = house.reserve("bob", "k4", 4).await.unwrap_err();
    assert_eq!(refusal.problem, Problem::Insufficient);
    house.held("bob", "k5", 3).await;
    assert_eq!(problem(house.reserve("eve", "k6", 1).await), Problem::SoldOut);
    let view = house.ledger.view(all.id).await.unwrap().unwrap();
    let told: Vec<_> = view.history.iter().map(|c| (c.kind.as_str(), c.qty)).collect();
    assert_eq!(told, [("hold", 5), ("release", 5)]);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_16_a_ledger_without_its_gate_says_no_only_after_all_rows() {
    let house = Core::start(&Plan::of("final", 3).shards(3)).await;
    let take = |key: &str, qty: i64| Take {
        id: Uuid::now_v7(),
        order: house.whose("ann", key),
        cart: house.order("ann", key, &[("S", qty)]).cart,
        closes_ms: now_ms() + 60_000,
        settling: false,
    };

    let two = take("k1", 2);
    for shard in 0..3 {
        let taken = house.ledger.take_at(&two, &[shard]).await.unwrap();
        assert_eq!(taken, Taken::Elsewhere, "one row of three is no word for all of them");
    }
    assert!(matches!(house.ledger.gather(&two).await.unwrap(), Taken::Held(_)));
    let gone = house.ledger.gather(&take("k2", 2)).await.unwrap();
    assert!(matches!(gone, Taken::No { remaining: 1, .. }), "{gone:?}");
    // A row that is not there is no reason either.
    let taken = house.ledger.take_at(&take("k3", 1), &[40]).await.unwrap();
    assert_eq!(taken, Taken::Elsewhere);
    assert_eq!(house.sql("SELECT count(*) FROM reservation").await, 1, "a no leaves nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_10_a_cap_holds_over_shards_and_cores() {
    let house = Core::start(&Plan::of("capshards", 100).cap(1).shards(4)).await;
    let second = house.second().await;

    for buyer in ["ann", "bob", "eve"] {
        let orders = (0..40).map(|n| {
            let core = if n % 2 == 0 { &house.orders } else { &second };
            core.reserve(house.order(buyer, &format!("k{n}"), &[("S", 1)]))
        });
        let outcomes = join_all(orders).await;
        assert_eq!(grants(&outcomes), 1, "{buyer}");
        let refused: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
        assert!(refused.iter().all(|refusal| refusal.problem == Problem::OverCap), "{refused:?}");
    }
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_01_two_cores_with_a_lying_gate_sell_every_unit_of_five_shards_once() {
    let house = Core::start(&Plan::of("lying", 23).shards(5)).await;
    let second = house.second().await;
    house.held("first", "k", 1).await;
    let key = format!("stanchion:{{{}}}:stock:S", house.sale.id);
    let lie = ::redis::cmd("HSET").arg(key).arg("count").arg(1000).to_owned();
    house.redis.command::<()>(&lie).await.unwrap();

    let orders = (0..120).map(|n| {
        let core = if n % 2 == 0 { &house.orders } else { &second };
        core.reserve(house.order(&format!("b{n}"), &format!("k{n}"), &[("S", 1)]))
    });
    let outcomes = join_all(orders).await;

    assert_eq!(grants(&outcomes), 22);
    let refused: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(refused.iter().all(|refusal| refusal.problem == Problem::SoldOut), "{refused:?}");
    assert_eq!(house.stock().await.available, 0);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_all_locked_are_busy_and_never_sold_out() {
    let house = Core::start(&Plan::of("busy", 8).shards(4)).await;
    house.held("first", "k0", 1).await;
    let mut client = house.database.client().await.unwrap();
    let locking = client.transaction().await.unwrap();
    locking.execute("SELECT 1 FROM stock FOR NO KEY UPDATE", &[]).await.unwrap();
    let blocked = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let ask = |key: &str, qty: i64| {
        let (core, order) = (Arc::clone(&house.orders), house.order("ann", key, &[("S", qty)]));
        tokio::spawn(async move { core.reserve(order).await })
    };

    // The server ends every wait, as its time-outs would.
    let gives_up = ask("k1", 1);
    while !gives_up.is_finished() {
        let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity \
                      WHERE datname = current_database() AND wait_event_type = 'Lock'";
        house.sql(cancel).await;
        tokio::task::yield_now().await;
    }
    let refusal = gives_up.await.unwrap().unwrap_err();
    assert_eq!((refusal.http_status(), refusal.retry_after_ms.is_some()), (503, true));

    locking.rollback().await.unwrap();

    let locking = client.transaction().await.unwrap();
    locking.execute("SELECT 1 FROM stock FOR NO KEY UPDATE", &[]).await.unwrap();
    // This one looks into every row's lane, so it goes first.
    let gathers = ask("k3", 3);
    house.sql_says(blocked, 1).await;
    let waits = ask("k2", 1);
    house.sql_says(blocked, 2).await;
    locking.rollback().await.unwrap();
    granted(waits.await.unwrap());
    granted(gathers.await.unwrap());
    // What became of the first was unknown; its retry is that very order.
    house.held("ann", "k1", 1).await;
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_payment_takes_its_units_again_from_whichever_rows_have_them() {
    let plan = Plan { late_payment: "honour", ..Plan::of("lateshards", 6).cap(4).shards(3) };
    let house = Core::start(&plan).await;
    let late = house.held("ann", "k1", 4).await;
    house.lapse().await;
    house.orders.sweep().await.unwrap();
    // Not two of them are left in any one row.
    for (n, shard) in (0..3).enumerate() {
        let take = Take {
            id: Uuid::now_v7(),
            order: house.whose("bob", &format!("b{n}")),
            cart: house.order("bob", "b", &[("S", 1)]).cart,
            closes_ms: now_ms() + 60_000,
            settling: false,
        };
        let taken = house.ledger.take_at(&take, &[shard]).await.unwrap();
        assert!(matches!(taken, Taken::Held(_)), "{taken:?}");
    }
    assert_eq!(rows(&house).await, "1,1,1");
    let which = Which::Id(late.id);
    let too_few = house.ledger.confirm(&which, "p1", LatePayment::Honour).await.unwrap();
    assert_eq!(too_few, Confirmed::Expired);

    house.orders.restock(&s(), 1, "more").await.unwrap();
    let retaken = house.ledger.confirm(&which, "p1", LatePayment::Honour).await.unwrap();
    assert_eq!(retaken, Confirmed::Retaken);
    assert_eq!(rows(&house).await, "0,0,0");
    house.orders.cancel(&which).await.unwrap();
    assert_eq!(house.stock().await.available, 4);
    assert_eq!(house.ledger.audit().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sku_is_spread_anew_while_its_holds_live_on() {
    let house = Core::start(&Plan::of("respread", 8).shards(4)).await;
    let second = house.second().await;
    let mut held = vec![];
    for key in ["k1", "k2", "k3", "k4"] {
        held.push(house.held("ann", key, 1).await);
    }

    let refusal = house.orders.set_shards(&s(), 2).await.unwrap_err();
    assert_eq!(refusal.http_status(), 409);
    assert!(refusal.detail.contains("freeze it first"), "{}", refusal.detail);
    house.orders.freeze(&s(), true).await.unwrap();
    let stock = house.orders.set_shards(&s(), 2).await.unwrap();
    assert_eq!((stock.shards, stock.available, stock.frozen), (2, 4, true));
    assert_eq!(rows(&house).await, "2,2,0,0");
    house.orders.freeze(&s(), false).await.unwrap();

    // Units come back to rows that are not looked at any more, and are found all the same.
    for reservation in &held {
        house.orders.release(&Which::Id(reservation.id)).await.unwrap();
    }
    assert_eq!((house.stock().await.available, house.count().await), (8, Some(8)));
    // Another core, which still walks over four rows.
    granted(second.reserve(house.order("bob", "k", &[("S", 3)])).await);
    house.held("eve", "k", 5).await;
    assert_eq!(problem(house.reserve("late", "k", 1).await), Problem::SoldOut);
    assert_eq!(rows(&house).await, "0,0,0,0");

    house.orders.freeze(&s(), true).await.unwrap();
    house.lapse().await;
    house.orders.sweep().await.unwrap();
    house.orders.set_shards(&s(), 6).await.unwrap();
    assert_eq!(rows(&house).await, "2,2,1,1,1,1");
    house.orders.freeze(&s(), false).await.unwrap();
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn carts_of_sharded_skus_are_all_or_nothing() {
    let plan = Plan::of("cartshards", 4).sku("T", 3).sku("U", 0).shards(3);
    let house = Core::start(&plan).await;

    let refusal = house.reserve_lines("ann", "k1", &[("S", 4), ("U", 1)]).await.unwrap_err();
    assert_eq!((refusal.problem, &refusal.to_json()["sku"]), (Problem::SoldOut, &"U".into()));
    assert_eq!((house.stock().await.available, house.count().await), (4, Some(4)));
    let both = granted(house.reserve_lines("ann", "k2", &[("T", 2), ("S", 3)]).await);
    assert_eq!(both.lines.len(), 2);
    assert_eq!((house.stock().await.available, house.stock_of("T").await.available), (1, 1));

    house.orders.release(&Which::Id(both.id)).await.unwrap();
    assert_eq!((house.count().await, house.count_of("T").await), (Some(4), Some(3)));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opposite_carts_sweeps_and_restocks_never_wait_in_a_circle() {
    let house =
        Arc::new(Core::start(&Plan::of("opposite", 60).sku("T", 60).cap(40).shards(3)).await);
    let second = house.second().await;
    let shoppers = (0..12_usize).map(|n| {
        let (house, second) = (Arc::clone(&house), Arc::clone(&second));
        tokio::spawn(async move {
            let lines: &[(&str, i64)] = match n % 4 {
                0 => &[("S", 2), ("T", 1)],
                1 => &[("T", 2), ("S", 1)],
                2 => &[("S", 1)],
                _ => &[("T", 3)],
            };
            for round in 0..10 {
                let order = house.order(&format!("b{}", n % 5), &format!("{n}-{round}"), lines);
                let core = if round % 2 == 0 { &house.orders } else { &second };
                match core.reserve(order).await {
                    Ok(Reserved::New(mine)) if round % 3 == 0 => {
                        house.orders.release(&Which::Id(mine.id)).await.unwrap();
                    }
                    Ok(Reserved::New(mine)) if round % 3 == 1 => {
                        let lapse = "UPDATE reservation SET expires_at = now() - interval '1 s' \
                                     WHERE status = 'held' AND id =";
                        house.sql(&format!("{lapse} '{}'", mine.id)).await;
                    }
                    Ok(_) => {}
                    Err(refusal) => assert!(
                        matches!(
                            refusal.problem,
                            Problem::SoldOut | Problem::Insufficient | Problem::OverCap
                        ),
                        "{refusal:?}"
                    ),
                }
            }
        })
    });
    let shoppers: Vec<_> = shoppers.collect();
    let mut shoppers = Box::pin(join_all(shoppers));
    let upkeep = async {
        for round in 0.. {
            let (a, b) = tokio::join!(house.orders.sweep(), second.sweep());
            a.unwrap();
            b.unwrap();
            for sku in ["S", "T"] {
                let delta = if round % 2 == 0 { 3 } else { -3 };
                let op = format!("{sku}-{round}");
                // Too few may be there to be taken away.
                let _any = second.restock(&Sku::parse(sku).unwrap(), delta, &op).await;
            }
            assert_eq!(house.ledger.audit().await.unwrap(), []);
        }
    };
    tokio::select! {
        () = upkeep => unreachable!(),
        done = &mut shoppers => done.into_iter().for_each(Result::unwrap),
    }

    house.sound().await;
    let mut above = house.ground.folder.ancestors().map(|folder| folder.join("postgres.log"));
    let log = above.find(|log| log.is_file()).expect("the server's log");
    let log = String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned();
    assert!(!log.contains("deadlock detected"), "40P01 in the server's log");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sku_of_several_rows_has_calls_of_64_orders_at_most() {
    let house = Core::start(&Plan::of("smallcalls", 900).cap(2).shards(2)).await;
    let (lanes, metrics) = house.lanes();
    let client = house.database.client().await.unwrap();
    client.batch_execute("BEGIN; SELECT 1 FROM stock FOR NO KEY UPDATE").await.unwrap();
    let patience = Patience::default();
    let orders: Vec<_> = (0..200)
        .map(|n| {
            let (lanes, patience) = (lanes.clone(), patience.clone());
            let take = house.take(&format!("b{n}"), "k", 1);
            tokio::spawn(async move { lanes.take(0, 2, take, &patience).await })
        })
        .collect();
    while metrics.waiting.get() < 136 {
        tokio::task::yield_now().await;
    }
    client.batch_execute("COMMIT").await.unwrap();
    for taken in join_all(orders).await {
        assert!(matches!(taken.unwrap(), Ok(Taken::Held(_))));
    }
    let largest = "SELECT max(n) FROM (SELECT count(*) AS n FROM outbox WHERE type = 'held' \
                   GROUP BY txid) x";
    assert!(house.sql(largest).await <= 64);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn carts_that_wait_for_a_locked_row_leave_connections_to_payments() {
    let house = Core::start(&Plan::of("starved", 90).sku("T", 90)).await;
    let paid = granted(house.reserve_lines("ann", "first", &[("S", 1), ("T", 1)]).await);
    let client = house.database.client().await.unwrap();
    client.batch_execute("BEGIN; SELECT 1 FROM stock FOR NO KEY UPDATE").await.unwrap();
    let carts: Vec<_> = (0..40)
        .map(|n| {
            let core = Arc::clone(&house.orders);
            let order = house.order("bob", &format!("k{n}"), &[("S", 1), ("T", 1)]);
            tokio::spawn(async move { core.reserve(order).await })
        })
        .collect();
    let blocked = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    house.sql_says(blocked, 8).await;

    house.orders.confirm(&Which::Id(paid.id), "p1").await.unwrap();
    assert_eq!(house.sql(blocked).await, 8, "while they wait still");
    client.batch_execute("COMMIT").await.unwrap();
    for cart in carts {
        granted(cart.await.unwrap());
    }
    house.sound().await;
}

//! The link to Postgres, cut and slowed; connections that were spoilt.

use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;
use stanchion::config::settings::LatePayment;
use stanchion::domain::refusal::Problem;
use stanchion::domain::reservation::Status;
use stanchion::lab::fault_proxy::Moment;
use stanchion::reservations::Reserved;
use stanchion::store::postgres::{Client, DatabaseError, Which};

use super::{PATIENCE, is_try_again, link_to};
use crate::fixture::Ground;
use crate::fixture::core::{Core, Plan, granted, problem};
use crate::fixture::served::{Served, one};

const UNITS: u64 = 100;

#[tokio::test(flavor = "multi_thread")]
async fn rs_21_a_link_cut_right_after_an_order_was_sent_takes_it_once() {
    let house = Core::start(&Plan::of("cuts", UNITS).sku("T", UNITS)).await;
    let link = link_to(&house.ground.database_url).await;
    let core = house.across(&link.url(&house.ground.database_url), &house.ground.redis_url).await;
    granted(core.reserve(house.order("ann", "first", &[("S", 1), ("T", 1)])).await);

    let (mut orders, mut cuts) = (1, 0);
    for moment in [Moment::Sent, Moment::Answered] {
        for n in 0..8 {
            let key = format!("cut-{moment:?}-{n}");
            let lines: &[(&str, i64)] =
                if n % 2 == 0 { &[("S", 1)] } else { &[("S", 1), ("T", 1)] };
            link.trap(key.as_bytes(), moment, 1);
            // Sent again under the same id: it was this very request that took the units.
            let made = granted(core.reserve(house.order("ann", &key, lines)).await);
            (orders, cuts) = (orders + 1, cuts + 1);
            assert_eq!(link.sprung(), cuts, "the link was cut");
            let row = house.ledger.view(made.id).await.unwrap().unwrap();
            assert_eq!((row.reservation, row.history.len()), (made, lines.len()));
        }
    }

    assert_eq!(house.stock().await.available, UNITS - orders);
    assert_eq!(house.sql("SELECT count(*) FROM reservation").await, i64::try_from(orders).unwrap());
    house.sound().await;
    assert_eq!(house.orders.metrics().gate_too_low.get(), 0, "no unit was set aside twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_cut_in_the_life_of_an_order_changes_it_once() {
    let house = Core::start(&Plan::of("cutlife", UNITS)).await;
    let link = link_to(&house.ground.database_url).await;
    let core = house.across(&link.url(&house.ground.database_url), &house.ground.redis_url).await;

    let mut sold = 0;
    for moment in [Moment::Sent, Moment::Answered] {
        let paid = house.held("ann", &format!("paid-{moment:?}"), 1).await;
        let payment = format!("payment-{moment:?}");
        link.trap(payment.as_bytes(), moment, 1);
        let confirmed = core.confirm(&Which::Id(paid.id), &payment).await.unwrap();
        assert_eq!(confirmed.status, Status::Confirmed);
        sold += 1;

        let left = house.held("ann", &format!("left-{moment:?}"), 2).await;
        link.trap(left.id.as_bytes(), moment, 1);
        let released = core.release(&Which::Id(left.id)).await.unwrap();
        assert_eq!(released.status, Status::Released);

        let back = house.held("ann", &format!("back-{moment:?}"), 3).await;
        house.orders.confirm(&Which::Id(back.id), "refunded").await.unwrap();
        // The first look at it is cut, or the cancelling itself.
        for cuts in 1..=2 {
            link.trap(back.id.as_bytes(), moment, cuts);
            let cancelled = core.cancel(&Which::Id(back.id)).await.unwrap();
            assert_eq!(cancelled.status, Status::Cancelled);
        }
        let late = house.held("ann", &format!("late-{moment:?}"), 1).await;
        house.lapse().await;
        let owed = format!("owed-{moment:?}");
        link.trap(owed.as_bytes(), moment, 1);
        let refused = core.confirm(&Which::Id(late.id), &owed).await;
        assert_eq!(problem(refused), Problem::HoldExpired);
        house.orders.sweep().await.unwrap();
    }

    assert!(link.sprung() >= 10, "{} cuts", link.sprung());
    let stock = house.stock().await;
    assert_eq!((stock.available, stock.confirmed, stock.held), (UNITS - sold, sold, 0));
    assert_eq!(house.sql("SELECT count(*) FROM outbox WHERE type = 'refund_due'").await, 2);
    assert_eq!(house.sale.late_payment, LatePayment::Refuse);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_72_a_thousand_clients_that_leave_a_slow_ledger_leave_nothing_half_done() {
    let mut ground = Ground::new("slowlink");
    let (redis_url, direct) = (ground.redis_url.clone(), ground.database_url.clone());
    let link = link_to(&direct).await;
    ground.database_url = link.url(&direct);
    let core = Served::on(Core::on(ground, &redis_url, &Plan::of("slowlink", 2_000)).await).await;
    assert_eq!(core.order("ann", "first", one("S", 1)).await.status, StatusCode::CREATED);
    link.delay(Duration::from_millis(200));

    let admission = core.admission("ann", |_| {});
    for round in 0..20_u64 {
        let orders = (0..50_u64).map(|n| {
            let (core, admission, key) = (&core, &admission, format!("k{}", round * 50 + n));
            async move {
                let order = core.order_with(admission, &key, one("S", 1));
                tokio::time::timeout(Duration::from_millis(n % 20), order).await.is_ok()
            }
        });
        join_all(orders).await;
    }
    link.delay(Duration::ZERO);

    let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND state <> 'idle' AND pid <> pg_backend_pid()";
    core.house.sql_says(busy, 0).await;
    // Whole or not at all: each key is granted now or was then, and each costs one unit.
    for n in 0..1_000 {
        let since = std::time::Instant::now();
        loop {
            let answer = core.order("ann", &format!("k{n}"), one("S", 1)).await;
            match answer.status.as_u16() {
                200 | 201 => break,
                503 => assert!(since.elapsed() < PATIENCE, "{}", answer.text()),
                _ => panic!("{}", answer.text()),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(core.house.stock().await.available, 2_000 - 1_001);
    core.house.sound().await;
}

/// Connections that are set up alike and go back to their pool.
async fn timing_out(
    clients: impl IntoIterator<Item: Future<Output = Result<Client, DatabaseError>>>,
    limit: &str,
) {
    let clients: Vec<_> = join_all(clients).await.into_iter().map(Result::unwrap).collect();
    for client in &clients {
        let set = format!("SET statement_timeout = {limit}");
        client.batch_execute(&set).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_73_a_connection_that_times_out_at_once_spoils_no_order() {
    let house = Core::start(&Plan::of("timeouts", 200).sku("T", 200)).await;
    granted(house.reserve_lines("ann", "first", &[("S", 1), ("T", 1)]).await);
    let mut holder = house.database.client().await.unwrap();
    // Half of the lanes' sixteen connections and half of the others give up after 5 ms; they stay
    // in their pools.
    timing_out((0..8).map(|_| house.database.lane_client()), "'5ms'").await;
    timing_out((0..8).map(|_| house.database.client()), "'5ms'").await;

    let orders: Vec<_> = (0..60).map(|n| format!("k{n}")).collect();
    let lines: [&[(&str, i64)]; 2] = [&[("S", 1)], &[("S", 1), ("T", 1)]];
    let lock = holder.transaction().await.unwrap();
    lock.execute("SELECT 1 FROM stock FOR NO KEY UPDATE", &[]).await.unwrap();
    let order = |(n, key)| house.reserve_lines("bob", key, lines[n % 2]);
    let ordering = join_all(orders.iter().map(String::as_str).enumerate().map(order));
    let unlocking = async {
        tokio::time::sleep(Duration::from_millis(60)).await;
        lock.rollback().await.unwrap();
    };
    let (outcomes, ()) = tokio::join!(ordering, unlocking);

    for outcome in outcomes {
        match outcome {
            Ok(Reserved::New(_)) => {}
            Ok(Reserved::Replay(replay)) => panic!("{replay:?}"),
            Err(refusal) => assert!(is_try_again(&refusal), "{refusal:?}"),
        }
    }
    for (n, key) in orders.iter().enumerate() {
        super::insist(&house, key, lines[n % 2]).await;
    }
    drop(holder);
    // What is looked up now is no order: all of the pool is held, and none is missed.
    timing_out((0..16).map(|_| house.database.client()), "DEFAULT").await;
    let left = (house.stock().await.available, house.stock_of("T").await.available);
    assert_eq!(left, (200 - 61, 200 - 31));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_76_a_crowd_at_one_row_hears_nothing_but_yes_no_and_try_again() {
    let core = Served::start(&Plan::of("onerow", 400)).await;
    let admissions: Vec<_> = (0..64).map(|n| core.admission(&format!("b{n}"), |_| {})).collect();
    let shopping = admissions.iter().enumerate().map(|(buyer, admission)| {
        let core = &core;
        async move {
            let mut statuses = Vec::new();
            for n in 0..40 {
                // Every third order is sent twice.
                let key = format!("{buyer}-{}", n - i32::from(n % 3 == 2));
                let answer = core.order_with(admission, &key, one("S", 1)).await;
                statuses.push(answer.status.as_u16());
            }
            statuses
        }
    });
    let statuses = join_all(shopping).await.concat();

    let odd: Vec<_> = statuses.iter().filter(|s| ![200, 201, 409, 503].contains(*s)).collect();
    assert!(odd.is_empty(), "{odd:?}");
    let granted = statuses.iter().filter(|status| **status == 201).count();
    assert_eq!((granted, core.house.stock().await.available), (400, 0));
    core.house.sound().await;
}

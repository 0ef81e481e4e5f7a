//! The ledger under orders: caps, keys, races. Cases by their ids.

use std::sync::Arc;

use futures_util::future::join_all;
use stanchion::domain::id::Sku;
use stanchion::domain::refusal::Problem;
use stanchion::domain::reservation::Status;
use stanchion::reservations::Reserved;
use stanchion::store::postgres::{NoUnits, Take, Taken, Which};
use uuid::Uuid;

use crate::fixture::core::{Core, Plan, granted, grants, problem, replayed};
use crate::fixture::now_ms;

fn key(number: usize) -> String {
    format!("key-{number}")
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_01_the_last_unit_goes_to_one_of_two_hundred_on_two_cores() {
    let house = Core::start(&Plan::of("last", 1)).await;
    let second = house.second().await;

    let orders = (0..200).map(|n| {
        let core = if n % 2 == 0 { &house.orders } else { &second };
        core.reserve(house.order(&format!("buyer-{n}"), &key(n), &[("S", 1)]))
    });
    let outcomes = join_all(orders).await;

    assert_eq!(grants(&outcomes), 1);
    let refused = outcomes.into_iter().filter_map(Result::err);
    assert!(refused.into_iter().all(|refusal| refusal.problem == Problem::SoldOut));
    assert_eq!(house.stock().await.available, 0);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_02_lines_of_one_sku_are_one_ask() {
    let house = Core::start(&Plan::of("lines", 3)).await;

    let four = house.reserve_lines("ann", "k1", &[("S", 2), ("S", 2)]).await;
    assert_eq!(problem(four), Problem::Insufficient);
    assert_eq!((house.stock().await.available, house.count().await), (3, Some(3)));

    let three = granted(house.reserve_lines("ann", "k2", &[("S", 2), ("S", 1)]).await);
    assert_eq!(three.lines.len(), 1);
    assert_eq!(house.stock().await.available, 0);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_04_a_cart_is_all_or_nothing_in_both_stores() {
    let house = Core::start(&Plan::of("cart", 5).sku("T", 0)).await;

    let refusal = house.reserve_lines("ann", "k1", &[("S", 1), ("T", 1)]).await.unwrap_err();

    assert_eq!(refusal.problem, Problem::SoldOut);
    assert_eq!(refusal.to_json()["sku"], "T");
    assert_eq!((house.stock().await.available, house.count().await), (5, Some(5)));

    house.orders.restock(&Sku::parse("T").unwrap(), 2, "more").await.unwrap();
    granted(house.reserve_lines("ann", "k2", &[("S", 1), ("T", 1)]).await);
    assert_eq!((house.count().await, house.count_of("T").await), (Some(4), Some(1)));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_05_units_add_up_at_every_sample_while_sixty_four_reserve_and_release() {
    let house = Arc::new(Core::start(&Plan::of("churn", 20)).await);
    let churn = (0..64).map(|n| {
        let house = Arc::clone(&house);
        tokio::spawn(async move {
            for round in 0..8 {
                let order = house.reserve("buyer", &format!("{n}-{round}"), 1).await;
                if let Ok(Reserved::New(reservation)) = order {
                    let which = Which::Id(reservation.id);
                    house.orders.release(&which).await.unwrap();
                }
            }
        })
    });
    let mut churn = Box::pin(join_all(churn.collect::<Vec<_>>()));

    let samples = async {
        loop {
            assert_eq!(house.ledger.audit().await.unwrap(), []);
        }
    };
    tokio::select! {
        () = samples => unreachable!(),
        done = &mut churn => done.into_iter().for_each(Result::unwrap),
    }

    assert_eq!(house.stock().await.available, 20);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_08_a_buyer_never_has_more_than_the_cap() {
    let house = Core::start(&Plan::of("cap", 100).cap(2)).await;
    house.held("bob", "k1", 2).await;

    let outcome = house.reserve("bob", "k2", 1).await;
    assert_eq!(problem(outcome), Problem::OverCap);
    let keys: Vec<_> = (0..50).map(key).collect();
    let outcomes = join_all(keys.iter().map(|key| house.reserve("eve", key, 1))).await;

    assert_eq!(grants(&outcomes), 2);
    let refused: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(refused.iter().all(|refusal| refusal.problem == Problem::OverCap));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_12_a_buyer_is_told_of_the_own_hold_that_stands_in_the_way() {
    let house = Core::start(&Plan::of("own", 1).cap(1)).await;
    let mine = house.held("ann", "k1", 1).await;
    // Sold out at the gate; what the core remembers names those who hold.
    let second = house.second().await;

    for core in [&house.orders, &second] {
        let order = house.order("ann", "k2", &[("S", 1)]);
        let refusal = core.reserve(order).await.unwrap_err();
        assert!(matches!(refusal.problem, Problem::SoldOut | Problem::OverCap));
        if Arc::ptr_eq(core, &second) {
            assert_eq!(refusal.to_json()["own"][0]["order_key"], "k1");
            assert_eq!(refusal.to_json()["own"][0]["id"], mine.id.to_string());
        }
    }
    let stranger = second.reserve(house.order("bob", "k3", &[("S", 1)])).await.unwrap_err();
    assert_eq!(stranger.to_json().get("own"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_12_over_the_cap_with_units_left_names_the_own_hold() {
    let house = Core::start(&Plan::of("owncap", 5).cap(1)).await;
    house.held("ann", "k1", 1).await;

    let refusal = house.reserve("ann", "k2", 1).await.unwrap_err();

    assert_eq!(refusal.problem, Problem::OverCap);
    assert_eq!(refusal.to_json()["own"][0]["order_key"], "k1");
    assert_eq!(house.count().await, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_14_an_oversized_ask_does_not_close_the_gate() {
    let house = Core::start(&Plan::of("oversized", 3)).await;

    assert_eq!(problem(house.reserve("ann", "k1", 5).await), Problem::Insufficient);
    house.held("ann", "k2", 1).await;

    assert_eq!(house.count().await, Some(2));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_17_twenty_parallel_clicks_on_two_cores_are_one_order_and_one_unit() {
    let house = Core::start(&Plan::of("click", 5)).await;
    let second = house.second().await;

    let clicks = (0..20).map(|n| {
        let core = if n % 2 == 0 { &house.orders } else { &second };
        core.reserve(house.order("ann", "the-key", &[("S", 1)]))
    });
    let outcomes = join_all(clicks).await;

    assert_eq!(grants(&outcomes), 1);
    let same: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| match outcome.unwrap() {
            Reserved::New(reservation) | Reserved::Replay(reservation) => reservation,
        })
        .collect();
    assert!(same.iter().all(|one| one == &same[0]));
    assert_eq!((house.stock().await.available, house.count().await), (4, Some(4)));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_18_the_same_key_for_another_body_is_refused_and_costs_nothing() {
    let house = Core::start(&Plan::of("reuse", 10).sku("T", 10)).await;
    granted(house.reserve_lines("ann", "k", &[("S", 1), ("T", 1)]).await);

    for lines in [[("S", 2), ("T", 1)].as_slice(), &[("S", 1)], &[("T", 1)]] {
        let outcome = house.reserve_lines("ann", "k", lines).await;
        assert_eq!(problem(outcome), Problem::KeyReused, "{lines:?}");
    }
    replayed(house.reserve_lines("ann", "k", &[("T", 1), ("S", 1)]).await);
    // The key's scope is the buyer: another one's equal key is another order.
    granted(house.reserve_lines("bob", "k", &[("S", 1)]).await);

    assert_eq!((house.stock().await.available, house.stock_of("T").await.available), (8, 9));
    assert_eq!((house.count().await, house.count_of("T").await), (Some(8), Some(9)));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_18_two_bodies_under_one_key_at_once_make_one_order() {
    let house = Core::start(&Plan::of("clash", 50)).await;

    for round in 0..20 {
        let k = key(round);
        let (one, two) = tokio::join!(house.reserve("ann", &k, 1), house.reserve("ann", &k, 2));
        let outcomes = [one, two];
        assert_eq!(grants(&outcomes), 1, "{outcomes:?}");
        let refused = outcomes.into_iter().find_map(Result::err).unwrap();
        assert_eq!(refused.problem, Problem::KeyReused);
    }
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_25_an_order_that_was_refused_may_win_later_with_the_same_key() {
    let house = Core::start(&Plan::of("again", 1)).await;
    let winner = house.held("ann", "k1", 1).await;
    assert_eq!(problem(house.reserve("bob", "k2", 1).await), Problem::SoldOut);

    let which = Which::Id(winner.id);
    house.orders.release(&which).await.unwrap();

    house.held("bob", "k2", 1).await;
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_a_confirmed_key_is_a_replay_after_sell_out_and_after_the_holds_end() {
    let house = Core::start(&Plan::of("forever", 1)).await;
    let mine = house.held("ann", "k", 1).await;
    let which = Which::Id(mine.id);
    house.orders.confirm(&which, "pay-1").await.unwrap();
    house.sql("UPDATE reservation SET expires_at = now() - interval '1 h'").await;
    assert_eq!(problem(house.reserve("bob", "other", 1).await), Problem::SoldOut);

    let again = replayed(house.reserve("ann", "k", 1).await);
    assert_eq!((again.id, again.status), (mine.id, Status::Confirmed));

    // A Redis that lost everything is loaded with what the ledger knows.
    house.redis.command::<()>(&::redis::cmd("FLUSHDB")).await.unwrap();
    assert_eq!(problem(house.reserve("bob", "other", 1).await), Problem::SoldOut);
    replayed(house.reserve("ann", "k", 1).await);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_holds_units_are_sold_to_another() {
    let house = Core::start(&Plan::of("lapses", 1)).await;
    let lost = house.held("ann", "k1", 1).await;
    house.lapse().await;

    house.orders.sweep().await.unwrap();
    let won = house.held("bob", "k2", 1).await;

    assert_ne!(won.id, lost.id);
    assert_eq!(problem(house.reserve("ann", "k1", 1).await), Problem::HoldExpired);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_sku_is_refused_by_the_ledger_itself() {
    let house = Core::start(&Plan::of("frozen", 5)).await;
    house.held("ann", "k1", 1).await;
    house.sql("UPDATE sku SET frozen = true").await;
    let take = |key: &str| Take {
        id: Uuid::now_v7(),
        order: house.whose("bob", key),
        cart: house.order("bob", key, &[("S", 1)]).cart,
        settling: false,
        closes_ms: now_ms() + 60_000,
    };

    let frozen = house.ledger.take(&take("k2")).await.unwrap();
    assert!(matches!(frozen, Taken::No { why: NoUnits::Frozen, .. }));
    assert_eq!(problem(house.reserve("bob", "k3", 1).await), Problem::Frozen);
    assert_eq!(house.count().await, Some(4));
    house.sql("UPDATE sku SET frozen = false").await;

    let closed = Take { closes_ms: now_ms() - 1, ..take("k4") };
    let closed = house.ledger.take(&closed).await.unwrap();
    assert!(matches!(closed, Taken::No { why: NoUnits::Closed, .. }));
    house.sound().await;
}

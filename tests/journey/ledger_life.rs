//! What becomes of a hold: confirmed, late, extended, released, cancelled, swept. Cases by their ids.

use std::sync::Arc;

use futures_util::future::join_all;
use stanchion::config::settings::LatePayment;
use stanchion::domain::refusal::Problem;
use stanchion::domain::reservation::{Reservation, Status};
use stanchion::reservations::Reserved;
use stanchion::store::postgres::{Confirmed, EventCursor, Which};
use tokio_util::sync::CancellationToken;

use crate::fixture::core::{Core, Plan, granted, grants, problem, replayed};

fn id(reservation: &Reservation) -> Which {
    Which::Id(reservation.id)
}

const REFUNDS: &str = "SELECT count(*) FROM outbox WHERE type = 'refund_due'";

#[tokio::test(flavor = "multi_thread")]
async fn rs_24_a_release_that_overtakes_its_order_closes_the_key() {
    let house = Core::start(&Plan::of("overtakes", 5)).await;
    let key = Which::Key(house.whose("ann", "k1"));

    let tombstone = house.orders.release(&key).await.unwrap();
    assert_eq!((tombstone.status, tombstone.lines.len()), (Status::Released, 0));
    let late = house.reserve("ann", "k1", 1).await;
    assert_eq!(problem(late), Problem::Released);

    assert_eq!((house.stock().await.available, house.count().await), (5, Some(5)));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_24_a_release_racing_its_order_leaves_no_hold_without_an_owner() {
    let house = Core::start(&Plan::of("overrace", 50)).await;
    for round in 0..40 {
        let k = format!("k{round}");
        let key = Which::Key(house.whose("ann", &k));
        let (order, released) =
            tokio::join!(house.reserve("ann", &k, 1), house.orders.release(&key));
        assert_eq!(released.unwrap().status, Status::Released);
        match order {
            Ok(Reserved::New(_)) => {}
            refused => assert_eq!(problem(refused), Problem::Released),
        }
    }
    assert_eq!(house.stock().await.available, 50);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_30_ten_confirms_at_once_and_five_later_are_one_sale() {
    let house = Core::start(&Plan::of("webhook", 5)).await;
    let second = house.second().await;
    let mine = house.held("ann", "k1", 2).await;

    let which = id(&mine);
    let confirms = (0..10).map(|n| {
        let core = if n % 2 == 0 { &house.orders } else { &second };
        core.confirm(&which, "pay-1")
    });
    for confirmed in join_all(confirms).await {
        assert_eq!(confirmed.unwrap().status, Status::Confirmed);
    }
    for _ in 0..5 {
        let by_key = Which::Key(house.whose("ann", "k1"));
        let confirmed = house.orders.confirm(&by_key, "pay-1").await.unwrap();
        assert_eq!(confirmed.payment_ref.as_deref(), Some("pay-1"));
    }
    assert_eq!(house.sql("SELECT count(*) FROM outbox WHERE type = 'confirmed'").await, 1);

    for _ in 0..3 {
        let other = house.orders.confirm(&which, "pay-2").await;
        assert_eq!(problem(other), Problem::PaymentConflict);
    }
    assert_eq!(house.sql(REFUNDS).await, 1);
    let stock = house.stock().await;
    assert_eq!((stock.available, stock.held, stock.confirmed), (3, 0, 2));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_32_a_payment_before_its_order_is_told_to_come_again() {
    let house = Core::start(&Plan::of("early", 5)).await;
    let key = Which::Key(house.whose("ann", "k9"));

    let early = house.orders.confirm(&key, "pay-1").await.unwrap_err();
    assert_eq!(early.problem, Problem::UnknownOrder);
    assert!(early.retry_after_ms.is_some());
    house.held("ann", "k9", 1).await;

    let confirmed = house.orders.confirm(&key, "pay-1").await.unwrap();
    assert_eq!(confirmed.status, Status::Confirmed);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_33_a_confirm_racing_the_sweep_wins_or_is_late_never_both() {
    let house = Core::start(&Plan::of("race", 100)).await;
    let mut confirmed = 0;
    for round in 0..100 {
        let mine = house.held("ann", &format!("k{round}"), 1).await;
        // The hold ends about when both arrive.
        let ends = format!(
            "UPDATE reservation SET expires_at = clock_timestamp() + interval '{} us' \
             WHERE id = '{}'",
            (round % 10) * 300,
            mine.id
        );
        house.sql(&ends).await;
        let (which, pay) = (id(&mine), format!("pay-{round}"));
        let (outcome, swept) =
            tokio::join!(house.orders.confirm(&which, &pay), house.orders.sweep());
        swept.unwrap();
        match outcome {
            Ok(reservation) => {
                assert_eq!(reservation.status, Status::Confirmed);
                confirmed += 1;
            }
            Err(refusal) => assert_eq!(refusal.problem, Problem::HoldExpired),
        }
    }

    house.orders.sweep().await.unwrap();
    let stock = house.stock().await;
    assert_eq!((stock.available, stock.confirmed, stock.held), (100 - confirmed, confirmed, 0));
    assert_eq!(house.sql(REFUNDS).await, i64::try_from(100 - confirmed).unwrap());
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_payment_is_refused_with_one_refund_and_an_early_end_stays_an_end() {
    let house = Core::start(&Plan::of("late", 5)).await;
    let mine = house.held("ann", "k1", 1).await;
    house.lapse().await;

    // Lapsed, not swept yet; then swept.
    assert_eq!(problem(house.orders.confirm(&id(&mine), "pay-1").await), Problem::HoldExpired);
    house.orders.sweep().await.unwrap();
    assert_eq!(problem(house.orders.confirm(&id(&mine), "pay-1").await), Problem::HoldExpired);

    assert_eq!(house.sql(REFUNDS).await, 1);
    assert_eq!(house.stock().await.available, 5);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_34_rs_36_a_late_payment_is_honoured_while_the_units_can_be_had_within_the_cap() {
    let plan = Plan { late_payment: "honour", ..Plan::of("honour", 2).cap(1) };
    let house = Core::start(&plan).await;
    assert_eq!(house.sale.late_payment, LatePayment::Honour);

    // The units are still this hold's.
    let unswept = house.held("ann", "k1", 1).await;
    house.lapse().await;
    assert_eq!(house.orders.confirm(&id(&unswept), "p1").await.unwrap().status, Status::Confirmed);

    // They can be taken again.
    let swept = house.held("bob", "k2", 1).await;
    house.lapse().await;
    house.orders.sweep().await.unwrap();
    let late = house.ledger.confirm(&id(&swept), "p2", LatePayment::Honour).await.unwrap();
    assert_eq!(late, Confirmed::Retaken);
    assert_eq!(house.stock().await.available, 0);
    house.sound().await;

    // The cap goes before a late payment.
    house.orders.restock(&house.sale.skus[0].sku, 2, "more").await.unwrap();
    let first = house.held("eve", "k3", 1).await;
    house.lapse().await;
    house.orders.sweep().await.unwrap();
    let second = house.held("eve", "k4", 1).await;
    house.orders.confirm(&id(&second), "p3").await.unwrap();
    assert_eq!(problem(house.orders.confirm(&id(&first), "p4").await), Problem::HoldExpired);
    assert_eq!(house.sql(REFUNDS).await, 1);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_37_a_hold_is_extended_up_to_its_total_and_never_past_its_end() {
    let plan = Plan { extension: "30s", ..Plan::of("extend", 5).hold("60s") };
    let house = Core::start(&plan).await;
    let mine = house.held("ann", "k1", 1).await;
    let most = mine.expires_at + jiff::SignedDuration::from_secs(30);

    house.sql("UPDATE reservation SET expires_at = expires_at - interval '40 s'").await;
    let extended = house.orders.extend(&id(&mine)).await.unwrap();
    let limit = most - jiff::SignedDuration::from_secs(40);
    assert_eq!(extended.expires_at, limit);
    assert_eq!(house.orders.extend(&id(&mine)).await.unwrap().expires_at, limit);

    house.lapse().await;
    assert_eq!(problem(house.orders.extend(&id(&mine)).await), Problem::HoldExpired);
    house.orders.sweep().await.unwrap();
    assert_eq!(problem(house.orders.extend(&id(&mine)).await), Problem::HoldExpired);

    let paid = house.held("bob", "k2", 1).await;
    house.orders.confirm(&id(&paid), "p1").await.unwrap();
    let after = house.orders.extend(&id(&paid)).await.unwrap();
    assert_eq!((after.status, after.expires_at), (Status::Confirmed, paid.expires_at));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_38_units_go_back_once_however_often_a_hold_is_released() {
    let house = Core::start(&Plan::of("release", 5)).await;
    let mine = house.held("ann", "k1", 2).await;

    let which = id(&mine);
    for released in join_all((0..20).map(|_| house.orders.release(&which))).await {
        assert_eq!(released.unwrap().status, Status::Released);
    }
    assert_eq!((house.stock().await.available, house.count().await), (5, Some(5)));

    let lapsed = house.held("ann", "k2", 1).await;
    house.lapse().await;
    house.orders.sweep().await.unwrap();
    assert_eq!(house.orders.release(&id(&lapsed)).await.unwrap().status, Status::Expired);

    let paid = house.held("ann", "k3", 1).await;
    house.orders.confirm(&id(&paid), "p1").await.unwrap();
    assert_eq!(problem(house.orders.release(&id(&paid)).await), Problem::AlreadyOrdered);

    let unknown = Which::Id(uuid::Uuid::now_v7());
    assert_eq!(problem(house.orders.release(&unknown).await), Problem::UnknownOrder);
    assert_eq!(house.stock().await.available, 4);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_order_gives_its_units_back_once_and_never_refunds_twice() {
    let house = Core::start(&Plan::of("cancel", 3)).await;
    let mine = house.held("ann", "k1", 2).await;
    assert_eq!(problem(house.orders.cancel(&id(&mine)).await), Problem::InProgress);
    house.orders.confirm(&id(&mine), "p1").await.unwrap();

    let which = id(&mine);
    for cancelled in join_all((0..5).map(|_| house.orders.cancel(&which))).await {
        assert_eq!(cancelled.unwrap().status, Status::Cancelled);
    }
    // A webhook that repeats itself for days.
    assert_eq!(problem(house.orders.confirm(&which, "p1").await), Problem::Released);

    assert_eq!((house.stock().await.available, house.sql(REFUNDS).await), (3, 0));
    assert_eq!(problem(house.reserve("ann", "k1", 2).await), Problem::Released);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_42_a_release_or_an_end_that_comes_after_the_payment_changes_nothing() {
    let house = Core::start(&Plan::of("paid", 3)).await;
    let mine = house.held("ann", "k1", 1).await;
    house.orders.confirm(&id(&mine), "p1").await.unwrap();
    house.sql("UPDATE reservation SET expires_at = now() - interval '1 h'").await;

    let key = Which::Key(house.whose("ann", "k1"));
    assert_eq!(problem(house.orders.release(&key).await), Problem::AlreadyOrdered);
    house.orders.sweep().await.unwrap();

    assert_eq!(replayed(house.reserve("ann", "k1", 1).await).status, Status::Confirmed);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_44_units_come_back_by_themselves_when_nobody_asks() {
    let house = Core::start(&Plan::of("idle", 3).hold("300ms")).await;
    house.held("ann", "k1", 3).await;
    assert_eq!(house.count().await, Some(0));

    let stop = CancellationToken::new();
    let every = std::time::Duration::from_millis(50);
    let sweeping = tokio::spawn(Arc::clone(&house.orders).keep_sweeping(every, stop.clone()));
    house.sql_says("SELECT available FROM stock", 3).await;
    stop.cancel();
    sweeping.await.unwrap();

    assert_eq!(house.count().await, Some(3));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_48_three_sweeps_at_once_with_confirms_under_way_are_exact() {
    let house = Core::start(&Plan::of("sweeps", 3_000)).await;
    let fill = format!(
        "SELECT 3000 - remaining FROM take_batch('S', 0, '{}', NULL, \
         (SELECT array_agg(gen_random_uuid()) FROM generate_series(1, 3000)), \
         (SELECT array_agg('buyer-' || n) FROM generate_series(1, 3000) n), \
         (SELECT array_agg('key-' || n) FROM generate_series(1, 3000) n), \
         array_fill(1::bigint, ARRAY[3000]), array_fill('\\x01'::bytea, ARRAY[3000]), \
         array_fill(false, ARRAY[3000]))",
        house.sale_id()
    );
    assert_eq!(house.sql(&fill).await, 3_000);
    let second = house.second().await;
    house.lapse().await;
    let alive = "UPDATE reservation SET expires_at = now() + interval '1 h' \
                 WHERE order_key IN (SELECT 'key-' || n FROM generate_series(1, 20) n)";
    house.sql(alive).await;

    let confirms = (1..=20).map(|n| {
        let which = Which::Key(house.whose(&format!("buyer-{n}"), &format!("key-{n}")));
        let core = Arc::clone(&house.orders);
        async move { core.confirm(&which, &format!("pay-{n}")).await }
    });
    let (a, b, c, confirmed) = tokio::join!(
        house.orders.sweep(),
        second.sweep(),
        house.orders.sweep(),
        join_all(confirms)
    );

    assert!(confirmed.iter().all(Result::is_ok));
    house.orders.sweep().await.unwrap();
    let expired = a.unwrap().expired + b.unwrap().expired + c.unwrap().expired;
    assert!(expired <= 2_980);
    let stock = house.stock().await;
    assert_eq!((stock.available, stock.confirmed, stock.held), (2_980, 20, 0));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sweeps_take_turns_and_one_on_the_grid_leaves_the_work_to_another() {
    let house = Core::start(&Plan::of("turns", 5)).await;
    house.held("ann", "k", 2).await;
    house.lapse().await;
    let mut client = house.database.client().await.unwrap();
    let another = client.transaction().await.unwrap();
    another.query("SELECT * FROM sweep(0, true)", &[]).await.unwrap();

    assert_eq!(house.ledger.sweep_chunk(false).await.unwrap().expired, 0);
    let (asked_for, ()) = tokio::join!(house.orders.sweep(), async {
        another.commit().await.unwrap();
    });
    assert_eq!(asked_for.unwrap().units, 2);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_50_the_history_of_an_expired_order_is_still_told() {
    let house = Core::start(&Plan::of("history", 3)).await;
    let mine = house.held("ann", "k1", 2).await;
    house.lapse().await;
    house.orders.sweep().await.unwrap();

    let view = house.ledger.view(mine.id).await.unwrap().unwrap();

    assert_eq!(view.reservation.status, Status::Expired);
    let told: Vec<_> = view.history.iter().map(|c| (c.kind.as_str(), c.qty)).collect();
    assert_eq!(told, [("hold", 2), ("expire", 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_skipped_while_an_older_transaction_is_still_under_way() {
    let house = Core::start(&Plan::of("events", 10)).await;
    let mut client = house.database.client().await.unwrap();
    let slow = client.transaction().await.unwrap();
    slow.execute("INSERT INTO outbox (at, type) VALUES (now(), 'slow')", &[]).await.unwrap();
    house.held("ann", "k1", 1).await;

    let before = house.ledger.events(EventCursor::default()).await.unwrap();
    assert!(before.events.is_empty(), "an event after one that may still come: {before:?}");
    slow.commit().await.unwrap();

    // Other tests of this server may keep the horizon back for a moment.
    let mut seen = Vec::new();
    let mut cursor = EventCursor::default();
    while seen.len() < 2 {
        let page = house.ledger.events(cursor).await.unwrap();
        cursor = page.next;
        seen.extend(page.events.into_iter().map(|event| event.kind));
    }
    assert_eq!(seen, ["slow", "held"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_buyers_of_a_few_units_never_get_more_than_there_are() {
    let house = Core::start(&Plan::of("few", 7)).await;
    let orders: Vec<_> = (0..60).map(|n| (format!("b{n}"), format!("k{n}"), 1 + n % 3)).collect();
    let outcomes =
        join_all(orders.iter().map(|(b, k, qty)| house.reserve(b, k, i64::from(*qty)))).await;

    assert!(grants(&outcomes) >= 3);
    let units: u32 = outcomes
        .into_iter()
        .filter_map(Result::ok)
        .map(|outcome| granted(Ok(outcome)).lines[0].qty.get())
        .sum();
    let stock = house.stock().await;
    assert_eq!((stock.held, stock.available), (u64::from(units), 7 - u64::from(units)));
    house.sound().await;
}

//! Lanes: what shares a call, what is sent again, what is not sent at all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use stanchion::domain::refusal::Problem;
use stanchion::reservations::Reserved;
use stanchion::reservations::lane::{LaneError, LaneMetrics, Lanes, Patience};
use stanchion::store::postgres::{Client, Take, Taken};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::fixture::core::{Core, Plan, granted, problem, replayed};
use crate::fixture::now_ms;

const BLOCKED: &str = "SELECT count(*) FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock'";

impl Core {
    /// Lanes of a process of their own, without a gate before them.
    pub(crate) fn lanes(&self) -> (Lanes, LaneMetrics) {
        let metrics = LaneMetrics::default();
        (Lanes::new(self.ledger.clone(), TaskTracker::new(), metrics.clone()), metrics)
    }

    pub(crate) fn take(&self, buyer: &str, key: &str, units: i64) -> Take {
        Take {
            id: Uuid::now_v7(),
            order: self.whose(buyer, key),
            cart: self.order(buyer, key, &[("S", units)]).cart,
            closes_ms: now_ms() + 60_000,
            settling: false,
        }
    }

    /// The stock row, locked until the connection is given `COMMIT`.
    async fn blocked(&self) -> Client {
        let client = self.database.client().await.unwrap();
        client.batch_execute("BEGIN; SELECT 1 FROM stock FOR NO KEY UPDATE").await.unwrap();
        client
    }
}

/// A take that waits in a task of its own.
pub(crate) fn taking(
    lanes: &Lanes,
    take: Take,
    patience: &Patience,
) -> JoinHandle<Result<Taken, LaneError>> {
    let (lanes, patience) = (lanes.clone(), patience.clone());
    tokio::spawn(async move { lanes.take(0, 1, take, &patience).await })
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(20), "{what} never came true");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_while_a_call_is_under_way_is_one_call() {
    let house = Core::start(&Plan::of("onecall", 500)).await;
    let (lanes, metrics) = house.lanes();
    let (blocking, patience) = (house.blocked().await, Patience::default());

    let first = taking(&lanes, house.take("ann", "k", 1), &patience);
    house.sql_says(BLOCKED, 1).await;
    let rest: Vec<_> = (0..300)
        .map(|n| taking(&lanes, house.take("ann", &format!("{n}"), 1), &patience))
        .collect();
    until("300 wait", || metrics.waiting.get() == 300).await;
    blocking.batch_execute("COMMIT").await.unwrap();

    for taken in join_all(std::iter::once(first).chain(rest)).await {
        assert!(matches!(taken.unwrap().unwrap(), Taken::Held(_)));
    }
    let written = "SELECT count(DISTINCT txid) FROM outbox WHERE type = 'held'";
    assert_eq!(house.sql(written).await, 2);
    assert_eq!((metrics.attempts.get(), metrics.waiting.get()), (301, 0));
    assert_eq!(house.stock().await.available, 199);
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_17_rs_18_equal_keys_in_one_lane_cost_once_and_another_body_is_refused() {
    let house = Core::start(&Plan::of("samekeys", 100)).await;
    let (lanes, _) = house.lanes();
    let (blocking, patience) = (house.blocked().await, Patience::default());
    let first = taking(&lanes, house.take("x", "x", 1), &patience);
    house.sql_says(BLOCKED, 1).await;

    let clicks = join_all((0..20).map(|_| lanes.take(0, 1, house.take("ann", "k", 2), &patience)));
    let other = async {
        until("the clicks wait", || lanes_wait(&lanes) >= 20).await;
        lanes.take(0, 1, house.take("ann", "k", 3), &patience).await
    };
    let letting_go = async {
        until("all wait", || lanes_wait(&lanes) >= 21).await;
        blocking.batch_execute("COMMIT").await.unwrap();
    };
    let (clicks, other, ()) = tokio::join!(clicks, other, letting_go);

    first.await.unwrap().unwrap();
    let held: Vec<_> = clicks
        .into_iter()
        .filter_map(|taken| match taken.unwrap() {
            Taken::Held(reservation) => Some(reservation),
            Taken::Replay { .. } => None,
            no => panic!("{no:?}"),
        })
        .collect();
    assert_eq!(held.len(), 1);
    assert_eq!(other.unwrap(), Taken::KeyReused(held[0].id));
    assert_eq!(house.stock().await.available, 97);
}

fn lanes_wait(lanes: &Lanes) -> i64 {
    lanes.metrics().waiting.get()
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_29_a_poisoned_order_errs_alone_among_256() {
    let house = Core::start(&Plan::of("poison", 1_000)).await;
    house.sql("ALTER TABLE reservation ADD CHECK (order_key <> 'key-77')").await;
    let (lanes, metrics) = house.lanes();
    let (blocking, patience) = (house.blocked().await, Patience::default());
    let first = taking(&lanes, house.take("x", "x", 1), &patience);
    house.sql_says(BLOCKED, 1).await;

    let batch: Vec<_> = (0..256)
        .map(|n| taking(&lanes, house.take("ann", &format!("key-{n}"), 1), &patience))
        .collect();
    until("256 wait", || metrics.waiting.get() == 256).await;
    blocking.batch_execute("COMMIT").await.unwrap();

    first.await.unwrap().unwrap();
    for (n, taken) in join_all(batch).await.into_iter().enumerate() {
        match taken.unwrap() {
            Ok(Taken::Held(_)) => assert_ne!(n, 77),
            Err(LaneError::Undone(_)) => assert_eq!(n, 77),
            other => panic!("order {n}: {other:?}"),
        }
    }
    assert_eq!(house.stock().await.available, 1_000 - 256);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_25_a_full_lane_refuses_and_burns_no_key() {
    let house = Core::start(&Plan::of("full", 10_000)).await;
    let (lanes, metrics) = house.lanes();
    let (blocking, patience) = (house.blocked().await, Patience::default());
    let first = taking(&lanes, house.take("x", "x", 1), &patience);
    house.sql_says(BLOCKED, 1).await;

    let waiting: Vec<_> = (0..4_096)
        .map(|n| taking(&lanes, house.take("ann", &format!("{n}"), 1), &patience))
        .collect();
    until("the lane is full", || metrics.waiting.get() == 4_096).await;
    let late = house.take("ann", "late", 1);
    assert!(matches!(lanes.take(0, 1, late.clone(), &patience).await, Err(LaneError::Full)));
    // Nobody waits for these: they are not sent.
    patience.end();
    blocking.batch_execute("COMMIT").await.unwrap();

    first.await.unwrap().unwrap();
    for taken in join_all(waiting).await {
        assert!(matches!(taken.unwrap(), Err(LaneError::Unsent)));
    }
    let held = lanes.take(0, 1, late, &Patience::default()).await.unwrap();
    assert!(matches!(held, Taken::Held(_)));
    assert_eq!((metrics.attempts.get(), metrics.unsent.get()), (2, 4_096));
    assert_eq!(house.stock().await.available, 9_998);
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_72_clients_that_leave_cancel_no_transaction_and_their_unsent_orders_cost_nothing() {
    let house = Core::start(&Plan::of("leaving", 100)).await;
    house.held("warm", "up", 1).await;
    let blocking = house.blocked().await;
    let waiting = || house.orders.metrics().lanes.waiting.get();
    let start = |key: String| {
        let (core, order) = (Arc::clone(&house.orders), house.order("ann", &key, &[("S", 1)]));
        tokio::spawn(async move { core.reserve(order).await })
    };

    let sent = start("sent".into());
    house.sql_says(BLOCKED, 1).await;
    let unsent: Vec<_> = (0..30).map(|n| start(format!("{n}"))).collect();
    until("30 wait", || waiting() == 30).await;
    assert_eq!(house.count().await, Some(68));
    for client in unsent.into_iter().chain([sent]) {
        client.abort();
        assert!(client.await.unwrap_err().is_cancelled());
    }
    blocking.batch_execute("COMMIT").await.unwrap();

    let since = Instant::now();
    while house.count().await != Some(98) {
        assert!(since.elapsed() < Duration::from_secs(10), "{:?} at the gate", house.count().await);
    }
    let again = house.reserve("ann", "sent", 1).await.unwrap();
    assert!(matches!(again, Reserved::Replay(_)), "it was sent before the client left");
    granted(house.reserve("ann", "0", 1).await);
    assert_eq!(house.stock().await.available, 97);
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' \
                AND datname = current_database()";
    assert_eq!(house.sql(idle).await, 0);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_17_a_second_click_is_granted_although_the_first_one_left_and_the_gate_hears_of_it() {
    let house = Core::start(&Plan::of("clicks", 3)).await;
    house.held("warm", "up", 1).await;
    let blocking = house.blocked().await;
    let waiting = || house.orders.metrics().lanes.waiting.get();
    let start = |key: &str| {
        let (core, order) = (Arc::clone(&house.orders), house.order("ann", key, &[("S", 1)]));
        tokio::spawn(async move { core.reserve(order).await })
    };
    let sent = start("sent");
    house.sql_says(BLOCKED, 1).await;
    let first = start("twice");
    until("the first click waits", || waiting() == 1).await;
    let second = start("twice");
    until("the second click waits", || waiting() == 2).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    blocking.batch_execute("COMMIT").await.unwrap();
    granted(sent.await.unwrap());
    let made = granted(second.await.unwrap());
    let since = Instant::now();
    while house.count().await != Some(1) {
        assert!(since.elapsed() < Duration::from_secs(10), "the first one gave nothing back");
    }

    let stop = CancellationToken::new();
    let watching = tokio::spawn(Arc::clone(&house.orders).watch_shelves(stop.clone()));
    let since = Instant::now();
    while house.count().await != Some(0) {
        assert!(since.elapsed() < Duration::from_secs(10), "{:?} at the gate", house.count().await);
        tokio::task::yield_now().await;
    }
    stop.cancel();
    watching.await.unwrap();
    assert_eq!(house.stock().await.available, 0);
    assert_eq!(replayed(house.reserve("ann", "twice", 1).await).id, made.id);
    assert_eq!(problem(house.reserve("bob", "k", 1).await), Problem::SoldOut);
    house.sound().await;
    assert_eq!(house.orders.metrics().gate_too_high.get(), 0, "it followed before it was compared");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_72_an_order_that_was_undone_is_not_sent_again_for_a_client_that_has_left() {
    let house = Core::start(&Plan::of("undone", 5)).await;
    house.sql("ALTER FUNCTION take_batch SET lock_timeout = '20ms'").await;
    let (lanes, metrics) = house.lanes();
    let (blocking, patience) = (house.blocked().await, Patience::default());

    let order = taking(&lanes, house.take("ann", "k", 1), &patience);
    until("it was sent", || metrics.attempts.get() >= 1).await;
    patience.end();
    let answer = order.await.unwrap();

    assert!(matches!(answer, Err(LaneError::Unsent)), "{answer:?}");
    assert!(metrics.attempts.get() < 4, "{} calls", metrics.attempts.get());
    blocking.batch_execute("COMMIT").await.unwrap();
    assert_eq!(house.stock().await.available, 5);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_73_a_batch_whose_link_was_cut_is_sent_again_and_never_called_sold_out() {
    let house = Core::start(&Plan::of("cut", 50)).await;
    let (lanes, metrics) = house.lanes();
    let (blocking, patience) = (house.blocked().await, Patience::default());
    let first = taking(&lanes, house.take("ann", "k0", 1), &patience);
    house.sql_says(BLOCKED, 1).await;
    let rest: Vec<_> = (1..50)
        .map(|n| taking(&lanes, house.take("ann", &format!("k{n}"), 1), &patience))
        .collect();
    until("49 wait", || metrics.waiting.get() == 49).await;

    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE application_name = 'stanchion lane' AND datname = current_database()";
    assert_eq!(house.sql(cut).await, 1);
    house.sql_says(BLOCKED, 1).await;
    blocking.batch_execute("COMMIT").await.unwrap();

    for taken in join_all(std::iter::once(first).chain(rest)).await {
        assert!(matches!(taken.unwrap().unwrap(), Taken::Held(_)));
    }
    assert_eq!(house.stock().await.available, 0);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_73_an_order_that_was_committed_without_an_answer_is_found_to_be_its_own() {
    let house = Core::start(&Plan::of("committed", 1)).await;
    let take = house.take("ann", "k", 1);
    let client = house.database.lane_client().await.unwrap();
    let first = house.ledger.take_batch(&client, 0, &[(&take, false)]).await.unwrap();
    assert!(matches!(first.answers.as_slice(), [Some(Taken::Held(_))]));

    let resent = house.ledger.take_batch(&client, 0, &[(&take, true)]).await.unwrap();
    assert_eq!(resent.answers, first.answers);
    let other = Take { id: Uuid::now_v7(), ..take };
    let click = house.ledger.take_batch(&client, 0, &[(&other, true)]).await.unwrap();
    assert!(matches!(click.answers.as_slice(), [Some(Taken::Replay { lapsed: false, .. })]));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_73_a_lock_that_is_held_too_long_is_unavailable_and_no_unit_is_lost() {
    let house = Core::start(&Plan::of("toolong", 5)).await;
    house.held("warm", "up", 1).await;
    for function in ["take_one", "take_batch"] {
        house.sql(&format!("ALTER FUNCTION {function} SET lock_timeout = '20ms'")).await;
    }
    let blocking = house.blocked().await;

    let outcome = house.reserve("ann", "k", 1).await;
    assert_eq!(problem(outcome), Problem::CoreUnavailable);
    assert_eq!(house.count().await, Some(4), "a certain no gives its unit back");
    blocking.batch_execute("COMMIT").await.unwrap();

    house.held("ann", "k", 1).await;
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_big_order_that_came_before_the_last_small_one_hears_that_nothing_is_left() {
    let house = Core::start(&Plan::of("toobig", 3)).await;
    house.held("warm", "up", 1).await;
    let key = format!("stanchion:{{{}}}:stock:S", house.sale.id);
    let lie = redis::cmd("HSET").arg(key).arg("count").arg(100).clone();
    house.redis.command::<()>(&lie).await.unwrap();
    let blocking = house.blocked().await;
    let waiting = || house.orders.metrics().lanes.waiting.get();
    let start = |buyer: &str, units: i64| {
        let (core, order) = (Arc::clone(&house.orders), house.order(buyer, "k", &[("S", units)]));
        tokio::spawn(async move { core.reserve(order).await })
    };
    let first = start("ann", 1);
    house.sql_says(BLOCKED, 1).await;
    let big = start("bob", 2);
    until("the big one waits", || waiting() == 1).await;
    let small = start("cat", 1);
    until("the small one waits", || waiting() == 2).await;
    blocking.batch_execute("COMMIT").await.unwrap();

    granted(first.await.unwrap());
    granted(small.await.unwrap());
    let refusal = big.await.unwrap().unwrap_err();
    assert_eq!(refusal.problem, Problem::SoldOut, "{refusal:?}");
    house.sound().await;
}

//! Holds that wait for the shop's answer, payments that come before their orders, and that holds
//! made in every way come to an end. Cases by their ids.

use std::sync::Arc;

use http::Method;
use serde_json::json;
use stanchion::clock::SystemClock;
use stanchion::config::settings::LatePayment;
use stanchion::domain::id::SaleId;
use stanchion::domain::refusal::Problem;
use stanchion::domain::reservation::Status;
use stanchion::reservations::{Order, Reservations, Reserved};
use stanchion::store::postgres::{EventCursor, Which};
use tokio_util::task::TaskTracker;

use crate::fixture::core::{Core, Plan, granted, problem, replayed};
use crate::fixture::now_ms;
use crate::fixture::served::{OPS_KEY, Served, body, is};

fn settling(house: &Core, buyer: &str, key: &str) -> Order {
    Order { settling: true, ..house.order(buyer, key, &[("S", 1)]) }
}

const LAPSE_ALL: &str = "UPDATE reservation SET expires_at = now() - interval '1 h'";

#[tokio::test(flavor = "multi_thread")]
async fn a_settling_hold_is_no_sweeps_and_its_payment_counts_whenever_it_comes() {
    let house = Core::start(&Plan::of("settling", 3)).await;
    let paid = granted(house.orders.reserve(settling(&house, "ann", "k1")).await);
    let declined = granted(house.orders.reserve(settling(&house, "bob", "k2")).await);
    assert!(paid.settling && declined.settling);
    house.sql(LAPSE_ALL).await;

    assert_eq!(house.orders.sweep().await.unwrap().expired, 0);
    // The next try of the same order finds it, although its time is over.
    let again = replayed(house.orders.reserve(settling(&house, "ann", "k1")).await);
    assert_eq!((again.id, again.status), (paid.id, Status::Held));
    assert!(house.orders.extend(&Which::Id(paid.id)).await.is_ok());
    house.orders.reconcile().await.unwrap();
    assert_eq!(house.orders.metrics().unsettled_holds.get(), 2, "no shop has answered");

    let confirmed = house.orders.confirm(&Which::Id(paid.id), "p1").await.unwrap();
    assert_eq!((confirmed.status, confirmed.settling), (Status::Confirmed, false));

    // The shop said no: an ordinary hold, whose time happens to be over.
    for _ in 0..2 {
        let ordinary = house.orders.settle(&Which::Id(declined.id)).await.unwrap();
        assert_eq!((ordinary.status, ordinary.settling), (Status::Held, false));
    }
    assert_eq!(
        problem(house.orders.confirm(&Which::Id(declined.id), "p2").await),
        Problem::HoldExpired
    );
    assert_eq!(house.orders.sweep().await.unwrap().expired, 1);
    assert_eq!(problem(house.orders.settle(&Which::Id(declined.id)).await), Problem::HoldExpired);
    assert_eq!(house.orders.settle(&Which::Id(paid.id)).await.unwrap().status, Status::Confirmed);
    let stock = house.stock().await;
    assert_eq!((stock.available, stock.held, stock.confirmed), (2, 0, 1));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_born_settling_and_settled_over_http() {
    let core = Served::start(&Plan::of("settlehttp", 3)).await;
    let asked = json!({"lines": [{"sku": "S", "qty": 1}], "settle": true}).to_string();

    let held = core.order("ann", "k1", asked.clone()).await;
    assert_eq!((held.status.as_u16(), &body(&held)["settling"]), (201, &json!(true)));
    let id = body(&held)["id"].as_str().unwrap().to_owned();
    core.house.sql(LAPSE_ALL).await;
    assert_eq!(core.order("ann", "k1", asked).await.status, 200);
    let path = format!("/v1/reservations/{id}/settle");
    let settled = core.post(&path, &json!({})).await;
    assert_eq!((&body(&settled)["status"], body(&settled).get("settling")), (&json!("held"), None));
    core.call(Method::POST, "/v1/sweep", OPS_KEY, "").await;

    is(&core.post(&path, &json!({})).await, 409, "hold-expired");
    let nobody = format!("/v1/reservations/{}/settle", uuid::Uuid::now_v7());
    is(&core.post(&nobody, &json!({})).await, 404, "unknown-order");
    is(&core.post("/v1/reservations/x/settle", &json!({})).await, 400, "bad-request");
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_32_a_payment_without_an_order_is_written_down_once_and_matched_later() {
    let house = Core::start(&Plan::of("unmatched", 3)).await;
    let key = Which::Key(house.whose("ann", "k9"));
    for _ in 0..3 {
        assert_eq!(problem(house.orders.confirm(&key, "pay-1").await), Problem::UnknownOrder);
    }
    let stray = Which::Id(uuid::Uuid::now_v7());
    assert_eq!(problem(house.orders.confirm(&stray, "pay-2").await), Problem::UnknownOrder);

    let noted = "SELECT count(*) FROM outbox WHERE type = 'payment_unmatched'";
    house.sql_says(noted, 2).await;
    house.sql("UPDATE outbox SET at = at - interval '2 min'").await;
    house.orders.reconcile().await.unwrap();
    assert_eq!(house.orders.metrics().unmatched_payments.get(), 2);
    let mut told = Vec::new();
    while told.len() < 2 {
        told = house.ledger.events(EventCursor::default()).await.unwrap().events;
    }
    let data = &told[0].data;
    assert_eq!((&data["order_key"], &data["payment_ref"]), (&json!("k9"), &json!("pay-1")));

    // Its order comes, and the shop tries again as it was told to.
    house.held("ann", "k9", 1).await;
    assert_eq!(house.orders.confirm(&key, "pay-1").await.unwrap().status, Status::Confirmed);
    house.orders.reconcile().await.unwrap();
    assert_eq!(house.orders.metrics().unmatched_payments.get(), 1);

    // Nobody is named for ever.
    let mut over = house.sale.control("test");
    (over.version, over.closes_ms) = (2, now_ms() - 2_000);
    house.database.merge_control(&house.sale_id(), &over).await.unwrap();
    house.database.forget_names(&house.sale_id()).await.unwrap();
    assert_eq!(house.sql("SELECT count(*) FROM outbox WHERE detail::text LIKE '%ann%'").await, 0);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_36_with_late_payments_refused_a_late_one_is_owed_back_whatever_is_left() {
    let house = Core::start(&Plan::of("latecap", 5).cap(1)).await;
    let first = house.held("ann", "k1", 1).await;
    house.lapse().await;
    house.orders.sweep().await.unwrap();
    let second = house.held("ann", "k2", 1).await;
    house.orders.confirm(&Which::Id(second.id), "p2").await.unwrap();

    for _ in 0..2 {
        let late = house.orders.confirm(&Which::Id(first.id), "p1").await;
        assert_eq!(problem(late), Problem::HoldExpired);
    }

    assert_eq!(house.sql("SELECT count(*) FROM outbox WHERE type = 'refund_due'").await, 1);
    assert_eq!(house.stock().await.available, 4);
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_40_a_declined_payment_leaves_the_hold_until_its_end_for_another_try() {
    let house = Core::start(&Plan::of("declined", 1)).await;
    let mine = granted(house.orders.reserve(settling(&house, "ann", "k1")).await);
    house.orders.settle(&Which::Id(mine.id)).await.unwrap();

    assert_eq!(problem(house.reserve("bob", "k2", 1).await), Problem::SoldOut);
    let retried = replayed(house.orders.reserve(settling(&house, "ann", "k1")).await);
    assert_eq!((retried.id, retried.settling), (mine.id, false));
    house.orders.confirm(&Which::Id(mine.id), "second card").await.unwrap();
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_41_touching_an_order_that_has_ended_takes_nothing_from_its_successor() {
    let house = Core::start(&Plan::of("successor", 1)).await;
    let ann = house.held("ann", "k1", 1).await;
    house.lapse().await;
    house.orders.sweep().await.unwrap();
    let bob = house.held("bob", "k2", 1).await;

    let which = Which::Id(ann.id);
    assert_eq!(problem(house.orders.extend(&which).await), Problem::HoldExpired);
    assert_eq!(problem(house.orders.settle(&which).await), Problem::HoldExpired);
    assert_eq!(problem(house.orders.confirm(&which, "p1").await), Problem::HoldExpired);
    assert_eq!(problem(house.orders.cancel(&which).await), Problem::HoldExpired);
    assert_eq!(house.orders.release(&which).await.unwrap().status, Status::Expired);
    assert_eq!(problem(house.reserve("ann", "k1", 1).await), Problem::HoldExpired);

    let now = house.ledger.view(bob.id).await.unwrap().unwrap().reservation;
    assert_eq!((now.status, house.stock().await.available), (Status::Held, 0));
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_45_holds_made_in_every_way_come_to_an_end() {
    let plan = Plan { late_payment: "honour", ..Plan::of("everyway", 20).sku("T", 20) };
    let house = Core::start(&plan).await;
    // Alone, as a cart, settled, extended, past a gate that is gone, and by a payment that came late
    // and was given back.
    house.held("ann", "single", 1).await;
    granted(house.reserve_lines("ann", "cart", &[("S", 2), ("T", 3)]).await);
    let settled = granted(house.orders.reserve(settling(&house, "ann", "settled")).await);
    house.orders.settle(&Which::Id(settled.id)).await.unwrap();
    let extended = house.held("ann", "extended", 1).await;
    house.orders.extend(&Which::Id(extended.id)).await.unwrap();
    let replica =
        ::redis::cmd("DEL").arg(format!("stanchion:{{{}}}:stock:S", house.sale.id)).clone();
    house.redis.command::<()>(&replica).await.unwrap();
    house.held("ann", "unloaded", 1).await;
    let second = house.second().await;
    granted(second.reserve(house.order("bob", "other core", &[("T", 1)])).await);

    house.lapse().await;
    let report = house.orders.sweep().await.unwrap();

    assert_eq!((report.expired, report.units), (6, 10));
    let left = "SELECT count(*) FROM reservation WHERE status <> 'expired'";
    assert_eq!(house.sql(left).await, 0);
    assert_eq!(house.stock_of("T").await.available, 20);
    match house.reserve("ann", "single", 1).await {
        Err(refusal) => assert_eq!(refusal.problem, Problem::HoldExpired),
        Ok(Reserved::New(made) | Reserved::Replay(made)) => panic!("{made:?}"),
    }
    house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_32_a_payment_without_an_order_is_written_down_whatever_the_sales_say_of_late_ones() {
    let house = Core::start(&Plan::of("latediffers", 3)).await;
    let mut other = house.sale.clone();
    other.id = SaleId::parse("another-sale").unwrap();
    other.late_payment = LatePayment::Honour;
    other.skus.clear();
    let sales = [house.sale.clone(), other];
    let (ledger, gate) = (house.ledger.clone(), house.gate.clone());
    let clock = Arc::new(SystemClock);
    let core = Arc::new(Reservations::new(ledger, gate, &sales, clock, TaskTracker::new()));
    core.prepare().await.unwrap();

    let nobody = Which::Id(uuid::Uuid::now_v7());
    assert_eq!(problem(core.confirm(&nobody, "pay-1").await), Problem::UnknownOrder);
    let noted = "SELECT count(*) FROM outbox WHERE type = 'payment_unmatched'";
    assert_eq!(house.sql(noted).await, 1);
}

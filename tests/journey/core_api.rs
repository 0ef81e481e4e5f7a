//! The core API over a real socket: orders, payments, stock and upkeep.

use http::Method;
use serde_json::{Value, json};

use crate::fixture::core::Plan;
use crate::fixture::served::{CORE_KEY, OPS_KEY, Served, body, is, one};

#[tokio::test(flavor = "multi_thread")]
async fn an_order_lives_from_its_hold_to_its_payment_over_http() {
    let core = Served::start(&Plan::of("lives", 5)).await;

    let held = core.order("ann", "\"order-1\"", one("S", 2)).await;
    assert_eq!(held.status, 201, "{}", held.text());
    let reservation = body(&held);
    assert_eq!((&reservation["status"], &reservation["buyer"]), (&json!("held"), &json!("ann")));
    assert_eq!(reservation["lines"], json!([{"sku": "S", "qty": 2}]));
    let again = core.order("ann", "order-1", one("S", 2)).await;
    assert_eq!((again.status.as_u16(), again.header("idempotent-replayed")), (200, "true"));
    assert_eq!(body(&again), reservation);

    let id = reservation["id"].as_str().unwrap();
    let paid = json!({"payment_ref": "pay-1"});
    let confirmed = core.post(&format!("/v1/reservations/{id}/confirm"), &paid).await;
    assert_eq!(body(&confirmed)["status"], "confirmed");
    let view = body(&core.get(&format!("/v1/reservations/{id}")).await);
    assert_eq!(view["history"][1]["kind"], "confirm");
    let other = json!({"payment_ref": "pay-2"});
    let other = core.post(&format!("/v1/reservations/{id}/confirm"), &other).await;
    is(&other, 409, "payment-conflict");
    is(
        &core.post(&format!("/v1/reservations/{id}/release"), &json!({})).await,
        409,
        "already-ordered",
    );

    let found = core.get("/v1/reservations?payment_ref=pay-1&status=confirmed").await;
    assert_eq!(body(&found)["reservations"][0]["id"], id);
    assert_eq!(body(&found)["next"], Value::Null);
    let cancelled = core.post(&format!("/v1/reservations/{id}/cancel"), &json!({})).await;
    assert_eq!(body(&cancelled)["status"], "cancelled");
    let stock = body(&core.get("/v1/stock/S").await);
    assert_eq!((&stock["available"], &stock["loaded"]), (&json!(5), &json!(5)));
    assert_eq!(body(&core.get("/v1/stock").await)["skus"][0]["sku"], "S");
    assert_eq!(body(&core.get("/v1/audit").await), json!({"rows": []}));
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_confirmed_and_released_by_their_key() {
    let core = Served::start(&Plan::of("bykey", 5)).await;
    let by_key = |key: &str| {
        json!({"sale": core.house.sale.id.as_str(), "buyer": "ann", "order_key": key,
               "payment_ref": "p1"})
    };
    let early = core.post("/v1/reservations/confirm", &by_key("k1")).await;
    is(&early, 404, "unknown-order");
    assert_eq!(early.header("retry-after"), "1");
    core.order("ann", "k1", one("S", 1)).await;

    let confirmed = core.post("/v1/reservations/confirm", &by_key("k1")).await;
    assert_eq!(body(&confirmed)["status"], "confirmed");
    let tombstone = core.post("/v1/reservations/release", &by_key("k2")).await;
    assert_eq!(body(&tombstone)["status"], "released");
    is(&core.order("ann", "k2", one("S", 1)).await, 409, "released");
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_record_is_merged_and_never_goes_back() {
    let core = Served::start(&Plan::of("control", 5)).await;
    let path = format!("/v1/control/{}", core.house.sale.id);
    let mut newer = body(&core.get(&path).await);
    (newer["version"], newer["epoch"]) = (json!(5), json!(3));
    core.call(Method::PUT, &path, OPS_KEY, &newer.to_string()).await;

    let mut older = newer.clone();
    (older["version"], older["epoch"], older["rate"]) = (json!(4), json!(7), json!("1/s"));
    let merged = body(&core.call(Method::PUT, &path, OPS_KEY, &older.to_string()).await);

    assert_eq!((&merged["version"], &merged["epoch"]), (&json!(5), &json!(7)));
    assert_eq!(merged["rate"], newer["rate"]);
    let nobody = core.get("/v1/control/nobody").await;
    is(&nobody, 404, "unknown-sale");
    is(
        &core.call(Method::PUT, "/v1/control/nobody", OPS_KEY, &newer.to_string()).await,
        404,
        "unknown-sale",
    );
    is(&core.call(Method::PUT, &path, OPS_KEY, r#"{"rate":"fast"}"#).await, 400, "bad-request");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_66_an_absolute_set_needs_the_version_that_was_seen() {
    let core = Served::start(&Plan::of("set", 10)).await;
    let seen = body(&core.get("/v1/stock/S").await)["version"].clone();
    core.order("ann", "k", one("S", 3)).await;
    let set =
        |loaded: u64, version: Value| json!({"loaded": loaded, "version": version}).to_string();

    let stale = core.call(Method::PUT, "/v1/stock/S", OPS_KEY, &set(10, seen)).await;
    let refusal = is(&stale, 409, "version-mismatch");
    assert_eq!((&refusal["available"], &refusal["held"]), (&json!(7), &json!(3)));

    let version = refusal["version"].clone();
    let below = core.call(Method::PUT, "/v1/stock/S", OPS_KEY, &set(2, version.clone())).await;
    is(&below, 409, "below-taken");
    let lowered = core.call(Method::PUT, "/v1/stock/S", OPS_KEY, &set(4, version)).await;
    assert_eq!(body(&lowered)["available"], 1);
    assert_eq!(core.house.count().await, Some(1), "the gate follows lowered stock at once");
    assert_eq!(core.house.orders.metrics().gate_too_high.get(), 0, "and raises no alarm");
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_69_a_restock_sent_three_times_counts_once() {
    let core = Served::start(&Plan::of("restock", 2)).await;
    core.order("ann", "k", one("S", 2)).await;
    is(&core.order("bob", "k", one("S", 1)).await, 409, "sold-out");
    let restock = |delta: i64, op: &str| json!({"delta": delta, "op_key": op}).to_string();

    let raw = restock(50, "r1");
    let send = || core.call(Method::POST, "/v1/stock/S/restock", OPS_KEY, &raw);
    let (a, b, c) = tokio::join!(send(), send(), send());
    for answer in [a, b, c] {
        assert_eq!(body(&answer)["loaded"], 52);
    }

    assert_eq!(core.order("bob", "k", one("S", 1)).await.status, 201);
    let other = core.call(Method::POST, "/v1/stock/S/restock", OPS_KEY, &restock(51, "r1")).await;
    is(&other, 422, "key-reused");
    let below = core.call(Method::POST, "/v1/stock/S/restock", OPS_KEY, &restock(-50, "r2")).await;
    is(&below, 409, "below-taken");
    for bad in [r#"{"delta":0,"op_key":"x"}"#, r#"{"delta":1.5,"op_key":"x"}"#, r#"{"delta":1}"#] {
        is(&core.call(Method::POST, "/v1/stock/S/restock", OPS_KEY, bad).await, 400, "bad-request");
    }
    is(&core.call(Method::POST, "/v1/stock/S/restock", CORE_KEY, &raw).await, 403, "not-admitted");
    is(&core.call(Method::POST, "/v1/stock/X/restock", OPS_KEY, &raw).await, 404, "unknown-sku");
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_82_all_held_is_told_apart_from_gone() {
    let core = Served::start(&Plan::of("held", 1).hold("2m")).await;
    let held = body(&core.order("ann", "k", one("S", 1)).await);
    core.house.orders.prepare().await.unwrap();

    let answer = core.order("bob", "k", one("S", 1)).await;
    let refusal = is(&answer, 409, "sold-out");
    assert_eq!((&refusal["held"], &refusal["sku"]), (&json!(1), &json!("S")));
    let at = |body: &Value, name: &str| -> jiff::Timestamp {
        body[name].as_str().unwrap().parse().unwrap()
    };
    let early = at(&held, "expires_at").duration_since(at(&refusal, "earliest_release"));
    assert!(early.abs() < jiff::SignedDuration::from_millis(2), "{early}");
    assert_eq!(answer.header("retry-after"), "2");

    let paid = json!({"payment_ref": "p"});
    let id = held["id"].as_str().unwrap();
    core.post(&format!("/v1/reservations/{id}/confirm"), &paid).await;
    core.house.orders.prepare().await.unwrap();
    let gone = core.order("bob", "k", one("S", 1)).await;
    let refusal = is(&gone, 409, "sold-out");
    assert_eq!((&refusal["held"], &refusal["earliest_release"]), (&json!(0), &Value::Null));
    assert_eq!(gone.header("retry-after"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_72_clients_that_leave_cancel_nothing_half_way() {
    let core = Served::start(&Plan::of("leaves", 300)).await;
    let orders = (0..200_u64).map(|n| {
        let admission = core.admission("ann", |_| {});
        let core = &core;
        async move {
            let key = format!("k{n}");
            let order = core.order_with(&admission, &key, one("S", 1));
            let patience = std::time::Duration::from_millis(n % 20);
            tokio::time::timeout(patience, order).await.is_ok()
        }
    });
    futures_util::future::join_all(orders).await;

    // Those left behind end by themselves, whole or not at all.
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND state <> 'idle' AND pid <> pg_backend_pid()";
    core.house.sql_says(busy, 0).await;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND state LIKE 'idle in transaction%'";
    assert_eq!(core.house.sql(open).await, 0);
    for n in 0..200 {
        let answer = core.order("ann", &format!("k{n}"), one("S", 1)).await;
        assert!(matches!(answer.status.as_u16(), 200 | 201), "{}", answer.text());
    }
    assert_eq!(core.house.stock().await.available, 100);
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upkeep_is_for_operators_and_says_what_it_did() {
    let core = Served::start(&Plan::of("upkeep", 3)).await;
    core.order("ann", "k", one("S", 2)).await;
    core.house.lapse().await;
    for path in ["/v1/sweep", "/v1/reconcile"] {
        is(&core.post(path, &json!({})).await, 403, "not-admitted");
    }

    let swept = core.call(Method::POST, "/v1/sweep", OPS_KEY, "").await;
    assert_eq!(body(&swept), json!({"expired": 1, "units": 2}));
    let reconciled = body(&core.call(Method::POST, "/v1/reconcile", OPS_KEY, "").await);
    let sku = json!({"sku": "S", "ledger": 3, "gate": 3, "action": "none"});
    assert_eq!((&reconciled["skus"], &reconciled["rows"]), (&json!([sku]), &json!([])));

    let mut kinds = Vec::new();
    let mut after = String::new();
    while kinds.len() < 2 {
        let page = body(&core.get(&format!("/v1/events?after={after}")).await);
        after = page["next"].as_str().unwrap().to_owned();
        for event in page["events"].as_array().unwrap() {
            assert_eq!(event["data"]["order_key"], "k");
            kinds.push(event["type"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(kinds, ["held", "expired"]);
    is(&core.get("/v1/events?after=yesterday").await, 400, "bad-request");
    is(&core.get("/v1/reservations?status=gone").await, 400, "bad-request");
    is(&core.get("/v1/reservations?buyr=ann").await, 400, "bad-request");
    is(&core.get("/v1/reservations/not-an-id").await, 400, "bad-request");
    is(&core.get("/v1/nothing").await, 404, "bad-request");
    is(&core.call(Method::DELETE, "/v1/stock", OPS_KEY, "").await, 405, "bad-request");
}

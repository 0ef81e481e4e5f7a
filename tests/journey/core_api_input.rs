//! What the core API makes of nonsense: a precise no, and nothing used up.

use bytes::Bytes;
use http::Method;
use serde_json::json;
use stanchion::domain::admission::Admission;
use stanchion::domain::id::SaleId;
use stanchion::lab::client::request;

use crate::fixture::core::Plan;
use crate::fixture::served::{CORE_KEY, OPS_KEY, Served, body, is, one};

#[tokio::test(flavor = "multi_thread")]
async fn rs_06_only_whole_positive_quantities_reach_a_store() {
    let core = Served::start(&Plan::of("quantity", 5)).await;
    let bad = ["-5", "0", "-0", "\"-1\"", "1.5", "1e1", "\"0x2\"", "null", "true", "NaN", "\"\""];
    for qty in bad.into_iter().chain(["1000001", "9007199254740993", "99999999999999999999"]) {
        let raw = format!("{{\"lines\":[{{\"sku\":\"S\",\"qty\":{qty}}}]}}");
        let refusal = is(&core.order("ann", "k", raw).await, 400, "bad-request");
        let field = refusal["field"].as_str().unwrap();
        assert!(field.starts_with("lines[0]"), "{qty}: {refusal}");
    }
    assert_eq!(core.house.count().await, None, "the gate was asked");
    assert_eq!(core.house.attempts(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_orders_are_refused_by_name_and_burn_no_key() {
    let core = Served::start(&Plan::of("malformedorder", 5)).await;
    let cases = [
        ("", "lines"),
        ("[]", "body"),
        ("{", "body"),
        ("null", "body"),
        ("\"x\"", "body"),
        ("{}", "lines"),
        (r#"{"lines":[]}"#, "lines"),
        (r#"{"lines":{}}"#, "lines"),
        (r#"{"lines":[{"qty":1}]}"#, "lines[0].sku"),
        (r#"{"lines":[{"sku":"S"}]}"#, "lines[0].qty"),
        (r#"{"lines":[{"sku":7,"qty":1}]}"#, "lines[0].sku"),
        (r#"{"lines":[{"sku":"","qty":1}]}"#, "lines[0].sku"),
        (r#"{"lines":[{"sku":"a\u0000b","qty":1}]}"#, "lines[0].sku"),
        (r#"{"lines":[{"sku":"S","qty":1}],"settle":1}"#, "settle"),
        (r#"{"lines":[{"sku":"S","qty":1}]} x"#, "body"),
        (r#"{"lines":[{"sku":"S","qty":600000},{"sku":"S","qty":600000}]}"#, "lines"),
    ];
    for (raw, field) in cases {
        let refusal = is(&core.order("ann", "k", raw).await, 400, "bad-request");
        let named = refusal["field"].as_str().unwrap();
        assert!(named.starts_with(field), "{raw}: {refusal}");
    }
    let long = one(&"x".repeat(201), 1);
    is(&core.order("ann", "k", long).await, 400, "bad-request");
    is(&core.order("ann", "k", vec![b' '; 70_000]).await, 413, "body-too-large");
    is(&core.order("ann", "k", one("NOPE", 1)).await, 404, "unknown-sku");
    is(&core.order("ann", "\"k", one("S", 1)).await, 400, "bad-request");

    // rs_25: nothing of that burnt the key; unknown fields mean nothing.
    let odd = r#"{"lines":[{"sku":"S","qty":1,"gift":true}],"note":"x"}"#;
    assert_eq!(core.order("ann", "k", odd).await.status, 201);
    assert_eq!(core.order("ann", "k", one("S", 1)).await.status, 200);
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_has_the_key_and_a_valid_admission_takes_units() {
    let core = Served::start(&Plan::of("admitted", 5)).await;
    for key in ["", "core", "core-key-of-this-tesT", "core-key-of-this-test2"] {
        let answer = core.call(Method::GET, "/v1/stock", key, "").await;
        is(&answer, 401, "not-admitted");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
    }
    assert_eq!(core.call_with(Method::GET, "/v1/stock", &[], Bytes::new()).await.status, 401);

    let other = SaleId::parse("another").unwrap();
    let ended = |a: &mut Admission| (a.iat, a.exp) = (a.iat - 800, a.exp - 800);
    let bad = [
        String::new(),
        "x.y.z".into(),
        core.admission("ann", |a| a.epoch = 2),
        core.admission("ann", |a| a.epoch = 0),
        core.admission("ann", |a| a.sale = other),
        core.admission("ann", ended),
        core.admission("ann", |a| a.iat += 60),
        core.admission("ann", |_| {}).trim_end_matches(|_| true).to_owned() + "e30.e30.",
    ];
    for admission in bad {
        is(&core.order_with(&admission, "k", one("S", 1)).await, 403, "not-admitted");
    }
    let mut cut = core.admission("ann", |_| {});
    cut.truncate(cut.len() - 4);
    is(&core.order_with(&cut, "k", one("S", 1)).await, 403, "not-admitted");
    assert_eq!(core.house.attempts(), 0);

    // On its way while it was valid: the core honours it for a minute.
    let just_ended = core.admission("ann", |a| (a.iat, a.exp) = (a.iat - 630, a.exp - 630));
    assert_eq!(core.order_with(&just_ended, "k", one("S", 1)).await.status, 201);

    // A stop raises the epoch, and voids what was signed before.
    let path = format!("/v1/control/{}", core.house.sale.id);
    let mut control = body(&core.get(&path).await);
    (control["epoch"], control["version"]) = (json!(2), json!(9));
    let raw = control.to_string();
    is(&core.call(Method::PUT, &path, CORE_KEY, &raw).await, 403, "not-admitted");
    assert_eq!(body(&core.call(Method::PUT, &path, OPS_KEY, &raw).await)["epoch"], 2);
    is(&core.order("ann", "k2", one("S", 1)).await, 403, "not-admitted");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_62_skus_are_exact_bytes_after_trimming() {
    let plan = Plan::of("bytes", 1).sku("A-1", 1).sku("a-1", 1).sku("01", 1).sku("1", 1);
    let core = Served::start(&plan.sku("\u{e9}", 1).sku("e\u{301}", 1)).await;
    for (n, sku) in ["A-1", " a-1 ", "01", "1", "\u{e9}", "e\u{301}"].into_iter().enumerate() {
        let answer = core.order("ann", &format!("k{n}"), one(sku, 1)).await;
        assert_eq!(answer.status, 201, "{sku}: {}", answer.text());
    }
    is(&core.order("ann", "x", one("A-1", 1)).await, 409, "sold-out");
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_64_odd_characters_come_back_as_they_were_sent() {
    let core = Served::start(&Plan::of("odd", 9)).await;
    let bearer = format!("Bearer {CORE_KEY}");
    let admission = core.admission("ann", |_| {});
    for (n, key) in ["заказ №1", "\u{200f}rtl", "🎟🎟"].into_iter().enumerate() {
        let mut order = request(
            Method::POST,
            &format!("{}/v1/reservations", core.url),
            &[("authorization", &bearer), ("stanchion-admission", &admission)],
            one("S", 1).into(),
        )
        .unwrap();
        let value = http::HeaderValue::from_bytes(key.as_bytes()).unwrap();
        order.headers_mut().insert("idempotency-key", value);
        let answer = core.client.send(order).await.unwrap();
        assert_eq!(body(&answer)["order_key"], key, "{n}");
    }
    let raw = one("\u{d7ff}", 1).replace('\u{d7ff}', "\\ud800");
    is(&core.order("ann", "k", raw).await, 400, "bad-request");
    is(
        &core.order("ann", "k", b"{\"lines\":[{\"sku\":\"\xff\",\"qty\":1}]}".to_vec()).await,
        400,
        "bad-request",
    );
}

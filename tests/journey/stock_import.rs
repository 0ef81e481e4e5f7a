//! Stock from a file: all of it or nothing, once for each name. Cases by their ids.

use std::fmt::Write as _;

use http::Method;
use serde_json::{Value, json};
use stanchion::lab::client::Answer;

use crate::fixture::core::Plan;
use crate::fixture::served::{CORE_KEY, OPS_KEY, Served, body, is, one};

impl Served {
    async fn import(&self, query: &str, file: &str) -> Answer {
        self.call(Method::POST, &format!("/v1/stock?{query}"), OPS_KEY, file).await
    }
}

fn lines(refusal: &Value) -> Vec<(u64, &str)> {
    let rows = refusal["rows"].as_array().unwrap().iter();
    rows.map(|row| (row["line"].as_u64().unwrap(), row["field"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_65_a_file_is_looked_at_then_imported_once_while_orders_are_held() {
    let core = Served::start(&Plan::of("import", 5).sku("T", 3).sku("U", 9).shards(2)).await;
    assert_eq!(core.order("ann", "k1", one("S", 5)).await.status, 201);
    is(&core.order("bob", "k2", one("S", 1)).await, 409, "sold-out");
    let file = "\u{feff}sku;units\r\nS;10\r\nT;-2\r\n";

    let seen = body(&core.import("mode=delta&dry_run=true", file).await);
    let changes = json!([
        {"line": 2, "sku": "S", "loaded": 5, "delta": 10},
        {"line": 3, "sku": "T", "loaded": 3, "delta": -2},
    ]);
    assert_eq!((&seen["applied"], &seen["changes"]), (&json!(false), &changes));
    assert_eq!((&seen["added"], &seen["removed"]), (&json!(10), &json!(2)));
    assert_eq!(core.house.stock().await.loaded, 5, "a look changes nothing");

    let query = format!("mode=delta&op_key=d1&seen={}", seen["seen"].as_str().unwrap());
    let done = body(&core.import(&query, file).await);
    assert_eq!((&done["applied"], &done["replayed"]), (&json!(true), &json!(false)));
    let stock = core.house.stock().await;
    assert_eq!((stock.loaded, stock.available, stock.held), (15, 10, 5));
    assert_eq!(core.order("bob", "k2", one("S", 1)).await.status, 201, "the gate has heard");
    for _ in 0..2 {
        let again = body(&core.import("mode=delta&op_key=d1", file).await);
        assert_eq!((&again["replayed"], &again["changed"]), (&json!(true), &json!(0)));
    }
    assert_eq!(core.house.stock().await.loaded, 15);
    let other = core.import("mode=delta&op_key=d1", "sku,units\nS,11\n").await;
    is(&other, 422, "key-reused");

    // So many ever loaded, with what is held as part of it.
    let counted = "sku,loaded\nS,20\nU,9\n";
    let done = body(&core.import("mode=set&op_key=c1", counted).await);
    assert_eq!((&done["changed"], &done["added"]), (&json!(1), &json!(5)));
    assert_eq!(core.house.stock().await.loaded, 20);
    let stale = core.import(&query.replace("d1", "d2"), file).await;
    is(&stale, 409, "version-mismatch");
    let trail = body(&core.call(Method::GET, "/v1/audit-trail", OPS_KEY, "").await);
    let entries = trail["entries"].as_array().unwrap();
    assert_eq!(entries.iter().filter(|entry| entry["action"] == "import-stock").count(), 2);
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_65_any_bad_line_means_that_nothing_is_changed() {
    let core = Served::start(&Plan::of("badlines", 5).sku("T", 3).sku("Sku-9", 1)).await;
    core.order("ann", "k1", one("S", 4)).await;

    let mut file = "sku,units\n".to_owned();
    for n in 1..=10 {
        let units = if n == 7 { "abc".to_owned() } else { n.to_string() };
        writeln!(file, "X{n},{units}").unwrap();
    }
    let refusal = is(&core.import("mode=delta&op_key=x", &file).await, 400, "bad-request");
    assert_eq!(lines(&refusal), [(8, "units")]);
    // Well-formed lines that the ledger cannot do.
    let file = "sku,units\nT,1\nS,-2\nsku-9,5\nY,1\n";
    let refusal = is(&core.import("mode=delta&op_key=x", file).await, 400, "bad-request");
    assert_eq!(lines(&refusal), [(3, "units"), (4, "sku"), (5, "sku")]);
    let told = |at: usize| refusal["rows"][at]["detail"].as_str().unwrap();
    assert!(told(0).contains("4 are held or confirmed"), "{}", told(0));
    assert!(told(1).contains("is Sku-9 meant?"), "{}", told(1));
    let below = is(&core.import("mode=set&op_key=x", "sku,units\nS,3\n").await, 400, "bad-request");
    assert_eq!((lines(&below), &below["bad"]), (vec![(2, "units")], &json!(1)));
    for (query, file, field) in [
        ("op_key=x", "sku,units\nS,1\n", "mode"),
        ("mode=add&op_key=x", "sku,units\nS,1\n", "mode"),
        ("mode=delta", "sku,units\nS,1\n", "op_key"),
        ("mode=delta&dry_run=maybe", "sku,units\nS,1\n", "dry_run"),
        ("mode=delta&op_key=x&force=1", "sku,units\nS,1\n", "force"),
        ("mode=delta&op_key=x", "", "file"),
    ] {
        let refusal = is(&core.import(query, file).await, 400, "bad-request");
        assert_eq!(refusal["field"], field, "{query}");
    }
    let huge = "x".repeat(16 * 1024 * 1024 + 1);
    is(&core.import("mode=delta&op_key=x", &huge).await, 413, "body-too-large");
    let caller = core.call(Method::POST, "/v1/stock?mode=delta&op_key=x", CORE_KEY, file).await;
    is(&caller, 403, "not-admitted");

    let stock = core.house.stock().await;
    assert_eq!((stock.loaded, stock.available), (5, 1));
    assert_eq!(core.house.stock_of("T").await.loaded, 3);
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_65_two_imports_of_one_name_at_once_count_once() {
    let core = Served::start(&Plan::of("imports", 5).sku("T", 5)).await;
    let (one, two) = ("sku,units\nS,1\nT,1\n", "sku,units\nT,1\nS,1\n");

    for round in 0..5 {
        let (same, other) =
            (format!("mode=delta&op_key=s{round}"), format!("mode=delta&op_key=o{round}"));
        let (a, b, c) = tokio::join!(
            core.import(&same, one),
            core.import(&same, one),
            // Opposite lines lock the same rows.
            core.import(&other, two)
        );
        for answer in [a, b, c] {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    }
    assert_eq!((core.house.stock().await.loaded, core.house.stock_of("T").await.loaded), (15, 15));
    core.house.sound().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_65_a_hundred_thousand_lines_are_imported_at_once() {
    let core = Served::start(&Plan::of("manylines", 5)).await;
    let sale = core.house.sale.id.as_str();
    // In parts, because no statement of a core may take long.
    for from in (1..100_000).step_by(5_000) {
        let to = (from + 4_999).min(99_999);
        let names = format!("(SELECT 'X-' || n AS sku FROM generate_series({from}, {to}) n) x");
        for statement in [
            format!("INSERT INTO sku SELECT sku, '{sale}', 5, 0, '10 min' FROM {names}"),
            format!("INSERT INTO stock SELECT sku, 0, 5 FROM {names}"),
            format!(
                "INSERT INTO movement (at, kind, sku, shard, qty) \
                 SELECT now(), 'load', sku, 0, 5 FROM {names}"
            ),
        ] {
            core.house.sql(&statement).await;
        }
    }
    let rows = (1..100_000).map(|n| format!("X-{n},2\n"));
    let file = format!("sku,units\nS,2\n{}", rows.collect::<String>());

    let done = body(&core.import("mode=delta&op_key=many", &file).await);

    assert_eq!((&done["rows"], &done["changed"]), (&json!(100_000), &json!(100_000)));
    assert_eq!(
        (&done["added"], done["changes"].as_array().unwrap().len()),
        (&json!(200_000), 1_000)
    );
    let loaded = core.house.sql("SELECT count(*) FROM sku WHERE loaded = 7").await;
    assert_eq!(loaded, 100_000);
    let again = body(&core.import("mode=delta&op_key=many", &file).await);
    assert_eq!(again["replayed"], true);
    let bad = format!("{file}NOPE,1\n").replacen("S,2\n", "", 1);
    let refusal = is(&core.import("mode=delta&op_key=bad", &bad).await, 400, "bad-request");
    assert_eq!(lines(&refusal), [(100_001, "sku")]);
    assert_eq!(core.house.sql("SELECT count(*) FROM sku WHERE loaded = 7").await, 100_000);
}

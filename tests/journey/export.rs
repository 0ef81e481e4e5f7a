//! What was ordered, searched page by page and written out by the command line.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::Value;
use stanchion::store::postgres::Which;

use crate::fixture::core::Plan;
use crate::fixture::executable;
use crate::fixture::served::{CORE_KEY, Served, body};

/// Of several pages.
const ORDERS: usize = 230;

async fn export(core: &Served, words: &[&str]) -> Output {
    let mut command = Command::new(executable());
    command.args(["reservations", "export", "--core", &core.url]).args(words);
    command.env("STANCHION_OPS_KEY", CORE_KEY).current_dir(&core.house.ground.folder);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(out: &Output) -> String {
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    String::from_utf8(out.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_exported_whole_in_every_form_and_nothing_in_it_is_a_formula() {
    let core = Served::start(&Plan::of("export", 1_000).sku("T,2", 5)).await;
    let house = &core.house;
    let sale = house.sale.id.as_str();
    let nasty = house.held("=HYPERLINK(\"http://evil\")", "-1+1", 1).await;
    house.orders.confirm(&Which::Id(nasty.id), "@SUM(A1)").await.unwrap();
    house.reserve_lines("ann", "cart, with \"quotes\"", &[("S", 2), ("T,2", 1)]).await.unwrap();
    for n in 2..ORDERS {
        house.held("bob", &format!("k{n}"), 1).await;
    }

    let lines = text(&export(&core, &["--sale", sale, "--json"]).await);
    let all: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: BTreeSet<_> = all.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!((all.len(), ids.len()), (ORDERS, ORDERS), "each once");

    let csv = text(&export(&core, &["--sale", sale, "--csv", "-"]).await);
    let rows: Vec<_> = csv.split("\r\n").collect();
    let head = "id,sale,buyer,order_key,status,sku,qty,created_at,expires_at,payment_ref";
    assert_eq!((rows[0], rows.len()), (head, ORDERS + 3), "a head, a cart of two lines, an end");
    let formulas = "\"'=HYPERLINK(\"\"http://evil\"\")\",\"'-1+1\",confirmed,S,1,";
    assert!(rows[1].contains(formulas), "{}", rows[1]);
    assert!(rows[1].ends_with(",\"'@SUM(A1)\""), "{}", rows[1]);
    assert!(rows[3].contains(",ann,\"cart, with \"\"quotes\"\"\",held,\"T,2\",1,"), "{}", rows[3]);

    let file = house.ground.folder.join("sold.csv");
    let words = ["--sale", sale, "--status", "confirmed", "--csv", "sold.csv"];
    assert!(text(&export(&core, &words).await).starts_with("1 reservations in "));
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 2);
    assert!(!house.ground.folder.join("sold.csv.part").exists());
    let table = text(&export(&core, &["--sale", sale, "--status", "expired"]).await);
    assert_eq!(table.lines().count(), 1, "a head alone: {table}");

    let wrong = export(&core, &["--sale", sale, "--status", "gone"]).await;
    assert_eq!(wrong.status.code(), Some(2));
    let nobody = export(&core, &["--sale", sale, "--core", "http://127.0.0.1:9"]).await;
    assert_eq!(nobody.status.code(), Some(2), "named twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_is_answered_page_by_page_each_order_once() {
    let core = Served::start(&Plan::of("search", 1_000)).await;
    for n in 0..ORDERS {
        core.house.held(&format!("buyer-{}", n % 2), &format!("k{n}"), 1).await;
    }
    let sale = core.house.sale.id.as_str();
    let mut found = BTreeSet::new();
    let (mut after, mut pages) = (String::new(), 0);
    loop {
        let path = format!("/v1/reservations?sale={sale}&buyer=buyer-1&status=held{after}");
        let page = body(&core.get(&path).await);
        for one in page["reservations"].as_array().unwrap() {
            assert_eq!(one["buyer"], "buyer-1");
            assert!(found.insert(one["id"].as_str().unwrap().to_owned()), "told twice");
        }
        pages += 1;
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!((found.len(), pages), (ORDERS / 2, 2));
    let by_key = body(&core.get(&format!("/v1/reservations?sale={sale}&order_key=k7")).await);
    assert_eq!(by_key["reservations"].as_array().unwrap().len(), 1);
}

//! `stanchion stock` as an operator types it, against a core that runs.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::control_ground::Steered;
use crate::fixture::{Ground, executable};

struct Typed<'s> {
    steered: &'s Steered,
    core: String,
}

impl Typed<'_> {
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(executable());
        command.current_dir(self.steered.house.folder());
        command.env("STANCHION_OPS_KEY", &self.steered.house.secrets.ops_key);
        command.arg("stock").args(words).args(["--core", &self.core]).output().unwrap()
    }

    fn good(&self, words: &[&str]) -> String {
        let out = self.run(words);
        assert_eq!(out.status.code(), Some(0), "{words:?}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.good(&[words, &["--json"]].concat())).unwrap()
    }

    fn fails(&self, words: &[&str], code: i32, said: &str) {
        let out = self.run(words);
        let err = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(code) && err.contains(said), "{words:?}: {err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sku_is_frozen_spread_set_and_thawed_by_hand() {
    let ground = Ground::new("stockhand");
    let steered = Steered::start(&ground, &ground.sale_opening_in(600_000, 50));
    let core = steered.house.cores[0].url("core").unwrap();
    let typed = Typed { steered: &steered, core };
    let sku = steered.sku.as_str();

    typed.fails(&["shards", sku, "4"], 1, "freeze it first");
    assert_eq!(typed.good(&["freeze", sku]), format!("{sku}: 50 loaded, 50 available, frozen\n"));
    let spread = typed.good(&["shards", sku, "4"]);
    assert_eq!(spread, format!("{sku}: 50 loaded, 50 available in 4 shards, frozen\n"));
    let thawed = typed.json(&["thaw", "--sale", &steered.sale]);
    let stock = &thawed["skus"][0];
    assert_eq!((&stock["frozen"], &stock["shards"]), (&json!(false), &json!(4)));
    assert_eq!(stock["generation"], 3);

    let version = stock["version"].to_string();
    let listed = typed.good(&["list"]);
    for column in ["shards", "version", "generation"] {
        assert!(listed.lines().next().unwrap().contains(column), "{listed}");
    }
    assert!(listed.contains(&version), "{listed}");
    let set = typed.good(&["set", sku, "--loaded", "60", "--version", &version]);
    assert_eq!(set, format!("{sku}: 60 loaded, 60 available in 4 shards\n"));
    typed.fails(&["set", sku, "--loaded", "70", "--version", &version], 1, "is at version");

    typed.fails(&["shards", sku, "65"], 2, "65");
    typed.fails(&["freeze"], 2, "SKU");
    typed.fails(&["freeze", "NOPE"], 1, "NOPE is not known");
    typed.fails(&["freeze", "--sale", "nobody"], 1, "nobody has no SKU");
    typed.fails(&["set", sku, "--loaded", "70"], 2, "--version");
}

#[tokio::test(flavor = "multi_thread")]
async fn rs_65_a_file_is_imported_by_hand() {
    let ground = Ground::new("stockfile");
    let steered = Steered::start(&ground, &ground.sale_opening_in(600_000, 50));
    let core = steered.house.cores[0].url("core").unwrap();
    let typed = Typed { steered: &steered, core };
    let sku = steered.sku.as_str();
    let file = |name: &str, text: &str| {
        std::fs::write(steered.house.folder().join(name), text).unwrap();
    };
    file("more.csv", &format!("sku,units\n{sku},10\n"));
    file("bad.csv", &format!("sku;units\r\n{sku};ten\r\n{};1\r\n", sku.to_lowercase()));
    file("unknown.csv", &format!("sku;units\n{};1\n", sku.to_lowercase()));

    typed.fails(&["import", "more.csv"], 2, "--mode");
    typed.fails(&["import", "more.csv", "--mode", "add"], 2, "must be delta or set");
    typed.fails(&["import", "none.csv", "--mode", "set"], 1, "none.csv");
    typed.fails(&["import", "bad.csv", "--mode", "delta"], 1, "line 2: units: must be a whole");
    let meant = format!("is {sku} meant?");
    typed.fails(&["import", "unknown.csv", "--mode", "delta"], 1, &meant);
    let seen = typed.good(&["import", "more.csv", "--mode", "delta", "--dry-run"]);
    let wanted =
        format!("{sku}: +10, 50 → 60 loaded\n1 lines: 1 SKUs change, 10 units more, 0 fewer\n");
    assert_eq!(seen, wanted);
    assert_eq!(typed.json(&["list"])["skus"][0]["loaded"], 50);

    let done = typed.good(&["import", "more.csv", "--mode", "delta", "--yes"]);
    assert!(done.starts_with(&wanted) && done.contains("done, as import-delta-"), "{done}");
    let again = typed.good(&["import", "more.csv", "--mode", "delta"]);
    assert!(again.starts_with("this was imported before, as import-delta-"), "{again}");
    let named = ["import", "more.csv", "--mode", "delta", "--op-key", "second"];
    assert_eq!(typed.json(&named)["applied"], true);
    assert_eq!(typed.json(&["list"])["skus"][0]["loaded"], 70);
}

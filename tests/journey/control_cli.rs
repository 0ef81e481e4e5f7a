//! `stanchion sale`, `stock` and `migrate`, as an operator types them.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::control_ground::{Steered, until};
use crate::fixture::{Ground, executable};

/// Runs the program as an operator of this installation.
fn stanchion(steered: &Steered, words: &[&str]) -> Output {
    let mut command = Command::new(executable());
    command.current_dir(steered.house.folder());
    command.env("STANCHION_OPS_KEY", &steered.house.secrets.ops_key);
    command.args(words).output().unwrap()
}

fn code(out: &Output) -> i32 {
    out.status.code().unwrap()
}

fn told(out: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&out.stdout), text(&out.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_steered_from_the_command_line_of_any_machine() {
    let ground = Ground::new("cli");
    let plan = ground.sale_opening_in(600_000, 50);
    let steered = Steered::start(&ground, &plan);
    let ops = steered.house.gateways[0].url("ops").unwrap();
    let sale = |words: &[&str]| {
        let all = [&["sale"], words, &["--ops", &ops]].concat();
        let out = stanchion(&steered, &all);
        assert_eq!(code(&out), 0, "{all:?}: {:?}", told(&out));
        told(&out).0
    };

    let shown = sale(&["status"]);
    assert!(shown.starts_with(&format!("{}: lobby\n", plan.id)), "{shown}");
    assert!(shown.contains("100/s with burst 1 (version 1, run 1, epoch 1)"), "{shown}");
    let shown = sale(&["rate", "7/s", "--burst", "2", "--as", "ann", "--sale", &plan.id]);
    let said = format!("{}: 7/s with burst 2 (version 2, run 1, epoch 1); opens ", plan.id);
    assert!(shown.starts_with(&said), "{shown}");
    sale(&["pause"]);
    let record: Value = serde_json::from_str(&sale(&["resume", "--json"])).unwrap();
    assert_eq!((&record["paused"], &record["version"]), (&json!(false), &json!(4)));
    let opens = jiff::Timestamp::from_millisecond(i64::try_from(plan.opens_ms).unwrap()).unwrap();
    let later = (opens + jiff::SignedDuration::from_secs(60)).to_string();
    let record: Value = serde_json::from_str(&sale(&["delay", "--to", &later, "--json"])).unwrap();
    assert_eq!(record["opens_ms"], plan.opens_ms + 60_000);
    assert_eq!(record["closes_ms"], plan.closes_ms + 60_000, "the close moves along");
    assert!(sale(&["bypass", "--for", "10m"]).contains("bypass until"));
    // Not at a terminal: a script means what it says.
    assert!(sale(&["stop"]).contains("paused, 7/s"));
    sale(&["reset", "--yes"]);
    until("the reset", || steered.all_say("run", json!(2))).await;
    sale(&["close", "--yes"]);
    until("the close", || steered.all_say("phase", json!("closed"))).await;

    let trail = steered.trail(&steered.house.gateways[0], 9).await;
    let rate = trail.iter().find(|entry| entry["action"] == "rate").unwrap();
    assert_eq!(rate["author"], "ann");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_is_said_with_an_exit_code() {
    let ground = Ground::new("cliwrong");
    let plan = ground.sale_opening_in(600_000, 50);
    let steered = Steered::start(&ground, &plan);
    let ops = steered.house.gateways[0].url("ops").unwrap();
    let fails = |words: &[&str], wanted: i32, said: &str| {
        let out = stanchion(&steered, words);
        let (_, err) = told(&out);
        assert!(code(&out) == wanted && err.contains(said), "{words:?}: {} {err}", code(&out));
    };

    fails(&["sale", "rate", "fast", "--ops", &ops], 2, "must be a number per unit of time");
    fails(&["sale", "rate", "5/s", "--burst", "0", "--ops", &ops], 2, "burst");
    fails(&["sale", "pause", "--sale", "nobody", "--ops", &ops], 1, "nobody is not in");
    fails(&["sale", "delay", "--to", "2001-01-01T00:00:00Z", "--ops", &ops], 1, "opens");
    fails(&["sale", "status", "--ops", "http://127.0.0.1:9"], 1, "127.0.0.1:9");
    fails(&["sale", "status", "--ops", "ftp://a"], 1, "must be http://HOST:PORT");
    fails(&["sale", "status", "--ops", &ops, "--key-env", "NOT_SET"], 1, "NOT_SET is not set");
    let core = steered.house.cores[0].url("core").unwrap();
    fails(&["stock", "restock", "NOTHING", "5", "--core", &core], 1, "NOTHING is not known");
    let mut wrong = Command::new(executable());
    let out = wrong.env("STANCHION_OPS_KEY", "wrong").args(["sale", "status", "--ops", &ops]);
    let out = out.output().unwrap();
    assert_eq!(code(&out), 1);
    assert!(told(&out).1.contains("Authorization:"), "{:?}", told(&out));
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_is_listed_and_restocked_and_the_ledger_migrated_by_hand() {
    let ground = Ground::new("clistock");
    let plan = ground.sale_opening_in(600_000, 50);
    let steered = Steered::start(&ground, &plan);
    let core = steered.house.cores[0].url("core").unwrap();
    let good = |words: &[&str]| {
        let out = stanchion(&steered, words);
        assert_eq!(code(&out), 0, "{words:?}: {:?}", told(&out));
        told(&out).0
    };

    let restock = ["stock", "restock", &steered.sku, "5", "--op-key", "more", "--core", &core];
    for _ in 0..2 {
        assert_eq!(good(&restock), format!("{}: 55 loaded, 55 available\n", steered.sku));
    }
    good(&["stock", "restock", &steered.sku, "-3", "--core", &core]);
    let listed: Value =
        serde_json::from_str(&good(&["stock", "list", "--json", "--core", &core])).unwrap();
    assert_eq!(listed["skus"][0]["available"], 52);
    assert!(good(&["stock", "list", "--core", &core]).contains("confirmed"));

    let mut migrate = Command::new(executable());
    migrate.env("DATABASE_URL", &ground.database_url).args(["migrate", "-c"]);
    let out = migrate.arg(steered.house.config_file("core", 0)).output().unwrap();
    assert_eq!(code(&out), 0, "{:?}", told(&out));
    assert_eq!(told(&out).0, "the ledger is up to date\n");
}

//! `stanchion compare`, as scripts read it and as people stop it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::fixture::executable;
use crate::fixture::temp::{is_empty, temp};

/// How long a quick comparison may take, on a machine that runs all these tests at once.
const PATIENCE: Duration = Duration::from_mins(2);

fn compare(temp: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(executable());
    command.arg("compare").args(args).env("TMPDIR", temp).stdin(Stdio::null());
    command
}

fn report(args: &[&str]) -> Value {
    let temp = temp();
    let out = compare(temp.path(), args).stderr(Stdio::inherit()).output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{said}");
    assert!(is_empty(temp.path()), "the comparison left something behind");
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn who_reads_and_then_writes_oversells_and_everybody_else_does_not() {
    let since = Instant::now();
    let report = report(&["--json", "--seconds", "1", "--clients", "16", "--units", "40"]);
    assert!(since.elapsed() < PATIENCE, "{:?}", since.elapsed());

    let rows = report["rows"].as_array().unwrap();
    let of =
        |name: &str| -> Vec<&Value> { rows.iter().filter(|row| row["approach"] == name).collect() };
    for name in ["read-then-write", "read-committed"] {
        let [row] = of(name)[..] else { panic!("{name} is there once") };
        let wrong = row["oversold"].as_u64().unwrap() + row["lost_updates"].as_u64().unwrap();
        assert!(wrong > 0, "{name} was not caught: {row}");
        assert!(row["ceiling_per_second"].is_null(), "{row}");
    }
    for name in [
        "for-update",
        "atomic-update",
        "redis-lua",
        "reservation-ttl",
        "one-round-trip",
        "shards",
        "lanes",
    ] {
        let rows = of(name);
        assert!(rows.iter().any(|row| row["clients"] == 16), "{name} at 16 clients");
        for row in rows {
            assert_eq!((&row["oversold"], &row["lost_updates"]), (&0.into(), &0.into()), "{row}");
        }
    }
    for row in rows {
        for figure in ["takes_per_second", "p50_ms", "p99_ms", "lock_hold_us"] {
            assert!(row[figure].as_f64() > Some(0.0), "{figure}: {row}");
        }
        assert!(row["p50_ms"].as_f64() <= row["p99_ms"].as_f64(), "{row}");
    }
    let clients = |name| of(name).iter().map(|row| row["clients"].as_u64().unwrap()).collect();
    let (single, lanes): (Vec<_>, Vec<_>) = (clients("one-round-trip"), clients("lanes"));
    assert_eq!((single, lanes), (vec![16, 1, 4, 8, 32, 64], vec![16, 1, 64, 256]));
}

#[test]
fn each_failure_to_plan_for_is_brought_about_and_told_in_numbers() {
    let approaches = ["redis-lua", "reservation-ttl", "shards"];
    let mut args = vec!["--json", "--seconds", "1", "--clients", "4", "--units", "20"];
    for name in approaches {
        args.extend(["--approach", name]);
    }
    let report = report(&args);
    let rows = report["rows"].as_array().unwrap();

    let told: Vec<_> = rows.iter().map(|row| row["failure"].as_str().unwrap()).collect();
    let names: Vec<_> = rows.iter().map(|row| row["approach"].as_str().unwrap()).collect();
    assert_eq!(names, approaches);
    assert!(told[0].contains("the counter is 11 too high"), "{}", told[0]);
    assert!(told[1].contains("20 units for 10 minutes; then 0 were free"), "{}", told[1]);
    assert!(told[1].contains("20 after it"), "{}", told[1]);
    assert!(told[2].contains("with 5 left, one in each row"), "{}", told[2]);
    assert!(told[2].contains("a buyer of 2 is told \"sold out\""), "{}", told[2]);
    assert!(report["lanes"].is_null());
}

#[test]
fn what_cannot_be_compared_is_a_usage_error_that_says_what_can() {
    for (flags, cure) in [
        (&["--approach", "optimism"][..], "reservation-ttl"),
        (&["--clients", "0"], "1..=512"),
        (&["--seconds", "61"], "1..=60"),
        (&["--units", "none"], "invalid digit"),
        (&["--shards", "1"], "2..=64"),
        (&["--slow-flush", "2s"], "from 1ms to 100ms"),
    ] {
        let out = Command::new(executable()).arg("compare").args(flags).output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(flags[0]) && said.contains(cure), "{flags:?}: {said}");
        assert!(out.stdout.is_empty());
    }
}

#[test]
fn a_comparison_that_is_interrupted_leaves_nothing_behind() {
    let temp = temp();
    let args = ["--seconds", "60", "--approach", "for-update", "--clients", "4"];
    let mut child = compare(temp.path(), &args).stdout(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    while is_empty(temp.path()) {
        assert!(since.elapsed() < PATIENCE, "it never began");
        std::thread::sleep(Duration::from_millis(20));
    }

    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));

    while !is_empty(temp.path()) {
        assert!(since.elapsed() < PATIENCE, "left behind");
        std::thread::sleep(Duration::from_millis(20));
    }
}

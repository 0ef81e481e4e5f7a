//! `stanchion demo` as a newcomer runs it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::fixture::executable;
use crate::fixture::temp::{is_empty, temp};

fn demo(temp: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(executable());
    command
        .arg("demo")
        .args(args)
        .env("TMPDIR", temp)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    command
}

#[test]
fn one_command_sells_all_units_and_ends_with_a_report() {
    let temp = temp();
    let file = tempfile::NamedTempFile::new().unwrap();
    let args = ["--shoppers", "60", "--units", "8", "--rate", "60/s", "--open-in", "3s", "--once"];
    let mut command = demo(temp.path(), &args);
    let out = command.arg("--json").arg(file.path()).stdout(Stdio::piped()).output();

    let out = out.unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
    assert_eq!((&report["oversold"], &report["confirmed"]), (&0.into(), &8.into()), "{said}");
    assert_eq!((&report["refused"], &report["errors"]), (&0.into(), &0.into()), "{said}");
    assert_eq!(report["promises"].as_object().unwrap().len(), 12);
    assert!(is_empty(temp.path()), "the demo left something behind");
}

#[test]
fn a_demo_that_is_flushed_and_steered_keeps_its_promises() {
    let temp = temp();
    let file = tempfile::NamedTempFile::new().unwrap();
    let page = tempfile::NamedTempFile::new().unwrap();
    let mut command = demo(
        temp.path(),
        &["--once", "--shoppers", "300", "--units", "60", "--rate", "40/s", "--open-in", "4s"],
    );
    command.args(["--accounts", "0.3", "--flush-redis-at", "2s", "--try-controls"]);
    command.arg("--json").arg(file.path()).arg("--html").arg(page.path());
    let out = command.stdout(Stdio::piped()).output().unwrap();

    let said = String::from_utf8(out.stdout).unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
    for (name, verdict) in report["promises"].as_object().unwrap() {
        let is_good = match name.as_str() {
            "full-use" => verdict["holds"].is_null(),
            // Whether it was a second among all these tests says little; that all followed does.
            "stop-in-a-second" => !verdict["holds"].is_null(),
            _ => verdict["holds"] == true,
        };
        assert!(is_good, "{name}: {said}");
    }
    let kept = report["promises"]["stop-in-a-second"]["holds"] == true;
    assert_eq!(out.status.success(), kept, "{said}");
    let late = report["steering"].as_array().unwrap().iter().map(|step| &step["late_ms"]);
    let mut nodes = late.flat_map(|nodes| nodes.as_object().unwrap().values());
    assert!(nodes.all(Value::is_u64), "{said}");
    assert!(report["places_kept"]["flushed Redis"].as_u64() > Some(0), "{said}");
    assert!(report["accounts"]["two_devices"].as_u64() > Some(0), "{said}");
    assert_eq!(report["steering"].as_array().unwrap().len(), 6, "{said}");
    assert!(std::fs::read_to_string(page.path()).unwrap().contains("stop-in-a-second"));
}

#[test]
fn what_a_crowd_cannot_do_with_what_it_is_given_is_a_usage_error() {
    for (flags, needed) in
        [(&["--flush-redis-at", "3s"][..], "--redis-url"), (&["--try-controls"][..], "--core-ops")]
    {
        let mut command = Command::new(executable());
        command.args(["crowd", "http://127.0.0.1:9", "--sale", "drop"]).args(flags);
        for variable in ["REDIS_URL", "STANCHION_OPS_KEY", "DATABASE_URL"] {
            command.env_remove(variable);
        }
        let out = command.output().unwrap();
        assert_eq!(out.status.code(), Some(2));
        assert!(String::from_utf8(out.stderr).unwrap().contains(needed), "{needed}");
    }
}

/// Starts a demo and waits until its crowd is about to come.
fn running(temp: &Path) -> Child {
    let mut command = demo(temp, &["--once", "--open-in", "60s"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("Ctrl-C ends everything")));
    assert!(!is_empty(temp));
    child
}

#[test]
fn a_demo_that_is_interrupted_or_killed_leaves_nothing_behind() {
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let temp = temp();
        let mut child = running(temp.path());

        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        child.wait().unwrap();

        let since = Instant::now();
        while !is_empty(temp.path()) {
            assert!(since.elapsed() < Duration::from_secs(10), "{signal}: left behind");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

//! `stanchion demo` as a newcomer runs it.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::fixture::executable;

/// A temp dir of our own that the stores' user may pass through: what a demo leaves shows in it.
fn temp() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder
}

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

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
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

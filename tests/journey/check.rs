//! `stanchion check`: what it refuses, how it points at it, and what it says of two files.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::fixture::executable;

fn run(args: &[&str], file: &Path) -> (i32, String, String) {
    let out = Command::new(executable()).args(args).arg(file).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.code().unwrap(), text(out.stdout), text(out.stderr))
}

#[test]
fn check_names_every_problem_with_its_line_and_exits_78() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    let text = "[shop]\norgins = []\n\n[[sale]]\nid = \"a\"\nrate = \"fast\"\nburst = 0\n";
    std::fs::write(&file, text).unwrap();

    let (code, _, said) = run(&["check"], &file);

    assert_eq!(code, 78);
    let at = file.display();
    for (line, key) in
        [(2, "shop.orgins"), (4, "sale[0].opens"), (6, "sale[0].rate"), (7, "sale[0].burst")]
    {
        assert!(said.contains(&format!("{at}:{line}: {key}: ")), "{line} {key} not in\n{said}");
    }
    assert!(said.contains("did you mean origins?"), "{said}");
    let (code, _, serving) = run(&["serve", "-c"], &file);
    assert_eq!((code, serving), (78, said), "serve refuses what check refuses");
    assert_eq!(run(&["check", "--nonsense"], &file).0, 2);
}

#[test]
fn check_accepts_the_files_that_come_with_the_program() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    for name in ["stanchion.toml", "sale.example.toml", "demo.toml"] {
        let (code, said, _) = run(&["check"], &config.join(name));
        assert_eq!(code, 0, "{name}: {said}");
        assert!(said.contains(": good"), "{said}");
    }
    let (_, said, _) = run(&["check"], &config.join("sale.example.toml"));
    assert!(said.contains("no cap on a person"), "{said}");
}

/// A settings file and the folder that it is in.
fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.toml");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

fn example() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/sale.example.toml");
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn wr_72_each_problem_is_marked_in_its_line_with_what_was_probably_meant() {
    let text = example()
        .replace("rate = \"200/s\"", "rate = \"200 per second\"")
        .replace("queue_status", "queue_state")
        .replace("before = \"pass\"", "before = \"gated\"");
    let (_folder, file) = written(&text);

    let (code, _, said) = run(&["check"], &file);

    assert_eq!(code, 78);
    for words in [
        "13 | rate = \"200 per second\"  ",
        "did you mean \"200/s\"?",
        "| queue_state = 200",
        "did you mean queue_status?",
        "did you mean \"gate\"?",
        ": refused, 3 problems",
    ] {
        assert!(said.contains(words), "{words} not in\n{said}");
    }
    let marked = |line: &str| {
        let lines: Vec<_> = said.lines().collect();
        let at = lines.iter().position(|said| said.contains(line)).unwrap();
        let start = lines[at + 1].find('^').unwrap();
        let end = lines[at + 1].rfind('^').unwrap();
        lines[at][start..=end].to_owned()
    };
    assert_eq!(marked("| rate ="), "\"200 per second\"");
    assert_eq!(marked("| queue_state ="), "queue_state");
    assert_eq!(marked("| before ="), "\"gated\"");
}

#[test]
fn wr_21_a_sale_that_protects_nothing_or_the_paths_of_another_is_refused() {
    let nothing = example().replace("[\"/checkout\", \"/checkout/**\"]", "[]");
    let past = example().replace("POST /payment/notify", "POST /checkout/**");
    let second = example().replace("spring-drop", "b").replace("SKU-FLASH-01", "B");
    for (text, words) in [
        (nothing, "protects nothing"),
        (past, "nothing is protected"),
        (example() + &second, "is protected by sale \"spring-drop\" as well"),
    ] {
        let (_folder, file) = written(&text);
        let (code, _, said) = run(&["check"], &file);
        assert_eq!(code, 78, "{said}");
        assert!(said.contains(words), "{words} not in\n{said}");
    }
}

#[test]
fn check_speaks_json_to_scripts() {
    let json = |text: &str| -> (i32, Value) {
        let (_folder, file) = written(text);
        let (code, said, _) = run(&["check", "--json"], &file);
        (code, serde_json::from_str(&said).unwrap())
    };
    let (code, said) = json(&example());
    assert_eq!((code, &said["good"]), (0, &true.into()));
    assert_eq!(said["sales"][0]["units"], 500);
    assert!(!said["warnings"].as_array().unwrap().is_empty());

    let (code, said) = json(&example().replace("burst = 1 ", "burst = 0 "));
    assert_eq!((code, &said["good"]), (78, &false.into()));
    let problem = &said["problems"][0];
    assert_eq!((&problem["key"], &problem["column"]), (&"sale[0].burst".into(), &9.into()));
    assert!(problem["line"].as_u64().unwrap() > 1, "{problem}");
}

#[test]
fn check_diff_says_what_each_change_would_do_and_refuses_a_broken_new_file() {
    let new = example()
        .replace("rate = \"200/s\"", "rate = \"50/s\"")
        .replace("hold = \"10m\"", "hold = \"5m\"")
        .replace("units = 500", "units = 600");
    let (_old_folder, old_file) = written(&example());
    let compare = |text: &str, more: &[&str]| {
        let (_folder, file) = written(text);
        let mut args = vec!["check"];
        args.extend(more);
        args.extend(["--diff", old_file.to_str().unwrap()]);
        run(&args, &file)
    };

    let (code, said, _) = compare(&new, &[]);
    assert_eq!(code, 0, "{said}");
    for (key, effect) in [
        ("sale[0].rate", "hot: in force"),
        ("sale[0].hold", "restart-only: read"),
        ("sale[0].sku[0].units", "refused during a sale: "),
    ] {
        let at = said.find(&format!("{key} ")).unwrap_or_else(|| panic!("no {key} in\n{said}"));
        let next = said[at..].lines().nth(1).unwrap();
        assert!(next.trim().starts_with(effect), "{next}");
    }
    let (_, said, _) = compare(&new, &["--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["changes"].as_array().unwrap().len(), 3);
    let (code, said, _) = compare(&(example() + "# another comment\n"), &[]);
    assert_eq!((code, said.contains("no change")), (0, true), "{said}");
    let (code, _, said) = compare(&new.replace("burst = 1 ", "burst = 0 "), &[]);
    assert_eq!(code, 78);
    assert!(said.contains("sale[0].burst: must be at least 1"), "{said}");
}

#[test]
fn check_diff_refuses_what_a_running_sale_refuses() {
    let now = jiff::Timestamp::now();
    let hour = |hours: i64| (now + jiff::SignedDuration::from_hours(hours)).to_string();
    let running = example()
        .replace("2027-03-01T11:30:00Z", &hour(-2))
        .replace("2027-03-01T12:00:00Z", &hour(-1))
        .replace("2027-03-01T14:00:00Z", &hour(1));
    let (_folder, old) = written(&running);
    let (_other, new) = written(&running.replace("units = 500", "units = 600"));

    let (code, said, _) = run(&["check", "--diff", old.to_str().unwrap()], &new);

    assert_eq!(code, 78, "{said}");
    assert!(said.contains("stanchion stock restock"), "{said}");
}

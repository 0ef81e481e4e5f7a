//! Taste that can be checked: arrows between modules, sizes, first lines, nothing unused.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Who may use whom. Everybody may use `telemetry` and `lifecycle`, but for `domain`.
#[rustfmt::skip]
const ARROWS: [(&str, &[&str]); 16] = [
    ("domain", &[]),
    ("clock", &[]),
    ("config", &["domain"]),
    ("telemetry", &["config"]),
    ("lifecycle", &[]),
    ("http", &["clock"]),
    ("store", &["domain", "config", "clock"]),
    ("room", &["domain", "clock", "store::redis"]),
    ("reservations", &["domain", "config", "clock", "store", "http", "room::keys"]),
    ("keeper", &["domain", "config", "clock", "store", "http", "room::keys"]),
    ("gateway", &["domain", "config", "clock", "room", "http"]),
    ("ops", &["domain", "config", "room", "keeper", "http"]),
    ("servers", &[]),
    ("app", &["*"]),
    ("lab", &["*"]),
    ("cli", &["app", "clock", "config", "domain", "http", "lab", "ops", "room", "servers"]),
];
const SOURCES: [&str; 6] = ["src", "tests", "templates", "static", "scripts", "config"];
const LINES_MAX: usize = 400;

struct File {
    /// Relative to the root.
    path: PathBuf,
    text: String,
}

impl File {
    fn is(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|found| found == extension)
    }

    fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }

    /// Without its unit tests, which may use anything.
    fn code(&self) -> &str {
        let apart = ["mod", "pub(super) mod"].map(|is| format!("\n#[cfg(test)]\n{is} tests {{"));
        apart.iter().fold(&self.text, |code, tests| code.split(tests.as_str()).next().unwrap())
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files() -> Vec<File> {
    let mut found = vec![];
    let mut folders: Vec<_> = SOURCES.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push(File { path: path.strip_prefix(root()).unwrap().to_owned(), text });
            }
        }
    }
    for name in ["build.rs", "README.md", "ARCHITECTURE.md", "Cargo.toml", ".ci/run", "Dockerfile"]
    {
        let text = fs::read_to_string(root().join(name)).unwrap();
        found.push(File { path: name.into(), text });
    }
    found
}

fn none(violations: &[String]) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

/// Every `a::b` after `crate::`, groups in braces taken apart one level deep.
fn uses(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let inside = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap(),
            None => rest.split([';', ',', ' ', '(', ')', '<', '>', '\n']).next().unwrap(),
        };
        for path in inside.split(',') {
            let words: Vec<_> = path.trim().split("::").take(2).collect();
            found.insert(words.join("::"));
        }
    }
    found
}

fn may_use(allowed: &[&str], path: &str) -> bool {
    let module = path.split("::").next().unwrap();
    allowed.iter().any(|arrow| *arrow == "*" || *arrow == module || *arrow == path)
}

#[test]
fn modules_use_only_what_they_may() {
    let mut violations = vec![];
    for file in files().iter().filter(|file| file.is("rs")) {
        let Ok(inside) = file.path.strip_prefix("src") else { continue };
        let first = Path::new(inside.components().next().unwrap().as_os_str());
        let module = first.file_stem().unwrap().to_str().unwrap();
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else {
            let known = ["main", "lib"].contains(&module);
            if !known {
                violations.push(format!("{}: ARROWS does not know it", file.path.display()));
            }
            continue;
        };
        for path in uses(file.code()) {
            let other = path.split("::").next().unwrap();
            let is_module = ARROWS.iter().any(|(name, _)| *name == other);
            let everybodys = module != "domain" && ["telemetry", "lifecycle"].contains(&other);
            if is_module && other != module && !everybodys && !may_use(allowed, &path) {
                violations.push(format!("{}: may not use {path}", file.path.display()));
            }
        }
    }
    none(&violations);
}

#[test]
fn every_file_says_what_it_is_and_is_of_a_size_to_be_read() {
    let mut violations = vec![];
    for file in files() {
        let path = file.path.display();
        if file.is("rs") && !file.text.starts_with("//! ") {
            violations.push(format!("{path}: must open with a //! line"));
        }
        let lines = file.text.lines().count();
        if lines > LINES_MAX && !file.path.starts_with("tests/data") {
            violations.push(format!("{path}: has {lines} lines, more than {LINES_MAX}"));
        }
    }
    none(&violations);
}

#[test]
fn nothing_is_left_for_later_and_nothing_points_outside() {
    let words = [
        concat!("to", "do!"),
        concat!("unimpl", "emented!"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
        concat!(" /wo", "rk/"),
        concat!("(\"/wo", "rk/"),
        concat!("../sha", "red"),
    ];
    let mut violations = vec![];
    for file in files().iter().filter(|file| !file.path.starts_with("tests/data")) {
        for word in words.iter().filter(|word| file.text.contains(**word)) {
            violations.push(format!("{}: has {word:?}", file.path.display()));
        }
        for include in file.text.split("include_").skip(1) {
            let Some((_, rest)) = include.split_once("!(\"") else { continue };
            let target = rest.split('"').next().unwrap();
            let mut depth = file.path.components().count() - 1;
            for step in Path::new(target).components() {
                match step {
                    Component::ParentDir if depth == 0 => {
                        violations.push(format!("{}: includes {target}", file.path.display()));
                        break;
                    }
                    Component::ParentDir => depth -= 1,
                    _ => depth += 1,
                }
            }
        }
    }
    none(&violations);
}

#[test]
fn every_template_static_script_statement_and_data_file_is_used() {
    let files = files();
    let mentioned = |file: &File, words: &str| {
        files.iter().any(|other| other.path != file.path && other.text.contains(words))
    };
    let mut violations = vec![];
    for file in &files {
        let path = file.path.to_str().unwrap();
        let (top, below) = path.split_once('/').unwrap_or((path, ""));
        let used = match top {
            "templates" => mentioned(file, &format!("\"{below}\"")),
            "static" => mentioned(file, file.name()),
            "scripts" => mentioned(file, path),
            "config" => mentioned(file, path) || mentioned(file, &format!("../{path}")),
            "tests" if path.starts_with("tests/data") => mentioned(file, file.name()),
            "src" if path.contains("/migrations/") => mentioned(file, "migrations"),
            "src" if !file.is("rs") => mentioned(file, &format!("\"{}\"", file.name())),
            _ => true,
        };
        if !used {
            violations.push(format!("{path}: is not used"));
        }
    }
    none(&violations);
}

#[test]
fn every_module_file_is_part_of_the_crate() {
    let files = files();
    let mut violations = vec![];
    for file in files.iter().filter(|file| file.is("rs") && file.path.starts_with("src")) {
        let stem = file.path.file_stem().unwrap().to_str().unwrap();
        let folder = file.path.parent().unwrap();
        let (name, parents) = match stem {
            "main" | "lib" => continue,
            "mod" => {
                let above = folder.parent().unwrap();
                let name = folder.file_name().unwrap().to_str().unwrap();
                (name, [above.join("mod.rs"), above.join("lib.rs")])
            }
            stem => (stem, [folder.join("mod.rs"), folder.join("lib.rs")]),
        };
        let declared = files.iter().any(|parent| {
            parents.contains(&parent.path) && parent.text.contains(&format!("mod {name};"))
        });
        if !declared {
            violations.push(format!("{}: no module declares it", file.path.display()));
        }
    }
    none(&violations);
}

/// The fields of a struct of settings: what the file calls them, their types and their comments.
fn fields(text: &str, name: &str) -> Option<Vec<(String, String, String)>> {
    let body = text.split_once(&format!("pub struct {name} {{\n"))?.1.split_once("\n}\n")?.0;
    let (mut found, mut comment, mut renamed) = (vec![], String::new(), None);
    for line in body.lines().map(str::trim) {
        if let Some(said) = line.strip_prefix("///") {
            comment = format!("{comment}{said}");
        } else if let Some(rest) = line.split_once("rename = \"").map(|(_, rest)| rest) {
            renamed = rest.split('"').next().map(str::to_owned);
        } else if let Some((field, is)) =
            line.strip_prefix("pub ").and_then(|line| line.split_once(": "))
        {
            let key = renamed.take().unwrap_or_else(|| field.to_owned());
            found.push((key, is.trim_end_matches(',').to_owned(), std::mem::take(&mut comment)));
        }
    }
    Some(found)
}

#[test]
fn every_settings_key_has_its_row_and_says_in_its_comment_what_the_row_says() {
    use stanchion::config::keys::KEYS;
    let settings = files().into_iter().filter(|file| file.path.starts_with("src/config/settings"));
    let text: String = settings.map(|file| file.text).collect();
    let mut open = vec![("Settings".to_owned(), String::new())];
    let (mut violations, mut seen) = (vec![], BTreeSet::new());
    while let Some((name, path)) = open.pop() {
        for (key, is, comment) in fields(&text, &name).unwrap() {
            let path = if path.is_empty() { key } else { format!("{path}.{key}") };
            let inner = is.trim_start_matches("Vec<").trim_start_matches("Option<");
            let inner = inner.trim_end_matches('>');
            if fields(&text, inner).is_some() {
                open.push((inner.to_owned(), path));
                continue;
            }
            let Some((row, effect)) = KEYS.iter().find(|(row, _)| *row == path) else {
                violations.push(format!("{path}: has no row in src/config/keys.rs"));
                continue;
            };
            seen.insert(*row);
            if !comment.to_lowercase().contains(&format!("{}.", effect.words()))
                && !comment.to_lowercase().contains(&format!("{};", effect.words()))
            {
                violations.push(format!("{path}: its comment does not say {effect:?}: {comment}"));
            }
        }
    }
    // A sale or a SKU that comes or goes is no key.
    let keys = KEYS.iter().filter(|(row, _)| !["sale", "sale.sku"].contains(row));
    let gone = keys.filter(|(row, _)| !seen.contains(row));
    violations.extend(gone.map(|(row, _)| format!("{row}: is no key of the settings")));
    none(&violations);
}

//! From values to settings: unknown keys, wrong types and missing keys, all of them at once.
//!
//! Serde stops at the first error. So each error is noted, the value at its place is exchanged for
//! one that is good, and the whole is read again, until it fits or the patience is over.

use std::collections::BTreeSet;

use toml::Value;

use super::document::{Document, child};
use super::problem::Problem;
use super::settings::Settings;

/// Whoever made more mistakes than this will not mind a second look.
const PROBLEMS_MAX: usize = 200;

/// Every key that has no default, with some good value.
const REQUIRED: &str = r#"
public = { listener = [{ addr = "127.0.0.1:0" }], certificates = [{ cert_file = "c", key_file = "k" }] }
account = { forward_auth = { url = "http://127.0.0.1/whoami" } }
[[sale]]
id = "sale"
lobby_opens = "2027-01-01T00:00:00Z"
opens = "2027-01-01T00:00:01Z"
closes = "2027-01-01T00:00:02Z"
paths = ["/"]
never_gate = ["GET /"]
rate = "1/s"
sku = [{ sku = "sku", units = 1 }]
"#;

/// What came of reading the values.
pub(super) struct Shaped {
    /// With good values wherever the file's were not.
    pub(super) settings: Settings,
    /// What was wrong.
    pub(super) problems: Vec<Problem>,
    /// The keys whose values are not the file's.
    pub(super) repaired: BTreeSet<String>,
}

/// Reads the document.
pub(super) fn shape(document: &Document<'_>) -> Shaped {
    let sample = sample();
    let mut shaped =
        Shaped { settings: Settings::default(), problems: vec![], repaired: BTreeSet::new() };
    let mut root = document.root.clone();
    tables_are_tables(document, &mut root, &sample, "", &mut shaped);
    while shaped.problems.len() < PROBLEMS_MAX {
        let error = match serde_path_to_error::deserialize::<_, Settings>(root.clone()) {
            Ok(settings) => {
                shaped.settings = settings;
                break;
            }
            Err(error) => error,
        };
        let (path, said) = (error.path().to_string(), error.inner().message().to_owned());
        let key = match said.strip_prefix("missing field `").and_then(|rest| rest.split_once('`')) {
            Some((field, _)) => child(if path == "." { "" } else { &path }, field),
            None => path,
        };
        shaped.problems.push(document.problem(&key, cure(&key, &said)));
        let good = at(&sample, &key).cloned();
        let repaired = put(&mut root, &key, good);
        if !repaired || !shaped.repaired.insert(key) {
            // Nothing more can be said about a place that does not take a good value.
            break;
        }
    }
    shaped
}

fn sample() -> Value {
    let required: Value = toml::from_str::<toml::Table>(REQUIRED)
        .map_or_else(|_| Value::Table(toml::Table::new()), Value::Table);
    let whole = required.clone().try_into::<Settings>().and_then(|s| {
        Value::try_from(s).map_err(|error| serde::de::Error::custom(error.to_string()))
    });
    whole.unwrap_or(required)
}

/// Serde would read an array as the fields of a table in their order; nobody means that.
fn tables_are_tables(
    document: &Document<'_>,
    value: &mut Value,
    sample: &Value,
    path: &str,
    shaped: &mut Shaped,
) {
    match (&mut *value, sample) {
        (Value::Table(table), Value::Table(sample)) => {
            for (key, value) in table.iter_mut() {
                if let Some(sample) = sample.get(key) {
                    tables_are_tables(document, value, sample, &child(path, key), shaped);
                }
            }
        }
        (Value::Array(items), Value::Array(sample)) => {
            let Some(sample) = sample.first() else { return };
            for (at, item) in items.iter_mut().enumerate() {
                tables_are_tables(document, item, sample, &format!("{path}[{at}]"), shaped);
            }
        }
        (Value::Array(_), Value::Table(_)) => {
            shaped.problems.push(document.problem(path, format!("must be a table: [{path}]")));
            shaped.repaired.insert(path.to_owned());
            *value = sample.clone();
        }
        _ => {}
    }
}

/// The value at a path, the first element standing for every element of an array.
fn at<'v>(sample: &'v Value, path: &str) -> Option<&'v Value> {
    steps(path).try_fold(sample, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(_) => value.get(0),
    })
}

/// Puts a good value at the path, or removes what is there; false if there is no such place.
fn put(root: &mut Value, path: &str, good: Option<Value>) -> bool {
    let steps: Vec<_> = steps(path).collect();
    let Some((last, parents)) = steps.split_last() else { return false };
    let parent = parents.iter().try_fold(root, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(at) => value.get_mut(*at),
    });
    match (parent, last, good) {
        (Some(Value::Table(table)), Step::Key(key), Some(good)) => {
            table.insert((*key).to_owned(), good);
            true
        }
        (Some(Value::Table(table)), Step::Key(key), None) => table.remove(*key).is_some(),
        (Some(Value::Array(items)), Step::Index(at), Some(good)) => {
            items.get_mut(*at).map(|item| *item = good).is_some()
        }
        // Only elements that are plain texts have no sample: an empty list is as good.
        (Some(Value::Array(items)), Step::Index(_), None) => {
            items.clear();
            true
        }
        _ => false,
    }
}

enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    path.split(['.', '[']).map(|step| match step.strip_suffix(']').map(str::parse) {
        Some(Ok(at)) => Step::Index(at),
        _ => Step::Key(step),
    })
}

/// What serde said, in words of the file, with what to write instead.
fn cure(key: &str, said: &str) -> String {
    if let Some(rest) = said.strip_prefix("unknown field `") {
        return unknown(rest);
    }
    let last = key.rsplit('.').next().unwrap_or(key);
    if said.starts_with("missing field") {
        return format!("is missing; add {}", example(last));
    }
    let found = said.strip_prefix("invalid type: ").or(said.strip_prefix("invalid value: "));
    if let Some((found, expected)) = found.and_then(|rest| rest.split_once(", expected ")) {
        return match expected {
            "u16" | "u32" | "u64" | "usize" => format!("must be a whole number, found {found}"),
            "a string" => format!("must be a text in quotes, as {}, found {found}", example(last)),
            "a boolean" => format!("must be true or false, found {found}"),
            "a sequence" if matches!(last, "sale" | "sku" | "listener") => {
                format!("must be written [[{key}]], found {found}")
            }
            "a sequence" => format!("must be a list in [ ], found {found}"),
            _ => format!("must be a table, found {found}"),
        };
    }
    if let Some((found, expected)) =
        said.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected "))
    {
        let expected = expected.trim_start_matches("one of ").replace('`', "\"");
        return format!("must be {expected}, found \"{found}\"");
    }
    match last.split('[').next().unwrap_or(last) {
        "lobby_opens" | "opens" | "closes" => {
            "must be a time with its offset, as \"2027-03-01T12:00:00Z\"".to_owned()
        }
        "addr" | "listen" => "must be an address and a port, as \"127.0.0.1:8080\"".to_owned(),
        "trusted_proxies" => "must be a network, as \"10.0.0.0/8\" or \"192.0.2.1/32\"".to_owned(),
        _ => said.to_owned(),
    }
}

fn example(key: &str) -> &'static str {
    match key {
        "id" => "id = \"spring-drop\"",
        "lobby_opens" => "lobby_opens = \"2027-03-01T11:30:00Z\"",
        "opens" => "opens = \"2027-03-01T12:00:00Z\"",
        "closes" => "closes = \"2027-03-01T14:00:00Z\"",
        "paths" => "paths = [\"/checkout\", \"/checkout/**\"]",
        "rate" => "rate = \"200/s\"",
        "burst" => "burst = 20",
        "sku" => "[[sale.sku]] with sku = \"SKU-FLASH-01\"",
        "units" => "units = 500",
        "addr" | "listen" => "addr = \"0.0.0.0:8080\"",
        "url" => "url = \"http://127.0.0.1:3000\"",
        "hold" | "claim_window" | "token_ttl" | "hold_extension" => "\"10m\"",
        "sweep_every" | "reconcile_every" | "cache" => "\"30s\"",
        "connect_timeout" | "response_timeout" | "body_idle_timeout" | "pool_idle" => "\"10s\"",
        "cert_file" => "cert_file = \"tls/cert.pem\"",
        "key_file" => "key_file = \"tls/key.pem\"",
        _ => "\"…\"",
    }
}

fn unknown(rest: &str) -> String {
    let mut words = rest.split('`').step_by(2);
    let found = words.next().unwrap_or_default();
    let known: Vec<&str> = rest.split('`').skip(2).step_by(2).collect();
    let nearest = known.iter().map(|key| (distance(found, key), *key)).min();
    match nearest {
        Some((far, key)) if far <= 1 + found.len() / 4 => {
            format!("is not a key; did you mean {key}?")
        }
        _ => format!("is not a key; those here are {}", known.join(", ")),
    }
}

/// Letters to add, remove or exchange to get from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let exchanged = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

//! From values to settings: unknown keys, wrong types and missing keys, all of them at once.
//!
//! Serde stops at the first error. So each error is noted, the value at its place is exchanged for
//! one that is good, and the whole is read again, until it fits or the patience is over.

use std::collections::BTreeSet;

use toml::Value;

use super::cure::cure;
use super::document::{Document, child};
use super::problem::Problem;
use super::settings::Settings;
use super::suggest::did_you_mean;

/// Whoever made more mistakes than this will not mind a second look.
const PROBLEMS_MAX: usize = 200;

/// Every key that has no default and every list that is empty by default, with some good value.
const REQUIRED: &str = r#"
[public]
listener = [{ addr = "127.0.0.1:0" }]
trusted_proxies = ["127.0.0.1/32"]
cdn = [{ networks = ["127.0.0.1/32"], header = "x-real-ip" }]
cors_origins = ["http://127.0.0.1"]
certificates = [{ cert_file = "c", key_file = "k" }]
[core]
webhook = [{ url = "http://127.0.0.1/events", secret_env = "SECRET" }]
[account]
forward_auth = { url = "http://127.0.0.1/whoami" }
jwt = { cookie = "session", jwks_file = "jwks.json" }
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
        let (path, said) = (error.path().to_string(), error.inner().message());
        let place = Place::of(&path, said);
        let key = place.path();
        let known = !said.starts_with("unknown field");
        let message = cure(&key, said);
        shaped.problems.push(if known {
            let meant = did_you_mean(&key, document.text_of(&key));
            document.problem(&key, message + &meant)
        } else {
            document.problem_of_key(&key, message)
        });
        let good = at(&sample, &key).filter(|_| known).cloned();
        if !place.put(&mut root, good) || !shaped.repaired.insert(key) {
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

/// Where something is wrong: a key or an element of the table or list at a path.
struct Place<'p> {
    parent: &'p str,
    last: Step<'p>,
}

impl<'p> Place<'p> {
    /// Serde's path is that of the value, but of the table for a missing key.
    fn of(path: &'p str, said: &'p str) -> Self {
        let path = if path == "." { "" } else { path };
        let quoted = |start| said.strip_prefix(start)?.split_once('`').map(|(field, _)| field);
        if let Some(field) = quoted("missing field `") {
            return Self { parent: path, last: Step::Key(field) };
        }
        // A name that is no key may have dots of its own.
        if let Some(field) = quoted("unknown field `") {
            let parent = path.strip_suffix(field).unwrap_or(path).trim_end_matches('.');
            return Self { parent, last: Step::Key(field) };
        }
        let (parent, last) = path.rfind(['.', '[']).map_or(("", path), |end| path.split_at(end));
        Self { parent, last: step(last.trim_start_matches(['.', '['])) }
    }

    fn path(&self) -> String {
        match self.last {
            Step::Key(key) => child(self.parent, key),
            Step::Index(at) => format!("{}[{at}]", self.parent),
        }
    }

    /// Puts a good value there, or removes what is there; false if there is no such place.
    fn put(&self, root: &mut Value, good: Option<Value>) -> bool {
        let parent = steps(self.parent).try_fold(root, |value, step| match step {
            Step::Key(key) => value.get_mut(key),
            Step::Index(at) => value.get_mut(at),
        });
        match (parent, &self.last, good) {
            (Some(Value::Table(table)), Step::Key(key), Some(good)) => {
                table.insert((*key).to_owned(), good);
                true
            }
            (Some(Value::Table(table)), Step::Key(key), None) => table.remove(*key).is_some(),
            (Some(Value::Array(items)), Step::Index(at), Some(good)) => {
                items.get_mut(*at).map(|item| *item = good).is_some()
            }
            _ => false,
        }
    }
}

enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

fn steps(path: &str) -> impl Iterator<Item = Step<'_>> {
    path.split(['.', '[']).filter(|step| !step.is_empty()).map(step)
}

fn step(raw: &str) -> Step<'_> {
    match raw.strip_suffix(']').map(str::parse) {
        Some(Ok(at)) => Step::Index(at),
        _ => Step::Key(raw),
    }
}

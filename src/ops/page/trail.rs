//! The end of the audit trail, read on from where it was left.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::Mutex;

use super::super::Ops;

/// Entries shown.
const SHOWN: usize = 12;
/// How long a reading is good for.
const FRESH: Duration = Duration::from_secs(2);
/// Pages of 200 that are read at once, to come to the end.
const PAGES_MAX: usize = 10;

/// One entry as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) at: String,
    pub(super) short: String,
    pub(super) author: String,
    pub(super) action: String,
    pub(super) sale: String,
    pub(super) changes: String,
}

/// What is known of it.
pub(super) enum Told {
    /// The newest first.
    Entries(Vec<Entry>),
    /// No core has ever told.
    Nothing,
}

/// What was read so far.
#[derive(Default)]
pub(super) struct Trail(Mutex<Read>);

#[derive(Default)]
struct Read {
    after: u64,
    /// The newest first.
    entries: VecDeque<Entry>,
    has_heard: bool,
    looked: Option<Instant>,
}

impl Trail {
    /// The newest entries; many askers are one question.
    pub(super) async fn told(&self, ops: &Ops) -> Told {
        let mut read = self.0.lock().await;
        if read.looked.is_none_or(|at| at.elapsed() >= FRESH) {
            read.on(ops).await;
            read.looked = Some(Instant::now());
        }
        if read.has_heard {
            Told::Entries(read.entries.iter().cloned().collect())
        } else {
            Told::Nothing
        }
    }
}

impl Read {
    async fn on(&mut self, ops: &Ops) {
        for _ in 0..PAGES_MAX {
            let query = format!("after={}", self.after);
            let Ok(page) = ops.desk.cores().audit_trail(Some(&query)).await else { return };
            self.has_heard = true;
            for entry in page["entries"].as_array().into_iter().flatten() {
                self.after = self.after.max(entry["id"].as_u64().unwrap_or(0));
                self.entries.push_front(shown(entry));
            }
            self.entries.truncate(SHOWN);
            if page["next"].is_null() {
                return;
            }
        }
    }
}

fn shown(entry: &Value) -> Entry {
    let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let at = text("at");
    let changes = entry["changes"].as_object().into_iter().flatten();
    let changes = changes.filter_map(|(name, change)| {
        match (change.get("from"), change.get("to")) {
            // What begins is the whole record: the page shows it anyway.
            (Some(Value::Null), Some(Value::Object(_))) => None,
            (Some(from), Some(to)) => Some(format!("{name} {} → {}", plain(from), plain(to))),
            _ => Some(format!("{name} {}", plain(change))),
        }
    });
    Entry {
        short: at.get(..19).unwrap_or(&at).replace('T', " "),
        author: text("author"),
        action: text("action"),
        sale: text("sale"),
        changes: changes.collect::<Vec<_>>().join(", "),
        at,
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_says_in_one_line_what_changed() {
        let entry = shown(&json!({
            "id": 3, "at": "2027-03-01T12:00:05Z", "author": "ops@a", "action": "rate",
            "sale": "spring", "changes": {"rate": {"from": 10.0, "to": 5.0}, "pass": "p"},
        }));
        assert_eq!(entry.changes, "pass p, rate 10.0 → 5.0");
        assert_eq!(entry.short, "2027-03-01 12:00:05");
    }
}

//! Reload: what changed in the file since this node read it, and what may change while it runs.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toml::Value;

use super::document::child;
use super::load::{Loaded, bytes, parse};
use super::problem::Refused;
use super::settings::{Sale, Settings};
use super::span::Span;
use crate::domain::id::SaleId;
use crate::domain::rate::Rate;

/// Changed values of a sale's hot keys; `None` = as before.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Of this sale.
    pub sale: SaleId,
    /// Admissions per second.
    pub rate: Option<Rate>,
    /// Whether the line stands still.
    pub paused: Option<bool>,
    /// Admissions at once after an idle moment.
    pub burst: Option<u32>,
    /// Cap on open admissions; 0 = none.
    pub max_active: Option<u32>,
    /// How long a called visitor may take to claim.
    pub claim_window: Option<Span>,
}

impl Change {
    fn between(old: &Sale, new: &Sale) -> Option<Self> {
        fn changed<T: PartialEq + Copy>(old: T, new: T) -> Option<T> {
            (old != new).then_some(new)
        }
        let change = Self {
            sale: new.id.clone(),
            rate: changed(old.rate, new.rate),
            paused: changed(old.paused, new.paused),
            burst: changed(old.burst, new.burst),
            max_active: changed(old.max_active, new.max_active),
            claim_window: changed(old.claim_window, new.claim_window),
        };
        let nothing = Self {
            sale: new.id.clone(),
            rate: None,
            paused: None,
            burst: None,
            max_active: None,
            claim_window: None,
        };
        (change != nothing).then_some(change)
    }

    /// Both, the later one where they speak of the same key.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        Self {
            sale: later.sale,
            rate: later.rate.or(self.rate),
            paused: later.paused.or(self.paused),
            burst: later.burst.or(self.burst),
            max_active: later.max_active.or(self.max_active),
            claim_window: later.claim_window.or(self.claim_window),
        }
    }
}

/// The difference between a node's settings and its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// Of hot keys, a sale each.
    pub changes: Vec<Change>,
    /// Keys that differ and are read only at the start.
    pub restart_only: Vec<String>,
    /// The node's settings from now on: hot keys as in the file, the rest as before.
    settings: Settings,
}

/// Compares settings.
pub fn diff(old: &Settings, new: &Settings) -> Diff {
    let mut settings = old.clone();
    // The file's settings with the hot keys as before: what still differs needs a restart.
    let mut cold = new.clone();
    let mut changes = vec![];
    for ours in &mut settings.sales {
        let Some(theirs) = cold.sales.iter_mut().find(|sale| sale.id == ours.id) else { continue };
        changes.extend(Change::between(ours, theirs));
        let hot = |to: &mut Sale, from: &Sale| {
            (to.rate, to.paused, to.burst) = (from.rate, from.paused, from.burst);
            (to.max_active, to.claim_window) = (from.max_active, from.claim_window);
        };
        let before = ours.clone();
        hot(ours, theirs);
        hot(theirs, &before);
    }
    let mut restart_only = vec![];
    if let (Ok(old), Ok(new)) = (Value::try_from(old), Value::try_from(&cold)) {
        differing(&old, &new, "", &mut restart_only);
    }
    Diff { changes, restart_only, settings }
}

/// The paths of all values that are not the same in both.
fn differing(old: &Value, new: &Value, path: &str, found: &mut Vec<String>) {
    match (old, new) {
        (Value::Table(old), Value::Table(new)) => {
            let mut keys: Vec<_> = old.keys().chain(new.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                match (old.get(key), new.get(key)) {
                    (Some(old), Some(new)) => differing(old, new, &child(path, key), found),
                    _ => found.push(child(path, key)),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                differing(old, new, &format!("{path}[{at}]"), found);
            }
        }
        _ if old == new => {}
        _ => found.push(path.to_owned()),
    }
}

/// What a look at the file found.
#[derive(Debug)]
pub enum Look {
    /// The same bytes as before.
    Same,
    /// Other bytes; perhaps somebody is still writing: look again in a moment.
    Unsettled,
    /// Not acceptable; the settings stay.
    Refused(Refused),
    /// Acceptable.
    Good(Box<Diff>),
}

/// A file's content, as far as it is told apart from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Bytes with this digest.
    Read([u8; 32]),
    /// The file is gone, or not ours to read.
    Unreadable,
}

/// Watches one file on behalf of one node.
pub struct Watcher {
    file: PathBuf,
    /// Settings as this node runs with.
    settings: Settings,
    /// The content that was judged last.
    judged: Content,
    /// The content of the last look, if it has not been judged.
    unsettled: Option<Content>,
}

impl Watcher {
    /// From the settings that the node started with.
    pub fn new(loaded: &Loaded) -> Self {
        Self {
            file: loaded.file.clone(),
            settings: loaded.settings.clone(),
            judged: Content::Read(loaded.digest),
            unsettled: None,
        }
    }

    /// The file that is watched.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Reads the file; two looks must see the same new bytes before they are judged.
    pub fn look(&mut self, now: jiff::Timestamp) -> Look {
        let bytes = bytes(&self.file);
        let content = match &bytes {
            Ok(bytes) => Content::Read(digest(bytes)),
            Err(_) => Content::Unreadable,
        };
        if content == self.judged {
            self.unsettled = None;
            return Look::Same;
        }
        if self.unsettled != Some(content) {
            self.unsettled = Some(content);
            return Look::Unsettled;
        }
        (self.judged, self.unsettled) = (content, None);
        match bytes.and_then(|bytes| parse(&self.file, bytes, now)) {
            Err(refused) => Look::Refused(refused),
            Ok(loaded) => {
                let diff = diff(&self.settings, &loaded.settings);
                self.settings = diff.settings.clone();
                Look::Good(Box::new(diff))
            }
        }
    }
}

/// What bytes are told apart by.
pub(super) fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::super::load::load;
    use super::*;

    const EXAMPLE: &str = include_str!("../../config/sale.example.toml");

    fn now() -> jiff::Timestamp {
        "2026-12-01T12:00:00Z".parse().unwrap()
    }

    struct File(tempfile::TempDir);

    impl File {
        fn watched() -> (Self, Watcher) {
            let file = Self(tempfile::tempdir().unwrap());
            file.write(EXAMPLE);
            let watcher = Watcher::new(&load(&file.path(), now()).unwrap());
            (file, watcher)
        }

        fn path(&self) -> PathBuf {
            self.0.path().join("stanchion.toml")
        }

        fn write(&self, text: &str) {
            std::fs::write(self.path(), text).unwrap();
        }
    }

    fn settled(watcher: &mut Watcher) -> Look {
        assert!(matches!(watcher.look(now()), Look::Unsettled));
        watcher.look(now())
    }

    fn faster() -> String {
        EXAMPLE.replace("rate = \"200/s\"", "rate = \"50/s\"")
    }

    #[test]
    fn a_changed_rate_and_pause_are_told_and_nothing_else_is() {
        let (file, mut watcher) = File::watched();
        assert!(matches!(watcher.look(now()), Look::Same));

        file.write(&faster().replace("paused = false", "paused = true"));

        let Look::Good(diff) = settled(&mut watcher) else { panic!("not good") };
        assert_eq!(diff.changes.len(), 1);
        let change = &diff.changes[0];
        assert_eq!((change.rate, change.paused), (Some(Rate::whole(50)), Some(true)));
        assert_eq!((change.burst, change.max_active, change.claim_window), (None, None, None));
        assert!(diff.restart_only.is_empty());
        assert!(matches!(watcher.look(now()), Look::Same));
    }

    #[test]
    fn keys_that_need_a_restart_are_named_and_stay() {
        let (file, mut watcher) = File::watched();

        file.write(&faster().replace("hold = \"10m\"", "hold = \"5m\"").replace("500", "600"));

        let Look::Good(diff) = settled(&mut watcher) else { panic!("not good") };
        assert_eq!(diff.restart_only, ["sale[0].hold", "sale[0].sku[0].units"]);
        assert_eq!(diff.changes.len(), 1);
        file.write(&faster());
        let Look::Good(diff) = settled(&mut watcher) else { panic!("not good") };
        assert_eq!((diff.restart_only.len(), diff.changes.len()), (0, 0));
    }

    #[test]
    fn a_broken_file_changes_nothing_and_is_told_once() {
        let (file, mut watcher) = File::watched();

        file.write(&faster().replace("burst = 1", "burst = 0"));

        assert!(matches!(settled(&mut watcher), Look::Refused(_)));
        assert!(matches!(watcher.look(now()), Look::Same));
        std::fs::remove_file(file.path()).unwrap();
        assert!(matches!(settled(&mut watcher), Look::Refused(_)));
        assert!(matches!(watcher.look(now()), Look::Same));
        file.write(&faster());
        let Look::Good(diff) = settled(&mut watcher) else { panic!("not good") };
        assert_eq!(diff.changes[0].rate, Some(Rate::whole(50)));
    }

    #[test]
    fn a_sale_that_is_new_in_the_file_waits_for_a_restart() {
        let (file, mut watcher) = File::watched();
        let second = EXAMPLE
            .replace("spring-drop", "summer-drop")
            .replace("SKU-FLASH-01", "SKU-FLASH-02")
            .replace("/checkout", "/summer");

        file.write(&(second + EXAMPLE));

        let Look::Good(diff) = settled(&mut watcher) else { panic!("not good") };
        assert_eq!(diff.restart_only, ["sale"]);
        assert!(diff.changes.is_empty());
    }
}

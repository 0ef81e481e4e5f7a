//! Reload: what changed in the file since this node read it, and what may change while it runs.

mod change;
mod diff;
#[cfg(test)]
mod every_key;
mod state;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

pub use change::{Change, differing};
pub use diff::{Diff, Difference, diff};
pub use state::{ReloadState, Reloaded, version};

use super::load::{Loaded, bytes, parse};
use super::problem::Refused;
use super::settings::Settings;

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

    /// What this node runs with: its file's, but for what waits for a restart.
    pub fn settings(&self) -> &Settings {
        &self.settings
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
                let diff = diff(&self.settings, &loaded.settings, now);
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
    use super::super::keys::Effect;
    use super::super::load::load;
    use super::*;
    use crate::domain::rate::Rate;

    const EXAMPLE: &str = include_str!("../../../config/sale.example.toml");

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
        assert_eq!(diff.keys(Effect::Hot), ["sale[0].paused", "sale[0].rate"]);
        assert_eq!(diff.differences.len(), 2);
        assert!(matches!(watcher.look(now()), Look::Same));
    }

    #[test]
    fn keys_that_need_a_restart_are_named_and_stay() {
        let (file, mut watcher) = File::watched();

        file.write(&faster().replace("hold = \"10m\"", "hold = \"5m\"").replace("500", "600"));

        let Look::Good(diff) = settled(&mut watcher) else { panic!("not good") };
        assert_eq!(diff.keys(Effect::Restart), ["sale[0].hold", "sale[0].sku[0].units"]);
        assert_eq!(diff.changes.len(), 1);
        file.write(&faster());
        let Look::Good(diff) = settled(&mut watcher) else { panic!("not good") };
        assert!(diff.is_empty());
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
        assert_eq!(diff.keys(Effect::Restart), ["sale[0]"]);
        assert!(diff.changes.is_empty());
    }
}

//! Follows the key folder: what is read twice the same is taken over, what is wrong is told once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::files::Folder;
use super::{Keys, KeysError};

/// How often the folder is read; new keys are there after two readings.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// Keeps a node's keys as its folder has them.
pub struct Watch {
    keys: Arc<Keys>,
    dir: PathBuf,
    good: Gauge,
    /// The folder in use.
    used: Option<[u8; 32]>,
    /// The last reading that is not in use, and whether it was found wrong.
    last: Option<([u8; 32], bool)>,
    unreadable: bool,
}

impl Watch {
    /// Follows the folder that the keys were loaded from.
    pub fn new(keys: Arc<Keys>, dir: PathBuf, registry: &mut Registry) -> Self {
        let good = Gauge::default();
        good.set(1);
        registry.register(
            "keys_last_reload_successful",
            "1 if the key folder was good when last read, 0 if its new content was refused",
            good.clone(),
        );
        let used = Folder::read(&dir).ok().map(|folder| folder.digest());
        Self { keys, dir, good, used, last: None, unreadable: false }
    }

    /// Follows until cancelled.
    pub async fn run(mut self, ending: CancellationToken) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while ending.run_until_cancelled(looks.tick()).await.is_some() {
            self.look();
        }
    }

    /// One reading: a few small files, so nothing waits for it.
    fn look(&mut self) {
        let folder = match Folder::read(&self.dir) {
            Ok(folder) => folder,
            Err(error) => {
                // A file that goes while it is read is a folder being copied: the next reading tells.
                if self.unreadable {
                    self.refuse(&error);
                }
                self.unreadable = true;
                return;
            }
        };
        self.unreadable = false;
        let digest = folder.digest();
        if self.used == Some(digest) {
            self.last = None;
            self.good.set(1);
            return;
        }
        match self.last {
            // Half a copy seldom looks the same twice.
            Some((seen, false)) if seen == digest => match self.keys.replace(&folder) {
                Ok(()) => {
                    self.used = Some(digest);
                    self.last = None;
                    self.good.set(1);
                    let fingerprint = self.keys.fingerprint();
                    tracing::info!(dir = %self.dir.display(), %fingerprint, "keys.reloaded");
                }
                Err(error) => {
                    self.refuse(&error);
                    self.last = Some((digest, true));
                }
            },
            Some((seen, true)) if seen == digest => {}
            Some(_) | None => self.last = Some((digest, false)),
        }
    }

    fn refuse(&self, error: &KeysError) {
        if self.good.get() == 1 {
            tracing::error!(%error, "keys refused, the old ones stay");
        }
        self.good.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rotate;
    use super::*;

    const MONTH_MS: u64 = 30 * 86_400_000;

    #[test]
    fn a_changed_folder_is_taken_over_and_a_broken_one_is_not() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("keys");
        let keys = Arc::new(Keys::generate(&dir).unwrap());
        let mut watch = Watch::new(Arc::clone(&keys), dir.clone(), &mut Registry::default());
        let before = (keys.fingerprint(), keys.jwks());

        std::fs::write(dir.join("tickets-0002.key"), "half").unwrap();
        watch.look();
        assert_eq!(watch.good.get(), 1, "once may be half a copy");
        watch.look();
        watch.look();
        assert_eq!(watch.good.get(), 0);
        assert_eq!((keys.fingerprint(), keys.jwks()), before);

        std::fs::remove_file(dir.join("tickets-0002.key")).unwrap();
        rotate(&dir, 60_000, MONTH_MS).unwrap();
        watch.look();
        watch.look();
        assert_eq!(watch.good.get(), 1);
        assert_ne!(keys.fingerprint(), before.0);
        let jwks: serde_json::Value = serde_json::from_str(&keys.jwks()).unwrap();
        assert_eq!(jwks["keys"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn another_place_key_is_refused_while_a_node_runs() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("keys");
        let keys = Keys::generate(&dir).unwrap();
        let identity = keys.identity();
        std::fs::write(dir.join("place.key"), "00".repeat(32)).unwrap();
        let error = keys.replace(&Folder::read(&dir).unwrap()).unwrap_err().to_string();
        assert!(error.contains("place.key: is another one"), "{error}");
        assert_eq!(keys.identity(), identity);
    }
}

//! The private folder of one owner's stores, and the reaper that removes it after any death.

use std::fs::{File, Permissions, TryLockError};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use nix::unistd::geteuid;

use super::identity::Identity;

const PREFIX: &str = "stanchion-stores-";
const REAPER: &str = include_str!("reaper.sh");

/// A folder with mode 0700 that the stores' user owns. Removed, with the servers in it stopped,
/// when this value is dropped or its process is gone.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    identity: Identity,
    reaper: Child,
    /// Locked as long as we live, so that others can tell a leftover from a folder in use.
    _lock: File,
}

impl Folder {
    /// Removes what killed runs left behind, then makes a fresh folder.
    pub(super) fn create() -> Result<Self> {
        let identity = Identity::unprivileged()?;
        // Canonical, because the reaper compares with what the kernel calls the place.
        let base = std::env::temp_dir().canonicalize().context("the system's temp dir")?;
        remove_leftovers(&base, identity);

        let path = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&base)
            .with_context(|| format!("making the stores' folder in {}", base.display()))?
            .keep();
        let reaper = reaper(&path)?;
        let lock = lock(&path)?;
        identity.own(&path)?;
        Ok(Self { path, identity, reaper, _lock: lock })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Who owns it.
    pub(super) fn identity(&self) -> Identity {
        self.identity
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.reaper.stdin.take());
        if let Err(error) = self.reaper.wait() {
            tracing::warn!(%error, folder = %self.path.display(), "the stores' reaper was lost");
        }
    }
}

/// Takes the lock under another name first: whoever sees `owner.lock` finds it locked.
fn lock(path: &Path) -> Result<File> {
    let unnamed = path.join(".owner.lock");
    let lock = File::create(&unnamed).context("making the folder's lock")?;
    lock.lock().context("locking the stores' folder")?;
    std::fs::rename(&unnamed, path.join("owner.lock")).context("naming the folder's lock")?;
    Ok(lock)
}

fn reaper(path: &Path) -> Result<Child> {
    Command::new("sh")
        .args(["-c", REAPER, "stanchion-reaper"])
        .arg(path)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("starting the stores' reaper")
}

/// Best effort: a folder that cannot be looked at is somebody else's.
fn remove_leftovers(base: &Path, identity: Identity) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let named_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if named_ours && is_leftover(&entry.path(), identity) {
            tracing::info!(folder = %entry.path().display(), "removing stores of a killed run");
            // Without a pipe the reaper's input ends at once.
            let reaped = reaper(&entry.path()).and_then(|mut child| {
                drop(child.stdin.take());
                child.wait().context("waiting for the reaper")
            });
            if let Err(error) = reaped {
                tracing::warn!(%error, "stores of a killed run are left behind");
            }
        }
    }
}

fn is_leftover(path: &Path, identity: Identity) -> bool {
    let Ok(about) = path.symlink_metadata() else { return false };
    let owned = about.uid() == identity.uid() || about.uid() == geteuid().as_raw();
    if !about.is_dir() || !owned {
        return false;
    }
    let Ok(lock) = File::open(path.join("owner.lock")) else { return false };
    !matches!(lock.try_lock(), Err(TryLockError::WouldBlock | TryLockError::Error(_)))
}

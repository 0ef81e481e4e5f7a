//! The private folder of one owner's stores, and the reaper that cleans up after any death.

use std::fs::{File, Permissions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;

use super::identity::Identity;
use super::residents::moved_out;

const PREFIX: &str = "stanchion-stores-";
const REAPER: &str = include_str!("reaper.sh");

/// What becomes of a folder when its owner is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    /// It is removed.
    Removed,
    /// It stays, for the next start.
    Kept,
}

/// Where the servers live, each in a folder that the stores' user owns. When this value is dropped
/// or its process is gone, they are stopped and a temporary folder is removed.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    identity: Identity,
    afterwards: Afterwards,
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
        let reaper = reaper(&path, Afterwards::Removed)?;
        let lock = lock(&path)?;
        identity.own(&path)?;
        let afterwards = Afterwards::Removed;
        Ok(Self { path, identity, afterwards, reaper, _lock: lock })
    }

    /// Opens the folder that is to outlive us, making it at the first start, and stops servers
    /// that a killed owner may have left running in it.
    ///
    /// # Errors
    /// If another process has it open, or the stores' user cannot get there.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let identity = Identity::unprivileged()?;
        let shown = path.display();
        std::fs::create_dir_all(path).with_context(|| format!("making {shown}"))?;
        let path = path.canonicalize().with_context(|| format!("looking at {shown}"))?;
        let lock = sole_owner(&path)?;
        // Others may pass through to the servers' own folders, which are closed to them.
        std::fs::set_permissions(&path, Permissions::from_mode(0o711))?;
        identity.can_enter(&path)?;
        let afterwards = Afterwards::Kept;
        let left = reap(&path, afterwards).and_then(|()| moved_out(&path));
        left.context("ending what a killed run left behind")?;
        let reaper = reaper(&path, afterwards)?;
        Ok(Self { path, identity, afterwards, reaper, _lock: lock })
    }

    /// Whether it is there for the next start.
    pub(super) fn is_kept(&self) -> bool {
        self.afterwards == Afterwards::Kept
    }

    /// How long a server in it may take to start: one that is kept may have a log to read.
    pub(super) fn patience(&self) -> Duration {
        if self.is_kept() { Duration::from_mins(10) } else { Duration::from_secs(30) }
    }

    /// A folder in it that only the stores' user may enter, made if it is not there.
    pub(super) fn room(&self, name: &str) -> Result<PathBuf> {
        let room = self.path.join(name);
        std::fs::create_dir_all(&room).with_context(|| format!("making {}", room.display()))?;
        std::fs::set_permissions(&room, Permissions::from_mode(0o700))?;
        self.identity.own(&room)?;
        Ok(room)
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

/// The lock of a folder that is kept; it says who holds it.
fn sole_owner(path: &Path) -> Result<File> {
    let name = path.join("owner.lock");
    let mut lock = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&name)
        .with_context(|| format!("opening {}", name.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            lock.read_to_string(&mut owner)?;
            bail!(
                "{} is in use by process {}: one Stanchion at a time; stop that one, or name \
                 another folder with --data",
                path.display(),
                owner.trim()
            );
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("locking {}", name.display()));
        }
    }
    lock.set_len(0)?;
    write!(lock, "{}", std::process::id()).context("signing the folder's lock")?;
    Ok(lock)
}

fn reaper(path: &Path, afterwards: Afterwards) -> Result<Child> {
    let word = match afterwards {
        Afterwards::Removed => "remove",
        Afterwards::Kept => "keep",
    };
    Command::new("sh")
        .args(["-c", REAPER, "stanchion-reaper"])
        .arg(path)
        .arg(word)
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
            if let Err(error) = reap(&entry.path(), Afterwards::Removed) {
                tracing::warn!(%error, "stores of a killed run are left behind");
            }
        }
    }
}

/// Does the reaper's work now.
fn reap(path: &Path, afterwards: Afterwards) -> Result<()> {
    let mut child = reaper(path, afterwards)?;
    // Without a pipe the reaper's input ends at once.
    drop(child.stdin.take());
    child.wait().context("waiting for the reaper")?;
    Ok(())
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

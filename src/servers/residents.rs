//! Who lives in a folder that was left by a killed owner.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Postgres' children notice within a second that their parent is gone.
const LEAVE_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until no process works in the folder any more, then removes the notes in which
/// Postgres says that it runs: it takes a zombie, or a stranger who got its number since, for
/// itself. Without /proc the notes stay, and Postgres decides.
///
/// # Errors
/// If somebody stays.
pub(super) fn moved_out(folder: &Path) -> Result<()> {
    if !Path::new("/proc/self/cwd").exists() {
        return Ok(());
    }
    let since = Instant::now();
    while let Some(pid) = resident(folder) {
        if since.elapsed() > LEAVE_MAX {
            bail!("process {pid} still works in {}; stop it first", folder.display());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    NOTES.iter().try_for_each(|note| remove(&folder.join(note)))
}

/// In which Postgres says that it runs, and that it listens.
const NOTES: [&str; 2] = ["postgres/postmaster.pid", "run/.s.PGSQL.5432.lock"];

fn remove(note: &Path) -> Result<()> {
    match std::fs::remove_file(note) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", note.display()))
        }
        _ => Ok(()),
    }
}

/// A process whose working folder is in it. A zombie has none.
fn resident(folder: &Path) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|pid| {
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd"));
        *pid != std::process::id() && cwd.is_ok_and(|cwd| cwd.starts_with(folder))
    })
}

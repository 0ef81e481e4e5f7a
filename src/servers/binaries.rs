//! Where the machine keeps the stores' programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

/// The `redis-server` on PATH.
pub(super) fn redis_server() -> Result<PathBuf> {
    on_path("redis-server").context("redis-server is not installed; run scripts/setup")
}

/// The folder that holds both `postgres` and `initdb`. Debian keeps them in a versioned folder
/// that is not on PATH, so `pg_config` and the usual places are asked too.
pub(super) fn postgres_folder() -> Result<PathBuf> {
    let linked = on_path("postgres").and_then(|found| found.canonicalize().ok());
    let from_path = linked.and_then(|real| real.parent().map(Path::to_owned));
    let candidates = from_path.into_iter().chain(asked()).chain(versioned());
    let complete =
        |folder: &PathBuf| folder.join("postgres").is_file() && folder.join("initdb").is_file();
    candidates
        .into_iter()
        .find(complete)
        .ok_or_else(|| anyhow!("postgres and initdb are not installed; run scripts/setup"))
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn asked() -> Option<PathBuf> {
    let out = Command::new("pg_config").arg("--bindir").output().ok()?;
    let folder = String::from_utf8(out.stdout).ok()?;
    Some(PathBuf::from(folder.trim()))
}

/// `/usr/lib/postgresql/N/bin`, the highest N first.
fn versioned() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/usr/lib/postgresql") else { return Vec::new() };
    let mut versions: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
        .collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.iter().map(|v| PathBuf::from(format!("/usr/lib/postgresql/{v}/bin"))).collect()
}

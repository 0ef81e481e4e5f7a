//! What a process and its children use, as Linux accounts for it.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Time on a processor so far of all threads of a process and its children, by the scheduler's own
/// count. Steady also where others compete for the processors.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let mut ns = 0;
    for pid in tree(pid)? {
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end while we look.
            let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            let first = text.split_whitespace().next().context("an empty schedstat")?;
            ns += first.parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(ns))
}

/// Memory of a process and its children, shared pages divided among their users.
pub(crate) fn pss_kib(pid: u32) -> Result<u64> {
    let mut kib = 0;
    for pid in tree(pid)? {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        kib += number.context("a smaps_rollup without Pss")?.parse::<u64>()?;
    }
    Ok(kib)
}

/// A process and all below it.
fn tree(root: u32) -> Result<Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name before it is in brackets and may hold anything.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        let Some(parent) = parent.and_then(|parent| parent.parse().ok()) else { continue };
        children.entry(parent).or_default().push(pid);
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        found.extend(children.get(pid).cloned().unwrap_or_default());
        at += 1;
    }
    Ok(found)
}

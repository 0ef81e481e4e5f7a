//! What `room` measures, part by part, and the house that it is measured in.

mod house;
pub(crate) mod opening;
pub(crate) mod polls;
pub(crate) mod streams;
mod written;

/// The figure that `part` of a hundred do not exceed, of sorted ones.
fn percentile(sorted: &[u32], part: usize) -> u32 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last.min(sorted.len() * part / 100)).copied().unwrap_or_default()
}

//! Numbers and instants as the templates write them.
#![expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::unnecessary_wraps,
    clippy::inline_always,
    clippy::unused_self,
    unreachable_pub,
    reason = "the signature askama asks of a filter"
)]

use askama::{Result, Values};

use super::words;

/// 1203 as 1,203.
#[askama::filter_fn]
pub(super) fn grouped(n: &u64, _: &dyn Values) -> Result<String> {
    Ok(words::grouped(*n))
}

/// `datetime` of a `<time>`, RFC 3339; the script shows it in the visitor's own zone.
#[askama::filter_fn]
pub(super) fn machine_time(ms: &u64, _: &dyn Values) -> Result<String> {
    Ok(timestamp(*ms).map(|at| at.to_string()).unwrap_or_default())
}

/// The same for a reader without a script, to the second, because a slot is that short.
#[askama::filter_fn]
pub(super) fn human_time(ms: &u64, _: &dyn Values) -> Result<String> {
    let text = timestamp(*ms).map(|at| at.strftime("%-d %b %Y, %H:%M:%S UTC").to_string());
    Ok(text.unwrap_or_default())
}

fn timestamp(ms: u64) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()
}

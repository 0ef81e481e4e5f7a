//! Counts as floats and back, for estimates. Nothing that is sold or admitted is counted this way.

/// Exact below 2^53: counts of one sale, and milliseconds of any clock.
#[expect(clippy::cast_precision_loss, reason = "stays far below 2^53")]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

/// The whole part; nothing is less than none.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, and nothing is less than none"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value as u64
}

/// The least whole number that is not below.
pub(crate) fn ceil(value: f64) -> u64 {
    whole(value.ceil())
}

//! Durations in settings: `"90s"`, `"10m"`, `"250ms"`, `"1h"`, `"90d"`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A length of time, whole milliseconds, at most ten years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(u64);

/// The text says the forms that are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a length of time, as \"250ms\", \"90s\", \"10m\", \"1h\" or \"90d\"")]
pub struct SpanError;

const MS_MAX: u64 = 10 * 365 * 24 * 3_600_000;

impl Span {
    /// A span of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds * 1000)
    }

    /// A span of milliseconds.
    pub const fn millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Reads a whole number followed by ms, s, m, h or d.
    pub fn parse(raw: &str) -> Result<Self, SpanError> {
        let raw = raw.trim();
        let split = raw.find(|c: char| !c.is_ascii_digit()).ok_or(SpanError)?;
        let (number, unit) = raw.split_at(split);
        let number: u64 = number.parse().map_err(|_| SpanError)?;
        let unit_ms = match unit.trim() {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(SpanError),
        };
        match number.checked_mul(unit_ms) {
            Some(ms) if ms <= MS_MAX => Ok(Self(ms)),
            Some(_) | None => Err(SpanError),
        }
    }

    /// Milliseconds.
    pub fn ms(self) -> u64 {
        self.0
    }

    /// Milliseconds, for estimates.
    pub fn ms_f64(self) -> f64 {
        self.duration().as_secs_f64() * 1000.0
    }

    /// As the standard library has it.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
        match units.into_iter().find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None if self.0 == 0 => f.write_str("0s"),
            None => write!(f, "{}ms", self.0),
        }
    }
}

impl TryFrom<String> for Span {
    type Error = SpanError;
    fn try_from(raw: String) -> Result<Self, SpanError> {
        Self::parse(&raw)
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_reads_back_as_it_was_written() {
        for raw in ["250ms", "90s", "10m", "1h", "90d", "0s"] {
            assert_eq!(Span::parse(raw).unwrap().to_string(), raw);
        }
        for raw in ["", "90", "s", "-1s", "1.5s", "1w", "99999999999999999999s", "9999999d"] {
            assert_eq!(Span::parse(raw), Err(SpanError), "{raw:?}");
        }
    }
}

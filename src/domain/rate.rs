//! How many per unit of time: `"200/s"`, `"600/min"`, `"0.2/s"`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A positive rate, at most [`Rate::MAX`] a second; fractions of one a second are ordinary.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(f64);

/// The text says the forms that are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a number per unit of time, as \"200/s\", \"600/min\" or \"0.2/s\", above 0 and at most 1000000/s"
)]
pub struct RateError;

impl Rate {
    /// The highest rate, per second.
    pub const MAX: f64 = 1_000_000.0;
    /// The lowest rate, per second: one in about eleven days.
    pub const MIN: f64 = 0.000_001;

    /// Checks the range; `per_second` is a count per second.
    pub fn per_second(per_second: f64) -> Result<Self, RateError> {
        if per_second.is_finite() && (Self::MIN..=Self::MAX).contains(&per_second) {
            Ok(Self(per_second))
        } else {
            Err(RateError)
        }
    }

    /// A whole number a second, at least 1.
    pub fn whole(per_second: u16) -> Self {
        Self(f64::from(per_second.max(1)))
    }

    /// Reads `NUMBER/UNIT` with unit s, sec, min, m, h or hour.
    pub fn parse(raw: &str) -> Result<Self, RateError> {
        let (number, unit) = raw.trim().split_once('/').ok_or(RateError)?;
        let number = number.trim();
        let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if !plain {
            return Err(RateError);
        }
        let count: f64 = number.parse().map_err(|_| RateError)?;
        let seconds = match unit.trim() {
            "s" | "sec" => 1.0,
            "m" | "min" => 60.0,
            "h" | "hour" => 3600.0,
            _ => return Err(RateError),
        };
        Self::per_second(count / seconds)
    }

    /// Count per second.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The time from one to the next, in milliseconds.
    pub fn interval_ms(self) -> f64 {
        1000.0 / self.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

impl TryFrom<String> for Rate {
    type Error = RateError;
    fn try_from(raw: String) -> Result<Self, RateError> {
        Self::parse(&raw)
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wr_09_rates_below_one_a_second_are_not_rounded() {
        assert!((Rate::parse("0.2/s").unwrap().get() - 0.2).abs() < 1e-12);
        assert!((Rate::parse("600/min").unwrap().get() - 10.0).abs() < 1e-12);
        assert!((Rate::parse("36/h").unwrap().interval_ms() - 100_000.0).abs() < 1e-6);
    }

    #[test]
    fn nonsense_is_refused() {
        for raw in ["", "200", "/s", "-1/s", "0/s", "1e3/s", "nan/s", "inf/s", "5/day", "2000000/s"]
        {
            assert!(Rate::parse(raw).is_err(), "{raw:?} was read as a rate");
        }
    }

    #[test]
    fn a_rate_reads_back_as_it_was_written() {
        for raw in ["200/s", "0.2/s", "7.5/s", "1000000/s"] {
            assert_eq!(Rate::parse(raw).unwrap().to_string(), raw);
        }
    }
}

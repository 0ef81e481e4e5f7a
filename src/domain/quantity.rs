//! How many units: whole, 1 to a million.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A whole number of units, 1 to [`Quantity::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "u32")]
pub struct Quantity(u32);

/// The text names the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a whole number from 1 to 1000000")]
pub struct QuantityError;

impl Quantity {
    /// The most units one line may ask for.
    pub const MAX: u32 = 1_000_000;

    /// Checks the range.
    pub fn new(units: i64) -> Result<Self, QuantityError> {
        match u32::try_from(units) {
            Ok(n) if (1..=Self::MAX).contains(&n) => Ok(Self(n)),
            _ => Err(QuantityError),
        }
    }

    /// Reads decimal digits and nothing else: no sign, point, exponent or other base.
    pub fn parse(raw: &str) -> Result<Self, QuantityError> {
        let digits = !raw.is_empty() && raw.len() <= 7 && raw.bytes().all(|b| b.is_ascii_digit());
        if !digits {
            return Err(QuantityError);
        }
        Self::new(raw.parse().map_err(|_| QuantityError)?)
    }

    /// The number of units.
    pub fn get(self) -> u32 {
        self.0
    }

    /// The sum, if it is still a quantity: equal SKUs of one cart are summed before anything else.
    pub fn checked_add(self, other: Self) -> Result<Self, QuantityError> {
        Self::new(i64::from(self.0).saturating_add(i64::from(other.0)))
    }
}

impl TryFrom<i64> for Quantity {
    type Error = QuantityError;
    fn try_from(units: i64) -> Result<Self, QuantityError> {
        Self::new(units)
    }
}

impl From<Quantity> for u32 {
    fn from(quantity: Quantity) -> Self {
        quantity.0
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rs_06_only_whole_positive_json_numbers_are_quantities() {
        let read = |raw: &str| serde_json::from_str::<Quantity>(raw);
        assert_eq!(read("1").unwrap().get(), 1);
        assert_eq!(read("1000000").unwrap().get(), 1_000_000);
        let bad = ["-5", "0", "-0", "\"-1\"", "\"1\"", "1.5", "1e1", "\"0x2\"", "null", "true"];
        for raw in bad.into_iter().chain(["NaN", "\"\"", "1000001", "9007199254740993", "[]"]) {
            assert!(read(raw).is_err(), "{raw} was read as a quantity");
        }
    }

    #[test]
    fn rs_06_only_plain_digits_are_quantities_in_a_form() {
        assert_eq!(Quantity::parse("12").unwrap().get(), 12);
        for raw in ["", "-1", "+1", " 1", "1.0", "1e1", "0x2", "٣", "0", "1000001", "99999999"] {
            assert!(Quantity::parse(raw).is_err(), "{raw:?} was read as a quantity");
        }
    }
}

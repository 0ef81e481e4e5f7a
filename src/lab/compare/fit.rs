//! A straight line through measured points: what a batch costs by itself, and what each take adds.

use serde::Serialize;

/// T(n) = a + b·n, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Fit {
    /// The cost of a batch, however small.
    pub(super) a_us: f64,
    /// The cost of one more take in it.
    pub(super) b_us: f64,
}

impl Fit {
    /// By least squares through points (takes, microseconds) that each count `weight` times;
    /// none unless two of them differ in their takes.
    pub(super) fn through(points: impl Iterator<Item = (f64, f64, f64)> + Clone) -> Option<Self> {
        let sum = |of: fn(f64, f64) -> f64| -> f64 {
            points.clone().map(|(n, us, weight)| weight * of(n, us)).sum()
        };
        let weights = sum(|_, _| 1.0);
        let (mean_n, mean_us) = (sum(|n, _| n) / weights, sum(|_, us| us) / weights);
        let spread = sum(|n, _| n * n) / weights - mean_n * mean_n;
        let together = sum(|n, us| n * us) / weights - mean_n * mean_us;
        if spread.is_nan() || spread <= 1e-9 {
            return None;
        }
        let b_us = together / spread;
        Some(Self { a_us: mean_us - b_us * mean_n, b_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(points: &[(f64, f64, f64)]) -> Option<Fit> {
        Fit::through(points.iter().copied())
    }

    #[test]
    fn points_on_a_line_give_that_line() {
        let line = through(&[(16.0, 248.0, 1.0), (64.0, 392.0, 9.0), (512.0, 1_736.0, 2.0)]);
        let Fit { a_us, b_us } = line.unwrap();
        assert!((a_us - 200.0).abs() < 1e-6 && (b_us - 3.0).abs() < 1e-9, "{a_us} + {b_us} n");
    }

    #[test]
    fn errors_to_either_side_cancel_out_by_weight() {
        let points = [(1.0, 9.0, 3.0), (1.0, 17.0, 1.0), (3.0, 31.0, 2.0)];
        let Fit { a_us, b_us } = through(&points).unwrap();
        assert!((a_us - 1.0).abs() < 1e-6 && (b_us - 10.0).abs() < 1e-6, "{a_us} + {b_us} n");
    }

    #[test]
    fn batches_of_one_size_or_none_say_nothing() {
        assert_eq!(through(&[]), None);
        assert_eq!(through(&[(7.0, 1.0, 1.0), (7.0, 3.0, 1.0)]), None);
    }
}

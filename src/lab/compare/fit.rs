//! A straight line through measured points: what a batch costs by itself, and what each take adds.

use serde::Serialize;

use super::tally::number;

/// T(n) = a + b·n, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Fit {
    /// The cost of a batch, however small.
    pub(super) a_us: f64,
    /// The cost of one more take in it.
    pub(super) b_us: f64,
}

impl Fit {
    /// By least squares through points (takes, microseconds); none unless two of them differ in
    /// their takes.
    pub(super) fn through(points: &[(f64, f64)]) -> Option<Self> {
        let mean = |of: fn(&(f64, f64)) -> f64| {
            points.iter().map(of).sum::<f64>()
                / number(u64::try_from(points.len()).unwrap_or(u64::MAX))
        };
        let (mean_n, mean_us) = (mean(|(n, _)| *n), mean(|(_, us)| *us));
        let spread = mean(|(n, _)| n * n) - mean_n * mean_n;
        let together = mean(|(n, us)| n * us) - mean_n * mean_us;
        if spread.is_nan() || spread <= 1e-9 {
            return None;
        }
        let b_us = together / spread;
        Some(Self { a_us: mean_us - b_us * mean_n, b_us })
    }

    /// What the line says for so many takes.
    pub(super) fn at(self, takes: f64) -> f64 {
        self.a_us + self.b_us * takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_give_that_line() {
        let fit = Fit::through(&[(16.0, 248.0), (64.0, 392.0), (512.0, 1_736.0)]).unwrap();
        assert!((fit.a_us - 200.0).abs() < 1e-6 && (fit.b_us - 3.0).abs() < 1e-9, "{fit:?}");
        assert!((fit.at(100.0) - 500.0).abs() < 1e-6, "{fit:?}");
    }

    #[test]
    fn errors_to_either_side_cancel_out() {
        let points = [(1.0, 9.0), (1.0, 13.0), (3.0, 29.0), (3.0, 33.0)];
        let fit = Fit::through(&points).unwrap();
        assert!((fit.a_us - 1.0).abs() < 1e-6 && (fit.b_us - 10.0).abs() < 1e-6, "{fit:?}");
    }

    #[test]
    fn batches_of_one_size_or_none_say_nothing() {
        assert_eq!(Fit::through(&[]), None);
        assert_eq!(Fit::through(&[(7.0, 1.0), (7.0, 3.0)]), None);
    }
}

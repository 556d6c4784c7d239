//! What is said of repeated measurements: means with 95 % intervals, medians.

/// A figure over repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean of simulated repetitions, the median of live ones.
    pub value: f64,
    /// Lower end: of the 95 % interval of the mean, or the least of live repetitions.
    pub low: f64,
    /// Upper end, likewise.
    pub high: f64,
    /// Repetitions.
    pub count: usize,
}

impl Estimate {
    /// The mean and its 95 % interval by Student's t; for independent repetitions. A single value
    /// has an interval without width: nothing is known of its spread.
    ///
    /// Infinite values (never settled, never recovered) make an infinite mean.
    #[must_use]
    pub fn of_mean(values: &[f64]) -> Option<Self> {
        let count = values.len();
        let mean = mean(values)?;
        if count < 2 || !mean.is_finite() {
            return Some(Self { value: mean, low: mean, high: mean, count });
        }
        #[expect(clippy::cast_precision_loss, reason = "a number of repetitions")]
        let n = count as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let half = student_t_975(count - 1) * (variance / n).sqrt();
        Some(Self { value: mean, low: mean - half, high: mean + half, count })
    }

    /// The median and the extremes; for few live repetitions, among which one may be disturbed.
    #[must_use]
    pub fn of_median(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let value = if sorted.len().is_multiple_of(2) && sorted[middle].is_finite() {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { value, low, high, count: sorted.len() })
    }
}

impl Estimate {
    /// The same figure in units of `divisor`.
    #[must_use]
    pub fn over(self, divisor: f64) -> Self {
        Self { value: self.value / divisor, low: self.low / divisor, high: self.high / divisor, ..self }
    }

    /// The mean of several figures; its interval is as wide as theirs are in the mean, which is never
    /// too narrow.
    #[must_use]
    pub fn mean_of(estimates: &[Self]) -> Option<Self> {
        let of = |field: fn(&Self) -> f64| mean(&estimates.iter().map(field).collect::<Vec<_>>());
        Some(Self {
            value: of(|e| e.value)?,
            low: of(|e| e.low)?,
            high: of(|e| e.high)?,
            count: estimates.iter().map(|e| e.count).min()?,
        })
    }
}

/// The arithmetic mean; `None` of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a number of repetitions")]
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The 97.5 % quantile of Student's t: exact for few degrees of freedom, from there the expansion in
/// powers of 1/ν around the normal quantile (Abramowitz & Stegun 26.7.5), whose error is under 0.001.
fn student_t_975(degrees: usize) -> f64 {
    const FEW: [f64; 10] = [f64::INFINITY, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
    if let Some(exact) = FEW.get(degrees) {
        return *exact;
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of repetitions")]
    let v = degrees as f64;
    let z: f64 = 1.959_964;
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * v)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * v * v)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * v.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_t_agrees_with_printed_tables() {
        for (degrees, printed) in [(1, 12.706), (9, 2.262), (10, 2.228), (29, 2.045), (100, 1.984)] {
            let found = student_t_975(degrees);
            assert!((found - printed).abs() < 0.001, "{degrees}: {found}");
        }
    }

    #[test]
    fn an_interval_of_five_values_by_hand() {
        let found = Estimate::of_mean(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        // Variance 2.5, standard error 0.7071, times 2.776.
        assert!((found.value - 3.0).abs() < 1e-12 && (found.high - 4.963).abs() < 0.001, "{found:?}");
        assert_eq!(Estimate::of_mean(&[]), None);
        assert_eq!(Estimate::of_mean(&[7.0]).unwrap().low, 7.0);
        assert_eq!(Estimate::of_mean(&[1.0, f64::INFINITY]).unwrap().value, f64::INFINITY);
    }

    #[test]
    fn a_median_is_not_swayed_by_one_disturbed_repetition() {
        let found = Estimate::of_median(&[9.0, 1.0, 1.2, 1.1, 1.3]).unwrap();
        assert_eq!((found.value, found.low, found.high), (1.2, 1.0, 9.0));
        assert_eq!(Estimate::of_median(&[1.0, 2.0]).unwrap().value, 1.5);
        assert_eq!(Estimate::of_median(&[1.0, f64::INFINITY]).unwrap().value, f64::INFINITY);
    }
}

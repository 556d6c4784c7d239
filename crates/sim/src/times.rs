//! A distribution of times: percentiles to three digits, the mean exact.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Microseconds in an hour: longer ones count as that long in percentiles.
const LONGEST: u64 = 3_600_000_000;

/// Times that were measured. Takes no memory until the first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// In microseconds.
    histogram: Option<Box<Histogram<u64>>>,
    sum_ns: u128,
    max: Duration,
    count: u64,
}

impl Times {
    /// Adds one.
    pub fn record(&mut self, time: Duration) {
        let nanos = time.as_nanos();
        let micros = u64::try_from(nanos / 1_000).unwrap_or(u64::MAX).clamp(1, LONGEST);
        self.histogram.get_or_insert_with(empty).saturating_record(micros);
        self.sum_ns += nanos;
        self.max = self.max.max(time);
        self.count += 1;
    }

    /// Number of values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; `None` without values.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum_ns.checked_div(u128::from(self.count))?;
        Some(Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// The time within which a share `q` (0 to 1) of them lies, to three digits and a microsecond; `None`
    /// without values.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let histogram = self.histogram.as_ref()?;
        Some(Duration::from_micros(histogram.value_at_quantile(q)).min(self.max))
    }

    /// The longest.
    #[must_use]
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// Adds another's values.
    pub fn add(&mut self, other: &Self) {
        if let Some(theirs) = &other.histogram {
            let added = self.histogram.get_or_insert_with(empty).add(theirs.as_ref());
            debug_assert!(added.is_ok(), "both have the same bounds");
        }
        self.sum_ns += other.sum_ns;
        self.max = self.max.max(other.max);
        self.count += other.count;
    }
}

fn empty() -> Box<Histogram<u64>> {
    Box::new(Histogram::new_with_bounds(1, LONGEST, 3).expect("bounds as the crate wants them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_exact_and_percentiles_to_three_digits() {
        let mut times = Times::default();
        assert_eq!((times.mean(), times.quantile(0.5)), (None, None));
        for ms in 1..=1000 {
            times.record(Duration::from_millis(ms));
        }
        assert_eq!(times.mean(), Some(Duration::from_micros(500_500)));
        let median = times.quantile(0.5).unwrap().as_secs_f64();
        assert!((median / 0.5 - 1.0).abs() < 0.002, "{median}");
        let mut twice = times.clone();
        twice.add(&times);
        assert_eq!((twice.count(), twice.mean(), twice.max()), (2000, times.mean(), Duration::from_secs(1)));
        times.record(Duration::from_secs(1_000_000));
        assert_eq!(times.max(), Duration::from_secs(1_000_000));
    }
}

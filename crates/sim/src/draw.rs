//! Distributions of times and costs: what a [`Draw`] can be, its moments, and one value of it.

use std::time::Duration;

use crate::Random;

/// A distribution of non-negative numbers; of times, seconds.
///
/// ```
/// use tidegate_sim::{Draw, Random};
///
/// let work = Draw::Pareto { shape: 2.0, min: 1.0, max: 2.0 };
/// // The bounded Pareto's mean: shape / (shape - 1) · (min - min²/max) / (1 - (min/max)²)
/// assert!((work.mean() - 2.0 * 0.5 / 0.75).abs() < 1e-12);
/// let value = work.sample(&mut Random::new(1, "work"));
/// assert!((1.0..=2.0).contains(&value));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Draw {
    /// Always the same.
    Constant(f64),
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: f64,
    },
    /// Uniform.
    Uniform {
        /// The lowest value.
        low: f64,
        /// The highest value.
        high: f64,
    },
    /// Lognormal.
    LogNormal {
        /// Its mean.
        mean: f64,
        /// Standard deviation over mean.
        cv: f64,
    },
    /// Pareto cut off at both ends: `P(X > x) ∝ x^-shape` between them.
    Pareto {
        /// The exponent, over 0. Below 2 the tail is heavy.
        shape: f64,
        /// The lowest value, over 0.
        min: f64,
        /// The highest value.
        max: f64,
    },
    /// One of these values, each as likely: a measured sample.
    Empirical(Vec<f64>),
}

impl Draw {
    /// Always nothing.
    pub const ZERO: Self = Self::Constant(0.0);

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.moment(1.0)
    }

    /// The distribution of values so many times as large.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        match *self {
            Self::Constant(value) => Self::Constant(value * factor),
            Self::Exponential { mean } => Self::Exponential { mean: mean * factor },
            Self::Uniform { low, high } => Self::Uniform { low: low * factor, high: high * factor },
            Self::LogNormal { mean, cv } => Self::LogNormal { mean: mean * factor, cv },
            Self::Pareto { shape, min, max } => Self::Pareto { shape, min: min * factor, max: max * factor },
            Self::Empirical(ref values) => {
                Self::Empirical(values.iter().map(|value| value * factor).collect())
            }
        }
    }

    /// The mean of the square.
    #[must_use]
    pub fn second_moment(&self) -> f64 {
        self.moment(2.0)
    }

    /// A value.
    pub fn sample(&self, random: &mut Random) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Exponential { mean } => mean * random.exponential(),
            Self::Uniform { low, high } => low + (high - low) * random.unit(),
            Self::LogNormal { mean, cv } => {
                let variance = libm::log1p(cv * cv);
                mean * libm::exp(libm::sqrt(variance) * random.normal() - variance / 2.0)
            }
            Self::Pareto { shape, min, max } => {
                // Inversion of F(x) = (1 - (min/x)^a) / (1 - (min/max)^a).
                let cut = libm::pow(min / max, shape);
                min * libm::pow(1.0 - random.unit() * (1.0 - cut), -1.0 / shape)
            }
            Self::Empirical(ref values) if values.is_empty() => 0.0,
            Self::Empirical(ref values) => random.pick(values),
        }
    }

    /// A value in seconds as a span of time, to the nanosecond.
    pub fn span(&self, random: &mut Random) -> Duration {
        seconds(self.sample(random))
    }

    /// What is wrong with its parameters, if anything is.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let fine = |value: f64| value.is_finite() && (0.0..=1e9).contains(&value);
        let sound = match *self {
            Self::Constant(value) => fine(value),
            Self::Exponential { mean } => fine(mean),
            Self::Uniform { low, high } => fine(low) && fine(high) && low <= high,
            Self::LogNormal { mean, cv } => fine(mean) && fine(cv),
            Self::Pareto { shape, min, max } => {
                fine(shape) && fine(min) && fine(max) && shape > 0.0 && min > 0.0 && min < max
            }
            Self::Empirical(ref values) => !values.is_empty() && values.iter().all(|value| fine(*value)),
        };
        (!sound).then_some("parameters must be finite, not negative, and in order")
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of values")]
    fn moment(&self, k: f64) -> f64 {
        let power = |value: f64| if k > 1.0 { value * value } else { value };
        match *self {
            Self::Constant(value) => power(value),
            Self::Exponential { mean } => k * power(mean),
            Self::Uniform { low, high } if k > 1.0 => (low * low + low * high + high * high) / 3.0,
            Self::Uniform { low, high } => f64::midpoint(low, high),
            Self::LogNormal { mean, cv } if k > 1.0 => mean * mean * (1.0 + cv * cv),
            Self::LogNormal { mean, .. } => mean,
            Self::Pareto { shape, min, max } => {
                let cut = 1.0 - libm::pow(min / max, shape);
                if (shape - k).abs() < 1e-9 {
                    shape * libm::pow(min, k) * libm::log(max / min) / cut
                } else {
                    let ends = libm::pow(min, k) - libm::pow(min, shape) * libm::pow(max, k - shape);
                    shape / (shape - k) * ends / cut
                }
            }
            Self::Empirical(ref values) => {
                values.iter().map(|value| power(*value)).sum::<f64>() / (values.len() as f64).max(1.0)
            }
        }
    }
}

/// Seconds as a span of time; what is negative or no number is nothing, what is too long is 10⁹ s.
pub(crate) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.clamp(0.0, 1e9)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_the_moments_that_are_said() {
        let draws = [
            Draw::Constant(0.3),
            Draw::Exponential { mean: 0.4 },
            Draw::Uniform { low: 0.1, high: 0.5 },
            Draw::LogNormal { mean: 2.0, cv: 0.8 },
            Draw::Pareto { shape: 1.5, min: 0.1, max: 2.0 },
            Draw::Pareto { shape: 2.0, min: 0.1, max: 2.0 },
            Draw::Pareto { shape: 1.0, min: 0.1, max: 2.0 },
            Draw::Empirical(vec![0.1, 0.2, 0.6]),
        ];
        for draw in draws {
            let mut random = Random::new(11, "draws");
            let n = 100_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..n {
                let value = draw.sample(&mut random);
                sum += value;
                squares += value * value;
            }
            let (mean, square) = (sum / n as f64, squares / n as f64);
            assert!((mean / draw.mean() - 1.0).abs() < 0.02, "{draw:?}: mean {mean}, said {}", draw.mean());
            assert!(
                (square / draw.second_moment() - 1.0).abs() < 0.05,
                "{draw:?}: square {square}, said {}",
                draw.second_moment()
            );
            assert_eq!(draw.fault(), None);
        }
        assert!(Draw::Constant(f64::NAN).fault().is_some());
        assert!(Draw::Pareto { shape: 1.0, min: 0.0, max: 1.0 }.fault().is_some());
        assert!(Draw::Empirical(vec![]).fault().is_some());
    }
}

//! Gradient2: the limit follows the ratio of the unloaded to the present response time, plus room to grow.
//!
//! ```text
//! gradient = max(0.5, min(1, 1.5 · baseline / response) − dropped / 2)
//! target   = gradient · L + max(1, √L / 2)
//! L        ← (L + target) / 2
//! ```
//!
//! `response` is the mean of a window, `dropped` its share of drops, 1.5 the tolerance: so much slower
//! than unloaded is no sign of a queue.
//!
//! Source: Netflix concurrency-limits, `Gradient2Limit`. Deviations:
//!
//! 1. Drops are read. The original receives `didDrop` and never looks at it.
//! 2. The long-term response time is the baseline of lightly loaded exchanges, refreshed by probes
//!    ([`super::baseline`]). The original's is an average of all exchanges; while overload lasts
//!    it takes over the queue's own delay, the gradient returns to 1, and the limit creeps up.
//! 3. The limit grows only while it keeps something waiting (their PR #134), and shrinks only if at
//!    least half of it was in use; the original asks for half in both cases.
//! 4. A step is taken once a window of exchanges that felt the present limit ([`super::window`]) and
//!    goes half the way; the original goes a fifth of it, for every exchange or every second.
//! 5. Room to grow is max(1, √L/2) instead of 4: on a single worker 4 is a standing queue of 4.
//! 6. The tolerance is in the formula; the original documents it and (in 2018–2019) has lost it.
//!
//! On one worker of even work it settles where `L (1 − 1.5/L) = 1`, at 2 to 3 in flight; on n workers near
//! `1.5 n + √n`.

use super::{Limit, LimitBounds, Sample, windowed::Windowed};

const TOLERANCE: f64 = 1.5;
const GRADIENT_MIN: f64 = 0.5;

/// Gradient of response times. When time stands still response times are 0 and it grows to its maximum
/// while the limit is in use; when time jumps, one window's mean is off and the gradient's lower bound
/// keeps the step within a quarter. O(1), one square root a window.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{ClassId, Timestamp, admission::Outcome, limit::{Gradient2, Limit, LimitBounds, Sample}};
///
/// let mut gradient = Gradient2::new(LimitBounds { initial: 16, min: 1, max: 100 });
/// let mut sample = Sample {
///     now: Timestamp::from_nanos(1_000_000_000),
///     class: ClassId(0),
///     response_time: Duration::from_millis(16),
///     in_flight: 1,
///     limit_utilised: false,
///     outcome: Outcome::Success,
///     weight: 1,
/// };
/// // Light exchanges: the baseline is 16 ms. The limit was not the constraint: it stays.
/// (0..16).for_each(|_| gradient.sample(&sample));
/// assert_eq!(gradient.limit(), 16);
/// // A window of drops: gradient 0.5, target 0.5 · 16 + √16/2 = 10, half the way from 16 is 13.
/// sample.outcome = Outcome::Drop;
/// sample.in_flight = 8;
/// sample.now = sample.now + Duration::from_millis(16);
/// (0..16).for_each(|_| gradient.sample(&sample));
/// assert_eq!(gradient.limit(), 13);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient2 {
    limit: Windowed,
}

impl Gradient2 {
    /// Starts at `bounds.initial`.
    #[must_use]
    pub fn new(bounds: LimitBounds) -> Self {
        Self { limit: Windowed::new(bounds) }
    }

    /// The gradient of the formula at the head of this file.
    fn gradient(slowdown: f64, dropped: f64) -> f64 {
        ((TOLERANCE / slowdown).min(1.0) - dropped / 2.0).max(GRADIENT_MIN)
    }
}

impl Limit for Gradient2 {
    fn limit(&self) -> u32 {
        self.limit.limit()
    }

    fn sample(&mut self, sample: &Sample) {
        let Some(summary) = self.limit.sample(sample) else { return };
        let limit = self.limit.get();
        let slowdown = match (self.limit.baseline(), summary.response_ns) {
            (Some(baseline), Some(response)) => response / baseline.max(1.0),
            _ => 1.0,
        };
        let gradient = Self::gradient(slowdown, summary.dropped);
        let target = gradient * limit + (limit.sqrt() / 2.0).max(1.0);
        let may =
            if target > limit { summary.utilised } else { f64::from(summary.in_flight_max) * 2.0 >= limit };
        if may {
            self.limit.set(f64::midpoint(limit, target));
        }
    }

    fn set_bounds(&mut self, bounds: LimitBounds) {
        self.limit.set_bounds(bounds);
    }
}

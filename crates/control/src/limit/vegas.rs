//! Vegas: keeps the queue at the server, estimated from response times, between two bounds.
//!
//! ```text
//! queue = ⌈L · (1 − baseline / response)⌉        s = max(1, ⌊log10 L⌋)
//! dropped:       L ← L − s
//! queue ≤ s:     L ← L + 6s      if the limit kept something waiting
//! queue < 3s:    L ← L + s       if the limit kept something waiting
//! queue > 6s:    L ← L − s
//! ```
//!
//! Source: Brakmo & Peterson, "TCP Vegas", 1995; Netflix concurrency-limits, `VegasLimit`. Deviations from
//! the latter:
//!
//! 1. One step a window of exchanges that felt the present limit ([`super::window`]), as TCP Vegas does
//!    once a round trip, not one an exchange; so a step is felt before the next.
//! 2. The baseline is the mean of lightly loaded exchanges and refreshed by probes
//!    ([`super::baseline`]). The original takes a minimum and now and then replaces it by the present, queued,
//!    response time, so that its limit creeps up while overload lasts.
//! 3. It grows only while the limit keeps something waiting, not from half its use on (their PR #134).
//! 4. No jitter: probes are spaced by time.

use super::{Limit, LimitBounds, Sample, windowed::Windowed};

/// TCP Vegas on response times. When time stands still response times are 0 and it grows to its maximum
/// while the limit is in use. O(1), one logarithm a window.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{ClassId, Timestamp, admission::Outcome, limit::{Limit, LimitBounds, Sample, Vegas}};
///
/// let mut vegas = Vegas::new(LimitBounds { initial: 10, min: 1, max: 100 });
/// let mut sample = Sample {
///     now: Timestamp::from_nanos(1_000_000_000),
///     class: ClassId(0),
///     response_time: Duration::from_millis(16),
///     in_flight: 1,
///     limit_utilised: false,
///     outcome: Outcome::Success,
///     weight: 1,
/// };
/// // Ten light exchanges of 16 ms: the baseline. The limit was not the constraint: it stays.
/// (0..10).for_each(|_| vegas.sample(&sample));
/// assert_eq!(vegas.limit(), 10);
/// // Ten drops: one step down, s = log10(10) = 1.
/// sample.outcome = Outcome::Drop;
/// sample.now = sample.now + Duration::from_millis(16);
/// (0..10).for_each(|_| vegas.sample(&sample));
/// assert_eq!(vegas.limit(), 9);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Vegas {
    limit: Windowed,
}

impl Vegas {
    /// Starts at `bounds.initial`.
    #[must_use]
    pub fn new(bounds: LimitBounds) -> Self {
        Self { limit: Windowed::new(bounds) }
    }

    /// The formula at the head of this file: one window's new limit.
    fn step(limit: f64, baseline: f64, response: f64, utilised: bool) -> f64 {
        let step = step_size(limit);
        let queue = (limit * (1.0 - baseline / response.max(1.0))).ceil();
        if queue > 6.0 * step {
            limit - step
        } else if utilised && queue <= step {
            limit + 6.0 * step
        } else if utilised && queue < 3.0 * step {
            limit + step
        } else {
            limit
        }
    }
}

impl Limit for Vegas {
    fn limit(&self) -> u32 {
        self.limit.limit()
    }

    fn sample(&mut self, sample: &Sample) {
        let Some(summary) = self.limit.sample(sample) else { return };
        let limit = self.limit.get();
        let changed = if summary.dropped > 0.0 {
            limit - step_size(limit)
        } else if let (Some(baseline), Some(response)) = (self.limit.baseline(), summary.response_ns) {
            Self::step(limit, baseline, response, summary.utilised)
        } else {
            return;
        };
        self.limit.set(changed);
    }

    fn set_bounds(&mut self, bounds: LimitBounds) {
        self.limit.set_bounds(bounds);
    }
}

fn step_size(limit: f64) -> f64 {
    limit.log10().floor().max(1.0)
}

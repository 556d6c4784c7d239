//! AIMD: the limit grows by one a turnover while exchanges succeed and shrinks by a tenth when one is dropped.
//!
//! ```text
//! success, limit utilised:  L ← L + w / L
//! drop:                     L ← min(L − 1, 0.9 · L), once for all exchanges in flight at that moment
//! ```
//!
//! Source: Chiu & Jain, 1989; Netflix concurrency-limits, `AIMDLimit`. Deviations from the latter:
//!
//! 1. It grows by one for a limit's worth of weight, as TCP does a round trip, not for every exchange.
//! 2. It grows only while the limit keeps something waiting, not from half its use on.
//! 3. A burst of drops from one overload counts once: what started before a decrease causes no other.
//! 4. It has no timeout of its own; what timed out is a drop already.

use super::{Limit, LimitBounds, Sample, whole};
use crate::{Timestamp, admission::Outcome};

const BACKOFF: f64 = 0.9;

/// Additive increase, multiplicative decrease. Depends on time only to tell what started before the
/// last decrease. O(1).
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{ClassId, Timestamp, admission::Outcome, limit::{Aimd, Limit, LimitBounds, Sample}};
///
/// let mut aimd = Aimd::new(LimitBounds { initial: 20, min: 1, max: 100 });
/// let mut sample = Sample {
///     now: Timestamp::from_nanos(1_000_000_000),
///     class: ClassId(0),
///     response_time: Duration::from_millis(16),
///     in_flight: 20,
///     limit_utilised: true,
///     outcome: Outcome::Success,
///     weight: 20,
/// };
/// aimd.sample(&sample); // 20 + 20/20
/// assert_eq!(aimd.limit(), 21);
/// sample.outcome = Outcome::Drop;
/// aimd.sample(&sample); // min(20, 18.9)
/// assert_eq!(aimd.limit(), 18);
/// aimd.sample(&sample); // it was in flight at the decrease
/// assert_eq!(aimd.limit(), 18);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Aimd {
    bounds: LimitBounds,
    limit: f64,
    decreased: Option<Timestamp>,
}

impl Aimd {
    /// Starts at `bounds.initial`.
    #[must_use]
    pub fn new(bounds: LimitBounds) -> Self {
        Self { bounds, limit: bounds.clamp(f64::from(bounds.initial)), decreased: None }
    }
}

impl Limit for Aimd {
    fn limit(&self) -> u32 {
        whole(self.limit)
    }

    fn sample(&mut self, sample: &Sample) {
        let changed = match sample.outcome {
            Outcome::Success if sample.limit_utilised => self.limit + f64::from(sample.weight) / self.limit,
            Outcome::Drop if self.decreased.is_none_or(|moment| sample.started() >= moment) => {
                self.decreased = Some(sample.now);
                (self.limit - 1.0).min(self.limit * BACKOFF)
            }
            _ => return,
        };
        self.limit = self.bounds.clamp(changed);
    }

    fn set_bounds(&mut self, bounds: LimitBounds) {
        self.bounds = bounds;
        self.limit = bounds.clamp(self.limit);
    }
}

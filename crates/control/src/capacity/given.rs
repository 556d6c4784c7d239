//! Given capacity: as told by hand, by the API, or by an estimator outside, as long as that is valid.

use std::time::Duration;

use super::CapacityBounds;
use crate::Timestamp;

/// A capacity somebody has told, in force until it expires or is told anew. While it is in force an estimate
/// is neither above nor below it; afterwards the estimate holds again, so that an estimator that has
/// died does not govern for ever. O(1).
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{Timestamp, capacity::{CapacityBounds, Given}};
///
/// let now = Timestamp::from_nanos(1_000_000_000);
/// let given = Given::new(now, 80.0, Some(Duration::from_secs(10)));
/// let found = CapacityBounds { floor: Some(20.0), ceiling: None };
/// assert_eq!(given.bounds(now, found), CapacityBounds::exactly(80.0));
/// assert_eq!(given.bounds(now + Duration::from_secs(10), found), found);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Given {
    per_s: f64,
    until: Timestamp,
}

impl Given {
    /// `per_s` requests a second (work units where classes differ in cost), for `valid_for` from `now`, or until told otherwise.
    #[must_use]
    pub fn new(now: Timestamp, per_s: f64, valid_for: Option<Duration>) -> Self {
        Self { per_s, until: valid_for.map_or(Timestamp::FAR_FUTURE, |span| now + span) }
    }

    /// What was told, if it is still in force.
    #[must_use]
    pub fn per_s(&self, now: Timestamp) -> Option<f64> {
        (now < self.until).then_some(self.per_s)
    }

    /// The bounds in force: the given capacity itself, or `others` once it has expired.
    #[must_use]
    pub fn bounds(&self, now: Timestamp, others: CapacityBounds) -> CapacityBounds {
        self.per_s(now).map_or(others, CapacityBounds::exactly)
    }

    /// When it expires.
    #[must_use]
    pub const fn until(&self) -> Timestamp {
        self.until
    }
}

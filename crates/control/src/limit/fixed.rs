//! The fixed limit: as set by hand.

use super::{Limit, LimitBounds, Sample};

/// `in_flight.limit`, whatever happens. Neither `min` nor `max` bounds it. O(1).
///
/// ```
/// use tidegate_control::limit::{Fixed, Limit, LimitBounds};
///
/// let limit = Fixed::new(LimitBounds { initial: 8, min: 1, max: 4 });
/// assert_eq!(limit.limit(), 8);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    limit: u32,
}

impl Fixed {
    /// The limit of `bounds.initial`.
    #[must_use]
    pub fn new(bounds: LimitBounds) -> Self {
        Self { limit: bounds.initial.max(1) }
    }
}

impl Limit for Fixed {
    fn limit(&self) -> u32 {
        self.limit
    }

    fn sample(&mut self, _: &Sample) {}

    fn set_bounds(&mut self, bounds: LimitBounds) {
        self.limit = bounds.initial.max(1);
    }
}

//! In-flight accounting in weight units: `R0` of Dyachuk & Deters.
//!
//! Source: Dyachuk & Deters, "A Solution to Resource Underutilization for Web
//! Services Hosted in the Cloud", OTM 2009, section 4: the algorithm of the
//! dispatcher: `R` starts at the server's capacity `R0`; a start takes its weight, `R ← R − w`; a
//! departure gives it back, `R ← R + w`; a request of top priority starts whatever `R` is, so `R` may
//! go negative; any other starts if `w ≤ R`. Deviations:
//!
//! 1. `R0` may change while running. `R` is therefore derived, `R0 − in flight`, not kept.
//! 2. A request heavier than the whole of `R0` starts when nothing else is in flight; by the paper's
//!    rule it would wait for ever.
//! 3. A class may have a bound of its own under the same rules, within the application's.
//! 4. A limit may be 0, where a holder's share of it is nothing ([`crate::share`]): then only the top
//!    priority starts, and deviation 2 does not hold.

use crate::ClassId;

/// The top priority, which waits for nothing.
pub const TOP_PRIORITY: u8 = 7;

/// Weight in flight, of the application and of each class. Every call is O(1).
///
/// ```
/// use tidegate_control::{ClassId, in_flight::InFlight};
///
/// let class = ClassId(0);
/// let mut ledger = InFlight::new(10, 1); // R0 = 10
/// ledger.take(class, 8); // R = 2
/// assert!(ledger.fits(2, 3) && !ledger.fits(3, 3));
/// assert!(ledger.fits(3, 7)); // the top priority passes
/// ledger.take(class, 3); // R = -1
/// assert_eq!(ledger.room(), Some(-1));
/// ledger.give_back(class, 8); // R = 7
/// assert!(ledger.fits(7, 3) && !ledger.fits(11, 3));
/// ledger.give_back(class, 3); // nothing in flight: even 11 may start
/// assert!(ledger.fits(11, 3));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    limit: Option<u32>,
    total: u64,
    classes: Vec<u64>,
    started: Vec<u64>,
}

impl InFlight {
    /// Nothing in flight under `limit` weight units, with `classes` classes.
    #[must_use]
    pub fn new(limit: u32, classes: usize) -> Self {
        Self { limit: Some(limit), total: 0, classes: vec![0; classes], started: vec![0; classes] }
    }

    /// Sets `R0`; `None`: there is no limit. What is in flight stays.
    pub const fn set_limit(&mut self, limit: Option<u32>) {
        self.limit = limit;
    }

    /// `R0`, weight units; `None`: there is no limit.
    #[must_use]
    pub const fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// Makes room for classes up to `classes` in number.
    pub fn grow(&mut self, classes: usize) {
        if classes > self.classes.len() {
            self.classes.resize(classes, 0);
            self.started.resize(classes, 0);
        }
    }

    /// Whether a request of this weight and priority may start under the application's limit.
    #[must_use]
    pub fn fits(&self, weight: u32, priority: u8) -> bool {
        self.limit.is_none_or(|limit| fits(self.total, limit, weight, priority))
    }

    /// Whether it may start under a bound of its class.
    #[must_use]
    pub fn fits_class(&self, class: ClassId, max: u32, weight: u32, priority: u8) -> bool {
        fits(self.class(class), max, weight, priority)
    }

    /// A start: `R ← R − w`.
    pub fn take(&mut self, class: ClassId, weight: u32) {
        self.total += u64::from(weight);
        if let Some(sum) = self.classes.get_mut(class.index()) {
            *sum += u64::from(weight);
        }
        if let Some(count) = self.started.get_mut(class.index()) {
            *count += 1;
        }
    }

    /// A departure: `R ← R + w`.
    pub fn give_back(&mut self, class: ClassId, weight: u32) {
        debug_assert!(self.total >= u64::from(weight), "more weight given back than was taken");
        self.total = self.total.saturating_sub(u64::from(weight));
        if let Some(sum) = self.classes.get_mut(class.index()) {
            *sum = sum.saturating_sub(u64::from(weight));
        }
    }

    /// Weight in flight.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Weight of a class in flight.
    #[must_use]
    pub fn class(&self, class: ClassId) -> u64 {
        self.classes.get(class.index()).copied().unwrap_or(0)
    }

    /// Weight in flight, dense by class.
    #[must_use]
    pub fn classes(&self) -> &[u64] {
        &self.classes
    }

    /// Exchanges ever started, dense by class.
    #[must_use]
    pub fn started(&self) -> &[u64] {
        &self.started
    }

    /// `R`: what is left of the limit, if there is one; negative when the top priority has passed it or the limit fell.
    #[must_use]
    pub fn room(&self) -> Option<i64> {
        Some(i64::from(self.limit?) - i64::try_from(self.total).unwrap_or(i64::MAX))
    }

    /// Panics unless the classes' weights add up.
    pub fn check_invariants(&self) {
        assert_eq!(self.total, self.classes.iter().sum::<u64>(), "in flight is the sum over the classes");
    }
}

fn fits(total: u64, limit: u32, weight: u32, priority: u8) -> bool {
    priority >= TOP_PRIORITY || (limit > 0 && (total == 0 || total + u64::from(weight) <= u64::from(limit)))
}

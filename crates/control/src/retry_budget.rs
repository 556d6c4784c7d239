//! Retry budget: retries as a share of the requests of the last ten seconds.
//!
//! A retry is allowed while `retries < max(1, ⌊ratio · requests⌋)`, both counted over the last 10 s.
//!
//! Source: Finagle's `RetryBudget` and linkerd's `retryBudget` (a ratio over a window, with a reserve).
//! Deviations:
//!
//! 1. The window is ten whole seconds of a dense ring, not a leaky sum: exact counts, no float.
//! 2. The reserve is one retry a window instead of ten a second, so that a lone request may be tried
//!    again while a fleet of them cannot double its load. With ratio 0 there is no reserve.
//! 3. Only what may have reached a server asks: what was not sent goes to another without a budget, since no server has
//!    more to do by it.

use crate::Timestamp;

const SECONDS: usize = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Second {
    requests: u64,
    retries: u64,
}

/// Counts requests and grants retries.
///
/// - `ratio`: 0 to 1, default 0.2; a value outside is moved to the nearest allowed.
///
/// When time stands still or jumps back, everything counts in the present second; when it jumps ahead
/// by the window or more, all is forgotten. O(1) in traffic; a sum of ten numbers a retry.
///
/// ```
/// use tidegate_control::{Timestamp, retry_budget::RetryBudget};
///
/// let at = |s: u64| Timestamp::from_nanos(s * 1_000_000_000);
/// let mut budget = RetryBudget::new(0.2);
/// for _ in 0..10 {
///     budget.request(at(1));
/// }
/// // 0.2 · 10 = 2 retries.
/// assert!(budget.try_retry(at(2)) && budget.try_retry(at(3)) && !budget.try_retry(at(4)));
/// // At 11 s the requests of second 1 are forgotten: only the reserve of 1 is left, and it is used.
/// assert!(!budget.try_retry(at(11)));
/// // At 13 s so are both retries.
/// assert!(budget.try_retry(at(13)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RetryBudget {
    ratio: f64,
    seconds: [Second; SECONDS],
    /// The present second since the epoch.
    present: u64,
}

impl RetryBudget {
    /// A budget without history.
    #[must_use]
    pub fn new(ratio: f64) -> Self {
        Self { ratio: ratio.clamp(0.0, 1.0), seconds: [Second::default(); SECONDS], present: 0 }
    }

    /// Changes the ratio; the history stays.
    pub fn set_ratio(&mut self, ratio: f64) {
        self.ratio = ratio.clamp(0.0, 1.0);
    }

    /// Counts a first try.
    pub fn request(&mut self, now: Timestamp) {
        self.second(now).requests += 1;
    }

    /// Whether one more retry fits the budget; counts it if so.
    #[must_use]
    pub fn try_retry(&mut self, now: Timestamp) -> bool {
        self.second(now);
        let requests: u64 = self.seconds.iter().map(|second| second.requests).sum();
        let retries: u64 = self.seconds.iter().map(|second| second.retries).sum();
        let allowed = if self.ratio > 0.0 { self.share(requests).max(1) } else { 0 };
        let fits = retries < allowed;
        if fits {
            self.second(now).retries += 1;
        }
        fits
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "requests of ten seconds are far below 2^53, and the ratio is in 0..=1"
    )]
    fn share(&self, requests: u64) -> u64 {
        (self.ratio * requests as f64) as u64
    }

    /// The present second's counts, with what is older than the window forgotten.
    fn second(&mut self, now: Timestamp) -> &mut Second {
        let second = now.as_nanos() / 1_000_000_000;
        let passed = second.saturating_sub(self.present).min(SECONDS as u64);
        self.present = self.present.max(second);
        for ago in 0..passed {
            self.seconds[Self::slot(self.present - ago)] = Second::default();
        }
        &mut self.seconds[Self::slot(self.present)]
    }

    fn slot(second: u64) -> usize {
        usize::try_from(second % SECONDS as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Beside a list of everything that ever happened.
        #[test]
        fn as_the_naive_budget(
            ratio in 0.0..=1.0_f64,
            steps in prop::collection::vec((0_u64..3_000_000_000, any::<bool>()), 1..200),
        ) {
            let mut budget = RetryBudget::new(ratio);
            let mut events: Vec<(u64, bool)> = Vec::new();
            let mut now = 20_000_000_000_u64;
            for (step, retry) in steps {
                now += step;
                let second = now / 1_000_000_000;
                let at = Timestamp::from_nanos(now);
                if !retry {
                    budget.request(at);
                    events.push((second, false));
                    continue;
                }
                let count = |kind| events.iter().filter(|e| e.1 == kind && e.0 + 10 > second).count();
                #[expect(clippy::cast_precision_loss, reason = "small counts")]
                let room = (ratio * count(false) as f64).floor().max(if ratio > 0.0 { 1.0 } else { 0.0 });
                #[expect(clippy::cast_precision_loss, reason = "small counts")]
                let allowed = (count(true) as f64) < room;
                prop_assert_eq!(budget.try_retry(at), allowed);
                if allowed {
                    events.push((second, true));
                }
            }
        }
    }

    #[test]
    fn ratio_zero_allows_none() {
        let mut budget = RetryBudget::new(0.0);
        budget.request(Timestamp::EPOCH);
        assert!(!budget.try_retry(Timestamp::EPOCH));
    }
}

//! Token bucket: whether one more event fits a rate, and when the next will.
//!
//! `level(now) = min(burst, level(at) + rate · (now − at))`; an event takes one token.
//!
//! Source: the (r, b) token bucket of RFC 2697 and RFC 1363, used at both ends of a class's queue by
//! MASTH (section 2). Deviations:
//!
//! 1. The arithmetic is in whole numbers: a token is 10¹⁸ units, so that a rate in units per
//!    nanosecond is the rate per second in 10⁻⁹. A thousand small steps of time therefore give
//!    exactly what one large step gives; nothing drifts and nothing is lost to rounding.
//! 2. It is refilled lazily, when it is asked.

use crate::Timestamp;

/// Units of one token: a rate of `r` per second is `r · 10⁹` units per nanosecond.
const TOKEN: u128 = 1_000_000_000_000_000_000;

/// A bucket that gains `rate` tokens per second and holds at most `burst`.
///
/// - `rate`: tokens per second, 10⁻⁹ to 10⁹ (the knobs allow 0.001 and more), kept to 10⁻⁹;
/// - `burst`: tokens, 1 to 10⁹.
///
/// Values outside are moved to the nearest allowed. It starts full. When time stands still it gains
/// nothing; when time jumps back it keeps what it has and waits until time has caught up; when time
/// jumps ahead it is full at most. Every call costs a multiplication of 128 bits.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{Timestamp, token_bucket::TokenBucket};
///
/// let start = Timestamp::from_nanos(1_000_000_000);
/// let mut bucket = TokenBucket::new(start, 4.0, 2.0); // 4 a second, 2 at once
/// assert!(bucket.try_take(start) && bucket.try_take(start) && !bucket.try_take(start));
/// // Empty; at 4/s the next token is there after 250 ms and not a nanosecond before.
/// let next = start + Duration::from_millis(250);
/// assert_eq!(bucket.next(start), next);
/// assert!(!bucket.is_ready(next - Duration::from_nanos(1)));
/// assert!(bucket.try_take(next));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Units per nanosecond.
    rate: u64,
    /// Units at most.
    capacity: u128,
    /// Units held at `at`.
    level: u128,
    at: Timestamp,
}

impl TokenBucket {
    /// A full bucket.
    #[must_use]
    pub fn new(now: Timestamp, rate_per_s: f64, burst: f64) -> Self {
        let capacity = capacity(burst);
        Self { rate: units_per_ns(rate_per_s), capacity, level: capacity, at: now }
    }

    /// Changes rate and burst. What has accrued until `now` accrued at the old rate; what is over the
    /// new burst is lost, and a larger burst has to be filled first.
    pub fn configure(&mut self, now: Timestamp, rate_per_s: f64, burst: f64) {
        self.refill(now);
        self.rate = units_per_ns(rate_per_s);
        self.capacity = capacity(burst);
        self.level = self.level.min(self.capacity);
    }

    /// Whether a token is there.
    #[must_use]
    pub fn is_ready(&mut self, now: Timestamp) -> bool {
        self.refill(now);
        self.level >= TOKEN
    }

    /// Takes a token if one is there.
    #[must_use]
    pub fn try_take(&mut self, now: Timestamp) -> bool {
        let ready = self.is_ready(now);
        if ready {
            self.level -= TOKEN;
        }
        ready
    }

    /// When a token will be there: `now` if one is.
    #[must_use]
    pub fn next(&mut self, now: Timestamp) -> Timestamp {
        if self.is_ready(now) {
            return now;
        }
        let nanos = (TOKEN - self.level).div_ceil(u128::from(self.rate));
        // `at` may be later than `now` if time jumped back.
        Timestamp::from_nanos(self.at.as_nanos().saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// Whole tokens held.
    #[must_use]
    pub fn tokens(&mut self, now: Timestamp) -> u64 {
        self.refill(now);
        u64::try_from(self.level / TOKEN).unwrap_or(u64::MAX)
    }

    fn refill(&mut self, now: Timestamp) {
        if now > self.at {
            // At most 2⁶⁴ · 10¹⁸ + 10²⁷ < 2¹²⁸.
            let gained = u128::from(now.as_nanos() - self.at.as_nanos()) * u128::from(self.rate);
            self.level = (self.level + gained).min(self.capacity);
            self.at = now;
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 1..=10^18; NaN becomes 0"
)]
fn units_per_ns(rate_per_s: f64) -> u64 {
    ((rate_per_s.clamp(0.0, 1e9) * 1e9).round() as u64).max(1)
}

/// The burst in units, kept to a billionth of a token.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 10^9..=10^18; NaN becomes 0"
)]
fn capacity(burst: f64) -> u128 {
    let billionths = (burst.clamp(1.0, 1e9) * 1e9).round() as u64;
    u128::from(billionths.max(1_000_000_000)) * (TOKEN / 1_000_000_000)
}

#[cfg(test)]
mod tests;

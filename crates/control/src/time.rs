//! The one notion of time: nanoseconds since the Unix epoch, monotone within a process.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// A point in time: nanoseconds since the Unix epoch (range: until the year 2554).
///
/// The runtime's clock makes these monotone within one process. Arithmetic saturates, so that a
/// hostile or mistaken duration can never panic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// Later than everything.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The earlier of two moments that may never come.
    #[must_use]
    pub fn earlier(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            _ => one.or(other),
        }
    }

    /// From nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`; zero if `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

/// Nanoseconds of a span, saturating. Without 128 bits: moments are added to several times for each request.
pub(crate) const fn nanos(span: Duration) -> u64 {
    span.as_secs().saturating_mul(1_000_000_000).saturating_add(span.subsec_nanos() as u64)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Timestamp::EPOCH - Duration::MAX, Timestamp::EPOCH);
        assert_eq!(Timestamp::FAR_FUTURE + Duration::MAX, Timestamp::FAR_FUTURE);
        assert_eq!(Timestamp::EPOCH.since(Timestamp::FAR_FUTURE), Duration::ZERO);
    }
}

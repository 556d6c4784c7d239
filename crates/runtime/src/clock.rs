//! The clock: the only place outside tests where the present time is read.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_control::Timestamp;

/// Gives [`Timestamp`]s: anchored once at the wall clock, then driven by the monotonic clock, so
/// that time never runs backwards within a process whatever happens to the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    anchor: Timestamp,
}

impl Clock {
    /// A clock anchored at the present wall-clock time.
    #[must_use]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { start: Instant::now(), anchor: Timestamp::EPOCH + since_epoch }
    }

    /// The present time. Read it after taking a lock, or time runs backwards between cores.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.anchor + self.start.elapsed()
    }

    /// The monotonic instant of `at`, for timers.
    #[must_use]
    pub fn instant(&self, at: Timestamp) -> Instant {
        self.start + at.since(self.anchor)
    }
}

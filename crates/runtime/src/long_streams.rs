//! The bound on upgraded connections and long streams, which hold no weight of the in-flight limit.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_control::{
    Refusal,
    knobs::{Values, keys},
};

use crate::{Inside, Level};

/// Counts and bounds an application's long streams.
#[derive(Debug)]
pub struct LongStreams {
    open: Level,
    max: AtomicU64,
}

impl LongStreams {
    pub(crate) fn new(application: &Values) -> Self {
        Self { open: Level::default(), max: AtomicU64::new(application.get(keys::LONG_STREAMS_MAX)) }
    }

    pub(crate) fn configure(&self, application: &Values) {
        self.max.store(application.get(keys::LONG_STREAMS_MAX), Ordering::Relaxed);
    }

    /// Long streams open.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.read()
    }

    /// Begins a long stream, which ends when dropped.
    ///
    /// # Errors
    ///
    /// [`Refusal::LongStreams`] when as many are open as `long_streams.max` allows.
    pub fn begin(&self) -> Result<Inside, Refusal> {
        self.open.enter_below(self.max.load(Ordering::Relaxed)).ok_or(Refusal::LongStreams)
    }
}

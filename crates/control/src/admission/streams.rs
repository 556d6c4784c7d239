//! The bound of long streams: connections that were upgraded and responses that go on and on.

use super::AdmissionSettings;
use crate::knobs::Mode;

/// Long streams that are open, and how many may be.
#[derive(Clone, Debug)]
pub(super) struct LongStreams {
    mode: Mode,
    max: u64,
    open: u64,
    /// Of those open: they would not be, had what only watches acted.
    beyond: u64,
}

/// What becomes of an exchange that is to go on as a long stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// It is one of those that may be open.
    Within,
    /// It would not be open, had this bound or what else only watches acted.
    Beyond,
}

impl LongStreams {
    pub(super) const fn new(settings: &AdmissionSettings) -> Self {
        Self { mode: settings.long_streams_mode, max: settings.long_streams_max, open: 0, beyond: 0 }
    }

    /// What is open stays open.
    pub(super) const fn configure(&mut self, settings: &AdmissionSettings) {
        (self.mode, self.max) = (settings.long_streams_mode, settings.long_streams_max);
    }

    pub(super) const fn open(&self) -> u64 {
        self.open
    }

    /// Whether one more is refused.
    pub(super) fn refuses(&self) -> bool {
        self.mode == Mode::Enforce && self.open >= self.max
    }

    /// One more is open. `would_refuse`: something else that only watches would have refused it before.
    pub(super) fn begin(&mut self, would_refuse: bool) -> Opened {
        let is_over = self.mode == Mode::Watch && self.open - self.beyond >= self.max;
        self.open += 1;
        if would_refuse || is_over {
            self.beyond += 1;
            return Opened::Beyond;
        }
        Opened::Within
    }

    pub(super) fn end(&mut self, opened: Opened) {
        debug_assert!(self.open > 0, "a stream of another application");
        self.open = self.open.saturating_sub(1);
        self.beyond = match opened {
            Opened::Within => self.beyond,
            Opened::Beyond => self.beyond.saturating_sub(1),
        };
    }
}

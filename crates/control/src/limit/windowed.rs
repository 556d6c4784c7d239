//! A limit that moves once a window of samples: what Vegas and Gradient2 have in common.

use super::{
    LimitBounds, Sample,
    baseline::Baseline,
    whole,
    window::{Summary, Window},
};

/// The limit with its bounds, the window that is being filled and the baseline it is compared to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Windowed {
    bounds: LimitBounds,
    limit: f64,
    baseline: Baseline,
    window: Window,
}

impl Windowed {
    /// Starts at `bounds.initial`.
    pub(super) fn new(bounds: LimitBounds) -> Self {
        Self {
            bounds,
            limit: bounds.clamp(f64::from(bounds.initial)),
            baseline: Baseline::default(),
            window: Window::default(),
        }
    }

    /// The limit in force, weight units: that of a probe while one goes on.
    pub(super) fn limit(&self) -> u32 {
        self.baseline.probe_limit().unwrap_or_else(|| whole(self.limit))
    }

    /// The limit as it was moved last.
    pub(super) const fn get(&self) -> f64 {
        self.limit
    }

    /// Response time of lightly loaded exchanges, nanoseconds; `None` while nothing is known.
    pub(super) fn baseline(&self) -> Option<f64> {
        self.baseline.get()
    }

    /// Learns from an exchange; gives what a window says that is complete with it.
    pub(super) fn sample(&mut self, sample: &Sample) -> Option<Summary> {
        if self.baseline.sample(sample, self.limit, self.bounds.min) {
            self.window.restart(sample.now);
            return None;
        }
        self.window.add(sample, whole(self.limit))
    }

    /// Moves the limit, within its bounds.
    pub(super) fn set(&mut self, limit: f64) {
        self.limit = self.bounds.clamp(limit);
    }

    pub(super) fn set_bounds(&mut self, bounds: LimitBounds) {
        self.bounds = bounds;
        self.set(self.limit);
        self.baseline.set_min(bounds.min);
    }
}

//! A window of samples: exchanges that began after the limit last changed.
//!
//! Only those felt the present limit. A window is complete when ten of them and a limit's worth of
//! weight have ended, so that it lasts a turnover at least.

use super::Sample;
use crate::{Timestamp, admission::Outcome};

const SAMPLES: u32 = 10;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Window {
    began: Timestamp,
    weight: u64,
    /// Nanoseconds, over the successes.
    sum: f64,
    successes: u32,
    drops: u32,
    utilised: u32,
    in_flight_max: u32,
}

/// What a complete window says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    /// Mean response time of the successes, nanoseconds; `None` if all were dropped.
    pub(super) response_ns: Option<f64>,
    /// Share of exchanges dropped.
    pub(super) dropped: f64,
    /// Whether at least half of them saw the limit keep something waiting.
    pub(super) utilised: bool,
    /// Most weight in flight at the start of any.
    pub(super) in_flight_max: u32,
}

impl Window {
    /// Forgets what it has and begins anew.
    pub(super) fn restart(&mut self, now: Timestamp) {
        *self = Self { began: now, ..Self::default() };
    }

    /// Adds a sample; the summary if that completes the window under `limit`, and a new one begins.
    pub(super) fn add(&mut self, sample: &Sample, limit: u32) -> Option<Summary> {
        if sample.started() < self.began {
            return None;
        }
        match sample.outcome {
            Outcome::Success => {
                self.successes += 1;
                self.sum += sample.response_ns();
            }
            Outcome::Drop => self.drops += 1,
            Outcome::Ignore => return None,
        }
        self.weight += u64::from(sample.weight);
        self.utilised += u32::from(sample.limit_utilised);
        self.in_flight_max = self.in_flight_max.max(sample.in_flight);
        let ended = self.successes + self.drops;
        if ended < SAMPLES || self.weight < u64::from(limit) {
            return None;
        }
        let summary = Summary {
            response_ns: (self.successes > 0).then(|| self.sum / f64::from(self.successes)),
            dropped: f64::from(self.drops) / f64::from(ended),
            utilised: self.utilised * 2 >= ended,
            in_flight_max: self.in_flight_max,
        };
        self.restart(sample.now);
        Some(summary)
    }
}

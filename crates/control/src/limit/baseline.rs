//! The baseline: mean response time without queueing, from exchanges that began with little in flight.
//!
//! An exchange is *light* if it began with at most a third of the limit in flight. The baseline is the
//! mean of the light ones' response times, moving over the last 100. When the limit is in use, light
//! ones are rare; so now and then, in a *probe*, the limit is a third of itself until enough of them
//! have ended, and the baseline moves half the way to their mean.
//!
//! A mean, not a minimum: the smallest response time is merely the cheapest request's. Since whoever
//! does not fit waits in a queue before the limit, a probe delays a few requests and refuses none.

use std::time::Duration;

use super::{Sample, whole};
use crate::{Timestamp, admission::Outcome};

/// A light exchange begins with at most this share of the limit in flight.
const LIGHT: f64 = 1.0 / 3.0;
/// Light exchanges the mean moves over.
const WINDOW: u32 = 100;
/// Light exchanges a probe waits for, at least; it also waits for twice its limit.
const PROBE_SAMPLES: u32 = 8;
/// Time between probes, at least, in steady state; also 100 baselines, so that slow services are not
/// probed all the time.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBE_INTERVAL_BASELINES: f64 = 100.0;
/// Time between probes, at least, while they find something new.
const PROBE_INTERVAL_MOVING: Duration = Duration::from_secs(1);
/// A probe that finds the baseline off by this share has found something new.
const MOVED: f64 = 0.2;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Baseline {
    /// Nanoseconds; meaningless while `count` is 0.
    mean: f64,
    count: u32,
    probe: Option<Probe>,
    last_probe: Option<Timestamp>,
    next_probe: Option<Timestamp>,
    /// The highest limit since the last probe.
    peak: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct Probe {
    limit: u32,
    began: Timestamp,
    sum: f64,
    count: u32,
}

impl Baseline {
    /// Nanoseconds; `None` while nothing is known.
    pub(super) fn get(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The limit of the probe that is going on.
    pub(super) fn probe_limit(&self) -> Option<u32> {
        self.probe.as_ref().map(|probe| probe.limit)
    }

    /// The limit never goes below `min` from now on: a probe that does is given up.
    pub(super) fn set_min(&mut self, min: u32) {
        if self.probe.as_ref().is_some_and(|probe| probe.limit < min) {
            self.probe = None;
        }
    }

    /// Learns from an exchange under `limit`, which never goes below `min`. True while a probe goes on or has just ended: the sample
    /// then says nothing about the limit.
    pub(super) fn sample(&mut self, sample: &Sample, limit: f64, min: u32) -> bool {
        let response_ns = sample.response_ns();
        if let Some(probe) = &mut self.probe {
            if sample.started() >= probe.began && sample.outcome == Outcome::Success {
                probe.sum += response_ns;
                probe.count += 1;
            }
            if probe.count >= PROBE_SAMPLES.max(probe.limit.saturating_mul(2)) {
                let found = probe.sum / f64::from(probe.count);
                self.end_probe(sample.now, found);
            }
            return true;
        }
        if sample.outcome == Outcome::Success && f64::from(sample.in_flight) <= light(limit, sample.weight) {
            self.count = (self.count + 1).min(WINDOW);
            self.mean += (response_ns - self.mean) / f64::from(self.count);
        }
        self.peak = self.peak.max(limit);
        let in_use = sample.limit_utilised || f64::from(sample.in_flight) * 2.0 >= limit;
        let probe_limit = whole(light(limit, 1));
        if in_use && limit >= 2.0 && probe_limit >= min && self.is_due(sample.now, limit) {
            self.probe = Some(Probe { limit: probe_limit, began: sample.now, sum: 0.0, count: 0 });
            return true;
        }
        false
    }

    fn is_due(&mut self, now: Timestamp, limit: f64) -> bool {
        let next = *self.next_probe.get_or_insert(now + PROBE_INTERVAL_MOVING);
        let fell = limit * 2.0 < self.peak
            && self.last_probe.is_some_and(|last| now >= last + PROBE_INTERVAL_MOVING);
        self.count == 0 || fell || now >= next
    }

    fn end_probe(&mut self, now: Timestamp, found: f64) {
        let before = if self.count == 0 { found } else { self.mean };
        let moved = (found / before - 1.0).abs() > MOVED;
        self.mean = f64::midpoint(before, found);
        self.count = WINDOW / 2;
        self.probe = None;
        self.last_probe = Some(now);
        self.peak = 0.0;
        let interval = if moved { PROBE_INTERVAL_MOVING } else { PROBE_INTERVAL };
        let baselines = Duration::from_secs_f64((self.mean * PROBE_INTERVAL_BASELINES / 1e9).min(3600.0));
        self.next_probe = Some(now + interval.max(baselines));
    }
}

/// Weight in flight with which a light exchange begins, at most.
fn light(limit: f64, weight: u32) -> f64 {
    (limit * LIGHT).floor().max(f64::from(weight))
}

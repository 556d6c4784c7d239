//! The last five minutes of each application, second by second, for the status page.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use tidegate_control::{ClassId, meters::Meter};
use tidegate_runtime::{Readings, Shared, Subject};

/// Seconds kept.
pub(crate) const SECONDS: usize = 300;

/// What happened in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Second {
    /// Requests that arrived.
    pub(crate) arrived: u64,
    /// Good responses.
    pub(crate) good: u64,
    /// Requests refused.
    pub(crate) refused: u64,
    /// Weight in flight at its end.
    pub(crate) in_flight: u64,
    /// In-flight limit at its end.
    pub(crate) limit: u64,
    /// Requests waiting at its end.
    pub(crate) queued: u64,
}

/// Seconds by application name, the latest last.
#[derive(Debug, Default)]
pub(crate) struct History {
    state: Mutex<BTreeMap<String, Track>>,
}

#[derive(Debug, Default)]
struct Track {
    before: Counts,
    seconds: VecDeque<Second>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    arrived: u64,
    good: u64,
    refused: u64,
}

impl History {
    /// Takes down the second that has just ended.
    pub(crate) fn sample(&self, shared: &Shared) {
        let snapshot = shared.snapshot();
        let totals = shared.totals().read();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.retain(|name, _| snapshot.application_named(name).is_some());
        for application in &snapshot.applications {
            let mut counts = Counts::default();
            for index in 0..application.classes.len() {
                let class = ClassId(u16::try_from(index).unwrap_or(u16::MAX));
                if let Some(readings) = totals.get(&Subject::Class(application.id, class)) {
                    counts.add(readings);
                }
            }
            let levels = application.state.gate().levels();
            let track = state.entry(application.settings.name.clone()).or_default();
            let second = Second {
                arrived: counts.arrived - track.before.arrived,
                good: counts.good - track.before.good,
                refused: counts.refused - track.before.refused,
                in_flight: levels.in_flight,
                limit: levels.limit,
                queued: levels.queued.iter().sum(),
            };
            track.before = counts;
            if track.seconds.len() == SECONDS {
                track.seconds.pop_front();
            }
            track.seconds.push_back(second);
        }
    }

    /// The seconds of an application, oldest first.
    pub(crate) fn of(&self, application: &str) -> Vec<Second> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.get(application).map_or_else(Vec::new, |track| track.seconds.iter().copied().collect())
    }
}

impl Counts {
    fn add(&mut self, readings: &Readings) {
        self.arrived += readings.counts(Meter::ARRIVED)[0];
        self.good += readings.counts(Meter::GOOD)[0];
        self.refused += readings.counts(Meter::REFUSED).iter().sum::<u64>();
    }
}

//! Counters of a run in progress, readable from any thread, and the way to stop it early.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::plan::Plan;

/// What a run has done so far. Hand an `Arc` of it to [`crate::run_with`] and read it meanwhile.
/// Unlike the report it counts the warm-up too.
#[derive(Debug)]
pub struct Live {
    classes: Vec<LiveClass>,
    stop: AtomicBool,
}

/// Counters of one class, in relaxed atomics: each is exact, together they are no snapshot.
#[derive(Debug, Default)]
pub(crate) struct LiveClass {
    name: String,
    pub(crate) offered: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) good: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) waiting: AtomicU64,
    pub(crate) sessions_started: AtomicU64,
    pub(crate) sessions_completed: AtomicU64,
    good_latency_us: AtomicU64,
    /// Requests, or sessions, that a closed loop was allowed to begin.
    admitted: AtomicU64,
    waiting_most: AtomicU64,
}

/// One reading of one class's counters; all but `in_flight` and `waiting` only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// The class's name.
    pub name: String,
    /// Requests whose intended start has come.
    pub offered: u64,
    /// Tries begun, retries among them.
    pub sent: u64,
    /// Good replies within the timeout.
    pub good: u64,
    /// Replies 429 or 503.
    pub refused: u64,
    /// Tries given up after the timeout.
    pub timeouts: u64,
    /// Tries that failed otherwise, and replies with another status.
    pub failed: u64,
    /// Requests begun and not ended, waiting for a retry among them.
    pub in_flight: u64,
    /// Clients who were told to come back and wait until then.
    pub waiting: u64,
    /// Sessions begun.
    pub sessions_started: u64,
    /// Sessions of which every reply came in time.
    pub sessions_completed: u64,
    /// Sum of the latencies of good replies, in microseconds: two readings give a mean.
    pub good_latency_us: u64,
}

impl Live {
    /// Zero counters for the classes of `plan`.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let classes =
            plan.classes.iter().map(|class| LiveClass { name: class.name.clone(), ..Default::default() });
        Self { classes: classes.collect(), stop: AtomicBool::new(false) }
    }

    /// A reading of each class, in the plan's order.
    #[must_use]
    pub fn read(&self) -> Vec<LiveCounts> {
        self.classes.iter().map(LiveClass::read).collect()
    }

    /// Ends the run: no more requests start, those in flight are waited for as at a normal end.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Whether [`Live::stop`] was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    pub(crate) fn class(&self, index: usize) -> Option<&LiveClass> {
        self.classes.get(index)
    }

    pub(crate) fn matches(&self, plan: &Plan) -> bool {
        self.classes.len() == plan.classes.len()
    }
}

impl LiveClass {
    /// Allows a closed loop one more request, or session, unless the class has had its `most`.
    pub(crate) fn admit(&self, most: Option<u64>) -> bool {
        let most = most.unwrap_or(u64::MAX);
        self.admitted.try_update(Relaxed, Relaxed, |had| (had < most).then_some(had + 1)).is_ok()
    }

    pub(crate) fn begin_waiting(&self) {
        let waiting = self.waiting.fetch_add(1, Relaxed) + 1;
        self.waiting_most.fetch_max(waiting, Relaxed);
    }

    /// The most who waited at once.
    pub(crate) fn waiting_most(&self) -> u64 {
        self.waiting_most.load(Relaxed)
    }

    pub(crate) fn count_good(&self, latency_us: u64) {
        self.good.fetch_add(1, Relaxed);
        self.good_latency_us.fetch_add(latency_us, Relaxed);
    }

    fn read(&self) -> LiveCounts {
        LiveCounts {
            name: self.name.clone(),
            offered: self.offered.load(Relaxed),
            sent: self.sent.load(Relaxed),
            good: self.good.load(Relaxed),
            refused: self.refused.load(Relaxed),
            timeouts: self.timeouts.load(Relaxed),
            failed: self.failed.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            waiting: self.waiting.load(Relaxed),
            sessions_started: self.sessions_started.load(Relaxed),
            sessions_completed: self.sessions_completed.load(Relaxed),
            good_latency_us: self.good_latency_us.load(Relaxed),
        }
    }
}

//! The run second by second.

use serde::{Deserialize, Serialize};

use crate::tally::ClassTally;

/// Counts and percentiles per second since the first intended start, all of one length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Requests, by intended start.
    pub offered: Vec<u64>,
    /// Tries, by when they were begun.
    pub sent: Vec<u64>,
    /// Good replies, by when they were complete.
    pub good: Vec<u64>,
    /// Good replies, by their request's intended start.
    pub good_by_start: Vec<u64>,
    /// Refusals, by when they were complete.
    pub refused: Vec<u64>,
    /// Timeouts, by when the client left.
    pub timeouts: Vec<u64>,
    /// Failures and replies of other statuses, by when they came.
    pub failed: Vec<u64>,
    /// Promises of a time, by when they were given.
    pub promised: Vec<u64>,
    /// Clients who wait for a promised time, at the end of the second.
    pub waiting: Vec<u64>,
    /// Sessions, by their intended start.
    pub sessions_started: Vec<u64>,
    /// Sessions completed, by their end.
    pub sessions_completed: Vec<u64>,
    /// Sessions ended by a refusal, by their end.
    pub sessions_refused: Vec<u64>,
    /// Sessions abandoned, by their end.
    pub sessions_abandoned: Vec<u64>,
    /// Percentiles of the latency of the good replies complete in the second, within 1.6 %;
    /// `None` where there were none, and after the tenth hour.
    pub p50_ms: Vec<Option<f64>>,
    /// 95th percentile.
    pub p95_ms: Vec<Option<f64>>,
    /// 99th percentile.
    pub p99_ms: Vec<Option<f64>>,
}

impl Series {
    pub(super) fn of(tally: &ClassTally) -> Self {
        let series = &tally.series;
        let all = [
            &series.offered,
            &series.sent,
            &series.good,
            &series.good_by_start,
            &series.refused,
            &series.timeouts,
            &series.failed,
            &series.promised,
            &series.returned,
            &series.sessions_started,
            &series.sessions_completed,
            &series.sessions_refused,
            &series.sessions_abandoned,
        ];
        let length = all.iter().map(|counts| counts.0.len()).max().unwrap_or_default();
        let [
            offered,
            sent,
            good,
            good_by_start,
            refused,
            timeouts,
            failed,
            promised,
            returned,
            sessions_started,
            sessions_completed,
            sessions_refused,
            sessions_abandoned,
        ] = all.map(|counts| {
            let mut padded = counts.0.clone();
            padded.resize(length, 0);
            padded
        });
        let mut level = 0u64;
        let waiting = promised.iter().zip(&returned).map(|(come, gone)| {
            level = (level + come).saturating_sub(*gone);
            level
        });
        let percentiles: Vec<_> =
            (0..length).map(|second| series.good_latency.percentiles(second, [0.5, 0.95, 0.99])).collect();
        let [p50_ms, p95_ms, p99_ms] = [0, 1, 2].map(|which| {
            percentiles.iter().map(|found| found.and_then(|found| found.get(which).copied())).collect()
        });
        Self {
            waiting: waiting.collect(),
            offered,
            sent,
            good,
            good_by_start,
            refused,
            timeouts,
            failed,
            promised,
            sessions_started,
            sessions_completed,
            sessions_refused,
            sessions_abandoned,
            p50_ms,
            p95_ms,
            p99_ms,
        }
    }
}

//! What one thread records while it runs, and how the threads' records become one.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

use crate::outcome::{ErrorKind, Phase};

/// The longest latency told apart, in microseconds; longer ones count as this.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// Latencies in microseconds, three significant digits.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(pub(crate) Histogram<u64>);

impl Latencies {
    pub(crate) fn record(&mut self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros.max(1));
    }

    fn add(&mut self, other: &Self) {
        // Both have the same bounds, so no value of one is out of range in the other.
        let added = self.0.add(&other.0);
        debug_assert!(added.is_ok(), "histograms of equal bounds");
    }
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)
            .unwrap_or_else(|_| unreachable!("1 to an hour at three digits is a valid range"));
        Self(histogram)
    }
}

/// Counts per second since the start of the run; the index is the second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerSecond(pub(crate) Vec<u64>);

impl PerSecond {
    /// The plan bounds a run to ten days and its drain, so this vector to 7 MB.
    pub(crate) fn count(&mut self, since_start: Duration) {
        let second = usize::try_from(since_start.as_secs()).unwrap_or(usize::MAX).min(1_000_000);
        if self.0.len() <= second {
            self.0.resize(second + 1, 0);
        }
        if let Some(count) = self.0.get_mut(second) {
            *count += 1;
        }
    }

    fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }
}

/// One class's record. All but the series leave the warm-up out.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassTally {
    pub(crate) offered: u64,
    pub(crate) sent: u64,
    pub(crate) good: u64,
    pub(crate) refused: u64,
    pub(crate) retries: u64,
    /// Requests that are over, whatever came of them.
    pub(crate) ended: u64,
    pub(crate) overruns: u64,
    pub(crate) body_bytes: u64,
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) timeouts: BTreeMap<Phase, u64>,
    pub(crate) errors: BTreeMap<ErrorKind, u64>,
    pub(crate) good_latency: Latencies,
    pub(crate) refused_latency: Latencies,
    pub(crate) send_lag: Latencies,
    pub(crate) series: SeriesTally,
}

/// The whole run second by second, warm-up and drain included.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeriesTally {
    pub(crate) offered: PerSecond,
    pub(crate) sent: PerSecond,
    pub(crate) good: PerSecond,
    pub(crate) good_by_start: PerSecond,
    pub(crate) refused: PerSecond,
    pub(crate) timeouts: PerSecond,
    pub(crate) failed: PerSecond,
}

impl ClassTally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.sent += other.sent;
        self.good += other.good;
        self.refused += other.refused;
        self.retries += other.retries;
        self.ended += other.ended;
        self.overruns += other.overruns;
        self.body_bytes += other.body_bytes;
        add_counts(&mut self.statuses, &other.statuses);
        add_counts(&mut self.timeouts, &other.timeouts);
        add_counts(&mut self.errors, &other.errors);
        self.good_latency.add(&other.good_latency);
        self.refused_latency.add(&other.refused_latency);
        self.send_lag.add(&other.send_lag);
        self.series.add(&other.series);
    }
}

impl SeriesTally {
    fn add(&mut self, other: &Self) {
        self.offered.add(&other.offered);
        self.sent.add(&other.sent);
        self.good.add(&other.good);
        self.good_by_start.add(&other.good_by_start);
        self.refused.add(&other.refused);
        self.timeouts.add(&other.timeouts);
        self.failed.add(&other.failed);
    }
}

/// Connections of one thread over the whole run.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionTally {
    pub(crate) opened_http1: u64,
    pub(crate) opened_http2: u64,
    pub(crate) failed: u64,
    pub(crate) reuses: u64,
    pub(crate) closed_while_idle: u64,
    pub(crate) tls_full: u64,
    pub(crate) tls_resumed: u64,
    pub(crate) tls12: u64,
    pub(crate) tls13: u64,
    pub(crate) setup: Latencies,
}

impl ConnectionTally {
    pub(crate) fn record_setup(&mut self, span: Duration) {
        self.setup.record(span);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.opened_http1 += other.opened_http1;
        self.opened_http2 += other.opened_http2;
        self.failed += other.failed;
        self.reuses += other.reuses;
        self.closed_while_idle += other.closed_while_idle;
        self.tls_full += other.tls_full;
        self.tls_resumed += other.tls_resumed;
        self.tls12 += other.tls12;
        self.tls13 += other.tls13;
        self.setup.add(&other.setup);
    }
}

/// What one thread brings home.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadTally {
    pub(crate) classes: Vec<ClassTally>,
    pub(crate) connections: ConnectionTally,
    pub(crate) cpu: Duration,
}

fn add_counts<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (&key, &count) in from {
        *to.entry(key).or_default() += count;
    }
}

//! What one thread records while it runs, and how the threads' records become one.

mod order;
mod seconds;

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

pub(crate) use self::{
    order::Order,
    seconds::{LatencyPerSecond, PerSecond},
};
use crate::outcome::{ErrorKind, Phase};

/// The longest time told apart, in microseconds; longer ones count as this.
const LATENCY_US_MAX: u64 = 24 * 3_600_000_000;

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
            .unwrap_or_else(|_| unreachable!("1 to a day at three digits is a valid range"));
        Self(histogram)
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
    /// Of a class with sessions.
    pub(crate) sessions: Option<Box<SessionTally>>,
    /// Of a class that follows.
    pub(crate) waits: Option<Box<WaitTally>>,
    /// By the client's number; empty where clients have none.
    pub(crate) clients: Vec<ClientTally>,
    pub(crate) series: SeriesTally,
}

/// Requests of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientTally {
    pub(crate) offered: u64,
    pub(crate) good: u64,
}

/// Sessions, those that were meant to begin in the warm-up left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionTally {
    pub(crate) started: u64,
    pub(crate) completed: u64,
    pub(crate) refused: u64,
    pub(crate) refused_at_entry: u64,
    pub(crate) abandoned: u64,
    pub(crate) length: Latencies,
    pub(crate) pages: Vec<PageTally>,
    pub(crate) images: PageTally,
}

/// Requests for one page, over all their tries.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageTally {
    pub(crate) requests: u64,
    pub(crate) good: u64,
    pub(crate) refused: u64,
    pub(crate) timeouts: u64,
    pub(crate) failed: u64,
    pub(crate) latency: Latencies,
}

/// Clients who were told to come back, those meant to start in the warm-up left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitTally {
    pub(crate) redirects: u64,
    pub(crate) promises: u64,
    pub(crate) returned: u64,
    pub(crate) kept: u64,
    pub(crate) broken: u64,
    /// Clients who left instead of waiting.
    pub(crate) left: u64,
    /// Requests that are over, by how often their client came back.
    pub(crate) by_returns: BTreeMap<u32, u64>,
    /// The waits promised.
    pub(crate) promised: Latencies,
    /// From the promised time to the start of the client's next try.
    pub(crate) return_lag: Latencies,
    /// From the first promised time to the good reply.
    pub(crate) overdue: Latencies,
    /// From the last promised time to the good reply.
    pub(crate) from_return: Latencies,
    /// Good replies that came more than a second after one to somebody who had come later.
    pub(crate) overtaken: u64,
    pub(crate) order: Order,
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
    /// Promises given to clients told to wait.
    pub(crate) promised: PerSecond,
    /// Clients who stopped waiting: they came back, or the run ended.
    pub(crate) returned: PerSecond,
    pub(crate) sessions_started: PerSecond,
    pub(crate) sessions_completed: PerSecond,
    pub(crate) sessions_refused: PerSecond,
    pub(crate) sessions_abandoned: PerSecond,
    pub(crate) good_latency: LatencyPerSecond,
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
        if let Some(theirs) = &other.sessions {
            self.sessions.get_or_insert_default().add(theirs);
        }
        if let Some(theirs) = &other.waits {
            self.waits.get_or_insert_default().add(theirs);
        }
        // The same number is the same client, whatever the class.
        if self.clients.len() < other.clients.len() {
            self.clients.resize(other.clients.len(), ClientTally::default());
        }
        for (mine, theirs) in self.clients.iter_mut().zip(&other.clients) {
            mine.offered += theirs.offered;
            mine.good += theirs.good;
        }
        self.series.add(&other.series);
    }
}

impl SessionTally {
    fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.completed += other.completed;
        self.refused += other.refused;
        self.refused_at_entry += other.refused_at_entry;
        self.abandoned += other.abandoned;
        self.length.add(&other.length);
        self.images.add(&other.images);
        if self.pages.len() < other.pages.len() {
            self.pages.resize_with(other.pages.len(), PageTally::default);
        }
        for (mine, theirs) in self.pages.iter_mut().zip(&other.pages) {
            mine.add(theirs);
        }
    }
}

impl PageTally {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.good += other.good;
        self.refused += other.refused;
        self.timeouts += other.timeouts;
        self.failed += other.failed;
        self.latency.add(&other.latency);
    }
}

impl WaitTally {
    fn add(&mut self, other: &Self) {
        self.redirects += other.redirects;
        self.promises += other.promises;
        self.returned += other.returned;
        self.kept += other.kept;
        self.broken += other.broken;
        self.left += other.left;
        add_counts(&mut self.by_returns, &other.by_returns);
        self.promised.add(&other.promised);
        self.return_lag.add(&other.return_lag);
        self.overdue.add(&other.overdue);
        self.from_return.add(&other.from_return);
        self.overtaken += other.overtaken;
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
        self.promised.add(&other.promised);
        self.returned.add(&other.returned);
        self.sessions_started.add(&other.sessions_started);
        self.sessions_completed.add(&other.sessions_completed);
        self.sessions_refused.add(&other.sessions_refused);
        self.sessions_abandoned.add(&other.sessions_abandoned);
        self.good_latency.add(&other.good_latency);
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
    /// The first TLS fault, in words.
    pub(crate) tls_fault: Option<String>,
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
        if self.tls_fault.is_none() {
            self.tls_fault.clone_from(&other.tls_fault);
        }
        self.setup.add(&other.setup);
    }
}

/// What one thread brings home.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadTally {
    pub(crate) classes: Vec<ClassTally>,
    pub(crate) connections: ConnectionTally,
    pub(crate) cpu: Duration,
    /// Of the busiest thread.
    pub(crate) cpu_max: Duration,
}

fn add_counts<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (&key, &count) in from {
        *to.entry(key).or_default() += count;
    }
}

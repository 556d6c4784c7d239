//! What a run found: the stable JSON result and the figures tests ask for.
//!
//! # Schema `tidegate-load/1`
//!
//! Keys are only ever added under this name. Times are milliseconds (`_ms`) or seconds (`_s`).
//! `requests` are arrivals; `tries` are what was sent for them, retries among them. All counts and
//! percentiles are of requests whose intended start lies after the warm-up; `series` covers the
//! whole run, its index is the second since the first intended start.

mod series;
mod sessions;

use std::{
    collections::BTreeMap,
    ops::Range,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

pub use self::{
    series::Series,
    sessions::{PageReport, SessionReport, WaitReport},
};
use crate::{
    live::{Live, LiveClass},
    outcome::{ErrorKind, Phase},
    plan::{Plan, Resolved},
    session::Chain,
    tally::{ClassTally, ClientTally, ConnectionTally, Latencies, ThreadTally},
};

/// The name of the JSON form.
pub const SCHEMA: &str = "tidegate-load/1";

/// A thread busier than this has no time left for a faster server.
const BUSY_SHARE: f64 = 0.95;

/// One run's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The URL under load.
    pub url: String,
    /// The seed of the arrival times.
    pub seed: u64,
    /// When the first request was meant to start, in milliseconds since the Unix epoch.
    pub began_unix_ms: u64,
    /// Warm-up left out of counts and percentiles.
    pub warmup_s: f64,
    /// Cool-down left out of counts and percentiles.
    #[serde(default)]
    pub cooldown_s: f64,
    /// Time in which measured requests were meant to start: duration less warm-up and cool-down.
    pub measured_s: f64,
    /// From the first intended start to the report.
    pub elapsed_s: f64,
    /// Whether the run was stopped before its end; rates per second are then of no use.
    pub stopped_early: bool,
    /// How the generator itself fared.
    pub generator: GeneratorReport,
    /// Connections, over the whole run.
    pub connections: ConnectionReport,
    /// All classes together; its name is `total`.
    pub total: ClassReport,
    /// Each class, in the plan's order.
    pub classes: Vec<ClassReport>,
    /// What was run; values of headers that prove who somebody is are hidden.
    pub plan: Plan,
}

/// Whether the figures are the server's or the generator's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GeneratorReport {
    /// Event-loop threads.
    pub threads: usize,
    /// CPU time of all threads.
    pub cpu_s: f64,
    /// Mean share of a processor each thread used, 0 to 1.
    pub cpu_share: f64,
    /// The share of the busiest thread.
    pub cpu_share_max: f64,
    /// From intended start to the moment the request was begun.
    pub send_lag_ms: Summary,
    /// The bound on the 99th percentile of the send lag.
    pub lag_bound_ms: f64,
    /// Requests not sent because too many were in flight.
    pub overruns: u64,
    /// Whether the generator limited the load or blurred the latencies.
    pub bottleneck: bool,
    /// Why, in words; empty unless `bottleneck`.
    pub reasons: Vec<String>,
}

/// Connections by kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConnectionReport {
    /// HTTP/1.1 connections opened.
    pub opened_http1: u64,
    /// HTTP/2 connections opened.
    pub opened_http2: u64,
    /// Connections that could not be opened (timeouts not among them).
    pub failed: u64,
    /// Requests on a connection that had carried one before (HTTP/1.1) or was shared (HTTP/2).
    pub reuses: u64,
    /// Connections the server closed while they were idle; the request went to another.
    pub closed_while_idle: u64,
    /// Full TLS handshakes, as negotiated.
    pub tls_full: u64,
    /// Resumed TLS handshakes, as negotiated.
    pub tls_resumed: u64,
    /// Handshakes that chose TLS 1.2.
    pub tls12: u64,
    /// Handshakes that chose TLS 1.3.
    pub tls13: u64,
    /// The first TLS fault in words, if there was any.
    pub tls_fault: Option<String>,
    /// Time to open: TCP, and the TLS handshake where there is one.
    pub setup_ms: Summary,
}

/// One class's figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassReport {
    /// The class's name.
    pub name: String,
    /// Requests meant to start.
    pub offered: u64,
    /// Tries begun, retries among them.
    pub sent: u64,
    /// Requests with a whole 2xx or 3xx reply within a try's timeout.
    pub good: u64,
    /// Tries answered 429 or 503.
    pub refused: u64,
    /// Tries whose client gave up, by what it was waiting for.
    pub timeouts: BTreeMap<Phase, u64>,
    /// Tries that failed otherwise.
    pub errors: BTreeMap<ErrorKind, u64>,
    /// Whole replies by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Retries begun.
    pub retries: u64,
    /// Requests that ended without a good reply.
    pub gave_up: u64,
    /// Requests not sent because too many were in flight.
    pub overruns: u64,
    /// Requests still under way when the run had to end.
    pub unfinished: u64,
    /// Bytes of reply bodies.
    pub body_bytes: u64,
    /// Requests offered a second of measured time.
    pub offered_per_s: f64,
    /// Good replies to measured requests a second of measured time.
    pub goodput_per_s: f64,
    /// Latency of good replies, from the request's intended start (so over all its tries).
    pub good_latency_ms: Summary,
    /// Latency of refusals, from the intended start of the try.
    pub refused_latency_ms: Summary,
    /// Jain's index over the share of its requests each client was served: 1 if all fared alike, 1/n if one
    /// of n had everything. `None` if clients have no number or nobody was served.
    pub fairness: Option<f64>,
    /// Its sessions, if it has any.
    pub sessions: Option<SessionReport>,
    /// Its clients who were told to come back, if it follows.
    pub waits: Option<WaitReport>,
    /// Second by second, warm-up and drain included.
    pub series: Series,
    #[serde(skip)]
    good_latency: Option<Latencies>,
    #[serde(skip)]
    refused_latency: Option<Latencies>,
}

/// A distribution of times in milliseconds; zeros if `count` is zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        resolved: &Resolved,
        began_at: SystemTime,
        elapsed: Duration,
        tally: ThreadTally,
        live: &Live,
    ) -> Self {
        // A run may end before its time: by a signal, or after so many requests of each class.
        let may_end = live.is_stopped() || plan.classes.iter().all(|class| class.requests_max.is_some());
        let end = resolved.length.saturating_sub(plan.cooldown);
        let measured = if may_end { end.min(elapsed) } else { end }.saturating_sub(plan.warmup);
        let measured_s = measured.as_secs_f64();
        let mut total = ClassTally::default();
        for class in &tally.classes {
            total.add(class);
        }
        let waiting_most = |class| live.class(class).map_or(0, LiveClass::waiting_most);
        let classes = plan.classes.iter().zip(&tally.classes).enumerate().map(|(index, (class, tally))| {
            let chain = resolved.classes.get(index).and_then(|class| class.chain.as_deref());
            ClassReport::new(&class.name, tally, chain, waiting_most(index), measured_s)
        });
        Self {
            schema: SCHEMA.to_owned(),
            url: plan.url.clone(),
            seed: plan.seed,
            began_unix_ms: began_at
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            warmup_s: plan.warmup.as_secs_f64(),
            cooldown_s: plan.cooldown.as_secs_f64(),
            measured_s,
            elapsed_s: elapsed.as_secs_f64(),
            stopped_early: live.is_stopped(),
            generator: GeneratorReport::new(plan, elapsed, &tally, &total),
            connections: ConnectionReport::new(&tally.connections),
            classes: classes.collect(),
            total: ClassReport::new(
                "total",
                &total,
                None,
                (0..plan.classes.len()).map(waiting_most).sum(),
                measured_s,
            ),
            plan: plan.without_secrets(),
        }
    }

    /// The class of that name.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&ClassReport> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// Good replies a second of all classes, by completion, over whole seconds of the run.
    #[must_use]
    pub fn goodput_per_s(&self, seconds: Range<usize>) -> f64 {
        self.total.goodput_per_s_in(seconds)
    }

    /// A percentile of the good replies' latency of all classes, in milliseconds.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        self.total.percentile(percent)
    }
}

impl ClassReport {
    fn new(
        name: &str,
        tally: &ClassTally,
        chain: Option<&Chain>,
        waiting_most: u64,
        measured_s: f64,
    ) -> Self {
        let per_s = |count: u64| if measured_s > 0.0 { count as f64 / measured_s } else { 0.0 };
        Self {
            name: name.to_owned(),
            offered: tally.offered,
            sent: tally.sent,
            good: tally.good,
            refused: tally.refused,
            timeouts: tally.timeouts.clone(),
            errors: tally.errors.clone(),
            statuses: tally.statuses.clone(),
            retries: tally.retries,
            gave_up: tally.ended.saturating_sub(tally.good),
            overruns: tally.overruns,
            unfinished: tally.offered.saturating_sub(tally.ended + tally.overruns),
            body_bytes: tally.body_bytes,
            offered_per_s: per_s(tally.offered),
            goodput_per_s: per_s(tally.good),
            good_latency_ms: Summary::of(&tally.good_latency),
            refused_latency_ms: Summary::of(&tally.refused_latency),
            fairness: fairness(&tally.clients),
            sessions: tally.sessions.as_ref().map(|sessions| {
                let names = chain.into_iter().flat_map(Chain::names);
                SessionReport::new(sessions, names, measured_s)
            }),
            waits: tally.waits.as_ref().map(|waits| WaitReport::new(waits, waiting_most)),
            series: Series::of(tally),
            good_latency: Some(tally.good_latency.clone()),
            refused_latency: Some(tally.refused_latency.clone()),
        }
    }

    /// Good replies a second, by completion, over whole seconds of the run; 0 for an empty range.
    #[must_use]
    pub fn goodput_per_s_in(&self, seconds: Range<usize>) -> f64 {
        let length = seconds.len();
        let good: u64 = self.series.good.iter().skip(seconds.start).take(length).sum();
        if length == 0 { 0.0 } else { good as f64 / length as f64 }
    }

    /// Any percentile (0 to 100) of the good replies' latency, in milliseconds. After a trip
    /// through JSON only those of [`Summary`] are left, and this answers with the next higher.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> f64 {
        percentile(self.good_latency.as_ref(), &self.good_latency_ms, percent)
    }

    /// The same for refusals.
    #[must_use]
    pub fn refused_percentile(&self, percent: f64) -> f64 {
        percentile(self.refused_latency.as_ref(), &self.refused_latency_ms, percent)
    }

    /// Tries that timed out, whatever they waited for.
    #[must_use]
    pub fn timed_out(&self) -> u64 {
        self.timeouts.values().sum()
    }

    /// Tries that failed without a reply.
    #[must_use]
    pub fn errored(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl GeneratorReport {
    fn new(plan: &Plan, elapsed: Duration, tally: &ThreadTally, total: &ClassTally) -> Self {
        let send_lag_ms = Summary::of(&total.send_lag);
        let lag_bound_ms = plan.lag_bound.as_secs_f64() * 1e3;
        let share_of = |cpu: Duration| cpu.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        let cpu_share_max = share_of(tally.cpu_max);
        let mut reasons = Vec::new();
        if send_lag_ms.p99 > lag_bound_ms {
            reasons.push(format!(
                "1 % of the requests began more than {:.1} ms late (bound {lag_bound_ms:.1} ms): latencies \
                 contain the generator's own delay; give it a processor of its own or more threads",
                send_lag_ms.p99
            ));
        }
        let return_lag_p99_ms = total.waits.as_ref().map_or(0.0, |waits| Summary::of(&waits.return_lag).p99);
        if return_lag_p99_ms > lag_bound_ms {
            reasons.push(format!(
                "1 % of the clients told to come back did so more than {return_lag_p99_ms:.1} ms late (bound \
                 {lag_bound_ms:.1} ms); add threads, or raise in_flight_max if it was reached"
            ));
        }
        if total.overruns > 0 {
            reasons.push(format!(
                "{} requests were not sent because {} were in flight or {} clients waited; raise in_flight_max \
                 or waiting_max",
                total.overruns, plan.in_flight_max, plan.waiting_max
            ));
        }
        if cpu_share_max > BUSY_SHARE {
            reasons.push(format!(
                "a thread was busy {:.0} % of the time: a faster server would not have shown; add threads \
                 or processors",
                cpu_share_max * 100.0
            ));
        }
        let local = total.errors.get(&ErrorKind::LocalLimit).copied().unwrap_or(0);
        if local > 0 {
            reasons.push(format!(
                "{local} connections failed for want of local ports or descriptors; raise `ulimit -n` or \
                 keep connections alive"
            ));
        }
        let unsent = total.timeouts.get(&Phase::Unsent).copied().unwrap_or(0);
        if unsent > 0 {
            reasons
                .push(format!("{unsent} tries were due so long ago that they were never sent; add threads"));
        }
        Self {
            threads: plan.threads,
            cpu_s: tally.cpu.as_secs_f64(),
            cpu_share: share_of(tally.cpu) / plan.threads as f64,
            cpu_share_max,
            send_lag_ms,
            lag_bound_ms,
            overruns: total.overruns,
            bottleneck: !reasons.is_empty(),
            reasons,
        }
    }
}

/// Source: Jain, Chiu & Hawe, "A quantitative measure of fairness", DEC-TR-301, 1984: (Σx)² / (n Σx²).
fn fairness(clients: &[ClientTally]) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for client in clients.iter().filter(|client| client.offered > 0) {
        let share = client.good as f64 / client.offered as f64;
        n += 1.0;
        sum += share;
        squares += share * share;
    }
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

impl ConnectionReport {
    fn new(tally: &ConnectionTally) -> Self {
        Self {
            opened_http1: tally.opened_http1,
            opened_http2: tally.opened_http2,
            failed: tally.failed,
            reuses: tally.reuses,
            closed_while_idle: tally.closed_while_idle,
            tls_full: tally.tls_full,
            tls_resumed: tally.tls_resumed,
            tls12: tally.tls12,
            tls13: tally.tls13,
            tls_fault: tally.tls_fault.clone(),
            setup_ms: Summary::of(&tally.setup),
        }
    }
}

impl Summary {
    pub(crate) fn of(latencies: &Latencies) -> Self {
        let histogram = &latencies.0;
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            count: histogram.len(),
            mean: histogram.mean() / 1e3,
            stddev: histogram.stdev() / 1e3,
            min: histogram.min() as f64 / 1e3,
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e3,
        }
    }
}

fn percentile(latencies: Option<&Latencies>, summary: &Summary, percent: f64) -> f64 {
    match latencies {
        Some(latencies) if latencies.0.is_empty() => 0.0,
        Some(latencies) => latencies.0.value_at_percentile(percent) as f64 / 1e3,
        None => match percent {
            p if p <= 50.0 => summary.p50,
            p if p <= 75.0 => summary.p75,
            p if p <= 90.0 => summary.p90,
            p if p <= 95.0 => summary.p95,
            p if p <= 99.0 => summary.p99,
            p if p <= 99.9 => summary.p999,
            _ => summary.max,
        },
    }
}

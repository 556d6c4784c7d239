//! A gateway's admin interface as a test sees it: metrics, health, servers.

#![allow(dead_code, reason = "each test program uses its part")]

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use super::client::{Client, Response};

/// How long a level may take to come back: counts are summed each second.
const SETTLE: Duration = Duration::from_secs(20);

/// One reading of `/metrics`.
#[derive(Debug)]
pub(crate) struct Metrics {
    series: Vec<Series>,
}

#[derive(Debug)]
struct Series {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// The page as Prometheus asks for it.
pub(crate) fn open_metrics(admin: SocketAddr) -> String {
    let accept = "connection: close\r\naccept: application/openmetrics-text\r\n";
    let response = Client::connect(admin).and_then(|mut client| client.get("/metrics", accept));
    let response = response.expect("read /metrics");
    assert_eq!(response.status, 200, "/metrics");
    let page = response.text();
    assert!(page.ends_with("# EOF\n"), "OpenMetrics text ends with its mark: {page}");
    page
}

impl Metrics {
    /// Reads the page; every line of it must be OpenMetrics text.
    pub(crate) fn read(admin: SocketAddr) -> Self {
        let page = open_metrics(admin);
        let series = page.lines().filter(|line| !line.starts_with('#')).map(Series::parse).collect();
        Self { series }
    }

    /// Sum of the series of a meter that carry these labels. The meter must exist.
    pub(crate) fn sum(&self, meter: &str, labels: &[(&str, &str)]) -> f64 {
        let mut known = false;
        let mut sum = 0.0;
        for series in self.series.iter().filter(|series| series.is_of(meter)) {
            known = true;
            if labels.iter().all(|(name, value)| series.label(name) == Some(value)) {
                sum += series.value;
            }
        }
        assert!(known, "no meter {meter} in /metrics: {:?}", self.names());
        sum
    }

    /// Whether there is any series of a meter.
    pub(crate) fn has(&self, meter: &str) -> bool {
        self.series.iter().any(|series| series.is_of(meter))
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.series.iter().map(|series| series.name.as_str()).collect();
        names.dedup();
        names
    }
}

impl Series {
    fn parse(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        let value = value.parse().unwrap_or_else(|_| panic!("no value: {line}"));
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels
            .trim_end_matches('}')
            .split("\",")
            .filter(|label| !label.is_empty())
            .map(|label| {
                let (name, value) = label.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
                (name.to_owned(), value.trim_end_matches('"').to_owned())
            })
            .collect();
        assert!(name.starts_with("tidegate_"), "{line}");
        Self { name: name.to_owned(), labels, value }
    }

    /// Names carry unit and kind at their end.
    fn is_of(&self, meter: &str) -> bool {
        let Some(rest) = self.name.strip_prefix("tidegate_").and_then(|name| name.strip_prefix(meter)) else {
            return false;
        };
        matches!(rest, "" | "_total" | "_weight" | "_bytes" | "_bytes_total" | "_seconds_total")
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Reads the metrics until `holds`, and fails with `what` when that does not come.
pub(crate) fn await_metrics(admin: SocketAddr, what: &str, holds: impl Fn(&Metrics) -> bool) -> Metrics {
    let deadline = Instant::now() + SETTLE;
    loop {
        let metrics = Metrics::read(admin);
        if holds(&metrics) {
            return metrics;
        }
        assert!(Instant::now() < deadline, "not within {SETTLE:?}: {what}: {metrics:#?}");
        // Metrics are polled by whoever reads them; there is no event to await.
        thread::sleep(Duration::from_millis(50));
    }
}

/// Nothing is lent any more, and every request that arrived has an outcome.
pub(crate) fn await_rest(admin: SocketAddr) -> Metrics {
    const LEVELS: [&str; 7] = [
        "application_in_flight",
        "application_awaiting_server",
        "application_lingering",
        "application_long_streams",
        "class_queued",
        "server_in_flight",
        "spooled",
    ];
    await_metrics(admin, "all permits given back, no connection open, arrivals equal outcomes", |metrics| {
        let count = |meter| metrics.sum(meter, &[]);
        LEVELS.iter().all(|level| count(level) == 0.0)
            && count("connections_open") == 0.0
            && count("class_arrived")
                == count("class_responses") + count("class_left") + count("class_abandoned")
    })
}

/// [`await_rest`], once this many arrivals have been counted.
pub(crate) fn await_rest_after(admin: SocketAddr, arrivals: usize) -> Metrics {
    let arrivals = u32::try_from(arrivals).expect("a small count");
    await_metrics(admin, "every arrival is counted", |metrics| {
        metrics.sum("class_arrived", &[]) >= f64::from(arrivals)
    });
    await_rest(admin)
}

/// A request to the API.
pub(crate) fn api(admin: SocketAddr, method: &str, path: &str, body: &str) -> Response {
    let mut client = Client::connect(admin).expect("connect to the admin interface");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {admin}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    client.send(request.as_bytes()).expect("send to the admin interface");
    client.response().expect("an answer of the admin interface")
}

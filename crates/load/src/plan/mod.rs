//! What a run is to do: target, protocol, classes of requests, bounds.

mod class;
mod tls;

use std::time::Duration;

use http::{
    Uri,
    uri::{Authority, Scheme},
};
use serde::{Deserialize, Serialize};

pub(crate) use self::class::ClassTemplate;
pub use self::{
    class::{ClassPlan, FollowPlan, RetryPlan},
    tls::{Signatures, TlsPlan, TlsVersions},
};
use crate::{
    arrivals::Arrivals,
    error::LoadError,
    request::RequestTemplate,
    tls::TlsClient,
    units::{DURATION_MAX, duration, optional_duration},
};

/// The most classes a plan may have.
pub const CLASSES_MAX: usize = 64;
/// The most threads a plan may ask for.
pub const THREADS_MAX: usize = 256;
/// The largest request body, in bytes: it is held in memory once.
pub const BODY_BYTES_MAX: usize = 1 << 30;
/// The most different clients a class may have: each has counts of its own.
pub const CLIENTS_MAX: u32 = 100_000;
/// The most retries of one request.
pub const RETRIES_MAX: u32 = 100;
/// Headers whose values are credentials.
const SECRET_HEADERS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];
/// The longest pause before a retry.
pub const BACKOFF_MAX: Duration = Duration::from_secs(600);
/// The longest time after the last intended start until the report is made.
pub(crate) const DRAIN_MAX: Duration = Duration::from_secs(600);

/// One run of load against one server. Build it with [`Plan::new`] and the setters, or read it
/// from TOML; [`crate::run`] checks it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `http://host:port/path` or `https://…`; its path is that of classes without their own.
    pub url: String,
    /// How long requests start; `None` takes the length of the longest schedule.
    #[serde(default, with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// Requests meant to start before this are sent but left out of totals and percentiles.
    #[serde(default, with = "duration")]
    pub warmup: Duration,
    /// Requests meant to start in this last part of the duration are sent but left out as well: what was
    /// asked before them then meets the same load to its end.
    #[serde(default, with = "duration")]
    pub cooldown: Duration,
    /// The same seed gives the same intended start times on every machine.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Event-loop threads, 1 to [`THREADS_MAX`].
    #[serde(default = "default_threads")]
    pub threads: usize,
    /// Processors the threads are pinned to, in turn; empty leaves them to the system.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// HTTP version.
    #[serde(default)]
    pub protocol: Protocol,
    /// Whether connections are used again; otherwise one for each request.
    #[serde(default = "default_true")]
    pub keep_alive: bool,
    /// HTTP/2 connections a thread (the streams are spread over them), 1 to 10,000.
    #[serde(default = "default_h2_connections")]
    pub h2_connections: usize,
    /// A connection carries so many requests, then the client closes it and opens another; `None`
    /// keeps it as long as the server does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u32>,
    /// Most requests in flight at once, of all classes and threads. An arrival beyond it is not
    /// sent but counted as an overrun, and the report says that the generator was the bottleneck.
    #[serde(default = "default_in_flight_max")]
    pub in_flight_max: usize,
    /// Most clients who wait or think at once, of all classes and threads. Beyond it arrivals are
    /// overruns.
    #[serde(default = "default_waiting_max")]
    pub waiting_max: usize,
    /// How long at most what is under way at the end is waited for, up to 10 minutes; `None` for as
    /// long as all its tries and waits can take.
    #[serde(default, with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub drain: Option<Duration>,
    /// The report calls the generator a bottleneck when the 99th percentile of its send lag
    /// exceeds this.
    #[serde(default = "default_lag_bound", with = "duration")]
    pub lag_bound: Duration,
    /// TLS, for `https`.
    #[serde(default)]
    pub tls: TlsPlan,
    /// The classes; at least one.
    #[serde(rename = "class")]
    pub classes: Vec<ClassPlan>,
}

/// HTTP version on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: by ALPN over TLS, by prior knowledge without.
    Http2,
    /// What ALPN chooses over TLS; HTTP/1.1 without.
    Auto,
}

impl Plan {
    /// A plan for `url` with defaults and no class yet.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            duration: None,
            warmup: Duration::ZERO,
            cooldown: Duration::ZERO,
            seed: default_seed(),
            threads: default_threads(),
            cpus: Vec::new(),
            protocol: Protocol::default(),
            keep_alive: true,
            h2_connections: default_h2_connections(),
            requests_per_connection: None,
            in_flight_max: default_in_flight_max(),
            waiting_max: default_waiting_max(),
            drain: None,
            lag_bound: default_lag_bound(),
            tls: TlsPlan::default(),
            classes: Vec::new(),
        }
    }

    /// Reads a plan from TOML; [`Plan::check`] is still to come.
    ///
    /// # Errors
    /// The text is no TOML or has unknown or missing keys; the fault shows the line.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|fault| fault.to_string())
    }

    /// Adds a class.
    #[must_use]
    pub fn class(mut self, class: ClassPlan) -> Self {
        self.classes.push(class);
        self
    }

    /// Sets how long requests start.
    #[must_use]
    pub fn duration(mut self, span: Duration) -> Self {
        self.duration = Some(span);
        self
    }

    /// Sets the warm-up, which totals leave out.
    #[must_use]
    pub fn warmup(mut self, span: Duration) -> Self {
        self.warmup = span;
        self
    }

    /// Sets the cool-down, which totals leave out.
    #[must_use]
    pub fn cooldown(mut self, span: Duration) -> Self {
        self.cooldown = span;
        self
    }

    /// Sets the seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of threads.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Pins the threads to these processors, in turn.
    #[must_use]
    pub fn cpus(mut self, cpus: Vec<usize>) -> Self {
        self.cpus = cpus;
        self
    }

    /// Sets the HTTP version.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets whether connections are used again.
    #[must_use]
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.keep_alive = keep_alive;
        self
    }

    /// Sets the TLS part.
    #[must_use]
    pub fn tls(mut self, tls: TlsPlan) -> Self {
        self.tls = tls;
        self
    }

    /// The same without the values of headers that prove who somebody is: for reports.
    pub(crate) fn without_secrets(&self) -> Self {
        let mut plan = self.clone();
        for (name, value) in plan.classes.iter_mut().flat_map(|class| &mut class.headers) {
            if SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret)) {
                "(hidden)".clone_into(value);
            }
        }
        plan
    }

    /// How long requests start: the duration given, or the longest schedule's length. A trace's length
    /// is known only when it is read.
    #[must_use]
    pub fn length(&self) -> Option<Duration> {
        self.duration.or_else(|| {
            let lengths: Option<Vec<_>> = self.classes.iter().map(|class| class.arrivals.length()).collect();
            lengths?.into_iter().max()
        })
    }

    /// Checks the plan as a whole.
    ///
    /// # Errors
    /// [`LoadError::Plan`] with every fault found.
    pub fn check(&self) -> Result<(), LoadError> {
        self.resolve().map(|_| ())
    }

    pub(crate) fn resolve(&self) -> Result<Resolved, LoadError> {
        let mut faults = Vec::new();
        let target = self.resolve_target(&mut faults);
        self.check_bounds(&mut faults);
        let mut classes = Vec::new();
        for (index, class) in self.classes.iter().enumerate() {
            if self.classes.iter().take(index).any(|other| other.name == class.name) {
                faults.push(format!("class.{}: the name is used twice; rename one", class.name));
            }
            let path = target.as_ref().map_or("/", |target| target.path.as_str());
            classes.extend(class.resolve(path, self.protocol, self.keep_alive, &mut faults));
        }
        let length = self.resolve_length(&classes);
        match length {
            // The trace that would have given the length is at fault, which was said.
            None if classes.len() < self.classes.len() && self.has_trace() => {}
            None => faults.push(
                "duration: missing, and a class's arrivals have no end of their own; set it, such as \"30s\""
                    .to_owned(),
            ),
            Some(length) if length.is_zero() || length > DURATION_MAX => {
                faults.push("duration: must be longer than 0 and at most 240h".to_owned());
            }
            Some(length) if self.warmup.saturating_add(self.cooldown) >= length => {
                let at_fault = if self.cooldown.is_zero() { "warmup" } else { "warmup and cooldown" };
                faults.push(format!("{at_fault}: must be shorter than the duration, or nothing is measured"));
            }
            Some(_) => {}
        }
        let secure = target.as_ref().filter(|target| target.secure);
        let tls = secure.and_then(|target| {
            let tls = TlsClient::new(&self.tls, self.protocol, &target.host);
            tls.map_err(|fault| faults.push(fault.to_string())).ok()
        });
        match (target, length) {
            (Some(target), Some(length)) if faults.is_empty() => {
                Ok(Resolved { target, tls, length, classes })
            }
            _ => Err(LoadError::Plan(faults)),
        }
    }

    /// Whether a class replays a trace.
    pub(crate) fn has_trace(&self) -> bool {
        self.classes.iter().any(|class| matches!(class.arrivals, Arrivals::Trace { .. }))
    }

    fn resolve_length(&self, classes: &[ClassTemplate]) -> Option<Duration> {
        if classes.len() < self.classes.len() {
            return self.length();
        }
        self.duration.or_else(|| {
            let lengths = self.classes.iter().zip(classes).map(|(class, template)| {
                template.trace.as_ref().map(|trace| trace.span()).or_else(|| class.arrivals.length())
            });
            lengths.collect::<Option<Vec<_>>>()?.into_iter().max()
        })
    }

    fn check_bounds(&self, faults: &mut Vec<String>) {
        check_range("threads", self.threads, 1, THREADS_MAX, faults);
        check_range("h2_connections", self.h2_connections, 1, 10_000, faults);
        check_range("in_flight_max", self.in_flight_max, 1, 10_000_000, faults);
        check_range("waiting_max", self.waiting_max, 1, 100_000_000, faults);
        check_range("class: number of classes", self.classes.len(), 1, CLASSES_MAX, faults);
        if !self.keep_alive && self.protocol != Protocol::Http1 {
            faults.push("keep_alive: false needs protocol = \"http1\"; set one of the two".to_owned());
        }
        if !self.keep_alive && self.requests_per_connection.is_some() {
            faults.push("requests_per_connection: needs keep_alive; remove one of the two".to_owned());
        }
        if self.requests_per_connection == Some(0) {
            faults.push("requests_per_connection: must be at least 1".to_owned());
        }
        if self.drain.is_some_and(|drain| drain > DRAIN_MAX) {
            faults.push("drain: must be at most 10m".to_owned());
        }
        self.tls.check(faults);
    }

    fn resolve_target(&self, faults: &mut Vec<String>) -> Option<Target> {
        let mut fault = |what: &str| {
            faults.push(format!("url: `{}` {what}", self.url));
            None
        };
        let Ok(uri) = self.url.parse::<Uri>() else {
            return fault("is not a URL; write `http://host:port/path`");
        };
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return fault("has no scheme `http://` or `https://`; put one before it"),
        };
        let Some(authority) = uri.authority() else {
            return fault("has no host; write `http://host:port/path`");
        };
        if secure && self.tls.ca.is_none() && !self.tls.insecure {
            return fault(
                "needs trust: give a CA file (tls.ca, --ca) or accept anyone (tls.insecure, --insecure)",
            );
        }
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        // User information is no part of the Host header (RFC 9110, section 7.2).
        let bare = authority.as_str().rsplit('@').next().unwrap_or_default();
        let Ok(authority) = bare.parse::<Authority>() else {
            return fault("has no host; write `http://host:port/path`");
        };
        Some(Target {
            secure,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port,
            authority,
            path: RequestTemplate::origin_form(&uri),
        })
    }
}

/// A plan whose texts have been parsed.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) target: Target,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) length: Duration,
    pub(crate) classes: Vec<ClassTemplate>,
}

/// Where the load goes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) secure: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) authority: Authority,
    pub(crate) path: String,
}

impl Target {
    pub(crate) fn scheme(&self) -> Scheme {
        if self.secure { Scheme::HTTPS } else { Scheme::HTTP }
    }
}

fn check_range(key: &str, value: usize, least: usize, most: usize, faults: &mut Vec<String>) {
    if !(least..=most).contains(&value) {
        faults.push(format!("{key}: {value} is out of range; give {least} to {most}"));
    }
}

const fn default_seed() -> u64 {
    1
}
const fn default_threads() -> usize {
    1
}
const fn default_true() -> bool {
    true
}
const fn default_h2_connections() -> usize {
    1
}
const fn default_in_flight_max() -> usize {
    20_000
}
const fn default_waiting_max() -> usize {
    1_000_000
}
const fn default_lag_bound() -> Duration {
    Duration::from_millis(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(plan: &Plan) -> String {
        plan.check().expect_err("faulty").to_string()
    }

    #[test]
    fn all_faults_come_at_once_with_their_places() {
        let mut plan = Plan::new("ftp://x").class(
            ClassPlan::poisson("a", 1.0).path("no slash").method("G E T").header("content-length", "3"),
        );
        plan.threads = 0;
        let said = faults(&plan);
        for part in [
            "url: `ftp://x`",
            "duration: missing",
            "threads: 0",
            "class.a.method",
            "class.a.path",
            "class.a.headers",
            "remove it",
        ] {
            assert!(said.contains(part), "{part} is missing in: {said}");
        }
    }

    #[test]
    fn https_without_trust_is_refused_with_both_mends() {
        let plan = Plan::new("https://localhost/")
            .class(ClassPlan::poisson("a", 1.0))
            .duration(Duration::from_secs(1));
        let said = faults(&plan);
        assert!(said.contains("--ca") && said.contains("--insecure"), "{said}");
    }

    #[test]
    fn a_url_without_a_path_is_one_also_before_a_query() {
        for (url, path) in [("http://x", "/"), ("http://x?a=1", "/?a=1"), ("http://x/y?a=1", "/y?a=1")] {
            let plan = Plan::new(url).class(ClassPlan::poisson("a", 1.0)).duration(Duration::from_secs(1));
            let resolved = plan.resolve().expect("no fault");
            assert_eq!(resolved.classes[0].request.target.as_str(), path, "{url}");
        }
    }

    /// The page that documents plans names every key of one.
    #[test]
    fn every_key_is_documented() {
        fn keys(table: &toml::Table, found: &mut Vec<String>) {
            for (key, value) in table {
                found.push(key.clone());
                match value {
                    toml::Value::Table(inner) => keys(inner, found),
                    toml::Value::Array(items) => {
                        items.iter().filter_map(toml::Value::as_table).for_each(|inner| keys(inner, found));
                    }
                    _ => {}
                }
            }
        }
        let mut class = ClassPlan::poisson("a", 5.0).path("/").clients(3).requests_max(1);
        class.client_header = Some("x-client".to_owned());
        class.sessions = Some(crate::session::Sessions::File("a.toml".into()));
        class.retry = Some(RetryPlan { retry_after_max: Some(Duration::from_secs(1)), ..RetryPlan::new(1) });
        class.follow = Some(FollowPlan::default());
        let mut plan = Plan::new("http://x/").class(class).duration(Duration::from_secs(1));
        plan.drain = Some(Duration::from_secs(1));
        plan.requests_per_connection = Some(1);
        plan.tls.ca = Some("ca.pem".into());
        plan.tls.server_name = Some("x".to_owned());
        let mut found = Vec::new();
        keys(&toml::Table::try_from(&plan).expect("a plan is TOML"), &mut found);
        assert!(found.len() > 40, "{found:?}");
        let page = include_str!("../../../../docs/load.md");
        for key in found {
            assert!(page.contains(&format!("`{key}`")), "docs/load.md does not name `{key}`");
        }
    }

    #[test]
    fn a_plan_survives_toml_and_unknown_keys_do_not() {
        let plan = Plan::new("http://127.0.0.1:1/x")
            .class(ClassPlan::poisson("a", 5.0).header("x-class", "a").retry(RetryPlan::new(3)))
            .duration(Duration::from_secs(3));
        let text = toml::to_string(&plan).expect("a plan is TOML");
        assert_eq!(Plan::from_toml(&text).expect("own output"), plan);
        let fault = Plan::from_toml("url = \"http://x\"\nrat = 1\nclass = []").expect_err("unknown key");
        assert!(fault.contains("rat") && fault.contains("line 2"), "{fault}");
    }

    #[test]
    fn a_number_where_units_belong_is_told_what_is_wanted() {
        let class = "url = \"http://x\"\n[[class]]\nname = \"a\"\n";
        for (text, wanted) in [
            (format!("{class}arrivals = 5"), "an arrival pattern in quotes, such as \"poisson:60/s\""),
            (format!("{class}arrivals = \"5/s\"\ntimeout = 2"), "a duration in quotes, such as \"250ms\""),
            (format!("drain = 2\n{class}arrivals = \"5/s\""), "a duration in quotes, such as \"250ms\""),
        ] {
            let fault = Plan::from_toml(&text).expect_err("a number");
            assert!(fault.contains(wanted) && fault.contains("line"), "{fault}");
        }
    }

    const WHOLE: &str = r#"
url = "http://127.0.0.1:8080/"
duration = "30s"
warmup = "5s"
cooldown = "5s"
cpus = [1]
drain = "1s"
requests_per_connection = 7
tls = { insecure = true, versions = "1.2", resume_share = 0.5 }
[[class]]
name = "critical"
arrivals = "poisson:repeat:600/s:2s,0.5/min:4ms"
timeout = "2s"
headers = { x-class = "critical" }
retry = { retries = 3, backoff = "200ms", factor = 1.5, jitter = 0.5 }
follow = { wait_max = "1h", returns_max = 3 }
requests_max = 9
[[class]]
name = "visits"
arrivals = "closed:64:think=1500us"
body_bytes = 3
[class.sessions]
entry = "Home"
think = "7s"
images = ["/picture/{item}"]
images_per_page = 1.4
[class.sessions.parameters]
item = { from = 1, to = 33000, per = "session" }
[class.sessions.page.Home]
path = "/?{item}"
next = { Home = 0.7 }
end = 0.3
"#;
    /// What may stand behind a key, mostly wrong there.
    const VALUES: [&str; 16] = [
        "0",
        "1",
        "-1",
        "0.5",
        "1e300",
        "nan",
        "-inf",
        "9223372036854775807",
        "true",
        "\"\"",
        "\"0.5us\"",
        "\"0.0000001/s:0.001us\"",
        "\"closed:99999999999999999999\"",
        "\"/{\"",
        "[\"\"]",
        "{ a = 1e300, from = -1, to = 9223372036854775807 }",
    ];

    /// Whatever stands in a file, it is a plan or is told to be none; a plan that is written reads back, as reports hold it.
    #[test]
    fn any_text_is_a_plan_or_none() {
        type Slips = (u8, Vec<(u16, u8)>, Vec<(u16, u8, bool)>);
        bolero::check!().with_iterations(5_000).with_type::<Slips>().for_each(|(slips, values, octets)| {
            let mut lines: Vec<String> = WHOLE.lines().map(str::to_owned).collect();
            for (line, value) in values.iter().take(4) {
                let count = lines.len();
                let line = &mut lines[usize::from(*line) % count];
                if let Some((key, _)) = line.split_once(" = ") {
                    *line = format!("{key} = {}", VALUES[usize::from(*value) % VALUES.len()]);
                }
            }
            let mut text = lines.join("\n").into_bytes();
            for (at, octet, is_new) in octets.iter().take(usize::from(*slips) % 3) {
                let at = usize::from(*at) % text.len();
                text.splice(at..at + usize::from(!is_new), [*octet]);
            }
            let Ok(plan) = Plan::from_toml(&String::from_utf8_lossy(&text)) else { return };
            let is_sound = plan.check().is_ok();
            let written = toml::to_string(&plan).expect("a plan is TOML");
            let again = Plan::from_toml(&written).unwrap_or_else(|fault| panic!("{written}: {fault}"));
            assert_eq!(again.check().is_ok(), is_sound, "{written}");
        });
    }
}

//! What a run is to do: target, protocol, classes of requests, bounds.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use serde::{Deserialize, Serialize};

use crate::{
    arrivals::Arrivals,
    error::LoadError,
    units::{DURATION_MAX, Rate, duration, optional_duration},
};

/// The most classes a plan may have.
pub const CLASSES_MAX: usize = 64;
/// The most threads a plan may ask for.
pub const THREADS_MAX: usize = 256;
/// The largest request body, in bytes: it is held in memory once.
pub const BODY_BYTES_MAX: usize = 1 << 30;
/// The most retries of one request.
pub const RETRIES_MAX: u32 = 100;

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
    /// Most requests in flight at once, of all classes and threads. An arrival beyond it is not
    /// sent but counted as an overrun, and the report says that the generator was the bottleneck.
    #[serde(default = "default_in_flight_max")]
    pub in_flight_max: usize,
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

/// How TLS is spoken and whom it trusts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsPlan {
    /// Accept any certificate.
    #[serde(default)]
    pub insecure: bool,
    /// PEM file of the certificate authorities to trust. Without it and without `insecure` an
    /// `https` plan is refused: this instrument does not read the system's trust store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Versions offered.
    #[serde(default)]
    pub versions: TlsVersions,
    /// Whether sessions are resumed with tickets or session ids.
    #[serde(default = "default_true")]
    pub resume: bool,
    /// The name sent (SNI) and verified; the URL's host if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

/// TLS versions offered in the hello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersions {
    /// 1.3 and 1.2.
    #[default]
    #[serde(rename = "any")]
    Any,
    /// 1.2 alone.
    #[serde(rename = "1.2")]
    Only12,
    /// 1.3 alone.
    #[serde(rename = "1.3")]
    Only13,
}

/// One class of requests with arrivals of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassPlan {
    /// Its name in the report; unique in the plan.
    pub name: String,
    /// When its requests start.
    pub arrivals: Arrivals,
    /// Request method.
    #[serde(default = "default_method")]
    pub method: String,
    /// Path and query; the URL's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Headers beside `host` and `content-length`, which follow from the rest.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Request body size in bytes, 0 to [`BODY_BYTES_MAX`].
    #[serde(default)]
    pub body_bytes: usize,
    /// How long a client waits for the whole reply, from the intended start of each try. Then it
    /// closes its connection (HTTP/1) or resets its stream (HTTP/2).
    #[serde(default = "default_timeout", with = "duration")]
    pub timeout: Duration,
    /// What a client does after a try that failed; `None` gives up at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPlan>,
    /// The class ends after so many requests, if that comes before the duration's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_max: Option<u64>,
}

/// Bounded retries with exponential backoff.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPlan {
    /// Tries beside the first, 1 to [`RETRIES_MAX`].
    pub retries: u32,
    /// Pause before the first retry.
    #[serde(default = "default_backoff", with = "duration")]
    pub backoff: Duration,
    /// Each further pause is so many times the one before, 1 to 10.
    #[serde(default = "default_factor")]
    pub factor: f64,
    /// The pause is drawn evenly from this share below its length, 0 (none) to 1 (full jitter).
    #[serde(default)]
    pub jitter: f64,
    /// Retry after a timeout or a failed connection (refusals are retried by `on_refusal`).
    #[serde(default = "default_true")]
    pub on_failure: bool,
    /// Retry after 429 or 503.
    #[serde(default = "default_true")]
    pub on_refusal: bool,
    /// Wait as long as a refusal's `Retry-After` in seconds says, up to this; `None` ignores it.
    #[serde(default, with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub retry_after_max: Option<Duration>,
}

impl Plan {
    /// A plan for `url` with defaults and no class yet.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            duration: None,
            warmup: Duration::ZERO,
            seed: default_seed(),
            threads: default_threads(),
            cpus: Vec::new(),
            protocol: Protocol::default(),
            keep_alive: true,
            h2_connections: default_h2_connections(),
            in_flight_max: default_in_flight_max(),
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

    /// How long requests start: the duration given, or the longest schedule's length.
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
        let length = self.length();
        match length {
            None => faults.push(
                "duration: missing, and a class's arrivals have no end of their own; set it, such as \"30s\""
                    .to_owned(),
            ),
            Some(length) if length.is_zero() || length > DURATION_MAX => {
                faults.push("duration: must be longer than 0 and at most 240h".to_owned());
            }
            Some(length) if self.warmup >= length => {
                faults.push("warmup: must be shorter than the duration, or nothing is measured".to_owned());
            }
            Some(_) => {}
        }
        check_range("threads", self.threads, 1, THREADS_MAX, &mut faults);
        check_range("h2_connections", self.h2_connections, 1, 10_000, &mut faults);
        check_range("in_flight_max", self.in_flight_max, 1, 10_000_000, &mut faults);
        check_range("class: number of classes", self.classes.len(), 1, CLASSES_MAX, &mut faults);
        if !self.keep_alive && self.protocol != Protocol::Http1 {
            faults.push("keep_alive: false needs protocol = \"http1\"; set one of the two".to_owned());
        }
        let mut classes = Vec::new();
        for (index, class) in self.classes.iter().enumerate() {
            if self.classes.iter().take(index).any(|other| other.name == class.name) {
                faults.push(format!("class.{}: the name is used twice; rename one", class.name));
            }
            let path = target.as_ref().map_or("/", |target| target.path.as_str());
            classes.extend(class.resolve(path, self.protocol, self.keep_alive, target.as_ref(), &mut faults));
        }
        match (target, length) {
            (Some(target), Some(length)) if faults.is_empty() => Ok(Resolved { target, length, classes }),
            _ => Err(LoadError::Plan(faults)),
        }
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
        Some(Target {
            secure,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            // User information is no part of the Host header (RFC 9110, section 7.2).
            authority: authority.as_str().rsplit('@').next().unwrap_or_default().to_owned(),
            path: uri.path_and_query().map_or_else(|| "/".to_owned(), |path| path.as_str().to_owned()),
        })
    }
}

impl Default for TlsPlan {
    fn default() -> Self {
        Self { insecure: false, ca: None, versions: TlsVersions::Any, resume: true, server_name: None }
    }
}

impl ClassPlan {
    /// A class of bodiless `GET`s of the plan's path, 2 s timeout, no retries.
    #[must_use]
    pub fn new(name: impl Into<String>, arrivals: Arrivals) -> Self {
        Self {
            name: name.into(),
            arrivals,
            method: default_method(),
            path: None,
            headers: BTreeMap::new(),
            body_bytes: 0,
            timeout: default_timeout(),
            retry: None,
            requests_max: None,
        }
    }

    /// A class with Poisson arrivals at `rate_per_s` (clamped to the range of [`Rate`]).
    #[must_use]
    pub fn poisson(name: impl Into<String>, rate_per_s: f64) -> Self {
        let rate = Rate::per_s(rate_per_s.clamp(0.0, crate::units::RATE_PER_S_MAX)).unwrap_or(Rate::ZERO);
        Self::new(name, Arrivals::poisson(rate))
    }

    /// Sets path and query.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Sets the method.
    #[must_use]
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = method.into();
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the request body's size in bytes.
    #[must_use]
    pub fn body_bytes(mut self, bytes: usize) -> Self {
        self.body_bytes = bytes;
        self
    }

    /// Sets the client's patience.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets retries.
    #[must_use]
    pub fn retry(mut self, retry: RetryPlan) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Ends the class after so many requests.
    #[must_use]
    pub fn requests_max(mut self, requests: u64) -> Self {
        self.requests_max = Some(requests);
        self
    }

    fn resolve(
        &self,
        default_path: &str,
        protocol: Protocol,
        keep_alive: bool,
        target: Option<&Target>,
        faults: &mut Vec<String>,
    ) -> Option<ClassTemplate> {
        let before = faults.len();
        let place = format!("class.{}", self.name);
        let mut fault = |key: &str, what: String| faults.push(format!("{place}.{key}: {what}"));
        if self.name.is_empty() || self.name.len() > 64 || self.name.contains(char::is_control) {
            fault("name", "must have 1 to 64 printable characters".to_owned());
        }
        let method = Method::from_bytes(self.method.as_bytes()).ok();
        if method.as_ref().is_none_or(|method| *method == Method::CONNECT) {
            fault(
                "method",
                format!("`{}` is not a method this generator sends; try GET or POST", self.method),
            );
        }
        let path = self.path.as_deref().unwrap_or(default_path);
        // Origin form for HTTP/1; HTTP/2 derives its pseudo-headers from an absolute URI.
        let origin_form = if path.starts_with('/') { path.parse::<Uri>().ok() } else { None };
        if origin_form.is_none() {
            fault("path", format!("`{path}` is not a path; it starts with `/` and is percent-encoded"));
        }
        let absolute = target.and_then(|target| {
            let scheme = if target.secure { "https" } else { "http" };
            format!("{scheme}://{}{path}", target.authority).parse::<Uri>().ok()
        });
        let mut headers = HeaderMap::with_capacity(self.headers.len() + 2);
        for (name, value) in &self.headers {
            match (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
                (Ok(name), Ok(_)) if name == header::CONTENT_LENGTH || name == header::TRANSFER_ENCODING => {
                    fault("headers", format!("`{name}` follows from body_bytes; remove it"));
                }
                (Ok(name), Ok(value)) => {
                    headers.insert(name, value);
                }
                _ => fault("headers", format!("`{name}: {value}` is not a valid header line")),
            }
        }
        if !keep_alive && protocol == Protocol::Http1 {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if self.body_bytes > BODY_BYTES_MAX {
            fault("body_bytes", format!("must be at most {BODY_BYTES_MAX}"));
        }
        if self.timeout.is_zero() || self.timeout > Duration::from_secs(600) {
            fault("timeout", "must be longer than 0 and at most 10m".to_owned());
        }
        if self.requests_max == Some(0) {
            fault("requests_max", "must be at least 1".to_owned());
        }
        if let Some(retry) = &self.retry {
            if !(1..=RETRIES_MAX).contains(&retry.retries) {
                fault("retry.retries", format!("must be from 1 to {RETRIES_MAX}"));
            }
            if !(1.0..=10.0).contains(&retry.factor) {
                fault("retry.factor", "must be from 1 to 10".to_owned());
            }
            if !(0.0..=1.0).contains(&retry.jitter) {
                fault("retry.jitter", "must be from 0 to 1".to_owned());
            }
        }
        if faults.len() > before {
            return None;
        }
        Some(ClassTemplate { method: method?, origin_form: origin_form?, absolute: absolute?, headers })
    }
}

impl RetryPlan {
    /// So many retries after failures and refusals, 100 ms backoff doubling each time, no jitter,
    /// `Retry-After` ignored.
    #[must_use]
    pub fn new(retries: u32) -> Self {
        Self {
            retries,
            backoff: default_backoff(),
            factor: default_factor(),
            jitter: 0.0,
            on_failure: true,
            on_refusal: true,
            retry_after_max: None,
        }
    }
}

/// A plan whose texts have been parsed.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) target: Target,
    pub(crate) length: Duration,
    pub(crate) classes: Vec<ClassTemplate>,
}

/// Where the load goes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) secure: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) authority: String,
    pub(crate) path: String,
}

/// The parts of a class's request that do not change.
#[derive(Clone, Debug)]
pub(crate) struct ClassTemplate {
    pub(crate) method: Method,
    pub(crate) origin_form: Uri,
    pub(crate) absolute: Uri,
    pub(crate) headers: HeaderMap,
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
const fn default_lag_bound() -> Duration {
    Duration::from_millis(2)
}
fn default_method() -> String {
    "GET".to_owned()
}
const fn default_timeout() -> Duration {
    Duration::from_secs(2)
}
const fn default_backoff() -> Duration {
    Duration::from_millis(100)
}
const fn default_factor() -> f64 {
    2.0
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
    fn a_plan_survives_toml_and_unknown_keys_do_not() {
        let plan = Plan::new("http://127.0.0.1:1/x")
            .class(ClassPlan::poisson("a", 5.0).header("x-class", "a").retry(RetryPlan::new(3)))
            .duration(Duration::from_secs(3));
        let text = toml::to_string(&plan).expect("a plan is TOML");
        assert_eq!(Plan::from_toml(&text).expect("own output"), plan);
        let fault = Plan::from_toml("url = \"http://x\"\nrat = 1\nclass = []").expect_err("unknown key");
        assert!(fault.contains("rat") && fault.contains("line 2"), "{fault}");
    }
}

//! One class of load: when it comes, what it asks for, and how patient it is.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};

use super::{BACKOFF_MAX, BODY_BYTES_MAX, CLIENTS_MAX, Protocol, RETRIES_MAX, default_true};
use crate::{
    arrivals::Arrivals,
    request::RequestTemplate,
    session::{Chain, Sessions},
    trace::Trace,
    units::{DURATION_MAX, Rate, duration, optional_duration},
};

/// One class of requests, or of sessions, with arrivals of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassPlan {
    /// Its name in the report; unique in the plan.
    pub name: String,
    /// When its requests start; its sessions, where it has some.
    pub arrivals: Arrivals,
    /// Sessions of pages instead of single requests: a file, or the model itself. Then `method`,
    /// `path` and `body_bytes` are the pages' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Sessions>,
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
    /// Whether a client goes where and when a reply tells it to; `None` takes the reply as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<FollowPlan>,
    /// The class ends after so many requests (sessions, where it has some), if that comes before
    /// the duration's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_max: Option<u64>,
    /// Different clients its requests come from, each as likely, 1 to [`CLIENTS_MAX`]: the report then says
    /// how evenly they were served. Of open arrivals of single requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// The header that tells the server a client's number, from 0; needs `clients`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_header: Option<String>,
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
    /// The longest pause, up to 10 minutes.
    #[serde(default = "default_backoff_max", with = "duration")]
    pub backoff_max: Duration,
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

/// How a client follows `Refresh` and redirects. While it waits it holds no connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowPlan {
    /// The longest wait a client agrees to, in one piece; told to wait longer, it leaves.
    #[serde(default = "default_wait_max", with = "duration")]
    pub wait_max: Duration,
    /// How often a client comes back for one request before it leaves, 1 to 10,000.
    #[serde(default = "default_returns_max")]
    pub returns_max: u32,
    /// Share of those told to wait who do come back, 0 to 1.
    #[serde(default = "default_returning")]
    pub returning: f64,
    /// Comes back as a page's script does, at the millisecond that `Retry-After-Ms` says where there is one, instead of at
    /// the whole second of `Refresh`.
    #[serde(default)]
    pub scripts: bool,
}

impl ClassPlan {
    /// A class of bodiless `GET`s of the plan's path, 2 s timeout, no retries.
    #[must_use]
    pub fn new(name: impl Into<String>, arrivals: Arrivals) -> Self {
        Self {
            name: name.into(),
            arrivals,
            sessions: None,
            method: default_method(),
            path: None,
            headers: BTreeMap::new(),
            body_bytes: 0,
            timeout: default_timeout(),
            retry: None,
            follow: None,
            requests_max: None,
            clients: None,
            client_header: None,
        }
    }

    /// A class with Poisson arrivals at `rate_per_s` (clamped to the range of [`Rate`]).
    #[must_use]
    pub fn poisson(name: impl Into<String>, rate_per_s: f64) -> Self {
        let rate = Rate::per_s(rate_per_s.clamp(0.0, crate::units::RATE_PER_S_MAX)).unwrap_or(Rate::ZERO);
        Self::new(name, Arrivals::poisson(rate))
    }

    /// Makes each arrival a session of pages.
    #[must_use]
    pub fn sessions(mut self, sessions: impl Into<Sessions>) -> Self {
        self.sessions = Some(sessions.into());
        self
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

    /// Lets clients follow `Refresh` and redirects.
    #[must_use]
    pub fn follow(mut self, follow: FollowPlan) -> Self {
        self.follow = Some(follow);
        self
    }

    /// Makes the requests those of so many different clients.
    #[must_use]
    pub fn clients(mut self, clients: u32) -> Self {
        self.clients = Some(clients);
        self
    }

    /// Ends the class after so many requests, or sessions.
    #[must_use]
    pub fn requests_max(mut self, requests: u64) -> Self {
        self.requests_max = Some(requests);
        self
    }

    /// Parses the texts and reads the files this class names; adds what is wrong to `faults`.
    pub(super) fn resolve(
        &self,
        default_path: &str,
        protocol: Protocol,
        keep_alive: bool,
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
        let target = RequestTemplate::parse_target(path);
        if target.is_none() {
            fault("path", format!("`{path}` is not a path; it starts with `/` and is percent-encoded"));
        }
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
        if self.clients.is_some_and(|clients| !(1..=CLIENTS_MAX).contains(&clients)) {
            fault("clients", format!("must be from 1 to {CLIENTS_MAX}"));
        }
        if self.clients.is_some()
            && (self.sessions.is_some() || matches!(self.arrivals, Arrivals::Closed { .. }))
        {
            fault(
                "clients",
                "each session, and each connection of a closed loop, is a client already; remove it"
                    .to_owned(),
            );
        }
        let client_header = self.client_header.as_ref().and_then(|name| {
            let parsed = HeaderName::from_bytes(name.as_bytes()).ok();
            if parsed.is_none() {
                fault("client_header", format!("`{name}` is not the name of a header; try x-client"));
            }
            parsed
        });
        if self.client_header.is_some() && self.clients.is_none() {
            fault("client_header", "needs `clients`; say how many there are".to_owned());
        }
        if let Some(retry) = &self.retry {
            retry.check(&mut fault);
        }
        if let Some(follow) = &self.follow {
            follow.check(&mut fault);
        }
        let trace = match &self.arrivals {
            Arrivals::Trace { file, speed } => {
                Trace::read(Path::new(file), *speed).map_err(|what| fault("arrivals", what)).ok()
            }
            _ => None,
        };
        let chain = match &self.sessions {
            Some(sessions) => {
                let what = sessions.resolve(&headers);
                what.map_err(|faults| faults.into_iter().for_each(|what| fault("sessions", what))).ok()
            }
            None => None,
        };
        if self.sessions.is_some() {
            if self.path.is_some() || self.body_bytes > 0 || self.method != "GET" {
                fault(
                    "sessions",
                    "the pages have path, method and body of their own; remove those".to_owned(),
                );
            }
            match &self.arrivals {
                Arrivals::Trace { .. } => {
                    fault("arrivals", "a trace says which paths are asked for; remove `sessions`".to_owned());
                }
                Arrivals::Closed { think, .. } if !think.is_zero() => {
                    fault("arrivals", "sessions have a think time of their own; remove `:think=`".to_owned());
                }
                _ => {}
            }
        }
        if faults.len() > before {
            return None;
        }
        Some(ClassTemplate {
            request: RequestTemplate { method: method?, target: target?, headers },
            client_header,
            chain: chain.map(Arc::new),
            trace: trace.map(Arc::new),
        })
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
            backoff_max: default_backoff_max(),
            jitter: 0.0,
            on_failure: true,
            on_refusal: true,
            retry_after_max: None,
        }
    }

    fn check(&self, fault: &mut impl FnMut(&str, String)) {
        if !(1..=RETRIES_MAX).contains(&self.retries) {
            fault("retry.retries", format!("must be from 1 to {RETRIES_MAX}"));
        }
        if !(1.0..=10.0).contains(&self.factor) {
            fault("retry.factor", "must be from 1 to 10".to_owned());
        }
        if self.backoff_max > BACKOFF_MAX {
            fault("retry.backoff_max", "must be at most 10m".to_owned());
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            fault("retry.jitter", "must be from 0 to 1".to_owned());
        }
    }
}

impl FollowPlan {
    fn check(&self, fault: &mut impl FnMut(&str, String)) {
        if self.wait_max > DURATION_MAX {
            fault("follow.wait_max", "must be at most 240h".to_owned());
        }
        if !(1..=10_000).contains(&self.returns_max) {
            fault("follow.returns_max", "must be from 1 to 10000".to_owned());
        }
        if !(0.0..=1.0).contains(&self.returning) {
            fault("follow.returning", "must be from 0 to 1".to_owned());
        }
    }
}

impl Default for FollowPlan {
    fn default() -> Self {
        Self {
            wait_max: default_wait_max(),
            returns_max: default_returns_max(),
            returning: default_returning(),
            scripts: false,
        }
    }
}

/// What does not change in a class, parsed and read.
#[derive(Clone, Debug)]
pub(crate) struct ClassTemplate {
    pub(crate) request: RequestTemplate,
    /// Tells the server which client asks.
    pub(crate) client_header: Option<HeaderName>,
    pub(crate) chain: Option<Arc<Chain>>,
    pub(crate) trace: Option<Arc<Trace>>,
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
const fn default_backoff_max() -> Duration {
    BACKOFF_MAX
}
const fn default_factor() -> f64 {
    2.0
}
const fn default_wait_max() -> Duration {
    Duration::from_secs(3600)
}
const fn default_returns_max() -> u32 {
    100
}
const fn default_returning() -> f64 {
    1.0
}

//! Who asks, and what they may: tokens, client certificates, host names, and how fast.

use std::{
    fs::File,
    hash::{BuildHasher, RandomState},
    io::{self, Read},
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use aws_lc_rs::{constant_time::verify_slices_are_equal, digest};
use http::{Method, StatusCode, Uri, header, request::Parts};
use serde_json::{Value as Json, json};
use tidegate_config::{AdminAccess, AdminToken, Role, open_file};
use tidegate_control::{
    client_rate::{ClientRateSettings, ClientRates, RetryAfter},
    knobs::ChoiceSet as _,
};
use tidegate_runtime::Clock;
use tokio::sync::watch;

use crate::problem::Problem;

/// Requests of one client (an IPv4 address, or an IPv6 /64): far more than people and controllers need.
const REQUESTS: ClientRateSettings =
    ClientRateSettings { rate_per_s: Some(1000.0), burst: 2000.0, tracked_max: 4096 };
/// Requests of one client with a token that is none; beyond, the answer is 429.
const FAILURES: ClientRateSettings =
    ClientRateSettings { rate_per_s: Some(1.0), burst: 20.0, tracked_max: 4096 };
/// Lengths of a token, in characters.
const TOKEN_MIN: usize = 32;
const TOKEN_MAX: usize = 512;

/// Decides whom the admin interface answers.
#[derive(Debug)]
pub(crate) struct Access {
    rules: RwLock<Arc<Rules>>,
    clock: Clock,
    /// Secret, so that nobody can choose addresses that fall together.
    seed: RandomState,
    requests: Mutex<ClientRates>,
    failures: Mutex<ClientRates>,
    /// Tells who was let in for long that the rules may be others.
    changed: watch::Sender<()>,
}

/// Somebody who was let in for long, and on what grounds; a token is among them.
pub(crate) struct Guest {
    access: Arc<Access>,
    changes: watch::Receiver<()>,
    peer: Peer,
    head: Parts,
    caller: Caller,
}

/// Who is known, and under which names we are.
#[derive(Debug)]
struct Rules {
    hosts: Vec<String>,
    /// Whether a token or certificate is asked for.
    is_demanded: bool,
    tokens: Vec<Token>,
    /// What clients with a certificate may do.
    certificates: Option<Role>,
}

/// A token, which itself is forgotten.
pub(crate) struct Token {
    name: String,
    role: Role,
    applications: Vec<String>,
    hash: [u8; digest::SHA256_OUTPUT_LEN],
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// A file of a token that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("admin_token {name}: {}: {problem}", path.display())]
pub struct TokenError {
    name: String,
    path: PathBuf,
    problem: String,
}

/// The other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// SHA-256 of the certificate it has shown and that was verified, in hexadecimal.
    pub(crate) certificate: Option<String>,
}

/// Somebody who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Who it is; `None` where nobody is asked.
    who: Option<String>,
    role: Role,
    /// Role `check`: the applications of whose waiting rooms he may report; none: all.
    applications: Vec<String>,
    by: &'static str,
}

impl Access {
    /// Reads the tokens' files.
    pub(crate) fn new(settings: &AdminAccess, clock: Clock) -> Result<Self, TokenError> {
        let now = clock.now();
        Ok(Self {
            rules: RwLock::new(Arc::new(Rules::read(settings)?)),
            clock,
            seed: RandomState::new(),
            requests: Mutex::new(ClientRates::new(now, REQUESTS)),
            failures: Mutex::new(ClientRates::new(now, FAILURES)),
            changed: watch::Sender::new(()),
        })
    }

    /// Lets somebody stay whose request was answered as of `caller`, for as long as it would be.
    pub(crate) fn guest(self: &Arc<Self>, peer: &Peer, head: &Parts, caller: &Caller) -> Guest {
        let (access, changes) = (Arc::clone(self), self.changed.subscribe());
        Guest { access, changes, peer: peer.clone(), head: head.clone(), caller: caller.clone() }
    }

    /// Takes up what the settings and the tokens' files say now.
    pub(crate) fn reload(&self, settings: &AdminAccess) -> Result<(), TokenError> {
        let rules = Arc::new(Rules::read(settings)?);
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        self.changed.send_replace(());
        Ok(())
    }

    /// Whether something is asked of who comes.
    pub(crate) fn is_demanded(&self) -> bool {
        self.rules().is_demanded
    }

    /// Lets a request in, if it comes from where it may and not too fast: before anybody is asked who
    /// they are.
    pub(crate) fn admit(&self, peer: &Peer, head: &Parts) -> Result<(), Problem> {
        self.take(&self.requests, peer).map_err(|wait| too_fast("requests come too fast", wait))?;
        self.rules().guard(head)
    }

    /// Says who asks, and refuses who may not do what is asked.
    pub(crate) fn identify(&self, peer: &Peer, head: &Parts) -> Result<Caller, Problem> {
        let caller = match self.rules().identify(peer, head) {
            Ok(caller) => caller,
            Err(why) => {
                self.take(&self.failures, peer)
                    .map_err(|wait| too_fast("too many requests without a valid token", wait))?;
                tracing::warn!(client = %peer.address, "admin: refused: {why}");
                return Err(Problem::new(StatusCode::UNAUTHORIZED, why)
                    .with(header::WWW_AUTHENTICATE, "Bearer realm=\"tidegate\"".to_owned()));
            }
        };
        let only_looks = [Method::GET, Method::HEAD].contains(&head.method);
        let why = match caller.role {
            Role::Check if !is_report(head) => {
                "this token is for reports of waiting rooms only: looking needs one whose role is \"read\""
            }
            Role::Read if !only_looks => {
                "this token may look only: changes need one whose role is \"operator\""
            }
            Role::Check | Role::Read | Role::Operator => return Ok(caller),
        };
        Err(Problem::new(StatusCode::FORBIDDEN, why))
    }

    fn take(&self, rates: &Mutex<ClientRates>, peer: &Peer) -> Result<(), RetryAfter> {
        let mut rates = rates.lock().unwrap_or_else(PoisonError::into_inner);
        rates.take(self.clock.now(), self.seed.hash_one(network(peer.address)))
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Guest {
    /// Waits until he would not be let in any more, or as somebody else.
    pub(crate) async fn is_over(&mut self) {
        while self.changes.changed().await.is_ok() {
            let now = self.access.rules().identify(&self.peer, &self.head);
            if now.as_ref() != Ok(&self.caller) {
                return;
            }
        }
        // The rules stay as they are.
        std::future::pending().await
    }
}

impl Rules {
    fn read(settings: &AdminAccess) -> Result<Self, TokenError> {
        Ok(Self {
            hosts: settings.hosts.clone(),
            is_demanded: settings.is_demanded(),
            tokens: settings.tokens.iter().map(read).collect::<Result<_, _>>()?,
            certificates: settings
                .tls
                .as_ref()
                .and_then(|tls| tls.clients.as_ref())
                .map(|clients| clients.role),
        })
    }

    /// Refuses what a web page could make a browser send here: a foreign name that resolves to this
    /// address (DNS rebinding), and cross-site requests.
    fn guard(&self, head: &Parts) -> Result<(), Problem> {
        let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if !self.is_ours(host) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "the Host header must be an IP address, localhost or one of admin_hosts",
            ));
        }
        if let Some(origin) = head.headers.get(header::ORIGIN) {
            let origin_host = origin
                .to_str()
                .ok()
                .and_then(|origin| origin.parse::<Uri>().ok())
                .and_then(|uri| uri.authority().map(ToString::to_string));
            if origin_host.as_deref() != Some(host) {
                return Err(Problem::new(StatusCode::FORBIDDEN, "cross-site requests are not answered"));
            }
        }
        // A form of a foreign page can send other types without asking first.
        if [Method::POST, Method::PATCH, Method::PUT].contains(&head.method) {
            let sent = head
                .headers
                .get(header::CONTENT_TYPE)
                .and_then(|sent| sent.to_str().ok())
                .unwrap_or_default();
            let essence = sent.split(';').next().unwrap_or_default().trim();
            if !essence.eq_ignore_ascii_case("application/json") {
                return Err(Problem::new(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "send JSON, with Content-Type: application/json",
                ));
            }
        }
        Ok(())
    }

    fn is_ours(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<http::uri::Authority>() else { return false };
        let name = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        name == "localhost" || name.parse::<IpAddr>().is_ok() || self.hosts.contains(&name)
    }

    fn identify(&self, peer: &Peer, head: &Parts) -> Result<Caller, &'static str> {
        if !self.is_demanded {
            return Ok(Caller { who: None, role: Role::Operator, applications: Vec::new(), by: "loopback" });
        }
        let sent = head.headers.get(header::AUTHORIZATION).and_then(|sent| sent.to_str().ok());
        if let Some(token) = sent.and_then(bearer) {
            let found = self.token(token).ok_or("this token is not known here")?;
            let applications = found.applications.clone();
            return Ok(Caller { who: Some(found.name.clone()), role: found.role, applications, by: "token" });
        }
        match (&peer.certificate, self.certificates) {
            (Some(hash), Some(role)) => {
                let who = format!("certificate {}", hash.get(..16).unwrap_or(hash));
                Ok(Caller { who: Some(who), role, applications: Vec::new(), by: "certificate" })
            }
            _ => Err("a token is needed: send Authorization: Bearer TOKEN"),
        }
    }

    /// The token, compared with every one in the same time.
    fn token(&self, sent: &str) -> Option<&Token> {
        let sent = hash(sent);
        let mut found = None;
        for token in &self.tokens {
            if verify_slices_are_equal(&token.hash, &sent).is_ok() {
                found = Some(token);
            }
        }
        found
    }
}

impl Caller {
    /// Somebody of whom nothing is asked, at a path that needs nobody.
    pub(crate) const fn anyone() -> Self {
        Self { who: None, role: Role::Read, applications: Vec::new(), by: "nothing" }
    }

    /// Who changes something, for the record: who the token says it is, and whom they name.
    pub(crate) fn who(&self, named: Option<String>) -> String {
        match (&self.who, named) {
            (Some(who), Some(named)) if *who != named => format!("{who} ({named})"),
            (Some(who), _) => who.clone(),
            (None, named) => named.unwrap_or_else(|| "api".to_owned()),
        }
    }

    /// Whether he may report of an application's waiting room, if he may report at all.
    pub(crate) fn reports_of(&self, application: &str) -> bool {
        self.applications.is_empty() || self.applications.iter().any(|named| named == application)
    }

    /// What `GET /api/v1/session` answers.
    pub(crate) fn describe(&self) -> Json {
        json!({ "role": self.role.name(), "by": self.by, "who": self.who })
    }
}

/// Reads a token from its file.
pub(crate) fn read(token: &AdminToken) -> Result<Token, TokenError> {
    let AdminToken { name, role, file, applications } = token;
    match read_token(file) {
        Ok(secret) => {
            let (name, applications) = (name.clone(), applications.clone());
            Ok(Token { name, role: *role, applications, hash: hash(&secret) })
        }
        Err(problem) => Err(TokenError { name: name.clone(), path: file.clone(), problem }),
    }
}

fn read_token(file: &Path) -> Result<String, String> {
    let unreadable = |error: io::Error| format!("cannot be read ({error}): let Tidegate's user read it");
    let mut text = String::new();
    let opened = open_file(file).map_err(unreadable)?;
    warn_if_open(file, &opened);
    opened.take(TOKEN_MAX as u64 + 3).read_to_string(&mut text).map_err(unreadable)?;
    let token = text.trim_end_matches(['\r', '\n']);
    let fits = (TOKEN_MIN..=TOKEN_MAX).contains(&token.len()) && token.chars().all(|c| c.is_ascii_graphic());
    match fits {
        true => Ok(token.to_owned()),
        false => Err(format!(
            "holds no token: write one line of {TOKEN_MIN} to {TOKEN_MAX} letters, digits and signs, such as openssl rand -hex 32 makes"
        )),
    }
}

fn warn_if_open(path: &Path, file: &File) {
    use std::os::unix::fs::PermissionsExt as _;
    if file.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0) {
        tracing::warn!(file = %path.display(), "every user of this host can read this token: chmod o= it");
    }
}

/// `Bearer TOKEN` (RFC 6750, section 2.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn hash(token: &str) -> [u8; digest::SHA256_OUTPUT_LEN] {
    let mut hash = [0; digest::SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    hash
}

/// Whether a request is what the check of a waiting room sends.
fn is_report(head: &Parts) -> bool {
    let path = head.uri.path();
    head.method == Method::POST
        && path.starts_with("/api/v1/applications/")
        && path.ends_with("/waiting-room/report")
}

/// One IPv4 address, or one IPv6 /64: what one client can have many of is one.
fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
    }
}

fn too_fast(what: &str, RetryAfter(wait): RetryAfter) -> Problem {
    let seconds = wait.as_secs() + 1;
    Problem::new(StatusCode::TOO_MANY_REQUESTS, format!("{what}: wait {seconds} s"))
        .with(header::RETRY_AFTER, seconds.to_string())
}

#[cfg(test)]
mod tests;

//! Validated settings: what the rest of Tidegate reads. Values are in range, names refer to things that exist.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;
use tidegate_control::{
    archive::Layout,
    classify::{RouteSpec, RuleSpec},
    controller::OnFailure,
    knobs::{Knob, Values},
    waiting_room::LANES_MAX,
};

/// The whole of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Knobs of the gateway as a whole.
    pub host: Values,
    /// Where the admin API, metrics and health answer; `None`: nowhere.
    pub admin: Option<SocketAddr>,
    /// Whom it answers.
    pub admin_access: AdminAccess,
    /// Groups of worker threads; at least one.
    pub workers: Vec<WorkerGroup>,
    /// Where clients connect; at least one.
    pub listeners: Vec<Listener>,
    /// Who is served; at least one.
    pub applications: Vec<Application>,
    /// Which of them serves a request where its host does not say, in order; names refer to
    /// [`Settings::applications`].
    pub routes: Vec<RouteSpec>,
    /// Where requests are logged; `None`: nowhere.
    pub access_log: Option<AccessLog>,
    /// Export of metrics and traces; `None`: nothing is exported.
    pub telemetry: Option<Telemetry>,
    /// Control laws as scripts.
    pub controllers: Vec<Controller>,
    /// Directory for what must survive a restart; `None`: nothing does.
    pub state_directory: Option<PathBuf>,
    /// Bytes the database there may take.
    pub state_bytes_max: u64,
    /// The resolutions at which everything measured is kept.
    pub archives: Layout,
}

/// Whom the admin interface answers, and under which names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminAccess {
    /// Host names under which it may be asked, lower case, besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Who has a token.
    pub tokens: Vec<AdminToken>,
    /// TLS; `None`: plain HTTP.
    pub tls: Option<AdminTls>,
}

impl AdminAccess {
    /// Whether a token or certificate is asked of everybody; if not, whoever reaches it may do all.
    #[must_use]
    pub fn is_demanded(&self) -> bool {
        !self.tokens.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.clients.is_some())
    }
}

/// A bearer token of the admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminToken {
    /// Whose it is, in the record of changes; unlike any other's.
    pub name: String,
    /// The file that holds it, so that it stands in no configuration.
    pub file: PathBuf,
    /// What it allows.
    pub role: Role,
    /// [`Role::Check`]: the applications of whose waiting rooms it may report; none written: all.
    pub applications: Vec<String>,
}

/// What somebody may do at the admin interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Report of the check of waiting rooms, and nothing else.
    Check,
    /// Look at everything.
    Read,
    /// Look and change.
    Operator,
}

/// TLS of the admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminTls {
    /// Its certificate.
    pub certificate: Certificate,
    /// Clients known by their certificate; `None`: none is asked for.
    pub clients: Option<AdminClients>,
}

/// Clients of the admin interface that are known by their certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminClients {
    /// Who vouches for them, PEM.
    pub authorities: PathBuf,
    /// What they may do.
    pub role: Role,
}

/// Export of metrics and traces to an OpenTelemetry collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telemetry {
    /// The collector.
    pub endpoint: CollectorUrl,
    /// The `service.name` of everything exported.
    pub service_name: String,
    /// More attributes of the resource, name and value.
    pub resource: Vec<(String, String)>,
    /// Header fields sent to the collector.
    pub headers: Vec<TelemetryHeader>,
    /// Authorities of the collector's certificate, PEM; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// How long the collector may take to answer.
    pub timeout: Duration,
    /// How often metrics are sent; `None`: not at all.
    pub metrics_interval: Option<Duration>,
    /// Whose `traceparent` is gone by.
    pub parent: TraceParent,
}

/// Where a collector takes OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorUrl {
    /// Whether it is spoken to by TLS.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// What stands before `/v1/metrics`; empty or begins with `/`, and does not end with it.
    pub prefix: String,
}

/// A header field whose value is a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetryHeader {
    /// Its name, lower case.
    pub name: String,
    /// Where its value is.
    pub value: SecretPlace,
}

/// Where a secret is kept, so that it stands in no configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// In a file, in one line.
    File(PathBuf),
    /// In a variable of the environment.
    Environment(String),
}

/// Whose `traceparent` header is gone by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceParent {
    /// That of clients in [`Listener::trusted`].
    Trusted,
    /// Everybody's.
    All,
    /// Nobody's.
    None,
}

/// A control law as a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Its name in logs and audit; unlike any other's.
    pub name: String,
    /// The script.
    pub file: PathBuf,
    /// What becomes of its settings when it is stopped.
    pub on_failure: OnFailure,
    /// Failures of one of its functions in a row that stop it.
    pub strikes: u32,
    /// Shortest period it may ask for.
    pub every_min: Duration,
    /// Steps of a turn.
    pub turn_steps: u64,
    /// Time of a turn.
    pub turn_time: Duration,
    /// Memory it may use, bytes.
    pub memory: u64,
    /// From which its random numbers follow.
    pub seed: u64,
}

/// Threads that own listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerGroup {
    /// Its name; `default` when nothing is written.
    pub name: String,
    /// Number of threads; `None`: as many as the cgroup's CPU quota and affinity allow.
    pub threads: Option<usize>,
}

/// A place where clients connect.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Its name in logs and across reloads.
    pub name: String,
    /// Where it listens.
    pub address: Address,
    /// The worker group that accepts there.
    pub group: String,
    /// TLS; `None`: plain HTTP.
    pub tls: Option<ListenerTls>,
    /// Whether every connection begins with a PROXY header (v1 or v2), accepted from
    /// [`Listener::trusted`] only.
    pub proxy_protocol: bool,
    /// Networks whose `X-Forwarded-*`, `Forwarded` and PROXY headers are believed.
    pub trusted: Vec<IpNet>,
    /// Answers every request with a redirect to `https://` at this port.
    pub redirect_to_https: Option<u16>,
    /// The only application served here; `None`: by SNI and Host.
    pub application: Option<String>,
}

/// An address of a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// IP address and port.
    Tcp(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
}

/// TLS of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerTls {
    /// Certificates, chosen by server name; the first also serves clients without one. Not empty.
    pub certificates: Vec<Certificate>,
    /// Client certificates.
    pub client_auth: ClientAuth,
    /// Oldest version spoken.
    pub min_version: TlsVersion,
    /// Whose order of cipher suites counts.
    pub cipher_order: CipherOrder,
    /// Whether HTTP/2 is offered by ALPN.
    pub http2: bool,
}

/// Files of a certificate, PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Certificate {
    /// The chain, leaf first.
    pub chain: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// What is asked of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// No certificate.
    Off,
    /// A certificate of one of these authorities (PEM), if the client has one.
    Optional(PathBuf),
    /// A certificate of one of these authorities (PEM), or the handshake fails.
    Required(PathBuf),
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

/// Whose order of cipher suites counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CipherOrder {
    /// The gateway's: AES-128-GCM, AES-256-GCM, ChaCha20; the client's where it wants ChaCha20 before all.
    Gateway,
    /// The client's.
    Client,
}

/// A web application behind the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Its name: the first part of knob paths.
    pub name: String,
    /// Host names served, lower case, `*.` for any subdomain; `None`: every host no other
    /// application names, which at most one application has.
    pub hosts: Option<Vec<String>>,
    /// Its knobs.
    pub values: Values,
    /// Its classes; the first is the default class, named `default` unless written otherwise.
    pub classes: Vec<Class>,
    /// Classification rules, in order; class names refer to [`Application::classes`].
    pub rules: Vec<RuleSpec>,
    /// Its servers at the start; the API adds, drains and removes. May be empty.
    pub servers: Vec<Server>,
    /// How servers are spoken to.
    pub upstream: Upstream,
    /// What one client is, for `client.rate`.
    pub client_key: ClientKey,
    /// Edits of request headers, in order, after classification.
    pub request_headers: Vec<HeaderEdit>,
    /// Edits of response headers, in order.
    pub response_headers: Vec<ResponseEdit>,
    /// Path rewrites; the first that matches is applied, after classification.
    pub rewrites: Vec<Rewrite>,
    /// HTML file for the maintenance page; `None`: ours.
    pub maintenance_page: Option<PathBuf>,
    /// What of its waiting room is no knob.
    pub waiting_room: WaitingRoom,
    /// The CPU manager that is asked for its processors; `None`: none is.
    pub processors: Option<Processors>,
}

/// Where an application's processors are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processors {
    /// The socket of the CPU manager.
    pub socket: PathBuf,
    /// The application's name in the manager's file.
    pub name: String,
}

/// What of a waiting room is structure; the rest are knobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingRoom {
    /// HTML file for the page of those who wait; `None`: ours.
    pub page: Option<PathBuf>,
    /// What visitors are told while it is closed; `None`: a sentence of ours.
    pub closed_message: Option<String>,
    /// What tokens and passes are bound to; `None`: nothing.
    pub bind: Option<ClientKey>,
    /// Ends of paths whose GET and HEAD pass.
    pub assets: Vec<String>,
    /// Role `generate`: where visitors go at their time, as `https://host:port`; `None`: where they came.
    pub check_url: Option<String>,
    /// Role `check`: where visitors without a time are sent, as `https://host:port`; `None`: they are refused.
    pub generate_url: Option<String>,
    /// Role `check`: to whom it reports; `None`: to nobody.
    pub report: Option<RoomReport>,
}

/// To whom the check of a waiting room reports, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomReport {
    /// The generator's admin interface, as `https://host:port`.
    pub to: String,
    /// The file of a token there, whose role is `check`.
    pub token_file: Option<PathBuf>,
    /// Authorities (PEM) of its certificate; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// Our certificate, shown to it.
    pub certificate: Option<Certificate>,
}

impl WaitingRoom {
    /// What passes unless something else is written.
    pub const ASSETS: &'static [&'static str] = &[
        ".css",
        ".js",
        ".mjs",
        ".map",
        ".woff",
        ".woff2",
        ".ttf",
        ".otf",
        ".png",
        ".jpg",
        ".jpeg",
        ".gif",
        ".svg",
        ".webp",
        ".avif",
        ".ico",
        ".mp3",
        ".mp4",
        ".webm",
        ".ogg",
        ".wasm",
        "/robots.txt",
        // Browsers ask for these without cookies, so without the pass of the page that names them.
        ".webmanifest",
        "/manifest.json",
    ];
}

impl Default for WaitingRoom {
    fn default() -> Self {
        Self {
            page: None,
            closed_message: None,
            bind: None,
            assets: Self::ASSETS.iter().map(ToString::to_string).collect(),
            check_url: None,
            generate_url: None,
            report: None,
        }
    }
}

/// A class of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name: the second part of knob paths.
    pub name: String,
    /// Its knobs.
    pub values: Values,
    /// What of its place in the waiting room is no knob.
    pub waiting_room: ClassWaitingRoom,
}

/// What of a class's place in the waiting room is structure; the rest are knobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassWaitingRoom {
    /// The class of the same application whose doors, draws and share it has; `None`: its own.
    pub group: Option<String>,
    /// What its visitors are told while its doors are closed; `None`: what the application says.
    pub closed_message: Option<String>,
}

impl ClassWaitingRoom {
    /// Classes of an application that may keep a share of each slot at most.
    pub const SHARES_MAX: usize = LANES_MAX - 1;

    /// What to do where more classes keep one.
    pub(crate) const FEWER_SHARES: &'static str =
        "leave it out, or make several classes one group by waiting_room.group";

    /// What is wrong there.
    pub(crate) fn too_many_shares() -> String {
        format!("is kept for more than {} classes of the application", Self::SHARES_MAX)
    }

    /// Knobs of a class that are none where it is of the group of another, which has them.
    pub const OF_GROUP: &'static [Knob] = &[
        Knob::CLASS_ROOM_METHOD,
        Knob::CLASS_ROOM_OPENS_AT,
        Knob::CLASS_ROOM_ORDER,
        Knob::CLASS_ROOM_ROUND,
        Knob::ROOM_SHARE,
    ];
}

/// An upstream server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Its name: stable over reloads; by default its address as written.
    pub name: String,
    /// Where it is.
    pub address: ServerAddress,
    /// Its knobs.
    pub values: Values,
}

/// Where an upstream server is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// Host name or IP address, and port; a name stands for each address it resolves to.
    Host {
        /// Name or address without brackets.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A Unix socket's path.
    Unix(PathBuf),
}

/// How the servers of an application are spoken to.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// TLS to the servers; `None`: plain.
    pub tls: Option<UpstreamTls>,
    /// Version of HTTP.
    pub protocol: UpstreamProtocol,
    /// PROXY header sent at the start of each connection. A connection then serves one client
    /// address and is pooled by it.
    pub proxy_protocol: Option<ProxyVersion>,
    /// `Host` sent on; `None`: the client's.
    pub host: Option<String>,
    /// Name of the cookie that keeps a visitor at a server; `None`: not sticky.
    pub sticky_cookie: Option<String>,
    /// What `balance = "consistent_hash"` hashes.
    pub hash: ClientKey,
    /// Path of active health probes; any status below 400 is good.
    pub probe_path: String,
}

/// TLS to upstream servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// Name checked in the server's certificate and sent as SNI; `None`: the host as written.
    pub server_name: Option<String>,
    /// Authorities (PEM); `None`: the system's.
    pub ca: Option<PathBuf>,
    /// Certificate shown to the server.
    pub certificate: Option<Certificate>,
    /// Accepts any certificate; said loudly at start.
    pub insecure: bool,
}

/// Version of HTTP to upstream servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: by ALPN over TLS, by prior knowledge without.
    Http2,
    /// HTTP/2 where ALPN chooses it, else HTTP/1.1; without TLS HTTP/1.1.
    Auto,
}

/// Version of the PROXY header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyVersion {
    /// Text.
    V1,
    /// Binary.
    V2,
}

/// What tells one client from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// The address's network prefix, in bits for IPv4 and IPv6.
    Network {
        /// Bits of an IPv4 address, 0 to 32.
        v4: u8,
        /// Bits of an IPv6 address, 0 to 128.
        v6: u8,
    },
    /// The value of a header (lower case name); the network where it is missing.
    Header(String),
    /// The value of a cookie; the network where it is missing.
    Cookie(String),
}

impl Default for ClientKey {
    /// One IPv4 address, or one IPv6 /64.
    fn default() -> Self {
        Self::Network { v4: 32, v6: 64 }
    }
}

/// An edit of a header section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderEdit {
    /// Replaces every value of the field by this one.
    Set {
        /// Field name, lower case.
        name: String,
        /// Field value.
        value: String,
    },
    /// Adds a value to the field.
    Add {
        /// Field name, lower case.
        name: String,
        /// Field value.
        value: String,
    },
    /// Removes the field.
    Remove {
        /// Field name, lower case.
        name: String,
    },
}

impl HeaderEdit {
    /// What is printed in place of a secret.
    pub(crate) const HIDDEN: &str = "(hidden)";

    /// Whether the value of a field of this name proves who somebody is.
    pub(crate) fn is_secret(name: &str) -> bool {
        const SECRETS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-api-key"];
        SECRETS.contains(&name)
    }
}

/// An edit of the header section of responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseEdit {
    /// What is done.
    pub edit: HeaderEdit,
    /// Whether the gateway's own answers have it too; what they say themselves stays.
    pub always: bool,
}

/// A path rewrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Regular expression on the path, anchored at its start; checked to compile.
    pub pattern: String,
    /// Replacement, `$1` for groups; gives an absolute path.
    pub replacement: String,
}

/// The access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Where lines go.
    pub target: LogTarget,
    /// Their format.
    pub format: LogFormat,
}

/// Where lines of the access log go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// A file, opened again on SIGUSR1.
    File(PathBuf),
}

/// Format of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// The Combined Log Format.
    Common,
    /// The same with times behind it.
    CommonTimed,
}

impl Settings {
    /// Bytes the database in the state directory may take, unless something else is written.
    pub const STATE_BYTES_MAX: u64 = 1 << 30;

    /// Position of each application by name.
    #[must_use]
    pub fn application_index(&self) -> BTreeMap<&str, usize> {
        self.applications.iter().enumerate().map(|(i, a)| (a.name.as_str(), i)).collect()
    }
}

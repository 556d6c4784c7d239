//! The table of structure: every key of the configuration file that is not a knob is one row.
//!
//! Together with the table of knobs these rows are what the file may hold: the reader knows
//! unknown keys, types and defaults from them, and the JSON schema and docs/configuration.md are
//! printed from them.

mod application;
mod rules;

use std::time::Duration;

use application::APPLICATION;
use rules::ROUTE;
pub(crate) use rules::{CONDITION, CONDITION_EXPECTED};
use tidegate_control::{
    archive::Layout,
    controller::OnFailure,
    knobs::{ChoiceSet as _, Kind, Scope},
};

use crate::{
    choices::ClientCertificates,
    settings::{CipherOrder, LogFormat, Role, TlsVersion, TraceParent},
    shape::{Absent, Row, Shape, Table},
};

/// The file's top level.
pub(crate) static ROOT: Table = Table {
    title: "top level",
    doc: "The gateway as a whole. Its knobs are written here too, before the first table.",
    scope: Some(Scope::Host),
    rows: &[
        Row {
            name: "admin",
            shape: Shape::Text("an address and port such as \"127.0.0.1:9900\", or \"none\""),
            absent: Absent::Value("127.0.0.1:9900"),
            doc: "Where the admin API, metrics and health answer. An address that is not loopback needs admin_token or admin_tls.client_ca. Read at the start.",
        },
        Row {
            name: "admin_hosts",
            shape: Shape::Texts { each: "a host name such as \"gateway.example\"", max: 64 },
            absent: Absent::Means("IP addresses and localhost only"),
            doc: "Host names under which the admin interface may be asked, besides IP addresses and localhost.",
        },
        Row {
            name: "admin_token",
            shape: Shape::Tables { table: &ADMIN_TOKEN, max: 64 },
            absent: Absent::Means("none is asked for"),
            doc: "Bearer tokens of the admin interface; with one, a token or a client certificate is asked of everybody.",
        },
        Row {
            name: "admin_tls.certificate",
            shape: Shape::Table(&CERTIFICATE),
            absent: Absent::Means("plain HTTP"),
            doc: "Certificate of the admin interface.",
        },
        Row {
            name: "admin_tls.client_ca",
            shape: Shape::Text("a file's path"),
            absent: Absent::Means("no client certificate is asked for"),
            doc: "Authorities of certificates by which clients of the admin interface are known, PEM.",
        },
        Row {
            name: "admin_tls.client_role",
            shape: Shape::Choice(Role::NAMES),
            absent: Absent::Value("operator"),
            doc: "What clients with a certificate may do: look, or look and change.",
        },
        Row {
            name: "access_log.target",
            shape: Shape::Text("\"stdout\", a file's path, or \"none\""),
            absent: Absent::Value("none"),
            doc: "Where requests are logged; a file is opened again on SIGUSR1.",
        },
        Row {
            name: "access_log.format",
            shape: Shape::Choice(LogFormat::NAMES),
            absent: Absent::Value("json"),
            doc: "One JSON object a line, or the Combined Log Format, as it is or with times behind it.",
        },
        Row {
            name: "telemetry.endpoint",
            shape: Shape::Text(COLLECTOR),
            absent: Absent::Means(
                "nothing is exported; required as soon as another key of telemetry is written",
            ),
            doc: "The OpenTelemetry collector, spoken to by OTLP over HTTP: below it are /v1/metrics and /v1/traces.",
        },
        Row {
            name: "telemetry.service_name",
            shape: Shape::Text("a name"),
            absent: Absent::Value("tidegate"),
            doc: "The service.name of everything exported.",
        },
        Row {
            name: "telemetry.resource",
            shape: Shape::Texts {
                each: "NAME=VALUE such as \"deployment.environment.name=production\"",
                max: 32,
            },
            absent: Absent::Means("none besides service, host and process"),
            doc: "More attributes of the resource that everything exported is of.",
        },
        Row {
            name: "telemetry.header",
            shape: Shape::Tables { table: &TELEMETRY_HEADER, max: 16 },
            absent: Absent::Means("none"),
            doc: "Header fields sent to the collector, such as who we are.",
        },
        Row {
            name: "telemetry.ca",
            shape: Shape::Text("a file's path"),
            absent: Absent::Means("the system's"),
            doc: "Authorities of the collector's certificate, PEM, where the endpoint is https.",
        },
        Row {
            name: "telemetry.timeout",
            shape: Shape::Value(Kind::Span { min: Duration::from_millis(10), max: Duration::from_secs(60) }),
            absent: Absent::Value("10s"),
            doc: "How long the collector may take to answer, connecting included.",
        },
        Row {
            name: "telemetry.metrics.interval",
            shape: Shape::Text(METRICS_INTERVAL),
            absent: Absent::Value("15s"),
            doc: "How often every meter is sent; none: metrics are not.",
        },
        Row {
            name: "telemetry.traces.parent",
            shape: Shape::Choice(TraceParent::NAMES),
            absent: Absent::Value("trusted"),
            doc: "Whose traceparent header is gone by: of clients in a listener's trusted networks, of all, of none.",
        },
        Row {
            name: "state_directory",
            shape: Shape::Text("a directory's path"),
            absent: Absent::Means("nothing survives a restart"),
            doc: "Directory for what must survive a restart: archives, lasting changes of knobs, the record of changes, promises of waiting rooms, the capacity found. Read at the start.",
        },
        Row {
            name: "state_bytes_max",
            shape: Shape::Text(STATE_BYTES),
            absent: Absent::Value("1GiB"),
            doc: "What the database there may take on disk; when it is full, the oldest points go. Read at the start.",
        },
        Row {
            name: "archive",
            shape: Shape::Tables { table: &ARCHIVE, max: Layout::RESOLUTIONS_MAX },
            absent: Absent::Means(
                "1 s for 10 minutes, 5 s for an hour, 1 minute for a day, 10 minutes for 30 days",
            ),
            doc: "Resolutions at which everything measured is kept, finest first. Read at the start.",
        },
        Row {
            name: "workers",
            shape: Shape::Tables { table: &WORKERS, max: 64 },
            absent: Absent::Means("one group named default"),
            doc: "Groups of worker threads.",
        },
        Row {
            name: "listener",
            shape: Shape::Tables { table: &LISTENER, max: 256 },
            absent: Absent::Required("[[listener]] with address = \"[::]:8080\""),
            doc: "Where clients connect; at least one.",
        },
        Row {
            name: "controller",
            shape: Shape::Tables { table: &CONTROLLER, max: 64 },
            absent: Absent::Means("none"),
            doc: "Control laws as scripts, see docs/controllers.md.",
        },
        Row {
            name: "route",
            shape: Shape::Tables { table: &ROUTE, max: 1024 },
            absent: Absent::Means("its host says which application serves a request"),
            doc: "Which application serves a request, where its host does not say; in order, the first that holds decides.",
        },
        Row {
            name: "application",
            shape: Shape::Named { table: &APPLICATION, max: 1024 },
            absent: Absent::Required("[application.NAME] with servers = [\"http://127.0.0.1:8000\"]"),
            doc: "Who is served; at least one.",
        },
    ],
};

/// A token of the admin interface.
pub(crate) static ADMIN_TOKEN: Table = Table {
    title: "[[admin_token]]",
    doc: "A bearer token of the admin interface. Its file is read again when it changes.",
    scope: None,
    rows: &[
        Row {
            name: "name",
            shape: Shape::Text("a name"),
            absent: Absent::Required("name = \"ada\""),
            doc: "Whose it is, as the record of changes says it.",
        },
        Row {
            name: "file",
            shape: Shape::Text("a file's path"),
            absent: Absent::Required("file = \"ada.token\""),
            doc: "The file that holds the token in one line of 32 to 512 characters, such as openssl rand -hex 32 makes.",
        },
        Row {
            name: "role",
            shape: Shape::Choice(Role::NAMES),
            absent: Absent::Value("read"),
            doc: "What it allows: look, or look and change.",
        },
        Row {
            name: "applications",
            shape: Shape::Texts { each: "an application's name", max: 64 },
            absent: Absent::Means("all of them"),
            doc: "Role check: of whose waiting rooms it may report.",
        },
    ],
};

/// URLs of the collector, in words.
const COLLECTOR: &str = "a URL such as \"http://127.0.0.1:4318\"";

/// Times from one export of metrics to the next, in words.
const METRICS_INTERVAL: &str = "a span of time from 1s to 1h, such as \"15s\", or \"none\"";

/// A header field sent to the collector.
pub(crate) static TELEMETRY_HEADER: Table = Table {
    title: "[[telemetry.header]]",
    doc: "A header field sent to the OpenTelemetry collector. Its value is a secret, so it stands in a file, read again when it changes, or in a variable of the environment, and never in the configuration.",
    scope: None,
    rows: &[
        Row {
            name: "name",
            shape: Shape::Text("a header's name"),
            absent: Absent::Required("name = \"authorization\""),
            doc: "The field's name.",
        },
        Row {
            name: "file",
            shape: Shape::Text("a file's path"),
            absent: Absent::Means("the value is in the environment"),
            doc: "The file that holds the value in one line.",
        },
        Row {
            name: "environment",
            shape: Shape::Text("the name of an environment variable"),
            absent: Absent::Means("the value is in a file"),
            doc: "The variable that holds the value.",
        },
    ],
};

/// Sizes of the database in the state directory, in words.
pub(crate) const STATE_BYTES: &str = "a size from 16MiB to 1TiB, such as \"1GiB\"";

/// A resolution of the archives.
pub(crate) static ARCHIVE: Table = Table {
    title: "[[archive]]",
    doc: "A resolution at which everything measured is kept. Each step is a multiple of the one before it, and is kept for at least one step of the next.",
    scope: None,
    rows: &[
        Row {
            name: "step",
            shape: Shape::Text("a span of time from 1ms to 1h, such as \"5s\""),
            absent: Absent::Required("step = \"5s\""),
            doc: "Length of a point.",
        },
        Row {
            name: "keep",
            shape: Shape::Text("a span of time such as \"1d\""),
            absent: Absent::Required("keep = \"1d\""),
            doc: "How long points are kept.",
        },
    ],
};

/// A group of worker threads.
pub(crate) static WORKERS: Table = Table {
    title: "[[workers]]",
    doc: "Threads that own listeners.",
    scope: None,
    rows: &[
        Row {
            name: "name",
            shape: Shape::Text("a name"),
            absent: Absent::Value("default"),
            doc: "Its name, to which listeners refer.",
        },
        Row {
            name: "threads",
            shape: Shape::Whole { min: 1, max: 1024 },
            absent: Absent::Means("as many as the CPU quota and affinity of the process allow"),
            doc: "Number of threads.",
        },
    ],
};

/// A listener.
pub(crate) static LISTENER: Table = Table {
    title: "[[listener]]",
    doc: "A place where clients connect.",
    scope: None,
    rows: &[
        Row {
            name: "name",
            shape: Shape::Text("a name"),
            absent: Absent::Means("its address, or the socket's file name"),
            doc: "Its name in logs and across reloads.",
        },
        Row {
            name: "address",
            shape: Shape::Text(
                "an IP address and port such as \"[::]:443\", or a Unix socket's path such as \"unix:/run/tidegate.sock\"",
            ),
            absent: Absent::Required("address = \"[::]:8080\""),
            doc: "Where it listens; `[::]` takes IPv4 too.",
        },
        Row {
            name: "workers",
            shape: Shape::Text("the name of a [[workers]] group"),
            absent: Absent::Means("the first group"),
            doc: "The worker group that accepts there.",
        },
        Row {
            name: "application",
            shape: Shape::Text("the name of an application"),
            absent: Absent::Means("chosen by server name and Host"),
            doc: "The only application served here.",
        },
        Row {
            name: "proxy_protocol",
            shape: Shape::Flag,
            absent: Absent::Value("false"),
            doc: "Whether every connection begins with a PROXY header (v1 or v2), accepted from `trusted` only.",
        },
        Row {
            name: "trusted",
            shape: Shape::Texts { each: "a network such as \"10.0.0.0/8\"", max: 1024 },
            absent: Absent::Means("no network"),
            doc: "Networks whose X-Forwarded-*, Forwarded and PROXY headers are believed.",
        },
        Row {
            name: "redirect_to_https",
            shape: Shape::Whole { min: 1, max: 65_535 },
            absent: Absent::Means("no redirect"),
            doc: "Answers every request with a redirect to https at this port.",
        },
        Row {
            name: "tls.certificates",
            shape: Shape::Tables { table: &CERTIFICATE, max: 4096 },
            absent: Absent::Means("plain HTTP; required as soon as another key of tls is written"),
            doc: "Certificates, chosen by server name; the first also serves clients that send none. Read again when the files change.",
        },
        Row {
            name: "tls.http2",
            shape: Shape::Flag,
            absent: Absent::Value("true"),
            doc: "Whether HTTP/2 is offered by ALPN.",
        },
        Row {
            name: "tls.min_version",
            shape: Shape::Choice(TlsVersion::NAMES),
            absent: Absent::Value("1.2"),
            doc: "Oldest version of TLS spoken.",
        },
        Row {
            name: "tls.cipher_order",
            shape: Shape::Choice(CipherOrder::NAMES),
            absent: Absent::Value("gateway"),
            doc: "Whose order of cipher suites counts. gateway: AES-128-GCM before AES-256-GCM before ChaCha20, since a handshake with SHA-256 costs a tenth less than one with SHA-384, but ChaCha20 for clients that want it before all, as those without AES in hardware do.",
        },
        Row {
            name: "tls.client_certificates",
            shape: Shape::Choice(ClientCertificates::NAMES),
            absent: Absent::Value("off"),
            doc: "Whether clients are asked for a certificate, and whether they must have one.",
        },
        Row {
            name: "tls.client_ca",
            shape: Shape::Text("a file's path"),
            absent: Absent::Means("required unless client_certificates is \"off\""),
            doc: "Authorities of client certificates, PEM.",
        },
    ],
};

/// A script that controls.
pub(crate) static CONTROLLER: Table = Table {
    title: "[[controller]]",
    doc: "A control law as a script. It starts when it is written here, and again when it or its file changes.",
    scope: None,
    rows: &[
        Row {
            name: "name",
            shape: Shape::Text("a name"),
            absent: Absent::Means("the file's name"),
            doc: "Its name in logs and audit.",
        },
        Row {
            name: "file",
            shape: Shape::Text("a file's path"),
            absent: Absent::Required("file = \"home-limit.lua\""),
            doc: "The script, relative to the configuration file.",
        },
        Row {
            name: "on_failure",
            shape: Shape::Choice(OnFailure::NAMES),
            absent: Absent::Value("keep"),
            doc: "What becomes of its settings when it is stopped: they stay, or each knob goes back to the value before.",
        },
        Row {
            name: "strikes",
            shape: Shape::Value(Kind::Count { min: 1, max: 1000 }),
            absent: Absent::Value("3"),
            doc: "Failures of one of its functions in a row that stop it.",
        },
        Row {
            name: "every.min",
            shape: Shape::Value(Kind::Span {
                min: Duration::from_millis(10),
                max: Duration::from_secs(3600),
            }),
            absent: Absent::Value("100ms"),
            doc: "Shortest period it may ask for.",
        },
        Row {
            name: "turn.steps",
            shape: Shape::Value(Kind::Count { min: 1000, max: 1_000_000_000 }),
            absent: Absent::Value("200000"),
            doc: "Steps of a turn: calls, returns, turns of loops, attempts to match a pattern.",
        },
        Row {
            name: "turn.time",
            shape: Shape::Value(Kind::Span { min: Duration::from_millis(1), max: Duration::from_secs(60) }),
            absent: Absent::Value("100ms"),
            doc: "Time of a turn; the steps should run out first, as they are the same on every machine.",
        },
        Row {
            name: "memory",
            shape: Shape::Value(Kind::Size { min: 1 << 20, max: 1 << 30 }),
            absent: Absent::Value("8MiB"),
            doc: "Memory it may use.",
        },
        Row {
            name: "seed",
            shape: Shape::Value(Kind::Count { min: 0, max: u64::MAX >> 1 }),
            absent: Absent::Value("0"),
            doc: "From which its random numbers follow.",
        },
    ],
};

/// Files of a certificate.
pub(crate) static CERTIFICATE: Table = Table {
    title: "{ chain, key }",
    doc: "Files of a certificate, PEM; paths are relative to the configuration file.",
    scope: None,
    rows: &[
        Row {
            name: "chain",
            shape: Shape::Text("a file's path"),
            absent: Absent::Required("chain = \"cert.pem\""),
            doc: "The chain, leaf first.",
        },
        Row {
            name: "key",
            shape: Shape::Text("a file's path"),
            absent: Absent::Required("key = \"key.pem\""),
            doc: "The private key.",
        },
    ],
};

//! The table of structure: every key of the configuration file that is not a knob is one row.
//!
//! Together with the table of knobs these rows are what the file may hold: the reader knows
//! unknown keys, types and defaults from them, and the JSON schema and docs/configuration.md are
//! printed from them.

use std::time::Duration;

use tidegate_control::{
    archive::Layout,
    controller::OnFailure,
    knobs::{ChoiceSet as _, Kind, Knob, Scope},
};

use crate::{
    choices::ClientCertificates,
    settings::{LogFormat, ProxyVersion, Role, TlsVersion, TraceParent, UpstreamProtocol},
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
            doc: "One JSON object a line, or the Combined Log Format.",
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
            doc: "Directory for what must survive a restart: archives, lasting changes of knobs, the record of changes. Read at the start.",
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

/// An application.
pub(crate) static APPLICATION: Table = Table {
    title: "[application.NAME]",
    doc: "A web application behind the gateway. NAME is the first part of its knob paths.",
    scope: Some(Scope::Application),
    rows: &[
        Row {
            name: "hosts",
            shape: Shape::Texts {
                each: "a host name such as \"shop.example\" or \"*.shop.example\"",
                max: 1024,
            },
            absent: Absent::Means("every host that no other application names"),
            doc: "Host names served; `*.` stands for any subdomain.",
        },
        Row {
            name: "servers",
            shape: Shape::TablesOrTexts { table: &SERVER, key: "url", max: 4096 },
            absent: Absent::Means("none at the start; the API adds them"),
            doc: "Its servers.",
        },
        Row {
            name: "upstream.protocol",
            shape: Shape::Choice(UpstreamProtocol::NAMES),
            absent: Absent::Value("auto"),
            doc: "Version of HTTP to the servers; auto: HTTP/2 where ALPN chooses it, else HTTP/1.1.",
        },
        Row {
            name: "upstream.host",
            shape: Shape::Text("a host name, with a port if need be"),
            absent: Absent::Means("the client's"),
            doc: "Host sent to the servers.",
        },
        Row {
            name: "upstream.proxy_protocol",
            shape: Shape::Choice(ProxyVersion::NAMES),
            absent: Absent::Means("no PROXY header"),
            doc: "PROXY header sent at the start of each connection, which then serves one client address only.",
        },
        Row {
            name: "upstream.sticky_cookie",
            shape: Shape::Text("a cookie's name"),
            absent: Absent::Means("not sticky"),
            doc: "Cookie that keeps a visitor at a server.",
        },
        Row {
            name: "upstream.hash",
            shape: Shape::Text(CLIENT_KEY),
            absent: Absent::Value("network/32,64"),
            doc: "What balance = \"consistent_hash\" hashes.",
        },
        Row {
            name: "upstream.tls.server_name",
            shape: Shape::Text("a host name"),
            absent: Absent::Means("the host as written"),
            doc: "Name checked in the servers' certificates and sent as SNI.",
        },
        Row {
            name: "upstream.tls.ca",
            shape: Shape::Text("a file's path"),
            absent: Absent::Means("the system's"),
            doc: "Authorities of the servers' certificates, PEM.",
        },
        Row {
            name: "upstream.tls.certificate",
            shape: Shape::Table(&CERTIFICATE),
            absent: Absent::Means("none"),
            doc: "Certificate shown to the servers.",
        },
        Row {
            name: "upstream.tls.insecure",
            shape: Shape::Flag,
            absent: Absent::Value("false"),
            doc: "Accepts any certificate of the servers; said loudly at start.",
        },
        Row {
            name: "health.probe.path",
            shape: Shape::Text("a path such as \"/healthz\""),
            absent: Absent::Value("/"),
            doc: "Path of active health probes; any status below 400 is good.",
        },
        Row {
            name: "client.key",
            shape: Shape::Text(CLIENT_KEY),
            absent: Absent::Value("network/32,64"),
            doc: "What one client is, for client.rate; where header or cookie is missing, the network counts.",
        },
        Row {
            name: "request_headers",
            shape: Shape::Tables { table: &HEADER_EDIT, max: 256 },
            absent: Absent::Means("no edits"),
            doc: "Edits of request headers, in order, after classification.",
        },
        Row {
            name: "response_headers",
            shape: Shape::Tables { table: &HEADER_EDIT, max: 256 },
            absent: Absent::Means("no edits"),
            doc: "Edits of response headers, in order.",
        },
        Row {
            name: "rewrites",
            shape: Shape::Tables { table: &REWRITE, max: 256 },
            absent: Absent::Means("paths go on as they came"),
            doc: "Path rewrites; the first that matches is applied, after classification.",
        },
        Row {
            name: "maintenance_page",
            shape: Shape::Text("a file's path"),
            absent: Absent::Means("a page of Tidegate's own"),
            doc: "HTML file for the maintenance page.",
        },
        Row {
            name: "waiting_room.page",
            shape: Shape::Text("a file's path"),
            absent: Absent::Means("a page of Tidegate's own, in the visitor's language"),
            doc: "HTML file for the page of those who wait, with places for what is known of them (docs/waiting-room.md).",
        },
        Row {
            name: "waiting_room.closed_message",
            shape: Shape::Text("a text of one line"),
            absent: Absent::Means("a sentence in the visitor's language"),
            doc: "What visitors are told while the room is closed.",
        },
        Row {
            name: "waiting_room.bind",
            shape: Shape::Text("\"none\", or what client.key may be"),
            absent: Absent::Value("none"),
            doc: "What tokens and passes are bound to, so that another client cannot use them. An address changes with a phone's network: its visitor then begins anew.",
        },
        Row {
            name: "waiting_room.assets",
            shape: Shape::Texts { each: "the end of a path, such as \".css\"", max: 256 },
            absent: Absent::Means(
                "the usual endings of style sheets, scripts, fonts, pictures, sound and film",
            ),
            doc: "GET and HEAD of paths that end so pass the room: what a page needs that was let in.",
        },
        Row {
            name: "waiting_room.check_url",
            shape: Shape::Text(ORIGIN),
            absent: Absent::Means("where they came"),
            doc: "Role generate: where visitors go at their time.",
        },
        Row {
            name: "waiting_room.generate_url",
            shape: Shape::Text(ORIGIN),
            absent: Absent::Means("they are refused"),
            doc: "Role check: where visitors without a time are sent.",
        },
        Row {
            name: "waiting_room.report.to",
            shape: Shape::Text(ORIGIN),
            absent: Absent::Means("it reports to nobody, and knows no keys"),
            doc: "Role check: the generator's admin interface, to which it reports and from which it has the keys.",
        },
        Row {
            name: "waiting_room.report.token_file",
            shape: Shape::Text("a file's path"),
            absent: Absent::Means("none is sent"),
            doc: "The file of a token of that admin interface, whose role is check.",
        },
        Row {
            name: "waiting_room.report.ca",
            shape: Shape::Text("a file's path"),
            absent: Absent::Means("the system's authorities"),
            doc: "Authorities of that admin interface's certificate, PEM.",
        },
        Row {
            name: "waiting_room.report.certificate",
            shape: Shape::Table(&CERTIFICATE),
            absent: Absent::Means("none is shown"),
            doc: "Our certificate, by which that admin interface knows us.",
        },
        Row {
            name: "default_class",
            shape: Shape::Text("the name of a class"),
            absent: Absent::Value("default"),
            doc: "The class of requests no rule matches; exists even if no table is written for it.",
        },
        Row {
            name: "class",
            shape: Shape::Named { table: &CLASS, max: 256 },
            absent: Absent::Means("the default class only"),
            doc: "Classes of requests.",
        },
        Row {
            name: "rule",
            shape: Shape::Tables { table: &RULE, max: 4096 },
            absent: Absent::Means("every request is of the default class"),
            doc: "Classification rules, in order; the first that holds decides.",
        },
    ],
};

/// What a client key may be.
const ORIGIN: &str = "a URL such as \"https://shop.example\", without a path";
const CLIENT_KEY: &str =
    "\"network/24,64\" (prefix bits for IPv4 and IPv6), \"header:NAME\" or \"cookie:NAME\"";

/// A class of requests.
pub(crate) static CLASS: Table = Table {
    title: "[application.NAME.class.CLASS]",
    doc: "A class of requests. CLASS is the second part of its knob paths.",
    scope: Some(Scope::Class),
    rows: &[],
};

/// An upstream server.
pub(crate) static SERVER: Table = Table {
    title: "{ name, url }",
    doc: "A server, written as its URL or as a table.",
    scope: Some(Scope::Server),
    rows: &[
        Row {
            name: "name",
            shape: Shape::Text("a name"),
            absent: Absent::Means("host and port, or the socket's file name"),
            doc: "Its name in knob paths, stable over reloads.",
        },
        Row {
            name: "url",
            shape: Shape::Text(
                "a URL such as \"http://127.0.0.1:8000\", \"https://10.0.0.2:8443\" or \"unix:/run/app.sock\"",
            ),
            absent: Absent::Required("url = \"http://127.0.0.1:8000\""),
            doc: "Where it is; a host name stands for each address it resolves to.",
        },
    ],
};

/// An edit of a header section.
pub(crate) static HEADER_EDIT: Table = Table {
    title: "{ set | add | remove, value }",
    doc: "An edit of one header field: exactly one of set, add and remove.",
    scope: None,
    rows: &[
        Row {
            name: "set",
            shape: Shape::Text("a header's name"),
            absent: Absent::Means("not set"),
            doc: "Replaces every value of this field.",
        },
        Row {
            name: "add",
            shape: Shape::Text("a header's name"),
            absent: Absent::Means("not added to"),
            doc: "Adds a value to this field.",
        },
        Row {
            name: "remove",
            shape: Shape::Text("a header's name"),
            absent: Absent::Means("not removed"),
            doc: "Removes this field.",
        },
        Row {
            name: "value",
            shape: Shape::Text("a header's value"),
            absent: Absent::Means("required with set and add"),
            doc: "The value.",
        },
    ],
};

/// A path rewrite.
pub(crate) static REWRITE: Table = Table {
    title: "{ pattern, replacement }",
    doc: "A path rewrite.",
    scope: None,
    rows: &[
        Row {
            name: "pattern",
            shape: Shape::Text("a regular expression such as \"^/old/(.*)\""),
            absent: Absent::Required("pattern = \"^/old/(.*)\""),
            doc: "Regular expression on the path, anchored at its start.",
        },
        Row {
            name: "replacement",
            shape: Shape::Text("an absolute path such as \"/new/$1\""),
            absent: Absent::Required("replacement = \"/new/$1\""),
            doc: "What replaces the match; $1 stands for the first group.",
        },
    ],
};

/// A classification rule.
pub(crate) static RULE: Table = Table {
    title: "[[application.NAME.rule]]",
    doc: "A classification rule: it holds when every condition written in it holds; of a list, one is enough.",
    scope: None,
    rows: &[
        Row {
            name: "class",
            shape: Shape::Text("the name of a class"),
            absent: Absent::Means("the default class"),
            doc: "The class of requests for which the rule holds.",
        },
        Row {
            name: "path",
            shape: Shape::Texts { each: "a glob such as \"/cart/**\"", max: 256 },
            absent: Absent::Means("not asked"),
            doc: "Path as a glob: `*` within a segment, `**` across segments.",
        },
        Row {
            name: "path_exact",
            shape: Shape::Texts { each: "a path such as \"/cart\"", max: 256 },
            absent: Absent::Means("not asked"),
            doc: "Path, as a whole.",
        },
        Row {
            name: "path_prefix",
            shape: Shape::Texts { each: "a path such as \"/cart\"", max: 256 },
            absent: Absent::Means("not asked"),
            doc: "Path and everything below it, in whole segments.",
        },
        Row {
            name: "path_regex",
            shape: Shape::Texts { each: "a regular expression such as \"/item/[0-9]+\"", max: 256 },
            absent: Absent::Means("not asked"),
            doc: "Path as a regular expression, anchored at both ends.",
        },
        Row {
            name: "method",
            shape: Shape::Texts { each: "a method such as \"POST\"", max: 64 },
            absent: Absent::Means("not asked"),
            doc: "Method.",
        },
        Row {
            name: "host",
            shape: Shape::Texts {
                each: "a host name such as \"shop.example\" or \"*.shop.example\"",
                max: 256,
            },
            absent: Absent::Means("not asked"),
            doc: "Host name.",
        },
        Row {
            name: "header",
            shape: Shape::Conditions { max: 64 },
            absent: Absent::Means("not asked"),
            doc: "Header fields; all must hold.",
        },
        Row {
            name: "query",
            shape: Shape::Conditions { max: 64 },
            absent: Absent::Means("not asked"),
            doc: "Query parameters; all must hold.",
        },
        Row {
            name: "cookie",
            shape: Shape::Conditions { max: 64 },
            absent: Absent::Means("not asked"),
            doc: "Cookies; all must hold.",
        },
        Row {
            name: "client",
            shape: Shape::Texts { each: "a network such as \"10.0.0.0/8\"", max: 1024 },
            absent: Absent::Means("not asked"),
            doc: "Networks of the client's address.",
        },
        Row {
            name: "secure",
            shape: Shape::Flag,
            absent: Absent::Means("not asked"),
            doc: "Whether the connection is TLS at all.",
        },
        Row {
            name: "resumed",
            shape: Shape::Flag,
            absent: Absent::Means("not asked"),
            doc: "Whether the TLS session was resumed.",
        },
        Row {
            name: "client_certificate",
            shape: Shape::Flag,
            absent: Absent::Means("not asked"),
            doc: "Whether the client showed a certificate that was verified.",
        },
        Row {
            name: "server_name",
            shape: Shape::Texts {
                each: "a host name such as \"shop.example\" or \"*.shop.example\"",
                max: 256,
            },
            absent: Absent::Means("not asked"),
            doc: "Server name the client asked for in TLS.",
        },
        Row {
            name: "priority",
            shape: Shape::Value(Knob::PRIORITY.kind()),
            absent: Absent::Means("the class's"),
            doc: "Priority of requests for which the rule holds.",
        },
        Row {
            name: "weight",
            shape: Shape::Value(Knob::WEIGHT.kind()),
            absent: Absent::Means("the class's"),
            doc: "Weight units one request takes of the in-flight limit.",
        },
        Row {
            name: "deadline",
            shape: Shape::Value(Knob::DEADLINE.kind()),
            absent: Absent::Means("the class's"),
            doc: "From arrival until the latest start.",
        },
        Row {
            name: "deadline_header",
            shape: Shape::Text("a header's name"),
            absent: Absent::Means("none is read"),
            doc: "Header with the time in milliseconds the client will still wait; the earlier of it and deadline counts.",
        },
        Row {
            name: "priority_header",
            shape: Shape::Flag,
            absent: Absent::Value("false"),
            doc: "Whether the Priority header's urgency (RFC 9218) moves the priority, within 1 to 6.",
        },
    ],
};

/// What a condition on a field may be, in words.
pub(crate) const CONDITION_EXPECTED: &str =
    "\"value\", true (present), false (absent), { prefix = \"…\" } or { regex = \"…\" }";

/// A condition on a field's value that is more than a string or flag.
pub(crate) static CONDITION: Table = Table {
    title: "{ prefix | regex }",
    doc: "A condition on a field's value: exactly one of prefix and regex.",
    scope: None,
    rows: &[
        Row {
            name: "prefix",
            shape: Shape::Text("how the value begins"),
            absent: Absent::Means("not asked"),
            doc: "One of the field's values begins so.",
        },
        Row {
            name: "regex",
            shape: Shape::Text("a regular expression"),
            absent: Absent::Means("not asked"),
            doc: "One of the field's values matches this regular expression, anchored at both ends.",
        },
    ],
};

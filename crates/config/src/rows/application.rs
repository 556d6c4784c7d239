//! Rows of an application, its classes and its servers.

use tidegate_control::knobs::{ChoiceSet as _, Scope};

use super::{
    CERTIFICATE,
    rules::{HEADER_EDIT, REWRITE, RULE},
};
use crate::{
    settings::{ProxyVersion, UpstreamProtocol},
    shape::{Absent, Row, Shape, Table},
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
            doc: "Host names served; `*.` stands for any subdomain. An empty list: none, only listeners and routes that name the application lead to it.",
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
            doc: "Version of HTTP to the servers; auto: HTTP/2 where ALPN chooses it, else HTTP/1.1. Upgrades, such as to WebSocket, go by HTTP/1.1; with http2 the servers do not see them.",
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
            doc: "PROXY header sent at the start of each connection, which then serves one client address only: that of the client's connection, whatever fields such as X-Forwarded-For say.",
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
            doc: "Authorities of the servers' certificates, or those certificates themselves, PEM.",
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
                "the usual endings of style sheets, scripts, fonts, pictures, sound, film and manifests of web applications",
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
            name: "processors.socket",
            shape: Shape::Text("a socket's path such as \"/run/tidegate/processors.sock\""),
            absent: Absent::Means("no CPU manager is asked"),
            doc: "The CPU manager on this host that is asked for as many processors as all that is offered would need.",
        },
        Row {
            name: "processors.name",
            shape: Shape::Text("a name"),
            absent: Absent::Means("the application's name"),
            doc: "What the application is called in the CPU manager's file.",
        },
        Row {
            name: "default_class",
            shape: Shape::Text("the name of a class"),
            absent: Absent::Value("default"),
            doc: "The class of requests no rule matches. It has a table; default needs none.",
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

/// What the address of another process's listener may be, in words.
const ORIGIN: &str = "a URL such as \"https://shop.example\", without a path";
/// What a client key may be, in words.
const CLIENT_KEY: &str =
    "\"network/24,64\" (prefix bits for IPv4 and IPv6), \"header:NAME\" or \"cookie:NAME\"";

/// A class of requests.
pub(crate) static CLASS: Table = Table {
    title: "[application.NAME.class.CLASS]",
    doc: "A class of requests. CLASS is the second part of its knob paths.",
    scope: Some(Scope::Class),
    rows: &[
        Row {
            name: "waiting_room.group",
            shape: Shape::Text("the name of another class"),
            absent: Absent::Means("its own doors, or the application's"),
            doc: "The class with which it is one group in the waiting room: it has that one's method, opens_at, order, round, share and closed_message.",
        },
        Row {
            name: "waiting_room.closed_message",
            shape: Shape::Text("a text of one line"),
            absent: Absent::Means("what the application's says"),
            doc: "What visitors of the class, and of those that name it in waiting_room.group, are told while their doors are closed.",
        },
    ],
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

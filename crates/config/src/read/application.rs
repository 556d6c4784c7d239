//! Applications, their classes, servers and edits.

use std::{collections::BTreeMap, path::PathBuf};

use http::HeaderValue;
use tidegate_control::{
    knobs::{Knob, Scope, Value, Values},
    rewrite::Rewriter,
};

use super::{Names, in_one_line, knobs, listener::certificate, no_such, rule};
use crate::{
    document::Section,
    names,
    names::ServerUrl,
    settings::{
        Application, Class, ClassWaitingRoom, HeaderEdit, Processors, ResponseEdit, Rewrite, RoomReport,
        Server, ServerAddress, Upstream, UpstreamProtocol, UpstreamTls, WaitingRoom,
    },
};

/// Every `[application.NAME]`.
pub(super) fn applications(root: &Section<'_>) -> Vec<Application> {
    let sections = root.named("application");
    let mut hosts = BTreeMap::new();
    let mut without_hosts: Option<(&str, usize)> = None;
    let mut applications = Vec::new();
    for (name, section) in &sections {
        if !names::is_name(name) {
            fault_name(section, name, "application");
        }
        claim_hosts(section, name, &mut hosts);
        if !section.is_written("hosts") {
            let line = section.document().line(&section.span);
            match without_hosts {
                Some((first, first_line)) if section.document().is_whole() => section.fault(
                    "hosts",
                    format!(
                        "names no host, and neither does application {} (line {first_line})",
                        first.escape_debug()
                    ),
                    "write hosts in all applications but one; hosts = [] where only a listener or a [[route]] leads to it",
                ),
                _ => without_hosts = Some((name, line)),
            }
        }
        applications.push(application(name, section));
    }
    if sections.is_empty() && root.is_written("application") {
        root.fault("application", "is empty", "write [application.NAME] with servers");
    }
    applications
}

/// Reports a malformed name of a table.
fn fault_name(section: &Section<'_>, name: &str, kind: &str) {
    section.document().fault(
        &section.key,
        &section.span,
        format!("\"{}\" is no name of {kind}", name.escape_debug()),
        match kind {
            "class" if name == "servers" => "choose another: it stands for servers in knob paths",
            _ if names::is_dots(name) => "choose another: no address could lead there",
            _ => "write up to 64 letters, digits, \"_\", \"-\" and \".\"",
        },
    );
}

/// Each host is served by one application.
fn claim_hosts<'n>(section: &Section<'_>, name: &'n str, hosts: &mut BTreeMap<String, (&'n str, usize)>) {
    for (host, entry) in section.text_entries("hosts", names::host_pattern) {
        let line = section.document().line(&entry.span);
        if let Some((other, first)) = hosts.get(&host) {
            entry.fault(
                format!(
                    "\"{host}\" is served by application {} already (line {first})",
                    other.escape_debug()
                ),
                "name each host once",
            );
        } else {
            hosts.insert(host, (name, line));
        }
    }
}

fn application(name: &str, section: &Section<'_>) -> Application {
    let classes = classes(section);
    let (servers, tls) = servers(section);
    Application {
        name: name.to_owned(),
        hosts: section.is_written("hosts").then(|| section.texts("hosts", names::host_pattern)),
        values: knobs(section, Scope::Application),
        rules: rule::rules(section, &classes),
        classes,
        servers,
        upstream: upstream(section, tls),
        client_key: section.parsed("client.key", names::client_key).unwrap_or_default(),
        request_headers: request_edits(section),
        response_headers: response_edits(section),
        rewrites: rewrites(section),
        maintenance_page: section.file("maintenance_page"),
        waiting_room: waiting_room(section),
        processors: processors(section, name),
    }
}

fn processors(section: &Section<'_>, application: &str) -> Option<Processors> {
    let socket =
        section.parsed("processors.socket", |text| text.starts_with('/').then(|| PathBuf::from(text)));
    let name = section.parsed("processors.name", |text| names::is_class_name(text).then(|| text.to_owned()));
    if section.is_written("processors.name")
        && !section.is_written("processors.socket")
        && section.document().is_whole()
    {
        section.fault(
            "processors.socket",
            "is missing, and so nobody is asked for processors",
            "write the socket of the CPU manager, such as \"/run/tidegate/processors.sock\"",
        );
    }
    Some(Processors { socket: socket?, name: name.unwrap_or_else(|| application.to_owned()) })
}

fn waiting_room(section: &Section<'_>) -> WaitingRoom {
    let is_none = |text: &str| text == "none";
    let bind = section.parsed("waiting_room.bind", |text| match is_none(text) {
        true => Some(None),
        false => names::client_key(text).map(Some),
    });
    let end = |text: &str| (!text.is_empty() && text.is_ascii()).then(|| text.to_owned());
    let default = WaitingRoom::default();
    WaitingRoom {
        page: section.file("waiting_room.page"),
        closed_message: section.parsed("waiting_room.closed_message", message),
        bind: bind.flatten(),
        assets: match section.is_written("waiting_room.assets") {
            true => section.texts("waiting_room.assets", end),
            false => default.assets,
        },
        check_url: section.parsed("waiting_room.check_url", names::origin),
        generate_url: section.parsed("waiting_room.generate_url", names::origin),
        report: room_report(section),
    }
}

/// What visitors are told while doors are closed.
fn message(text: &str) -> Option<String> {
    let is_line = !text.is_empty() && text.len() <= 1000 && !text.chars().any(char::is_control);
    is_line.then(|| text.to_owned())
}

fn room_report(section: &Section<'_>) -> Option<RoomReport> {
    let token_file = section.file("waiting_room.report.token_file");
    let ca = section.file("waiting_room.report.ca");
    let certificate = section.table("waiting_room.report.certificate").as_ref().and_then(certificate);
    let to = section.parsed("waiting_room.report.to", names::origin);
    if (token_file.is_some() || ca.is_some() || certificate.is_some())
        && !section.is_written("waiting_room.report.to")
        && section.document().is_whole()
    {
        section.fault(
            "waiting_room.report.to",
            "is missing, and so nobody is reported to",
            "write the generator's admin interface, such as \"https://queue.example:9900\"",
        );
    }
    Some(RoomReport { to: to?, token_file, ca, certificate })
}

/// The class of requests no rule matches where no other is named; it needs no table.
const DEFAULT_CLASS: &str = "default";

/// The classes, the default class first.
fn classes(section: &Section<'_>) -> Vec<Class> {
    let default = section.text("default_class").unwrap_or(DEFAULT_CLASS);
    let sections = section.named("class");
    let mut classes: Vec<_> = sections
        .iter()
        .map(|(name, class)| {
            if !names::is_class_name(name) {
                fault_name(class, name, "class");
            }
            let waiting_room = ClassWaitingRoom {
                group: class.text("waiting_room.group").map(str::to_owned),
                closed_message: class.parsed("waiting_room.closed_message", message),
            };
            Class { name: (*name).to_owned(), values: knobs(class, Scope::Class), waiting_room }
        })
        .collect();
    match classes.iter().position(|class| class.name == default) {
        Some(position) => {
            if let Some(written) = classes.get_mut(..=position) {
                written.rotate_right(1);
            }
        }
        None => {
            // Without a table there is only the one that needs none.
            let is_unknown = default != DEFAULT_CLASS && section.document().is_whole();
            if is_unknown {
                let written = classes.iter().map(|class| class.name.as_str());
                let known = written.filter(|name| *name != DEFAULT_CLASS).chain([DEFAULT_CLASS]);
                let (what, mend) = no_such("class", default, known);
                section.fault("default_class", what, mend);
            }
            let name = if is_unknown { DEFAULT_CLASS } else { default };
            if classes.iter().all(|class| class.name != name) {
                let (values, waiting_room) = (Values::defaults(Scope::Class), ClassWaitingRoom::default());
                classes.insert(0, Class { name: name.to_owned(), values, waiting_room });
            }
        }
    }
    for (name, class) in &sections {
        judge_group(name, class, &classes);
    }
    judge_shares(&sections, &classes);
    classes
}

/// The room keeps so many shares, and no more.
fn judge_shares(sections: &[(&str, Section<'_>)], classes: &[Class]) {
    let has_share = |name: &str| {
        classes.iter().any(|class| {
            class.name == name
                && class.waiting_room.group.is_none()
                && class.values.value(Knob::ROOM_SHARE) != Value::None
        })
    };
    let with_shares = sections.iter().filter(|(name, _)| has_share(name));
    for (_, class) in with_shares.skip(ClassWaitingRoom::SHARES_MAX) {
        class.fault(
            Knob::ROOM_SHARE.name(),
            ClassWaitingRoom::too_many_shares(),
            ClassWaitingRoom::FEWER_SHARES,
        );
    }
}

/// A group is named by one of its classes, which has what is the group's.
fn judge_group(name: &str, section: &Section<'_>, classes: &[Class]) {
    let of_name = |name: &str| classes.iter().find(|class| class.name == name);
    let Some(class) = of_name(name) else { return };
    let Some(group) = &class.waiting_room.group else { return };
    let Some(named) = of_name(group) else {
        let others = classes.iter().map(|class| class.name.as_str()).filter(|other| *other != name);
        let (what, mend) = no_such("class", group, others);
        return section.fault("waiting_room.group", what, mend);
    };
    if group == name {
        return section.fault(
            "waiting_room.group",
            "is the class itself",
            "leave it out, or name another class",
        );
    }
    if let Some(further) = &named.waiting_room.group {
        return section.fault(
            "waiting_room.group",
            format!("names a class that is itself of the group \"{}\"", further.escape_debug()),
            "name that class",
        );
    }
    let written = ClassWaitingRoom::OF_GROUP.iter().filter(|knob| class.values.value(**knob) != Value::None);
    let message = class.waiting_room.closed_message.as_ref().map(|_| "waiting_room.closed_message");
    for key in written.copied().map(Knob::name).chain(message) {
        let mend = format!("leave it out, or write it in the class \"{}\"", group.escape_debug());
        section.fault(key, "is that of its waiting_room.group", mend);
    }
}

/// The servers, and whether they are spoken to in TLS, if they say so.
fn servers(section: &Section<'_>) -> (Vec<Server>, Option<bool>) {
    let mut names = Names::default();
    let mut servers = Vec::new();
    let mut tls: Option<(bool, usize)> = None;
    for item in section.tables_or_texts("servers") {
        let values = knobs(&item, Scope::Server);
        let Some(text) = item.text("url") else { continue };
        let url = match ServerUrl::parse(text) {
            Ok(url) => url,
            Err(fault) => {
                item.fault("url", fault.what, fault.mend);
                continue;
            }
        };
        let name = item.text("name").map_or_else(|| url.address.default_name(), str::to_owned);
        names.claim(&item, "name", &name, names::is_address_name(&name));
        let line = item.document().line(&item.span_of("url"));
        match (url.tls, tls) {
            (Some(asked), Some((first, first_line))) if asked != first => item.fault(
                "url",
                format!("mixes http and https (line {first_line})"),
                "write one scheme for all servers of an application",
            ),
            (Some(asked), None) => tls = Some((asked, line)),
            _ => {}
        }
        let address = match url.address {
            ServerAddress::Unix(path) => ServerAddress::Unix(item.document().path(path)),
            host @ ServerAddress::Host { .. } => host,
        };
        servers.push(Server { name, address, values });
    }
    (servers, tls.map(|(asked, _)| asked))
}

fn upstream(section: &Section<'_>, servers_tls: Option<bool>) -> Upstream {
    let tls = UpstreamTls {
        server_name: section.parsed("upstream.tls.server_name", names::host),
        ca: section.file("upstream.tls.ca"),
        certificate: section.table("upstream.tls.certificate").as_ref().and_then(certificate),
        insecure: section.flag("upstream.tls.insecure").unwrap_or_default(),
    };
    let written = section.has_group("upstream.tls");
    if written && servers_tls == Some(false) {
        section.document().fault(
            &section.key_of("upstream.tls"),
            &section.group_span("upstream.tls"),
            "is written, but the servers are http",
            "write https in the URLs of the servers, or leave upstream.tls out",
        );
    }
    Upstream {
        tls: (written || servers_tls == Some(true)).then_some(tls),
        protocol: section.choice("upstream.protocol").unwrap_or(UpstreamProtocol::Auto),
        proxy_protocol: section.choice("upstream.proxy_protocol"),
        host: section.parsed("upstream.host", names::host_and_port),
        sticky_cookie: section.parsed("upstream.sticky_cookie", names::cookie),
        hash: section.parsed("upstream.hash", names::client_key).unwrap_or_default(),
        probe_path: section.parsed("health.probe.path", names::target).unwrap_or_default(),
    }
}

/// Fields that belong to the connection or to framing, which the gateway writes itself.
const OWN_FIELDS: &[&str] = &[
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn request_edits(section: &Section<'_>) -> Vec<HeaderEdit> {
    let tables = section.tables("request_headers");
    for table in tables.iter().filter(|table| table.is_written("always")) {
        table.fault("always", "has no meaning for requests", "leave it out");
    }
    tables.iter().filter_map(header_edit).collect()
}

fn response_edits(section: &Section<'_>) -> Vec<ResponseEdit> {
    let tables = section.tables("response_headers");
    let edits = tables.iter().filter_map(|table| {
        let always = table.flag("always").unwrap_or_default();
        if always && table.is_written("remove") {
            table.fault("always", "has no meaning with remove", "leave it out");
        }
        Some(ResponseEdit { edit: header_edit(table)?, always })
    });
    edits.collect()
}

fn header_edit(section: &Section<'_>) -> Option<HeaderEdit> {
    let kinds: Vec<_> =
        ["set", "add", "remove"].into_iter().filter(|kind| section.is_written(kind)).collect();
    let &[kind] = kinds.as_slice() else {
        section.document().fault(
            &section.key,
            &section.span,
            if kinds.is_empty() {
                "says nothing to do".to_owned()
            } else {
                format!("has {}", kinds.join(" and "))
            },
            "write exactly one of set, add and remove",
        );
        return None;
    };
    let name = section.parsed(kind, names::header);
    if let Some(name) = &name
        && OWN_FIELDS.contains(&name.as_str())
    {
        section.fault(kind, format!("{name} is written by the gateway itself"), "leave it out");
    }
    if name.as_deref() == Some("host") && kind != "set" {
        section.fault(kind, "a request has one host, no more and no less".to_owned(), "use set");
    }
    let value = section.parsed("value", |text| HeaderValue::from_str(text).ok().map(|_| text.to_owned()));
    if kind == "remove" {
        if section.is_written("value") {
            section.fault("value", "has no meaning with remove", "leave it out");
        }
        return Some(HeaderEdit::Remove { name: name? });
    }
    if value.as_deref() == Some(HeaderEdit::HIDDEN) && name.as_deref().is_some_and(HeaderEdit::is_secret) {
        section.fault("value", "was hidden where this was printed".to_owned(), "write the value itself");
    }
    if !section.is_written("value") {
        section.document().fault(
            &section.key,
            &section.span,
            format!("{kind} needs a value"),
            "write value = \"…\"",
        );
    }
    let (name, value) = (name?, value?);
    Some(if kind == "set" { HeaderEdit::Set { name, value } } else { HeaderEdit::Add { name, value } })
}

/// Path rewrites, judged by their own compilation.
fn rewrites(section: &Section<'_>) -> Vec<Rewrite> {
    section
        .tables("rewrites")
        .iter()
        .filter_map(|section| {
            let (pattern, replacement) = (section.text("pattern"), section.text("replacement"));
            let (pattern, replacement) = (pattern?, replacement?);
            for fault in Rewriter::compile(&[(pattern, replacement)]).err().into_iter().flatten() {
                let (what, mend) = in_one_line(&fault.message);
                section.fault(fault.field, what, mend);
            }
            Some(Rewrite { pattern: pattern.to_owned(), replacement: replacement.to_owned() })
        })
        .collect()
}

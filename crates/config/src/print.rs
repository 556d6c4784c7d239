//! Settings as a configuration file: what `tidegate check --print` shows, and [`parse`](crate::parse) reads back.

use std::{fmt::Write as _, path::Path};

use tidegate_control::{
    classify::{FieldSpec, PathSpec, RouteSpec, RuleSpec, ValueSpec},
    knobs::{ChoiceSet as _, Value, Values},
};

use crate::{
    choices::ClientCertificates,
    settings::{
        AdminAccess, AdminClients, AdminTls, Application, Certificate, ClientAuth, Controller, HeaderEdit,
        Listener, LogTarget, ResponseEdit, SecretPlace, Server, Settings, Telemetry, TelemetryHeader,
        Upstream, WaitingRoom,
    },
};

/// The settings in force as a configuration file, every knob written out.
///
/// What it gives reads back as the same settings. There are no secrets in it: keys are named by their files, and what a
/// header field says to prove who somebody is is hidden, to be written anew where it is read back.
#[must_use]
pub fn print(settings: &Settings) -> String {
    let mut file = Printer { text: String::new() };
    file.top(settings);
    for group in &settings.workers {
        file.line("\n[[workers]]");
        file.pair("name", &quoted(&group.name));
        if let Some(threads) = group.threads {
            file.pair("threads", &threads.to_string());
        }
    }
    for listener in &settings.listeners {
        file.listener(listener);
    }
    for controller in &settings.controllers {
        file.controller(controller);
    }
    for route in &settings.routes {
        file.route(route);
    }
    for application in &settings.applications {
        file.application(application);
    }
    file.text
}

struct Printer {
    text: String,
}

impl Printer {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn pair(&mut self, key: &str, value: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{key} = {value}");
    }

    /// A pair, if there is something to say.
    fn maybe(&mut self, key: &str, value: Option<String>) {
        if let Some(value) = value {
            self.pair(key, &value);
        }
    }

    fn texts(&mut self, key: &str, texts: impl IntoIterator<Item = String>) {
        let texts: Vec<_> = texts.into_iter().map(|text| quoted(&text)).collect();
        if !texts.is_empty() {
            self.pair(key, &format!("[{}]", texts.join(", ")));
        }
    }

    /// A list with one item a line.
    fn items(&mut self, key: &str, items: impl IntoIterator<Item = String>) {
        let items: Vec<_> = items.into_iter().map(|item| format!("\n  {item},")).collect();
        if !items.is_empty() {
            self.pair(key, &format!("[{}\n]", items.concat()));
        }
    }

    fn knobs(&mut self, values: &Values) {
        for (knob, value) in values.iter() {
            self.pair(knob.name(), &knob_value(value));
        }
    }

    fn top(&mut self, settings: &Settings) {
        self.pair(
            "admin",
            &settings.admin.map_or_else(|| quoted("none"), |address| quoted(&address.to_string())),
        );
        let AdminAccess { hosts, tls, .. } = &settings.admin_access;
        self.texts("admin_hosts", hosts.iter().cloned());
        if let Some(AdminTls { certificate: files, clients }) = tls {
            self.pair("admin_tls.certificate", &certificate(files));
            if let Some(AdminClients { authorities, role }) = clients {
                self.pair("admin_tls.client_ca", &path(authorities));
                self.pair("admin_tls.client_role", &quoted(role.name()));
            }
        }
        match &settings.access_log {
            None => self.pair("access_log.target", &quoted("none")),
            Some(log) => {
                let target = match &log.target {
                    LogTarget::Stdout => quoted("stdout"),
                    LogTarget::File(file) => path(file),
                };
                self.pair("access_log.target", &target);
                self.pair("access_log.format", &quoted(log.format.name()));
            }
        }
        if let Some(telemetry) = &settings.telemetry {
            self.telemetry(telemetry);
        }
        self.maybe("state_directory", settings.state_directory.as_deref().map(path));
        self.pair("state_bytes_max", &quoted(&Value::Size(settings.state_bytes_max).to_string()));
        self.knobs(&settings.host);
        for token in &settings.admin_access.tokens {
            self.line("\n[[admin_token]]");
            self.pair("name", &quoted(&token.name));
            self.pair("file", &path(&token.file));
            self.pair("role", &quoted(token.role.name()));
            self.texts("applications", token.applications.iter().cloned());
        }
        for resolution in settings.archives.resolutions() {
            self.line("\n[[archive]]");
            self.pair("step", &quoted(&Value::Span(resolution.step).to_string()));
            self.pair("keep", &quoted(&Value::Span(resolution.keep).to_string()));
        }
    }

    fn telemetry(&mut self, telemetry: &Telemetry) {
        self.pair("telemetry.endpoint", &quoted(&telemetry.endpoint.to_string()));
        self.pair("telemetry.service_name", &quoted(&telemetry.service_name));
        let resource = telemetry.resource.iter().map(|(name, value)| format!("{name}={value}"));
        self.texts("telemetry.resource", resource);
        self.items("telemetry.header", telemetry.headers.iter().map(telemetry_header));
        self.maybe("telemetry.ca", telemetry.ca.as_deref().map(path));
        self.pair("telemetry.timeout", &knob_value(Value::Span(telemetry.timeout)));
        let interval = telemetry.metrics_interval.map_or(Value::None, Value::Span);
        self.pair("telemetry.metrics.interval", &knob_value(interval));
        self.pair("telemetry.traces.parent", &quoted(telemetry.parent.name()));
    }

    fn listener(&mut self, listener: &Listener) {
        self.line("\n[[listener]]");
        self.pair("name", &quoted(&listener.name));
        self.pair("address", &quoted(&listener.address.to_string()));
        self.pair("workers", &quoted(&listener.group));
        self.maybe("application", listener.application.as_deref().map(quoted));
        self.pair("proxy_protocol", &listener.proxy_protocol.to_string());
        self.texts("trusted", listener.trusted.iter().map(ToString::to_string));
        self.maybe("redirect_to_https", listener.redirect_to_https.map(|port| port.to_string()));
        if let Some(tls) = &listener.tls {
            self.items("tls.certificates", tls.certificates.iter().map(certificate));
            self.pair("tls.http2", &tls.http2.to_string());
            self.pair("tls.min_version", &quoted(tls.min_version.name()));
            self.pair("tls.cipher_order", &quoted(tls.cipher_order.name()));
            let (mode, authorities) = match &tls.client_auth {
                ClientAuth::Off => (ClientCertificates::Off, None),
                ClientAuth::Optional(authorities) => (ClientCertificates::Optional, Some(authorities)),
                ClientAuth::Required(authorities) => (ClientCertificates::Required, Some(authorities)),
            };
            self.pair("tls.client_certificates", &quoted(mode.name()));
            self.maybe("tls.client_ca", authorities.map(|file| path(file)));
        }
    }

    fn controller(&mut self, controller: &Controller) {
        self.line("\n[[controller]]");
        self.pair("name", &quoted(&controller.name));
        self.pair("file", &path(&controller.file));
        self.pair("on_failure", &quoted(controller.on_failure.name()));
        self.pair("strikes", &controller.strikes.to_string());
        self.pair("every.min", &knob_value(Value::Span(controller.every_min)));
        self.pair("turn.steps", &controller.turn_steps.to_string());
        self.pair("turn.time", &knob_value(Value::Span(controller.turn_time)));
        self.pair("memory", &knob_value(Value::Size(controller.memory)));
        self.pair("seed", &controller.seed.to_string());
    }

    fn application(&mut self, application: &Application) {
        let table = format!("application.{}", quoted_key(&application.name));
        self.line(&format!("\n[{table}]"));
        match application.hosts.as_deref() {
            Some([]) => self.pair("hosts", "[]"),
            hosts => self.texts("hosts", hosts.into_iter().flatten().cloned()),
        }
        let tls = application.upstream.tls.is_some();
        self.items("servers", application.servers.iter().map(|known| server(known, tls)));
        self.upstream(&application.upstream);
        self.pair("client.key", &quoted(&application.client_key.to_string()));
        self.items("request_headers", application.request_headers.iter().map(header_edit));
        self.items("response_headers", application.response_headers.iter().map(response_edit));
        self.items(
            "rewrites",
            application.rewrites.iter().map(|rewrite| {
                format!(
                    "{{ pattern = {}, replacement = {} }}",
                    quoted(&rewrite.pattern),
                    quoted(&rewrite.replacement)
                )
            }),
        );
        self.maybe("maintenance_page", application.maintenance_page.as_deref().map(path));
        let room = &application.waiting_room;
        self.maybe("waiting_room.page", room.page.as_deref().map(path));
        self.maybe("waiting_room.closed_message", room.closed_message.as_deref().map(quoted));
        self.maybe("waiting_room.bind", room.bind.as_ref().map(|key| quoted(&key.to_string())));
        if room.assets != WaitingRoom::ASSETS {
            let assets: Vec<_> = room.assets.iter().map(|end| quoted(end)).collect();
            self.pair("waiting_room.assets", &format!("[{}]", assets.join(", ")));
        }
        self.maybe("waiting_room.check_url", room.check_url.as_deref().map(quoted));
        self.maybe("waiting_room.generate_url", room.generate_url.as_deref().map(quoted));
        if let Some(report) = &room.report {
            self.pair("waiting_room.report.to", &quoted(&report.to));
            self.maybe("waiting_room.report.token_file", report.token_file.as_deref().map(path));
            self.maybe("waiting_room.report.ca", report.ca.as_deref().map(path));
            self.maybe("waiting_room.report.certificate", report.certificate.as_ref().map(certificate));
        }
        if let Some(processors) = &application.processors {
            self.pair("processors.socket", &path(&processors.socket));
            self.pair("processors.name", &quoted(&processors.name));
        }
        self.maybe("default_class", application.classes.first().map(|class| quoted(&class.name)));
        self.knobs(&application.values);
        for class in &application.classes {
            self.line(&format!("\n[{table}.class.{}]", quoted_key(&class.name)));
            let room = &class.waiting_room;
            self.maybe("waiting_room.group", room.group.as_deref().map(quoted));
            self.maybe("waiting_room.closed_message", room.closed_message.as_deref().map(quoted));
            self.knobs(&class.values);
        }
        for known in &application.rules {
            self.line(&format!("\n[[{table}.rule]]"));
            self.rule(known);
        }
    }

    fn upstream(&mut self, upstream: &Upstream) {
        self.pair("upstream.protocol", &quoted(upstream.protocol.name()));
        self.maybe("upstream.host", upstream.host.as_deref().map(quoted));
        self.maybe("upstream.proxy_protocol", upstream.proxy_protocol.map(|version| quoted(version.name())));
        self.maybe("upstream.sticky_cookie", upstream.sticky_cookie.as_deref().map(quoted));
        self.pair("upstream.hash", &quoted(&upstream.hash.to_string()));
        self.pair("health.probe.path", &quoted(&upstream.probe_path));
        if let Some(tls) = &upstream.tls {
            self.maybe("upstream.tls.server_name", tls.server_name.as_deref().map(quoted));
            self.maybe("upstream.tls.ca", tls.ca.as_deref().map(path));
            self.maybe("upstream.tls.certificate", tls.certificate.as_ref().map(certificate));
            self.pair("upstream.tls.insecure", &tls.insecure.to_string());
        }
    }

    fn route(&mut self, route: &RouteSpec) {
        self.line("\n[[route]]");
        self.pair("application", &quoted(&route.verdict));
        self.conditions(route);
    }

    fn rule(&mut self, rule: &RuleSpec) {
        let verdict = &rule.verdict;
        self.maybe(
            "class",
            Some(&verdict.class).filter(|class| !class.is_empty()).map(|class| quoted(class)),
        );
        self.conditions(rule);
        self.maybe("priority", verdict.priority.map(|priority| priority.to_string()));
        self.maybe("weight", verdict.weight.map(|weight| weight.to_string()));
        self.maybe("deadline", verdict.deadline.map(|deadline| knob_value(Value::Span(deadline))));
        self.maybe("deadline_header", verdict.deadline_header.as_deref().map(quoted));
        self.pair("priority_header", &verdict.priority_header.to_string());
    }

    fn conditions<V>(&mut self, rule: &RuleSpec<V>) {
        self.paths(
            "path_exact",
            rule,
            |spec| if let PathSpec::Exact(text) = spec { Some(text) } else { None },
        );
        self.paths(
            "path_prefix",
            rule,
            |spec| if let PathSpec::Prefix(text) = spec { Some(text) } else { None },
        );
        self.paths("path", rule, |spec| if let PathSpec::Glob(text) = spec { Some(text) } else { None });
        self.paths(
            "path_regex",
            rule,
            |spec| if let PathSpec::Regex(text) = spec { Some(text) } else { None },
        );
        self.texts("method", rule.methods.iter().cloned());
        self.texts("host", rule.hosts.iter().cloned());
        self.fields("header", &rule.headers);
        self.fields("query", &rule.query);
        self.fields("cookie", &rule.cookies);
        self.texts("client", rule.clients.iter().map(ToString::to_string));
        self.maybe("secure", rule.tls.secure.map(|flag| flag.to_string()));
        self.maybe("resumed", rule.tls.resumed.map(|flag| flag.to_string()));
        self.maybe("client_certificate", rule.tls.client_certificate.map(|flag| flag.to_string()));
        self.texts("server_name", rule.tls.server_names.iter().cloned());
    }

    fn paths<'r, V>(
        &mut self,
        key: &str,
        rule: &'r RuleSpec<V>,
        of_kind: impl Fn(&'r PathSpec) -> Option<&'r String>,
    ) {
        self.texts(key, rule.paths.iter().filter_map(of_kind).cloned());
    }

    fn fields(&mut self, list: &str, fields: &[FieldSpec]) {
        for field in fields {
            let value = match &field.value {
                ValueSpec::Present => "true".to_owned(),
                ValueSpec::Absent => "false".to_owned(),
                ValueSpec::Exact(text) => quoted(text),
                ValueSpec::Prefix(text) => format!("{{ prefix = {} }}", quoted(text)),
                ValueSpec::Regex(text) => format!("{{ regex = {} }}", quoted(text)),
            };
            self.pair(&format!("{list}.{}", quoted_key(&field.name)), &value);
        }
    }
}

fn server(server: &Server, tls: bool) -> String {
    let mut text = format!("{{ name = {}, url = {}", quoted(&server.name), quoted(&server.address.url(tls)));
    for (knob, value) in server.values.iter() {
        let _ = write!(text, ", {} = {}", knob.name(), knob_value(value));
    }
    text.push_str(" }");
    text
}

fn certificate(certificate: &Certificate) -> String {
    format!("{{ chain = {}, key = {} }}", path(&certificate.chain), path(&certificate.key))
}

/// Where the value is, never the value.
fn telemetry_header(header: &TelemetryHeader) -> String {
    let place = match &header.value {
        SecretPlace::File(file) => format!("file = {}", path(file)),
        SecretPlace::Environment(variable) => format!("environment = {}", quoted(variable)),
    };
    format!("{{ name = {}, {place} }}", quoted(&header.name))
}

fn header_edit(edit: &HeaderEdit) -> String {
    format!("{{ {} }}", edited(edit))
}

fn response_edit(ResponseEdit { edit, always }: &ResponseEdit) -> String {
    let always = if *always { ", always = true" } else { "" };
    format!("{{ {}{always} }}", edited(edit))
}

fn edited(edit: &HeaderEdit) -> String {
    let pair = |kind, name: &str, value: &str| {
        let value = if HeaderEdit::is_secret(name) { HeaderEdit::HIDDEN } else { value };
        format!("{kind} = {}, value = {}", quoted(name), quoted(value))
    };
    match edit {
        HeaderEdit::Set { name, value } => pair("set", name, value),
        HeaderEdit::Add { name, value } => pair("add", name, value),
        HeaderEdit::Remove { name } => format!("remove = {}", quoted(name)),
    }
}

/// A knob's value as the file writes it: numbers and flags bare, the rest quoted.
pub(crate) fn knob_value(value: Value) -> String {
    match value {
        Value::Count(_) | Value::Ratio(_) | Value::Flag(_) => value.to_string(),
        Value::None | Value::Rate(_) | Value::Span(_) | Value::Size(_) | Value::Choice(_) => {
            quoted(&value.to_string())
        }
    }
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// A key, bare where TOML allows it.
pub(crate) fn quoted_key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { name.to_owned() } else { quoted(name) }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if c.is_control() => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

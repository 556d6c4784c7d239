//! Rules: of an application, which say what class a request is of; and routes, which say whose it is.

use std::{collections::BTreeSet, ops::Range};

use ipnet::IpNet;
use tidegate_control::{
    ClassId,
    classify::{
        Classifier, FieldSpec, PathSpec, RouteSpec, Router, RuleFault, RuleSpec, TlsSpec, ValueSpec,
        VerdictSpec,
    },
    knobs::Value,
};
use toml::de::DeValue;

use super::{in_one_line, no_such};
use crate::{
    document::Section,
    entry::Entry,
    names, rows,
    settings::{Application, Class},
};

/// Every `[[application.NAME.rule]]`, in order. Whether they make sense, the classifier's own
/// compilation judges.
pub(super) fn rules(application: &Section<'_>, classes: &[Class]) -> Vec<RuleSpec> {
    let sections = application.tables("rule");
    let specs: Vec<_> = sections.iter().map(|section| rule(section, verdict(section, classes))).collect();
    // Class names are judged here, where the mend is known; the compiler is told that all exist.
    tell(Classifier::compile(&specs, |_| Some(ClassId::default())).err(), &sections, &specs);
    specs
}

/// Every `[[route]]`, in order, as rules are.
pub(super) fn routes(root: &Section<'_>, applications: &[Application]) -> Vec<RouteSpec> {
    let sections = root.tables("route");
    let specs: Vec<_> = sections.iter().map(|section| rule(section, target(section, applications))).collect();
    tell(Router::compile(&specs).err(), &sections, &specs);
    specs
}

/// The application that a route names.
fn target(section: &Section<'_>, applications: &[Application]) -> String {
    let name = section.text("application").unwrap_or_default();
    if section.is_written("application") && applications.iter().all(|known| known.name != name) {
        let (what, mend) = no_such("application", name, applications.iter().map(|known| known.name.as_str()));
        section.fault("application", what, mend);
    }
    name.to_owned()
}

/// Reports what the compiler found, where it is written.
fn tell<V>(faults: Option<Vec<RuleFault>>, sections: &[Section<'_>], specs: &[RuleSpec<V>]) {
    for fault in faults.into_iter().flatten() {
        if let (Some(section), Some(spec)) = (sections.get(fault.rule), specs.get(fault.rule)) {
            let (key, span) = place(section, spec, &fault.field);
            let (what, mend) = in_one_line(&fault.message);
            section.document().fault(&key, &span, what, mend);
        }
    }
}

fn rule<V>(section: &Section<'_>, verdict: V) -> RuleSpec<V> {
    // A condition that names nothing is none: the rule would hold where it was meant to hold nowhere.
    let of_paths = PATHS.iter().map(|(key, _)| *key);
    for key in ["method", "host", "client", "server_name"].into_iter().chain(of_paths) {
        if section.is_written(key) && section.texts(key, |text| Some(text.to_owned())).is_empty() {
            section.fault(key, "names nothing", "name at least one, or leave it out");
        }
    }
    let paths = PATHS
        .iter()
        .flat_map(|(key, make)| section.texts(key, |text| Some(text.to_owned())).into_iter().map(make))
        .collect();
    RuleSpec {
        methods: section.texts("method", |text| Some(text.to_ascii_uppercase())),
        hosts: section.texts("host", |text| Some(text.to_ascii_lowercase())),
        paths,
        headers: fields(section, "header", names::header),
        query: fields(section, "query", |name| Some(name.to_owned())),
        cookies: fields(section, "cookie", names::cookie),
        clients: networks(section, "client"),
        tls: TlsSpec {
            secure: section.flag("secure"),
            resumed: section.flag("resumed"),
            client_certificate: section.flag("client_certificate"),
            server_names: section.texts("server_name", |text| Some(text.to_ascii_lowercase())),
        },
        verdict,
    }
}

fn verdict(section: &Section<'_>, classes: &[Class]) -> VerdictSpec {
    let class = section.text("class").unwrap_or_default();
    if section.is_written("class") && classes.iter().all(|known| known.name != class) {
        let (what, mend) = no_such("class", class, classes.iter().map(|known| known.name.as_str()));
        section.fault("class", what, mend);
    }
    let count = |name| match section.value(name) {
        Some(Value::Count(count)) => u32::try_from(count).ok(),
        _ => None,
    };
    VerdictSpec {
        class: class.to_owned(),
        priority: count("priority").and_then(|priority| u8::try_from(priority).ok()),
        weight: count("weight"),
        deadline: match section.value("deadline") {
            Some(Value::Span(span)) => Some(span),
            _ => None,
        },
        deadline_header: section.parsed("deadline_header", names::header),
        priority_header: section.flag("priority_header").unwrap_or_default(),
    }
}

/// A key of path conditions and what it makes of a text.
type PathKey = (&'static str, fn(String) -> PathSpec);

/// Keys of path conditions, in the order in which they stand in a [`RuleSpec`].
const PATHS: &[PathKey] = &[
    ("path_exact", PathSpec::Exact),
    ("path_prefix", PathSpec::Prefix),
    ("path", PathSpec::Glob),
    ("path_regex", PathSpec::Regex),
];

/// Key and place of what the classifier calls `paths[1]`, `headers[0].value` or `tls.secure`.
fn place<V>(section: &Section<'_>, spec: &RuleSpec<V>, field: &str) -> (String, Range<usize>) {
    let (list, rest) = field.split_once('[').unwrap_or((field, ""));
    let at: usize = rest.split(']').next().and_then(|digits| digits.parse().ok()).unwrap_or_default();
    let text = |keys: &[&'static str]| {
        let all = keys.iter().flat_map(|key| {
            section.text_entries(key, |_| Some(())).into_iter().map(|((), entry)| (entry.key, entry.span))
        });
        all.into_iter().nth(at)
    };
    let condition = |key: &str, fields: &[FieldSpec]| {
        let name = &fields.get(at)?.name;
        let (_, entry) =
            section.conditions(key).into_iter().find(|(written, _)| written.eq_ignore_ascii_case(name))?;
        Some((entry.key, entry.span))
    };
    let found = match list {
        "paths" => text(&PATHS.iter().map(|(key, _)| *key).collect::<Vec<_>>()),
        "methods" => text(&["method"]),
        "hosts" => text(&["host"]),
        "tls.server_names" => text(&["server_name"]),
        "headers" => condition("header", &spec.headers),
        "query" => condition("query", &spec.query),
        "cookies" => condition("cookie", &spec.cookies),
        other => {
            let key = other.rsplit('.').next().unwrap_or(other);
            section.is_written(key).then(|| (section.key_of(key), section.span_of(key)))
        }
    };
    found.unwrap_or_else(|| (section.key.clone(), section.span.clone()))
}

/// Conditions on fields: `name = "value" | true | false | { prefix = … } | { regex = … }`.
fn fields(section: &Section<'_>, key: &str, read_name: impl Fn(&str) -> Option<String>) -> Vec<FieldSpec> {
    let mut seen = BTreeSet::new();
    let mut fields = Vec::new();
    for (written, entry) in section.conditions(key) {
        let value = condition(&entry);
        let Some(name) = read_name(written) else {
            entry.fault(
                format!("\"{}\" is no name of a {key}", written.escape_debug()),
                "write its name as clients send it",
            );
            continue;
        };
        if !seen.insert(name.clone()) {
            entry.fault("is written twice", "keep one of them");
        }
        fields.extend(value.map(|value| FieldSpec { name, value }));
    }
    fields
}

fn condition(entry: &Entry<'_>) -> Option<ValueSpec> {
    match entry.value() {
        DeValue::String(_) => Some(ValueSpec::Exact(entry.text(rows::CONDITION_EXPECTED)?.to_owned())),
        DeValue::Boolean(true) => Some(ValueSpec::Present),
        DeValue::Boolean(false) => Some(ValueSpec::Absent),
        DeValue::Table(_) => {
            let inner = entry.section(&rows::CONDITION)?;
            match (inner.text("prefix"), inner.text("regex")) {
                (Some(prefix), None) => Some(ValueSpec::Prefix(prefix.to_owned())),
                (None, Some(regex)) => Some(ValueSpec::Regex(regex.to_owned())),
                (Some(_), Some(_)) => {
                    entry.fault("has prefix and regex", "write exactly one of them");
                    None
                }
                (None, None) if inner.is_empty() => {
                    entry.fault("says nothing to ask", "write exactly one of prefix and regex");
                    None
                }
                (None, None) => None,
            }
        }
        _ => entry.wrong(rows::CONDITION_EXPECTED),
    }
}

/// Networks without bits beyond their prefix.
pub(super) fn networks(section: &Section<'_>, key: &str) -> Vec<IpNet> {
    section
        .text_entries(key, names::network)
        .into_iter()
        .map(|(network, entry)| {
            if network.trunc() != network {
                entry.fault(
                    format!("{network} has bits beyond its prefix"),
                    format!("write {} or {}", network.trunc(), network.addr()),
                );
            }
            network
        })
        .collect()
}

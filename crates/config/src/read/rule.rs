//! Classification rules.

use std::collections::BTreeSet;

use ipnet::IpNet;
use tidegate_control::{
    classify::{FieldSpec, PathSpec, RuleSpec, TlsSpec, ValueSpec, VerdictSpec},
    knobs::Value,
};
use toml::de::DeValue;

use super::no_such;
use crate::{
    document::{Entry, Section},
    names, rows,
    settings::Class,
};

/// Every `[[application.NAME.rule]]`, in order.
pub(super) fn rules(application: &Section<'_>, classes: &[Class]) -> Vec<RuleSpec> {
    application.tables("rule").iter().map(|section| rule(section, classes)).collect()
}

fn rule(section: &Section<'_>, classes: &[Class]) -> RuleSpec {
    let strings = |name| section.texts(name, |text| Some(text.to_owned()));
    let mut paths = Vec::new();
    paths.extend(section.texts("path_exact", names::path).into_iter().map(PathSpec::Exact));
    paths.extend(section.texts("path_prefix", names::path).into_iter().map(PathSpec::Prefix));
    paths.extend(section.texts("path", names::path_glob).into_iter().map(PathSpec::Glob));
    paths.extend(strings("path_regex").into_iter().map(PathSpec::Regex));
    RuleSpec {
        methods: section.texts("method", names::method),
        hosts: section.texts("host", names::host_pattern),
        paths,
        headers: fields(section, "header", names::header),
        query: fields(section, "query", |name| Some(name.to_owned())),
        cookies: fields(section, "cookie", names::cookie),
        clients: networks(section, "client"),
        tls: TlsSpec {
            secure: section.flag("secure"),
            resumed: section.flag("resumed"),
            client_certificate: section.flag("client_certificate"),
            server_names: section.texts("server_name", names::host_pattern),
        },
        verdict: verdict(section, classes),
    }
}

fn verdict(section: &Section<'_>, classes: &[Class]) -> VerdictSpec {
    let class = section.text("class").unwrap_or_default();
    if section.is_written("class") && classes.iter().all(|known| known.name != class) {
        let (what, mend) = no_such("class", class, classes.iter().map(|known| known.name.as_str()));
        section.fault("class", what, mend);
    }
    let count = |name| match section.like_knob(name) {
        Some(Value::Count(count)) => u32::try_from(count).ok(),
        _ => None,
    };
    VerdictSpec {
        class: class.to_owned(),
        priority: count("priority").and_then(|priority| u8::try_from(priority).ok()),
        weight: count("weight"),
        deadline: match section.like_knob("deadline") {
            Some(Value::Span(span)) => Some(span),
            _ => None,
        },
        deadline_header: section.parsed("deadline_header", names::header),
        priority_header: section.flag("priority_header").unwrap_or_default(),
    }
}

/// Conditions on fields: `name = "value" | true | false | { prefix = … } | { regex = … }`.
fn fields(section: &Section<'_>, key: &str, read_name: impl Fn(&str) -> Option<String>) -> Vec<FieldSpec> {
    let mut seen = BTreeSet::new();
    let mut fields = Vec::new();
    for (written, entry) in section.conditions(key) {
        let value = condition(section, key, &entry);
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

fn condition(section: &Section<'_>, key: &str, entry: &Entry<'_>) -> Option<ValueSpec> {
    match entry.value() {
        DeValue::String(text) => Some(ValueSpec::Exact(text.to_string())),
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
        _ => entry.wrong(&section.expected(key)),
    }
}

/// Networks without bits beyond their prefix.
pub(super) fn networks(section: &Section<'_>, key: &str) -> Vec<IpNet> {
    section
        .located_texts(key, names::network)
        .into_iter()
        .map(|(network, span)| {
            if network.trunc() != network {
                section.document().fault(
                    &section.key_of(key),
                    &span,
                    format!("{network} has bits beyond its prefix"),
                    format!("write {} or {}", network.trunc(), network.addr()),
                );
            }
            network
        })
        .collect()
}

/// What is wrong with a regular expression, in one line.
pub(super) fn regex_fault(error: &regex::Error) -> String {
    let words = error.to_string();
    let last = words.lines().last().unwrap_or_default();
    format!("is no regular expression: {}", last.trim_start_matches("error: "))
}

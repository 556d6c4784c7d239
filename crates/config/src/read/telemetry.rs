//! Export to an OpenTelemetry collector: where it is, what it is told of us, how often.

use std::time::Duration;

use tidegate_control::knobs::{Kind, Value};

use super::Names;
use crate::{
    document::Section,
    names,
    settings::{CollectorUrl, SecretPlace, Telemetry, TelemetryHeader},
};

/// Keys that mean nothing without `telemetry.endpoint`.
const OTHERS: &[&str] = &[
    "telemetry.service_name",
    "telemetry.resource",
    "telemetry.header",
    "telemetry.ca",
    "telemetry.timeout",
    "telemetry.metrics.interval",
    "telemetry.traces.parent",
];

const INTERVAL: Kind = Kind::Span { min: Duration::from_secs(1), max: Duration::from_secs(3600) };

/// `telemetry`, if it is written.
pub(super) fn telemetry(root: &Section<'_>) -> Option<Telemetry> {
    let endpoint = endpoint(root);
    let service_name = root
        .parsed("telemetry.service_name", |text| (!text.trim().is_empty()).then(|| text.to_owned()))
        .filter(|name| fits(root, "telemetry.service_name", name));
    let headers = headers(root);
    let ca = root.file("telemetry.ca");
    let timeout = match root.value("telemetry.timeout") {
        Some(Value::Span(timeout)) => Some(timeout),
        _ => None,
    };
    let metrics_interval = root.parsed("telemetry.metrics.interval", |text| match text {
        "none" => Some(None),
        _ => match INTERVAL.parse(text).ok()? {
            Value::Span(span) if INTERVAL.admits(Value::Span(span)) => Some(Some(span)),
            _ => None,
        },
    });
    let resource = resource(root);
    let parent = root.choice("telemetry.traces.parent");
    Some(Telemetry {
        endpoint: endpoint?,
        service_name: service_name?,
        resource,
        headers,
        ca,
        timeout: timeout?,
        metrics_interval: metrics_interval?,
        parent: parent?,
    })
}

fn endpoint(root: &Section<'_>) -> Option<CollectorUrl> {
    const KEY: &str = "telemetry.endpoint";
    let Some(text) = root.text(KEY) else {
        let other = OTHERS.iter().find(|key| root.is_written(key));
        if let Some(key) = other.filter(|_| !root.is_written(KEY) && root.document().is_whole()) {
            root.fault(
                key,
                "is written without telemetry.endpoint, so nothing is exported",
                "write telemetry.endpoint = \"http://127.0.0.1:4318\"",
            );
        }
        return None;
    };
    CollectorUrl::parse(text).map_err(|fault| root.fault(KEY, fault.what, fault.mend)).ok()
}

/// Most bytes of a name or value that everything exported carries.
const ATTRIBUTE_BYTES_MAX: usize = 256;

fn fits(root: &Section<'_>, key: &str, text: &str) -> bool {
    if text.len() > ATTRIBUTE_BYTES_MAX {
        root.fault(key, "is too long", format!("write at most {ATTRIBUTE_BYTES_MAX} bytes"));
    }
    text.len() <= ATTRIBUTE_BYTES_MAX
}

fn resource(root: &Section<'_>) -> Vec<(String, String)> {
    const KEY: &str = "telemetry.resource";
    let attribute = |text: &str| {
        let (name, value) = text.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let is_name = |name: &str| names::is_name(name) && !name.starts_with('.') && !name.ends_with('.');
        (is_name(name) && !value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    };
    let attributes: Vec<_> = root.texts(KEY, attribute);
    attributes.into_iter().filter(|(_, value)| fits(root, KEY, value)).collect()
}

fn headers(root: &Section<'_>) -> Vec<TelemetryHeader> {
    /// What says how the message itself is written, which is ours to say.
    const OURS: &[&str] =
        &["host", "content-type", "content-length", "content-encoding", "connection", "transfer-encoding"];
    let mut claimed = Names::default();
    root.tables("telemetry.header")
        .iter()
        .filter_map(|section| {
            let name = section.parsed("name", names::header);
            let file = section.file("file");
            let variable = |text: &str| (!text.is_empty() && !text.contains('=')).then(|| text.to_owned());
            let environment = section.parsed("environment", variable);
            let name = name?;
            claimed.claim(section, "name", &name, true);
            if OURS.contains(&name.as_str()) {
                section.fault("name", format!("\"{name}\" is set by Tidegate itself"), "leave it out");
            }
            let value = match (file, environment) {
                (Some(file), None) => SecretPlace::File(file),
                (None, Some(variable)) => SecretPlace::Environment(variable),
                (None, None) if section.is_written("file") || section.is_written("environment") => {
                    return None;
                }
                (file, _) => {
                    let what = if file.is_some() { "has two values" } else { "has no value" };
                    let mend = "write either file = \"collector.token\" or environment = \"COLLECTOR_TOKEN\"";
                    section.fault("name", what, mend);
                    return None;
                }
            };
            Some(TelemetryHeader { name, value })
        })
        .collect()
}

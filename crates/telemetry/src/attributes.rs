//! Attributes: names with values, and those of the resource that everything exported is of.

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
};
use tidegate_config::Telemetry;

/// The semantic conventions whose names are used.
pub(crate) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";

/// A text.
pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

/// A whole number.
pub(crate) fn whole(key: &str, value: impl TryInto<i64>) -> KeyValue {
    attribute(key, Value::IntValue(value.try_into().unwrap_or(i64::MAX)))
}

/// A number.
pub(crate) fn number(key: &str, value: f64) -> KeyValue {
    attribute(key, Value::DoubleValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// The resource of a process: service, host, and what the settings add. `instance` tells it from others.
pub(crate) fn resource(settings: &Telemetry, instance: &str) -> Resource {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut attributes = vec![
        text("service.name", &settings.service_name),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", instance),
        text("host.name", host),
        whole("process.pid", std::process::id()),
    ];
    for (name, value) in &settings.resource {
        attributes.retain(|attribute| attribute.key != *name);
        attributes.push(text(name, value));
    }
    Resource { attributes, ..Resource::default() }
}

/// Who measured.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "tidegate".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// A random UUID (RFC 9562, version 4), as the conventions ask for.
pub(crate) fn new_instance() -> String {
    let mut bytes = [0; 16];
    // Without randomness the process id has to do.
    if getrandom::fill(&mut bytes).is_err() {
        bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    }
    let bits = u128::from_be_bytes(bytes);
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | (4 << 76) | (0b10 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_random_uuids() {
        let (one, other) = (new_instance(), new_instance());
        assert_ne!(one, other);
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{one}");
        assert_eq!(&one[14..15], "4", "{one}");
        assert!(matches!(&one[19..20], "8" | "9" | "a" | "b"), "{one}");
    }
}

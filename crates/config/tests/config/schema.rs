//! The JSON schema accepts what the reader accepts.

use std::{fs, path::Path};

use serde_json::Value as Json;

/// Checks `value` against the part of JSON Schema that the file's schema uses; panics where the
/// schema uses another.
fn check(schema: &Json, value: &Json, at: &str) -> Result<(), String> {
    let wrong = || Err(format!("{at}: {value} against {schema}"));
    for (word, rule) in schema.as_object().expect("a schema is an object") {
        let fine = match word.as_str() {
            "description" | "default" | "title" | "$schema" | "properties" => true,
            "type" => match rule.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_u64() || value.is_i64(),
                "number" => value.is_number(),
                other => panic!("type {other}"),
            },
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap()),
            "pattern" => value
                .as_str()
                .is_none_or(|text| regex::Regex::new(rule.as_str().unwrap()).unwrap().is_match(text)),
            "minProperties" => value.as_object().is_none_or(|o| o.len() as u64 >= rule.as_u64().unwrap()),
            "maxProperties" => value.as_object().is_none_or(|o| o.len() as u64 <= rule.as_u64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|a| a.len() as u64 <= rule.as_u64().unwrap()),
            "required" => value.as_object().is_none_or(|o| {
                rule.as_array().unwrap().iter().all(|key| o.contains_key(key.as_str().unwrap()))
            }),
            "anyOf" => rule.as_array().unwrap().iter().any(|schema| check(schema, value, at).is_ok()),
            "items" => {
                for (position, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(rule, item, &format!("{at}[{position}]"))?;
                }
                true
            }
            "additionalProperties" => {
                for (key, inner) in value.as_object().into_iter().flatten() {
                    let at = format!("{at}.{key}");
                    match (schema.get("properties").and_then(|known| known.get(key)), rule) {
                        (Some(known), _) => check(known, inner, &at)?,
                        (None, Json::Bool(false)) => return Err(format!("{at}: unknown")),
                        (None, rule) => check(rule, inner, &at)?,
                    }
                }
                true
            }
            other => panic!("the schema says {other}, which is not checked here"),
        };
        if !fine {
            return wrong();
        }
    }
    Ok(())
}

fn json(text: &str) -> Json {
    serde_json::to_value(text.parse::<toml::Table>().expect("TOML")).expect("no date in it")
}

#[test]
fn the_schema_accepts_the_examples_as_written_and_as_printed() {
    let schema = tidegate_config::schema();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for name in ["minimal.toml", "tls.toml", "classes.toml", "several-applications.toml"] {
        let text = fs::read_to_string(directory.join(name)).unwrap();
        assert_eq!(check(&schema, &json(&text), name), Ok(()));
        let settings = tidegate_config::parse(&text, &directory, name).unwrap();
        assert_eq!(check(&schema, &json(&tidegate_config::print(&settings)), name), Ok(()));
    }
}

#[test]
fn the_schema_refuses_what_it_can_know() {
    let schema = tidegate_config::schema();
    let good = "[[listener]]\naddress = \"[::]:80\"\n[application.a]\n";
    assert_eq!(check(&schema, &json(good), "good"), Ok(()));
    for bad in [
        "",
        "[[listener]]\n[application.a]",
        &format!("{good}hots = \"a\""),
        &format!("{good}in_flight.limit = 0"),
        &format!("{good}in_flight.limit = \"8\""),
        &format!("{good}client.rate = \"fast\""),
        &format!("{good}client.rate = 5"),
        &format!("{good}upstream.protocol = \"http3\""),
        &format!("{good}rule = [{{ header = {{ a = {{ prefix = \"a\", regex = \"b\" }} }} }}]"),
        &format!("{good}rule = [{{ header = {{ a = 1 }} }}]"),
        &format!("{good}servers = [5]"),
    ] {
        assert!(check(&schema, &json(bad), "bad").is_err(), "{bad}");
        assert!(tidegate_config::parse(bad, Path::new("/"), "bad").is_err(), "{bad}");
    }
}

//! The JSON schema of the configuration file, from the same rows that read it.

use serde_json::{Map, Value as Json, json};
use tidegate_control::knobs::{Kind, Knob, Value};

use crate::{
    rows,
    shape::{Absent, Row, Shape, Table},
};

/// The file's schema (JSON Schema, draft 2020-12), for editors and other tools.
///
/// It knows keys, types, ranges and defaults. What must agree with what, only [`load()`](crate::load())
/// knows.
#[must_use]
pub fn schema() -> Json {
    let mut schema = table(&rows::ROOT);
    if let Some(top) = schema.as_object_mut() {
        top.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        top.insert("title".to_owned(), json!("Configuration of Tidegate"));
    }
    schema
}

/// An object with the keys of `table`, dotted names unfolded to objects within.
fn table(table: &Table) -> Json {
    let mut root = Folder::default();
    for row in table.rows {
        root.put(row.name, row_schema(row), matches!(row.absent, Absent::Required(_)));
    }
    for knob in table.knobs() {
        root.put(knob.name(), knob_schema(knob), false);
    }
    root.into_schema(table.doc)
}

/// A table of the file under construction.
#[derive(Default)]
struct Folder {
    /// Tables within, by name.
    folders: std::collections::BTreeMap<String, Folder>,
    /// Keys and their schemas.
    keys: Map<String, Json>,
    required: Vec<String>,
}

impl Folder {
    fn put(&mut self, name: &str, schema: Json, required: bool) {
        match name.split_once('.') {
            Some((folder, rest)) => {
                self.folders.entry(folder.to_owned()).or_default().put(rest, schema, required);
            }
            None => {
                self.keys.insert(name.to_owned(), schema);
                if required {
                    self.required.push(name.to_owned());
                }
            }
        }
    }

    fn into_schema(mut self, doc: &str) -> Json {
        for (name, folder) in self.folders {
            self.keys.insert(name, folder.into_schema(""));
        }
        let mut schema = json!({
            "type": "object",
            "properties": self.keys,
            "additionalProperties": false,
        });
        if !doc.is_empty() {
            schema["description"] = json!(doc);
        }
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        schema
    }
}

fn row_schema(row: &Row) -> Json {
    let mut schema = shape(&row.shape);
    schema["description"] = json!(row.doc);
    if let Absent::Value(text) = row.absent {
        schema["default"] = match row.shape {
            Shape::Flag => json!(text == "true"),
            Shape::Value(Kind::Count { .. }) => json!(text.parse::<u64>().ok()),
            _ => json!(text),
        };
    }
    schema
}

fn shape(shape: &Shape) -> Json {
    let string = || json!({ "type": "string" });
    match shape {
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Whole { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Text(_) => string(),
        Shape::Choice(names) => json!({ "enum": names }),
        Shape::Texts { max, .. } => {
            json!({ "anyOf": [string(), { "type": "array", "items": string(), "maxItems": max }] })
        }
        Shape::Value(of) => kind(*of),
        Shape::Table(inner) => table(inner),
        Shape::Tables { table: inner, max } => {
            json!({ "type": "array", "items": table(inner), "maxItems": max })
        }
        Shape::TablesOrTexts { table: inner, max, .. } => json!({ "anyOf": [
            string(),
            { "type": "array", "items": { "anyOf": [string(), table(inner)] }, "maxItems": max },
        ] }),
        Shape::Named { table: inner, max } => {
            json!({ "type": "object", "additionalProperties": table(inner), "maxProperties": max })
        }
        Shape::Conditions { max } => {
            let mut condition = table(&rows::CONDITION);
            condition["minProperties"] = json!(1);
            condition["maxProperties"] = json!(1);
            let value = json!({ "anyOf": [string(), { "type": "boolean" }, condition] });
            json!({ "type": "object", "additionalProperties": value, "maxProperties": max })
        }
    }
}

fn knob_schema(knob: Knob) -> Json {
    let mut schema = kind(knob.kind());
    if knob.is_optional() {
        schema = json!({ "anyOf": [schema, { "const": "none" }] });
    }
    schema["description"] = json!(knob.doc());
    schema["default"] = match knob.default() {
        Value::Count(count) => json!(count),
        Value::Ratio(ratio) => json!(ratio),
        Value::Flag(flag) => json!(flag),
        text @ (Value::None | Value::Rate(_) | Value::Span(_) | Value::Size(_) | Value::Choice(_)) => {
            json!(text.to_string())
        }
    };
    schema
}

fn kind(kind: Kind) -> Json {
    let measure = |units: &str| json!({ "type": "string", "pattern": format!("^ *[0-9.]+ *{units} *$") });
    match kind {
        Kind::Count { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Ratio { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Choice(names) => json!({ "enum": names }),
        Kind::Rate { .. } => measure("/ *(s|min|h)"),
        Kind::Span { .. } => measure("(ns|us|µs|ms|s|min|h|d)"),
        Kind::Size { .. } => measure("(B|KiB|MiB|GiB|TiB|kB|MB|GB)"),
    }
}

//! Bodies of requests: JSON objects, each member known.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};

use crate::{parameters::bad, problem::Problem};

/// An object that has these members only.
pub(crate) fn object(body: &[u8], known: &[&str]) -> Result<Map<String, Json>, Problem> {
    let object = any_object(body)?;
    match object.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(bad(format!("{name:?} is not known here: there is {}", known.join(", ")))),
        None => Ok(object),
    }
}

/// An object whose members the caller looks at.
pub(crate) fn any_object(body: &[u8]) -> Result<Map<String, Json>, Problem> {
    match serde_json::from_slice(body) {
        Ok(Unambiguous(Json::Object(object))) => Ok(object),
        Ok(Unambiguous(other)) => Err(bad(format!("the body is no JSON object: it is {other}"))),
        Err(error) => Err(bad(format!("the body is no JSON object: {error}"))),
    }
}

/// Takes out a text of one line, at most `max` bytes long.
pub(crate) fn text(
    object: &mut Map<String, Json>,
    name: &str,
    max: usize,
) -> Result<Option<String>, Problem> {
    match object.remove(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) if text.len() <= max && !text.chars().any(char::is_control) => {
            Ok(Some(text))
        }
        Some(_) => Err(bad(format!("{name}: give a text of one line, at most {max} bytes"))),
    }
}

/// What is wrong where a member has to be there and is not, or is of another kind.
pub(crate) fn needed(name: &str, found: Option<&Json>, mend: &str) -> Problem {
    bad(match found {
        None => format!("{name:?} is missing: give {mend}"),
        Some(other) => format!("{name}: {other} is not allowed here: give {mend}"),
    })
}

/// Takes out true or false; false if it is not there.
pub(crate) fn flag(object: &mut Map<String, Json>, name: &str) -> Result<bool, Problem> {
    match object.remove(name) {
        None => Ok(false),
        Some(Json::Bool(flag)) => Ok(flag),
        Some(other) => Err(bad(format!("{name}: {other} is not allowed here: expected true or false"))),
    }
}

/// JSON whose objects name each member once. By itself serde_json keeps the last of a name (RFC 8259, section 4, leaves
/// open which one counts), and the change that somebody wrote first would be lost without a word.
struct Unambiguous(Json);

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Members).map(Self)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(Unambiguous(item)) = from.next_element()? {
            list.push(item);
        }
        Ok(Json::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        let mut object = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("{name:?} is given twice: give it once")));
            }
            let Unambiguous(value) = from.next_value()?;
            object.insert(name, value);
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::any_object;

    #[test]
    fn a_member_that_is_given_twice_is_a_fault_with_its_place() {
        for (body, said) in [
            (r#"{"why": "a", "why": "a"}"#, r#""why" is given twice: give it once at line 1 column 18"#),
            (
                "{\"changes\": {\"app/in_flight.limit\": \"8\",\n\"app/in_flight.limit\": \"9\"}}",
                "\"app/in_flight.limit\" is given twice: give it once at line 2 column 21",
            ),
            (r#"{"list": [{"a": 1, "a": null}]}"#, r#""a" is given twice"#),
            ("7", "the body is no JSON object: it is 7"),
            ("{", "the body is no JSON object: EOF"),
        ] {
            let fault = any_object(body.as_bytes()).expect_err(body).to_string();
            assert!(fault.contains(said), "{body}: {fault}");
        }
    }

    #[test]
    fn everything_else_is_read_as_it_is_written() {
        let body =
            r#"{"a": [null, true, -3, 18446744073709551615, 0.5, "\u00e9\n"], "b": {"a": {}, "b": []}}"#;
        let read = any_object(body.as_bytes()).expect("an object");
        assert_eq!(serde_json::Value::Object(read), serde_json::from_str::<serde_json::Value>(body).unwrap());
    }
}

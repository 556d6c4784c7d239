//! Bodies of requests: JSON objects, each member known.

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
    serde_json::from_slice(body).map_err(|error| bad(format!("the body is no JSON object: {error}")))
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

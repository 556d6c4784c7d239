//! Parameters of a request: of its query each known, each once; the application of its path.

use std::{collections::BTreeMap, sync::Arc};

use http::StatusCode;
use percent_encoding::percent_decode_str;
use tidegate_runtime::{Application, Snapshot};

use crate::problem::Problem;

/// Longest query read.
const BYTES_MAX: usize = 4096;

/// The parameters of a query by name.
#[derive(Debug)]
pub(crate) struct Parameters {
    values: BTreeMap<&'static str, String>,
}

impl Parameters {
    /// Reads a query that may hold the `known` names.
    pub(crate) fn read(query: Option<&str>, known: &'static [&'static str]) -> Result<Self, Problem> {
        let query = query.unwrap_or_default();
        if query.len() > BYTES_MAX {
            return Err(bad(format!("the query is longer than {BYTES_MAX} bytes")));
        }
        let mut values = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            let Some(name) = known.iter().copied().find(|known| *known == name) else {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(bad(format!("{name:?} is no parameter of this: it has {known}")));
            };
            if values.insert(name, value).is_some() {
                return Err(bad(format!("{name} is given twice")));
            }
        }
        Ok(Self { values })
    }

    /// The value of a parameter, if it is given.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The value of a parameter as `read` understands it; `expected` says what that is.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match read(text) {
            Some(value) => Ok(Some(value)),
            None => Err(bad(format!("{name}: {text:?} is not allowed here: expected {expected}"))),
        }
    }
}

/// The application that a path names.
pub(crate) fn application_of<'s>(
    snapshot: &'s Snapshot,
    name: &str,
) -> Result<&'s Arc<Application>, Problem> {
    let found = snapshot.application_named(name).and_then(|at| snapshot.applications.get(at));
    found.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("no application is named {name:?}")))
}

/// A request at fault.
pub(crate) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, detail)
}

fn decode(text: &str) -> Result<String, Problem> {
    // As forms are written: a plus is a blank.
    let text = text.replace('+', " ");
    percent_decode_str(&text)
        .decode_utf8()
        .map(Into::into)
        .map_err(|_| bad(format!("{text:?} is not percent-encoded UTF-8")))
}

#[cfg(test)]
mod tests {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

    use super::*;

    const KNOWN: &[&str] = &["a", "b"];

    #[test]
    fn each_is_known_and_given_once() {
        let read = |query| Parameters::read(Some(query), KNOWN).map_err(|problem| problem.to_string());
        assert_eq!(read("a=x%2Fy+z&b").unwrap().get("a"), Some("x/y z"));
        assert_eq!(read("c=1").unwrap_err(), "\"c\" is no parameter of this: it has a, b");
        assert_eq!(read("a=1&a=1").unwrap_err(), "a is given twice");
        assert!(read("a=%ff").unwrap_err().contains("percent-encoded UTF-8"));
        assert!(read(&"a".repeat(5000)).unwrap_err().contains("4096"));
    }

    #[test]
    fn any_query_is_read_or_refused() {
        bolero::check!().with_type::<(String, String)>().for_each(|(first, second)| {
            let Ok(read) = Parameters::read(Some(&format!("a={first}&{second}")), KNOWN) else { return };
            // Written as it should be, it reads the same.
            let pair = |(name, value): (&&str, &String)| {
                format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))
            };
            let written = read.values.iter().map(pair).collect::<Vec<_>>().join("&");
            if written.len() <= BYTES_MAX {
                assert_eq!(Parameters::read(Some(&written), KNOWN).unwrap().values, read.values);
            }
        });
    }
}

//! A request before it is one: method, target and headers, without what the connection adds.

use http::{HeaderMap, Method, uri::PathAndQuery};

/// The parts of a request that do not depend on the connection it takes.
#[derive(Clone, Debug)]
pub(crate) struct RequestTemplate {
    pub(crate) method: Method,
    pub(crate) target: PathAndQuery,
    pub(crate) headers: HeaderMap,
}

impl RequestTemplate {
    /// A path with its query in origin form; `None` for anything else.
    pub(crate) fn parse_target(text: &str) -> Option<PathAndQuery> {
        if text.starts_with('/') { text.parse().ok() } else { None }
    }
}

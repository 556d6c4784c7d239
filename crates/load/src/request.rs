//! A request before it is one: method, target and headers, without what the connection adds.

use http::{HeaderMap, Method, Uri, uri::PathAndQuery};

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

    /// Path and query of a whole URL as a request has them: no path is `/`, also before a query.
    pub(crate) fn origin_form(url: &Uri) -> String {
        match url.path_and_query().map_or("", PathAndQuery::as_str) {
            path if path.starts_with('/') => path.to_owned(),
            query => format!("/{query}"),
        }
    }
}

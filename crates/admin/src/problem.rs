//! What the admin interface answers when it does not do what was asked: RFC 9457 problem documents.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

/// A problem with its status and one sentence that says what is wrong and how to mend it.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), headers: Vec::new() }
    }

    /// The same with one more header field; one that cannot be sent is left out.
    pub(crate) fn with(mut self, name: HeaderName, value: String) -> Self {
        self.headers.extend(HeaderValue::try_from(value).ok().map(|value| (name, value)));
        self
    }

    #[cfg(test)]
    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn response(&self) -> Response<Full<Bytes>> {
        let document = serde_json::json!({
            "title": self.status.canonical_reason().unwrap_or("Problem"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut response = Response::new(Full::from(format!("{document}\n")));
        *response.status_mut() = self.status;
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.headers_mut().extend(self.headers.iter().cloned());
        response
    }
}

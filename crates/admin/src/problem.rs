//! What the admin interface answers when it does not do what was asked: RFC 9457 problem documents.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::Full;

/// A problem with its status and one sentence that says what is wrong and how to mend it.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
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
            .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/problem+json"));
        response
    }
}

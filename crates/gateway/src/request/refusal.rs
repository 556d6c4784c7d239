//! What a client sees of a request that was not served: status, reason, and when to come back.
//!
//! A page, a problem document (RFC 9457) or plain text by `Accept`; never cached; the reason is
//! also in the field `Tidegate-Reason`, for whoever reads no bodies.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

use super::{accept::Form, hop_by_hop::find, request_id, response_body::ResponseBody};
use crate::http1::date;

pub(super) const REASON: HeaderName = HeaderName::from_static("tidegate-reason");

/// A message of ours in place of a server's response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    /// The status.
    pub(super) status: StatusCode,
    /// Its reason by name; only letters, digits and `_`.
    pub(super) reason: &'static str,
    /// One sentence for the client; nothing of it needs escaping.
    pub(super) public: &'static str,
    /// Whole seconds after which trying again makes sense.
    pub(super) retry_after_s: Option<u64>,
    /// A page to show instead of ours where HTML is wanted.
    pub(super) page: Option<&'a [u8]>,
}

/// What of a request decides on the form of a message to it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    method: Method,
    /// The first line of `Accept`; more than one is nobody's habit.
    accept: Option<HeaderValue>,
}

impl Asked {
    pub(super) fn of(method: &Method, headers: &HeaderMap) -> Self {
        Self { method: method.clone(), accept: find(headers, &header::ACCEPT).cloned() }
    }

    pub(super) const fn method(&self) -> &Method {
        &self.method
    }

    /// The form the client likes best.
    pub(super) fn form(&self) -> Form {
        Form::negotiate(self.accept.iter())
    }
}

impl Message<'_> {
    /// The response to a request.
    pub(super) fn response(&self, asked: &Asked) -> Response<ResponseBody> {
        let form = asked.form();
        let body = self.body(form);
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = self.status;
        let fields = response.headers_mut();
        fields.insert(header::CONTENT_TYPE, form.media_type());
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        fields.insert(REASON, HeaderValue::from_static(self.reason));
        if let Some(seconds) = self.retry_after_s {
            fields.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if asked.method != Method::HEAD {
            *response.body_mut() = ResponseBody::whole(body);
        }
        response
    }

    /// The same on the wire, for a connection of HTTP/1 that ends with it: nothing is known of what
    /// its client likes, so it is a problem document. `id` is that of a request which has none in the log otherwise.
    pub(super) fn last_words(&self, id: Option<&HeaderValue>) -> Vec<u8> {
        let Self { status, reason, .. } = *self;
        let body = self.last_words_body();
        let (code, title, length) =
            (status.as_u16(), status.canonical_reason().unwrap_or("Error"), body.len());
        let mut bytes = format!(
            "HTTP/1.1 {code} {title}\r\ncontent-type: application/problem+json\r\n\
             content-length: {length}\r\ncache-control: no-store\r\n{REASON}: {reason}\r\n\
             connection: close\r\n"
        )
        .into_bytes();
        date::write(&mut bytes);
        if let Some(id) = id {
            for part in [request_id::FIELD.as_str().as_bytes(), b": ", id.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&body);
        bytes
    }

    /// The body of these.
    pub(super) fn last_words_body(&self) -> Bytes {
        self.body(Form::Problem)
    }

    fn body(&self, form: Form) -> Bytes {
        let Self { status, reason, public, retry_after_s, page } = *self;
        let (code, title) = (status.as_u16(), status.canonical_reason().unwrap_or("Error"));
        let text = match (form, page, retry_after_s) {
            (Form::Html, Some(page), _) => return Bytes::copy_from_slice(page),
            (Form::Html, None, retry) => {
                let again = retry.map_or_else(String::new, |seconds| {
                    format!("<p>Please try again in {seconds} second{}.</p>\n", plural(seconds))
                });
                format!(
                    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
                     <meta name=\"viewport\" content=\"width=device-width\">\n<title>{code} {title}</title>\n\
                     <body style=\"font-family:system-ui,sans-serif;max-width:36em;margin:4em auto;padding:0 1em\">\n\
                     <main>\n<h1>{title}</h1>\n<p>{public}</p>\n{again}<p><small>{code} {reason}</small></p>\n</main>\n</body>\n</html>\n"
                )
            }
            (Form::Problem, _, retry) => {
                let again = retry.map_or_else(String::new, |seconds| format!(",\"retry_after\":{seconds}"));
                format!(
                    "{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{code},\
                     \"detail\":\"{public}\",\"reason\":\"{reason}\"{again}}}\n"
                )
            }
            (Form::Text, _, retry) => {
                let again = retry.map_or_else(String::new, |seconds| {
                    format!("Please try again in {seconds} second{}.\n", plural(seconds))
                });
                format!("{code} {title}\n{public}\n{again}Reason: {reason}\n")
            }
        };
        Bytes::from(text)
    }
}

const fn plural(number: u64) -> &'static str {
    if number == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use http_body::Body;

    use super::*;

    const FULL: Message<'_> = Message {
        status: StatusCode::SERVICE_UNAVAILABLE,
        reason: "queue_full",
        public: "Too many requests are waiting already.",
        retry_after_s: Some(5),
        page: None,
    };

    fn asked(method: Method, accept: &'static str) -> Asked {
        Asked::of(&method, &HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
    }

    #[test]
    fn a_problem_document_is_json_and_says_when_to_come_back() {
        let body = FULL.body(Form::Problem);
        assert_eq!(
            body,
            "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
             \"detail\":\"Too many requests are waiting already.\",\"reason\":\"queue_full\",\"retry_after\":5}\n"
        );
        let response = FULL.response(&asked(Method::GET, "application/json"));
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(response.headers()[header::CONTENT_LENGTH], body.len().to_string().as_str());
        assert_eq!(response.headers()[header::RETRY_AFTER], "5");
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        assert_eq!(response.headers()[REASON], "queue_full");
        assert_eq!(response.status(), 503);
    }

    #[test]
    fn the_answer_to_head_has_the_fields_only() {
        let response = FULL.response(&asked(Method::HEAD, "text/html"));
        assert!(response.body().is_end_stream());
        assert_eq!(
            response.headers()[header::CONTENT_LENGTH],
            FULL.body(Form::Html).len().to_string().as_str()
        );
    }

    #[test]
    fn a_page_of_the_operator_s_own_replaces_ours() {
        let own = Message { page: Some(b"<p>Back at noon.</p>"), ..FULL };
        assert_eq!(own.body(Form::Html), "<p>Back at noon.</p>");
        assert_eq!(own.body(Form::Text), FULL.body(Form::Text));
    }
}

//! The head of a response on the wire, and how its body comes behind it.

use std::io::Write;

use bytes::Bytes;
use http::{StatusCode, header, response::Parts};
use http_body::Body;

use crate::{
    http1::{Outgoing, Rest, announced_trailers, date, field},
    request::content_length,
};

/// What of a request its response on the wire depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) is_http10: bool,
    /// Whether the method is HEAD.
    pub(super) is_head: bool,
    pub(super) takes_trailers: bool,
}

/// Begins a response. `lasts`: whether the connection is to last beyond it; the answer is whether it does.
pub(super) fn begin(
    out: &mut Outgoing,
    head: &Parts,
    body: &impl Body,
    asked: Asked,
    mut lasts: bool,
) -> bool {
    let status = head.status;
    let has_none = asked.is_head
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let lead = out.head();
    match (asked.is_http10, status) {
        (false, StatusCode::OK) => lead.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
        (is_http10, status) => {
            let version = if is_http10 { "HTTP/1.0 " } else { "HTTP/1.1 " };
            // A status that is not in the registry has no phrase, and none is made up.
            let phrase = status.canonical_reason().unwrap_or_default();
            for part in [version, status.as_str(), " ", phrase, "\r\n"] {
                lead.extend_from_slice(part.as_bytes());
            }
        }
    }
    let (mut told, mut is_dated, mut says_close, mut has_trailers) = (None, false, false, false);
    for (name, value) in &head.headers {
        match *name {
            // How the body goes is said below.
            header::TRANSFER_ENCODING => continue,
            header::CONTENT_LENGTH => {
                told = content_length(value).map(|length| (length, value));
                continue;
            }
            header::TRAILER if has_none || asked.is_http10 => continue,
            header::TRAILER => has_trailers = true,
            header::DATE => is_dated = true,
            header::CONNECTION => {
                says_close |= value.as_bytes().eq_ignore_ascii_case(b"close");
                lasts &= !says_close;
            }
            _ => {}
        }
        field(lead, name.as_str().as_bytes(), value.as_bytes());
    }
    let known = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
    let (length, rest) = match (has_none, known.or(told.map(|(length, _)| length))) {
        // What GET would have got.
        (true, length) if asked.is_head && status != StatusCode::NO_CONTENT => {
            (told.map(|(length, _)| length).or(length.filter(|length| *length > 0)), Rest::Nothing)
        }
        // The same (RFC 9110, section 8.6), where the server has said it.
        (true, _) if status == StatusCode::NOT_MODIFIED => (told.map(|(length, _)| length), Rest::Nothing),
        (true, _) => (None, Rest::Nothing),
        (false, Some(0)) => (Some(0), Rest::Nothing),
        (false, Some(length)) => (Some(length), Rest::Length(length)),
        (false, None) if asked.is_http10 => {
            // The end of the connection is the end of the body.
            lasts = false;
            (None, Rest::ToEnd)
        }
        (false, None) => {
            field(lead, b"transfer-encoding", b"chunked");
            let is_wanted = has_trailers && asked.takes_trailers;
            let announced = if is_wanted { announced_trailers(&head.headers) } else { Vec::new() };
            (None, Rest::Chunks { announced })
        }
    };
    match (length, told) {
        (Some(length), Some((told, value))) if length == told => {
            field(lead, b"content-length", value.as_bytes());
        }
        // Writing to memory does not fail.
        (Some(length), _) => drop(write!(lead, "content-length: {length}\r\n")),
        (None, _) => {}
    }
    match (says_close, lasts) {
        // What becomes of it then is another protocol's matter.
        _ if status == StatusCode::SWITCHING_PROTOCOLS => {}
        (false, false) => field(lead, b"connection", b"close"),
        (false, true) if asked.is_http10 => field(lead, b"connection", b"keep-alive"),
        _ => {}
    }
    if !is_dated {
        date::write(lead);
    }
    lead.extend_from_slice(b"\r\n");
    out.follow(Bytes::new(), rest);
    lasts
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, Response};
    use http_body::Frame;
    use http_body_util::{Empty, Full, StreamBody};

    use super::*;

    const PLAIN: Asked = Asked { is_http10: false, is_head: false, takes_trailers: false };
    const OLD: Asked = Asked { is_http10: true, ..PLAIN };
    const HEAD: Asked = Asked { is_head: true, ..PLAIN };

    /// The head on the wire, and whether the connection lasts.
    fn wire(
        status: u16,
        fields: &[(&'static str, &'static str)],
        body: &impl Body,
        asked: Asked,
        lasts: bool,
    ) -> (String, bool) {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in [("date", "x")].iter().chain(fields) {
            response.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut out = Outgoing::default();
        let lasts = begin(&mut out, &response.into_parts().0, body, asked, lasts);
        (String::from_utf8(out.head().clone()).unwrap().replace("\r\n", "|"), lasts)
    }

    #[test]
    fn a_body_is_announced_as_it_comes() {
        let stream = StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, ()>>());
        let whole = Full::new(Bytes::from_static(b"abc"));
        let none = Empty::<Bytes>::new();
        for (wire, expected, lasts) in [
            (wire(200, &[], &whole, PLAIN, true), "HTTP/1.1 200 OK|date: x|content-length: 3||", true),
            (
                wire(200, &[("content-length", "03")], &whole, PLAIN, true),
                "HTTP/1.1 200 OK|date: x|content-length: 03||",
                true,
            ),
            (wire(404, &[], &none, PLAIN, true), "HTTP/1.1 404 Not Found|date: x|content-length: 0||", true),
            (wire(599, &[], &none, PLAIN, true), "HTTP/1.1 599 |date: x|content-length: 0||", true),
            (
                wire(200, &[("content-length", "9")], &stream, PLAIN, true),
                "HTTP/1.1 200 OK|date: x|content-length: 9||",
                true,
            ),
            (
                wire(200, &[], &stream, PLAIN, true),
                "HTTP/1.1 200 OK|date: x|transfer-encoding: chunked||",
                true,
            ),
            (wire(200, &[], &stream, OLD, true), "HTTP/1.0 200 OK|date: x|connection: close||", false),
            (
                wire(200, &[], &whole, OLD, true),
                "HTTP/1.0 200 OK|date: x|content-length: 3|connection: keep-alive||",
                true,
            ),
            // None, whatever is said of it.
            (
                wire(204, &[("content-length", "3")], &none, PLAIN, true),
                "HTTP/1.1 204 No Content|date: x||",
                true,
            ),
            (
                wire(304, &[("content-length", "3")], &none, PLAIN, true),
                "HTTP/1.1 304 Not Modified|date: x|content-length: 3||",
                true,
            ),
            (wire(304, &[], &none, PLAIN, true), "HTTP/1.1 304 Not Modified|date: x||", true),
            // Whatever the connection is asked beside, what becomes of it is said.
            (
                wire(426, &[("connection", "upgrade")], &none, PLAIN, false),
                "HTTP/1.1 426 Upgrade Required|date: x|connection: upgrade|content-length: 0|connection: close||",
                false,
            ),
            (
                wire(200, &[("content-length", "3")], &none, HEAD, true),
                "HTTP/1.1 200 OK|date: x|content-length: 3||",
                true,
            ),
            (wire(200, &[("trailer", "a")], &none, HEAD, true), "HTTP/1.1 200 OK|date: x||", true),
            (
                wire(101, &[("connection", "upgrade")], &none, PLAIN, true),
                "HTTP/1.1 101 Switching Protocols|date: x|connection: upgrade||",
                true,
            ),
        ] {
            assert_eq!(wire, (expected.to_owned(), lasts));
        }
    }

    #[test]
    fn a_connection_that_ends_says_so_once() {
        let none = Empty::<Bytes>::new();
        let close = "HTTP/1.1 200 OK|date: x|content-length: 0|connection: close||";
        assert_eq!(wire(200, &[], &none, PLAIN, false), (close.to_owned(), false));
        let close = "HTTP/1.1 200 OK|date: x|connection: close|content-length: 0||";
        assert_eq!(wire(200, &[("connection", "close")], &none, PLAIN, true), (close.to_owned(), false));
        assert_eq!(wire(200, &[("connection", "close")], &none, PLAIN, false), (close.to_owned(), false));
    }

    #[test]
    fn a_response_without_a_date_gets_one() {
        let mut out = Outgoing::default();
        let head = Response::new(()).into_parts().0;
        begin(&mut out, &head, &Empty::<Bytes>::new(), PLAIN, true);
        assert!(String::from_utf8(out.head().clone()).unwrap().contains("\r\ndate: "));
    }
}

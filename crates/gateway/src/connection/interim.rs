//! Interim responses (RFC 9110, section 15.2) of a server, on their way to a client of HTTP/1.1.
//!
//! The codec knows none but 100. So they go by its side, in the only moment when that is safe: when it has
//! written all it had, and has nothing of the response yet.

use std::cell::RefCell;

use http::{HeaderMap, StatusCode, header};

/// Bytes that wait; what goes beyond is left out, as a client would do with most of it anyway.
const WAITING_MAX: usize = 64 * 1024;

/// Interim responses that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Interim {
    bytes: RefCell<Vec<u8>>,
}

impl Interim {
    /// Adds one.
    pub(super) fn push(&self, status: StatusCode, headers: &HeaderMap) {
        let mut bytes = self.bytes.borrow_mut();
        let before = bytes.len();
        let reason = status.canonical_reason().unwrap_or("Interim");
        bytes.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).as_bytes());
        // It has no content, whatever it says.
        let fields = headers
            .iter()
            .filter(|(name, _)| !matches!(**name, header::CONTENT_LENGTH | header::TRANSFER_ENCODING));
        for (name, value) in fields {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        bytes.extend_from_slice(b"\r\n");
        if bytes.len() > WAITING_MAX {
            bytes.truncate(before);
        }
    }

    /// Takes what waits.
    pub(super) fn take(&self) -> Vec<u8> {
        self.bytes.take()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn they_have_no_content_and_are_bounded() {
        let interim = Interim::default();
        let mut headers = HeaderMap::new();
        headers.insert(header::LINK, HeaderValue::from_static("</a.css>; rel=preload"));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("5"));
        interim.push(StatusCode::EARLY_HINTS, &headers);
        let written = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n";
        assert_eq!(interim.take(), written.as_bytes());
        assert!(interim.take().is_empty());
        for _ in 0..10_000 {
            interim.push(StatusCode::EARLY_HINTS, &headers);
        }
        let waiting = interim.take();
        assert!(waiting.len() <= WAITING_MAX && waiting.len() % written.len() == 0);
    }
}

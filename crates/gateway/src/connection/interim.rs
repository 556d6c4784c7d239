//! Interim responses (RFC 9110, section 15.2) of a server, on their way to a client of HTTP/1.1.
//!
//! They wait here until the connection's task writes them, before the response they announce.

use std::cell::RefCell;

use http::{HeaderMap, StatusCode, header};

use crate::http1::Outgoing;

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

    /// Adds the word that a client waits for before it sends a body.
    pub(super) fn go_on(&self) {
        self.bytes.borrow_mut().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
    }

    /// Whether any waits.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.borrow().is_empty()
    }

    /// Moves what waits, unless something is still to be written: a client that takes nothing is not to have more and
    /// more of them kept for it.
    pub(super) fn move_behind(&self, out: &mut Outgoing) {
        if !out.has_bytes() {
            self.move_to(out);
        }
    }

    /// Moves what waits behind what is to be written.
    pub(super) fn move_to(&self, out: &mut Outgoing) {
        let mut bytes = self.bytes.borrow_mut();
        if !bytes.is_empty() {
            out.head().append(&mut bytes);
        }
    }

    /// Nobody is told what waits.
    pub(super) fn clear(&self) {
        self.bytes.borrow_mut().clear();
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
        let take = || {
            let mut out = Outgoing::default();
            interim.move_to(&mut out);
            out.head().clone()
        };
        assert_eq!(take(), written.as_bytes());
        assert!(take().is_empty());
        for _ in 0..10_000 {
            interim.push(StatusCode::EARLY_HINTS, &headers);
        }
        let waiting = take();
        assert!(waiting.len() <= WAITING_MAX && waiting.len() % written.len() == 0);
    }

    #[test]
    fn no_more_are_kept_for_a_client_that_takes_none() {
        let interim = Interim::default();
        let mut out = Outgoing::default();
        for _ in 0..3 {
            interim.push(StatusCode::EARLY_HINTS, &HeaderMap::new());
            interim.move_behind(&mut out);
        }
        let hint = b"HTTP/1.1 103 Early Hints\r\n\r\n";
        assert_eq!(&out.slices()[0][..], hint);
        out.advance(hint.len());
        interim.move_behind(&mut out);
        assert_eq!((&out.slices()[0][..], interim.is_empty()), (&hint.repeat(2)[..], true));
    }
}

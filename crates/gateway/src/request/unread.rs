//! What a client is told whose request never became one: its head could not be read, or took too long.

use http::StatusCode;
use tidegate_control::meters::BadRequest;

use super::{error::ClientFault, refusal::Message};

/// Why a head is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    /// It breaks the grammar.
    Malformed,
    /// It has too many bytes or fields.
    TooLarge,
    /// Its target alone is too long.
    TargetTooLong,
    /// It takes too long to come.
    Late,
}

impl HeadFault {
    /// What is wrong with a head that was too large for the codec, which left these bytes of it unread: one status of the
    /// codec's stands for a target, a head and a length of the body beyond its bounds.
    pub(crate) fn too_large(unread: &[u8], head_bytes_max: usize, headers_max: usize) -> Self {
        let start = unread.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(unread.len());
        let within = &unread[start..unread.len().min(head_bytes_max.max(start))];
        let lines = within.iter().filter(|byte| **byte == b'\n').count();
        if unread.len() < head_bytes_max && lines <= headers_max {
            // It was read: only its length can be at fault.
            Self::Malformed
        } else if lines == 0 {
            Self::TargetTooLong
        } else {
            Self::TooLarge
        }
    }

    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
        }
    }

    pub(super) const fn reason(self) -> BadRequest {
        match self {
            Self::Malformed => BadRequest::BadHead,
            Self::TooLarge => BadRequest::HeadTooLarge,
            Self::TargetTooLong => BadRequest::TargetTooLong,
            Self::Late => BadRequest::HeadLate,
        }
    }

    const fn public(self) -> &'static str {
        match self {
            Self::Malformed => "The request is malformed.",
            Self::TooLarge => "The request's head is larger than allowed.",
            Self::TargetTooLong => "The request's target is longer than allowed.",
            Self::Late => "The request's head comes too slowly.",
        }
    }

    /// The answer as it goes over the wire; the connection ends with it.
    pub(crate) fn answer(self, date: Option<&str>) -> Vec<u8> {
        self.message().last_words(date)
    }

    /// Bytes of that answer's body.
    pub(super) fn body_bytes(self) -> u64 {
        self.message().last_words_body().len() as u64
    }

    const fn message(self) -> Message<'static> {
        message(self.status(), self.reason().name(), self.public())
    }
}

/// The answer on the wire to a client that has stopped sending its request's body.
pub(crate) fn stalled() -> Vec<u8> {
    let fault = ClientFault::TooSlow;
    message(fault.status(), fault.name(), fault.public()).last_words(None)
}

const fn message(status: StatusCode, reason: &'static str, public: &'static str) -> Message<'static> {
    Message { status, reason, public, retry_after_s: None, page: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_too_large_shows_in_what_was_left_unread() {
        for (unread, fault) in [
            ("GET /0123456789", HeadFault::TargetTooLong),
            ("\r\n\r\nGET /012345", HeadFault::TargetTooLong),
            ("GET /0123456789 HTTP/1.1\r\n", HeadFault::TargetTooLong),
            ("GET / HTTP\r\na:b", HeadFault::TooLarge),
            ("G\na\nb\nc\n\n", HeadFault::TooLarge),
            ("hello", HeadFault::Malformed),
            ("", HeadFault::Malformed),
        ] {
            assert_eq!(HeadFault::too_large(unread.as_bytes(), 15, 3), fault, "{unread:?}");
        }
    }
}

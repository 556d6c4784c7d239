//! What a client is told whose request never became one: its head could not be read, or took too long.

use http::{HeaderValue, StatusCode};
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
    /// What is wrong with bytes that are too many for a head of at most so many.
    pub(crate) fn too_large(bytes: &[u8], head_bytes_max: usize) -> Self {
        let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
        let within = &bytes[start..bytes.len().min(head_bytes_max.max(start))];
        if within.contains(&b'\n') { Self::TooLarge } else { Self::TargetTooLong }
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
    pub(super) fn answer(self, id: &HeaderValue) -> Vec<u8> {
        self.message().last_words(Some(id))
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
    fn what_was_too_large_shows_in_the_bytes() {
        for (bytes, fault) in [
            ("GET /0123456789", HeadFault::TargetTooLong),
            ("\r\n\r\nGET /012345", HeadFault::TargetTooLong),
            ("GET /0123456789 HTTP/1.1\r\n", HeadFault::TargetTooLong),
            ("GET / HTTP\r\na:b", HeadFault::TooLarge),
            ("G\na\nb\nc\nd\ne\nf\ng", HeadFault::TooLarge),
        ] {
            assert_eq!(HeadFault::too_large(bytes.as_bytes(), 15), fault, "{bytes:?}");
        }
    }
}

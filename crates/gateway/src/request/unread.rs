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
    /// What a codec that answered with this status made of a head.
    pub(crate) const fn of_status(status: u16) -> Self {
        match status {
            431 => Self::TooLarge,
            414 => Self::TargetTooLong,
            _ => Self::Malformed,
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
        last_words(self.status(), self.reason().name(), self.public(), date)
    }
}

/// The answer on the wire to a client that has stopped sending its request's body.
pub(crate) fn stalled() -> Vec<u8> {
    let fault = ClientFault::TooSlow;
    last_words(fault.status(), fault.name(), fault.public(), None)
}

fn last_words(status: StatusCode, reason: &'static str, public: &'static str, date: Option<&str>) -> Vec<u8> {
    Message { status, reason, public, retry_after_s: None, page: None }.last_words(date)
}

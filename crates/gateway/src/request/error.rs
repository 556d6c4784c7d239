//! What becomes of an exchange that failed: the one mapping from what went wrong to what the client sees.
//!
//! | what happened | status | outcome for the in-flight limit |
//! |---|---|---|
//! | no connection to a server, TLS failed, connection broke, no HTTP | 502 | dropped |
//! | connecting or answering took too long | 504 | dropped |
//! | the gateway could not open a connection for want of descriptors, ports or memory | 503 | ignored |
//! | the client's body broke off | 400 | ignored |
//! | the client's body came too slowly | 408 | ignored |
//! | the client's body was too large | 413 | ignored |
//!
//! The client learns the reason's name; the message, which may name servers, is for the log only.

use http::StatusCode;
use tidegate_control::{Refusal, admission::Outcome, meters::UpstreamError};

use crate::body::BodyError;

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server, or the way to it.
    #[error("{message}")]
    Upstream { kind: UpstreamError, message: String },
    /// The client's body.
    #[error("{0:?}")]
    Client(ClientFault),
    /// Not even tried.
    #[error("{}", .0.public())]
    Refused(Refusal),
}

/// What was wrong with a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientFault {
    /// It broke off or was malformed.
    Broken,
    /// It was larger than allowed.
    TooLarge,
    /// It came too slowly.
    TooSlow,
}

impl ClientFault {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Broken => "body_broken",
            Self::TooLarge => "body_too_large",
            Self::TooSlow => "body_too_slow",
        }
    }

    pub(super) const fn public(self) -> &'static str {
        match self {
            Self::Broken => "The request's body is not complete.",
            Self::TooLarge => "The request's body is larger than allowed.",
            Self::TooSlow => "The request's body comes too slowly.",
        }
    }
}

impl From<BodyError> for ClientFault {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge(_) => Self::TooLarge,
            BodyError::TooSlow => Self::TooSlow,
            BodyError::Client(_) | BodyError::Upstream(_) | BodyError::TakenTooSlowly => Self::Broken,
        }
    }
}

/// Status, reason and sentence for a failure of a server.
pub(super) const fn upstream(kind: UpstreamError) -> (StatusCode, &'static str, &'static str) {
    match kind {
        UpstreamError::Connect => (StatusCode::BAD_GATEWAY, "connect", "The server cannot be reached."),
        UpstreamError::ConnectTimeout => {
            (StatusCode::GATEWAY_TIMEOUT, "connect_timeout", "The server cannot be reached in time.")
        }
        UpstreamError::Tls => (StatusCode::BAD_GATEWAY, "tls", "The server cannot be reached securely."),
        UpstreamError::Reset => (StatusCode::BAD_GATEWAY, "reset", "The server broke off."),
        UpstreamError::ResponseTimeout => {
            (StatusCode::GATEWAY_TIMEOUT, "response_timeout", "The server did not answer in time.")
        }
        UpstreamError::Garbage => (StatusCode::BAD_GATEWAY, "garbage", "The server's answer is malformed."),
        UpstreamError::Body => (StatusCode::BAD_GATEWAY, "body", "The server's answer is not complete."),
        UpstreamError::Exhausted => (
            StatusCode::SERVICE_UNAVAILABLE,
            "exhausted",
            "No further connection to a server can be opened at present.",
        ),
    }
}

impl Failure {
    /// What the in-flight limit learns.
    pub(super) const fn outcome(&self) -> Outcome {
        match self {
            // It says nothing of how much the servers can do.
            Self::Upstream { kind: UpstreamError::Exhausted, .. } | Self::Client(_) | Self::Refused(_) => {
                Outcome::Ignore
            }
            Self::Upstream { .. } => Outcome::Drop,
        }
    }
}

/// What the in-flight limit learns of an answer that breaks off.
pub(super) const fn outcome_of_broken(error: &BodyError) -> Outcome {
    match error {
        BodyError::Upstream(_) => Outcome::Drop,
        BodyError::Client(_) | BodyError::TooLarge(_) | BodyError::TooSlow | BodyError::TakenTooSlowly => {
            Outcome::Ignore
        }
    }
}

/// What the in-flight limit learns of a complete answer: a server that refuses for load says so, and
/// how fast it fails otherwise says nothing of how fast it works.
pub(super) fn outcome(status: StatusCode) -> Outcome {
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Outcome::Drop,
        status if status.is_server_error() => Outcome::Ignore,
        _ => Outcome::Success,
    }
}

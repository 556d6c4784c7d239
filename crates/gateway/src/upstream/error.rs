//! Why an exchange with a server failed, and whether its request can be sent again.

use tidegate_control::meters::UpstreamError;

use crate::body::{BodyError, Outbound};

/// An exchange that got no response head.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct SendError {
    /// Where it went wrong. Counts for nothing when `client` is set.
    pub(crate) kind: UpstreamError,
    /// What went wrong, for logs; names the server's address.
    pub(crate) message: String,
    /// The request, given back: nothing of it reached the server, so it is safe to send again
    /// whatever its method.
    pub(crate) request: Option<Outbound>,
    /// The request, rebuilt: the server may have seen it, so it is safe to send again only if its
    /// method is idempotent.
    pub(crate) replay: Option<Outbound>,
    /// The request's own body failed: the client's fault, not the server's.
    pub(crate) client: Option<BodyError>,
}

/// What went wrong with a connection, before it is known what that means for the request.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: UpstreamError,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(kind: UpstreamError, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// What an error of the codec means before the response's head is complete.
    pub(super) fn of_codec(error: &hyper::Error) -> Self {
        let kind = if error.is_parse() || h2_reason(error).is_some_and(is_protocol_fault) {
            UpstreamError::Garbage
        } else {
            UpstreamError::Reset
        };
        Self::new(kind, describe(error))
    }
}

/// The error and its causes in one line.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.ends_with(&next_text) {
            text.push_str(": ");
            text.push_str(&next_text);
        }
        cause = next.source();
    }
    text
}

/// The HTTP/2 error behind an error of the codec.
pub(super) fn h2_error(error: &hyper::Error) -> Option<&h2::Error> {
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        if let Some(found) = next.downcast_ref() {
            return Some(found);
        }
        cause = next.source();
    }
    None
}

fn h2_reason(error: &hyper::Error) -> Option<h2::Reason> {
    h2_error(error)?.reason()
}

fn is_protocol_fault(reason: h2::Reason) -> bool {
    matches!(
        reason,
        h2::Reason::PROTOCOL_ERROR
            | h2::Reason::FRAME_SIZE_ERROR
            | h2::Reason::COMPRESSION_ERROR
            | h2::Reason::FLOW_CONTROL_ERROR
    )
}

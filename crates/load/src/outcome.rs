//! How one try of a request can end.

use std::{error::Error, io, time::Duration};

use serde::{Deserialize, Serialize};

use crate::onward::Onward;

/// The end of one try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A whole reply came within the timeout.
    Reply { status: u16, body_bytes: u64, retry_after: Option<Duration> },
    /// A whole reply came in time, and the client does as it says.
    Onward { status: u16, body_bytes: u64, onward: Onward },
    /// The client's patience ended in this phase.
    Timeout(Phase),
    /// No reply, and none to come.
    Failed(ErrorKind),
}

impl Outcome {
    /// 2xx and 3xx.
    pub(crate) fn is_good(&self) -> bool {
        matches!(self, Self::Reply { status: 200..=399, .. })
    }

    /// An answer of the site, if not the one hoped for: a session goes on after it. 4xx is one (a bid
    /// that came too late), 429 and 5xx are not.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::Reply { status: 200..=428 | 430..=499, .. })
    }

    /// 429 and 503: the server says that it has no room.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Reply { status: 429 | 503, .. })
    }
}

/// What a try was waiting for when its time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The generator was so late that the try never began.
    Unsent,
    /// The TCP connection.
    Connect,
    /// The TLS or HTTP/2 handshake.
    Handshake,
    /// The reply's head.
    Head,
    /// The rest of the reply's body.
    Body,
}

/// Why a try failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Nothing listens.
    ConnectRefused,
    /// Connecting failed otherwise (unreachable, reset).
    Connect,
    /// The generator's machine has no ports or descriptors left.
    LocalLimit,
    /// The TLS handshake failed.
    Tls,
    /// The connection was reset (RST) before the reply was complete.
    Reset,
    /// The connection was closed in order (FIN) before the reply was complete.
    Closed,
    /// The server broke HTTP, or reset the HTTP/2 stream or connection.
    Protocol,
    /// The reply sent its client to another server, where this load does not go.
    Elsewhere,
    /// Too many redirects one after another.
    Redirects,
}

impl ErrorKind {
    /// From a failed `connect`.
    pub(crate) fn of_connect(fault: &io::Error) -> Self {
        match fault.kind() {
            io::ErrorKind::ConnectionRefused => Self::ConnectRefused,
            io::ErrorKind::AddrNotAvailable => Self::LocalLimit,
            _ if is_out_of_descriptors(fault) => Self::LocalLimit,
            _ => Self::Connect,
        }
    }

    /// From a failed exchange.
    pub(crate) fn of_exchange(fault: &hyper::Error) -> Self {
        let mut cause: Option<&(dyn Error + 'static)> = Some(fault);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                match error.kind() {
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => return Self::Reset,
                    io::ErrorKind::UnexpectedEof => return Self::Closed,
                    _ => {}
                }
            }
            cause = error.source();
        }
        if fault.is_incomplete_message() || fault.is_canceled() || fault.is_closed() {
            Self::Closed
        } else {
            Self::Protocol
        }
    }
}

/// Whether an HTTP/2 server has said that it has done nothing with a request, or was not reached: it may be sent again, whatever
/// its method (RFC 9113, section 8.7).
pub(crate) fn is_unprocessed(fault: &hyper::Error) -> bool {
    let of_stream = fault.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    fault.is_canceled()
        || of_stream.is_some_and(|fault| {
            // A stream beyond the last one that a GOAWAY names; those up to it go on.
            fault.is_remote() && (fault.is_go_away() || fault.reason() == Some(h2::Reason::REFUSED_STREAM))
        })
}

fn is_out_of_descriptors(fault: &io::Error) -> bool {
    let limits = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    fault.raw_os_error().is_some_and(|code| limits.iter().any(|limit| limit.raw_os_error() == code))
}

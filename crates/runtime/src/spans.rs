//! Traced requests on their way from the cores to whoever exports them: a bounded channel, never waited for.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tidegate_control::{ClassId, Timestamp};
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::{Application, servers::Server};

/// Traced requests under way at most; each takes about 1 KiB, and what it holds of a request's head is cut.
const REQUESTS_MAX: usize = 4096;

/// The channel.
#[derive(Debug)]
pub struct Spans {
    sender: Sender<Box<TracedRequest>>,
    /// Until an exporter takes it, and again when that one has ended.
    receiver: Mutex<Option<Receiver<Box<TracedRequest>>>>,
}

/// The identity of a span (W3C Trace Context, section 3.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceIds {
    /// The trace; never all zero.
    pub trace_id: [u8; 16],
    /// The request's own span.
    pub span_id: [u8; 8],
    /// The span of its exchange with a server, which is the parent of the server's.
    pub exchange_id: [u8; 8],
    /// The span in which it waited.
    pub waiting_id: [u8; 8],
    /// The caller's span, if there is one to go by.
    pub parent_id: Option<[u8; 8]>,
    /// What tracing systems have added, as it came.
    pub trace_state: String,
}

/// A request that was traced, once it is over. Times are from arrival, in order, where they came to pass.
#[derive(Clone, Debug)]
pub struct TracedRequest {
    /// Who it is in its trace.
    pub ids: TraceIds,
    /// Who served it.
    pub application: Arc<Application>,
    /// As what.
    pub class: ClassId,
    /// When it arrived.
    pub arrived: Timestamp,
    /// When it was sent on to a server.
    pub started: Option<Timestamp>,
    /// Of the time until `answered`, opening a connection for it, if one was opened.
    pub connect_time: Option<Duration>,
    /// When the server's head came.
    pub answered: Option<Timestamp>,
    /// When the server's message ended.
    pub served: Option<Timestamp>,
    /// When the last byte was handed on, or the client had left.
    pub ended: Timestamp,
    /// Of the time until `started`, gathering the body.
    pub gathering: Duration,
    /// The method as it came.
    pub method: String,
    /// `https` or `http`.
    pub scheme: &'static str,
    /// The target's path.
    pub path: String,
    /// The target's query.
    pub query: Option<String>,
    /// The version of HTTP as attributes have it: `1.0`, `1.1`, `2`.
    pub version: &'static str,
    /// The host and port asked for.
    pub host: Option<String>,
    /// What the client calls itself.
    pub user_agent: Option<String>,
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The number by which logs know it.
    pub request_id: Option<String>,
    /// The server that was tried last.
    pub server: Option<Arc<Server>>,
    /// How many servers were tried.
    pub tries: u32,
    /// The status of its response; `None` if the client left before.
    pub status: Option<u16>,
    /// Why it was not served, or not to its end.
    pub reason: Option<&'static str>,
    /// What only watches and would have refused it, by reason.
    pub would_refuse: Option<&'static str>,
    /// Bytes of its body.
    pub bytes_in: u64,
    /// Bytes of its response's body.
    pub bytes_out: u64,
}

impl Default for Spans {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(REQUESTS_MAX);
        Self { sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl Spans {
    /// Hands one over; false when there is no room and it is lost.
    #[must_use]
    pub fn offer(&self, request: Box<TracedRequest>) -> bool {
        self.sender.try_send(request).is_ok()
    }

    /// The receiving end; `None` while another exporter has it.
    #[must_use]
    pub fn take(&self) -> Option<Receiver<Box<TracedRequest>>> {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives the receiving end back.
    pub fn give_back(&self, receiver: Receiver<Box<TracedRequest>>) {
        *self.receiver.lock().unwrap_or_else(PoisonError::into_inner) = Some(receiver);
    }
}

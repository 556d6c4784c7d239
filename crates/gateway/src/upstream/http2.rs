//! One HTTP/2 connection to a server, shared by the exchanges of a core.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Poll, ready},
    time::Duration,
};

use http::{HeaderValue, Request, Response, Uri, Version, header::HOST, request::Parts, uri::Scheme};
use hyper::{
    body::Incoming,
    client::conn::http2::{Builder, Connection, SendRequest},
    rt::Executor,
};
use hyper_util::rt::TokioIo;
use tidegate_control::{Timestamp, meters::UpstreamError};
use tokio::{
    sync::Notify,
    time::{Instant, Sleep},
};

use super::{
    error::{Failure, describe, h2_error},
    http1::Unanswered,
    io::UpstreamIo,
    outgoing::{Outgoing, Progress},
    patience::{Patience, Turn},
    plan::Plan,
    proxy_header::Ends,
};
use crate::body::{Outbound, RequestBody};

/// Streams of one connection that we use at once, whatever the server would allow.
const STREAMS_MAX: usize = 128;
/// Bytes of a response that a server may send ahead of us, a stream. The connection's window holds
/// that many for each stream, so that one slow reader holds up no other.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Size of a response's head.
const HEAD_MAX: u32 = 64 * 1024;

/// A connection with a task of its own, and how much of it is in use.
pub(super) struct Http2 {
    sender: SendRequest<Outgoing>,
    /// Tells who waits for a stream that one has ended.
    turn: Rc<Notify>,
    active: Cell<usize>,
    /// Shared with the task that drives it: only it knows how many streams the server allows now.
    /// `None` once it has ended.
    connection: Rc<RefCell<Option<Driven>>>,
    /// A stream on it timed out: it may be dead, so nothing new goes there.
    is_suspect: Cell<bool>,
    pub(super) plan: Rc<Plan>,
    pub(super) ends: Option<Ends>,
    pub(super) idle_since: Cell<Timestamp>,
}

type Driven = Connection<TokioIo<UpstreamIo>, Outgoing, Here>;

/// The use of one stream; ends when dropped.
pub(super) struct Stream {
    connection: Rc<Http2>,
}

/// Runs the codec's tasks on this core.
#[derive(Clone, Copy, Debug)]
struct Here;

impl<F: Future<Output = ()> + 'static> Executor<F> for Here {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

impl Http2 {
    /// Begins to speak HTTP/2 over a new connection.
    pub(super) async fn start(
        io: UpstreamIo,
        plan: Rc<Plan>,
        ends: Option<Ends>,
        turn: Rc<Notify>,
        now: Timestamp,
    ) -> Result<Rc<Self>, Failure> {
        let streams = u32::try_from(STREAMS_MAX).unwrap_or(u32::MAX);
        let (sender, connection) = Builder::new(Here)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAM_WINDOW * streams)
            .max_header_list_size(HEAD_MAX)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|error| Failure::new(UpstreamError::Connect, describe(&error)))?;
        let connection = Rc::new(RefCell::new(Some(connection)));
        let driven = Rc::clone(&connection);
        tokio::task::spawn_local(async move {
            std::future::poll_fn(|context| match driven.borrow_mut().as_mut() {
                // How a connection ends, its streams are told one by one.
                Some(open) => Pin::new(open).poll(context).map(|_| ()),
                None => Poll::Ready(()),
            })
            .await;
            // Dropped, so that requests it has not begun come back.
            let ended = driven.take();
            drop(ended);
        });
        Ok(Rc::new(Self {
            sender,
            turn,
            active: Cell::new(0),
            connection,
            is_suspect: Cell::new(false),
            plan,
            ends,
            idle_since: Cell::new(now),
        }))
    }

    /// Whether it takes new streams at all.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed() && !self.is_suspect.get()
    }

    /// Whether no stream is in use.
    pub(super) fn is_idle(&self) -> bool {
        self.active.get() == 0
    }

    /// Takes a stream, if there is one to be had.
    pub(super) fn stream(self: &Rc<Self>) -> Option<Stream> {
        // Empty or in use just when it ends.
        let allowed = match self.connection.try_borrow().as_deref() {
            Ok(Some(connection)) => connection.current_max_send_streams(),
            _ => return None,
        };
        if !self.is_open() || self.active.get() >= allowed.min(STREAMS_MAX) {
            return None;
        }
        self.active.set(self.active.get() + 1);
        Some(Stream { connection: Rc::clone(self) })
    }
}

impl Stream {
    /// Sends a request, now, and waits for the response's head.
    pub(super) async fn send(
        &self,
        request: Outbound,
        now: Instant,
    ) -> Result<Response<Incoming>, Unanswered> {
        let plan = &self.connection.plan;
        let Outbound { mut head, body } = request;
        let again = match &body {
            RequestBody::Empty => Some(RequestBody::Empty),
            RequestBody::Whole(bytes) => Some(RequestBody::Whole(bytes.clone())),
            RequestBody::Stream(_) => None,
        };
        // The codec does not give back what it has begun, so what can be sent twice is kept.
        let kept = again.map(|body| {
            let mut copy = Request::new(body);
            copy.method_mut().clone_from(&head.method);
            copy.uri_mut().clone_from(&head.uri);
            copy.headers_mut().clone_from(&head.headers);
            Outbound::from(copy)
        });
        to_http2(&mut head, plan.tls.is_some());
        let (body, progress) = Outgoing::new(body);
        let mut sender = self.connection.sender.clone();
        let mut response = std::pin::pin!(sender.try_send_request(Request::from_parts(*head, body)));
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        let mut patience = Patience::new(plan.response_timeout, now);
        let outcome = std::future::poll_fn(|context| {
            if let Poll::Ready(outcome) = response.as_mut().poll(context) {
                return Poll::Ready(Some(outcome));
            }
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(now)));
            let turn = progress.as_deref().map_or(Turn::Whole, Progress::turn);
            ready!(patience.poll(turn, timer.as_mut(), context));
            Poll::Ready(None)
        })
        .await;
        match outcome {
            Some(Ok(response)) => Ok(response),
            Some(Err(mut error)) => {
                let given_back =
                    error.take_message().map(|request| from_http2(request.map(Outgoing::into_inner).into()));
                let has_reached = given_back.is_none() && !is_unprocessed(error.error());
                Err(Unanswered {
                    failure: Failure::of_codec(error.error()),
                    request: given_back.or(kept),
                    has_reached,
                    is_silent: !has_reached || h2_error(error.error()).is_none_or(|error| error.is_io()),
                    client: progress.and_then(|progress| progress.take_error()),
                })
            }
            None => {
                self.connection.is_suspect.set(true);
                Err(Unanswered {
                    failure: Failure::new(
                        UpstreamError::ResponseTimeout,
                        format!("no response within {:?}", plan.response_timeout),
                    ),
                    request: kept,
                    has_reached: true,
                    is_silent: false,
                    client: None,
                })
            }
        }
    }

    /// Nothing new goes over this stream's connection.
    pub(super) fn suspect(&self) {
        self.connection.is_suspect.set(true);
    }

    /// Notes when its connection was last in use.
    pub(super) fn touch(&self, now: Timestamp) {
        self.connection.idle_since.set(now);
    }

    /// How long the server may be silent within a body.
    pub(super) fn body_idle_timeout(&self) -> Duration {
        self.connection.plan.body_idle_timeout
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.active.set(self.connection.active.get() - 1);
        self.connection.turn.notify_one();
    }
}

/// From the form of HTTP/1 (path in the request line, `Host`) to that of HTTP/2 (whole URI).
fn to_http2(head: &mut Parts, is_tls: bool) {
    head.version = Version::HTTP_2;
    let host = head.headers.remove(HOST);
    let authority = host.and_then(|host| http::uri::Authority::try_from(host.as_bytes()).ok());
    let mut parts = std::mem::take(&mut head.uri).into_parts();
    parts.scheme = Some(if is_tls { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = authority.or(parts.authority);
    // Without authority the codec refuses the request, which then comes back as an error.
    if let Ok(uri) = Uri::from_parts(parts) {
        head.uri = uri;
    }
}

/// The way back.
fn from_http2(mut request: Outbound) -> Outbound {
    let head = &mut request.head;
    head.version = Version::HTTP_11;
    let parts = std::mem::take(&mut head.uri).into_parts();
    if let Some(authority) = &parts.authority
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.insert(HOST, host);
    }
    head.uri = parts.path_and_query.map_or_else(Uri::default, Uri::from);
    request
}

/// Whether the server says that it has not looked at the request: refused the stream, or went away
/// before it (RFC 9113, sections 6.8 and 8.7). The codec gives a GOAWAY to those streams only that
/// are beyond its last.
fn is_unprocessed(error: &hyper::Error) -> bool {
    h2_error(error).is_some_and(|error| {
        error.is_remote()
            && (error.is_go_away()
                || (error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM)))
    })
}

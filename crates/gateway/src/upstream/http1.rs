//! One HTTP/1 connection to a server, driven by whichever request uses it.

use std::{
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, Version};
use hyper::{
    body::{Body, Frame, Incoming},
    client::conn::http1::{Builder, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use tidegate_control::{Timestamp, meters::UpstreamError};
use tokio::time::{Instant, Sleep};

use super::{
    error::{Failure, describe},
    io::{Trace, UpstreamIo},
    outgoing::{Outgoing, Progress},
    plan::Plan,
    proxy_header::Ends,
    replay,
};
use crate::body::{BodyError, RequestBody};

/// Most that the codec buffers in each direction.
const BUFFER_MAX: usize = 64 * 1024;
/// Size of a response's head, and of its trailers.
const HEAD_MAX: usize = 64 * 1024;

/// A connection that is idle or serves one exchange.
///
/// No task of its own: the codec's connection is polled by the exchange in progress, and while
/// idle by the pool's sweep. So a request costs no spawn, no wake from one task to another, and
/// dropping the exchange closes the connection.
pub(super) struct Http1 {
    driven: Driven,
    sender: SendRequest<Outgoing>,
    trace: Rc<Trace>,
    /// Armed for whatever the exchange waits for; kept from one exchange to the next because
    /// moving a deadline back costs a fraction of arming a new timer.
    timer: Pin<Box<Sleep>>,
    pub(super) plan: Rc<Plan>,
    pub(super) ends: Option<Ends>,
    pub(super) idle_since: Timestamp,
    /// Whether it has served an exchange before.
    pub(super) is_used: bool,
}

/// An exchange that got no response head on this connection.
pub(super) struct Unanswered {
    pub(super) failure: Failure,
    /// The request, if it can be had back.
    pub(super) request: Option<Box<Request<RequestBody>>>,
    /// Whether anything of the request may have reached the server.
    pub(super) has_reached: bool,
    /// Whether nothing at all came back: only then may the connection just have been stale.
    pub(super) is_silent: bool,
    /// What went wrong in the request's body on the client's side.
    pub(super) client: Option<BodyError>,
}

impl Http1 {
    /// Begins to speak HTTP/1 over a new connection.
    pub(super) async fn start(
        io: UpstreamIo,
        plan: Rc<Plan>,
        ends: Option<Ends>,
    ) -> Result<Box<Self>, Failure> {
        let trace = io.trace();
        let (sender, connection) = Builder::new()
            .max_buf_size(BUFFER_MAX)
            .max_header_size(HEAD_MAX)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|error| Failure::new(UpstreamError::Connect, describe(&error)))?;
        Ok(Box::new(Self {
            driven: Driven {
                connection: Some(connection),
                is_watched: false,
                has_ended: false,
                failure: None,
            },
            sender,
            trace,
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
            plan,
            ends,
            idle_since: Timestamp::EPOCH,
            is_used: false,
        }))
    }

    /// Sends a request, now, and waits for the response's head.
    pub(super) async fn send(
        &mut self,
        mut request: Box<Request<RequestBody>>,
        now: Instant,
    ) -> Result<Response<Incoming>, Unanswered> {
        *request.version_mut() = Version::HTTP_11;
        if matches!(*request.method(), Method::GET | Method::HEAD)
            && !request.body().is_end_stream()
            && request.body().size_hint().exact().is_none()
        {
            // The codec would take the body of a GET for a mistake and leave it out.
            let chunked = http::HeaderValue::from_static("chunked");
            request.headers_mut().insert(http::header::TRANSFER_ENCODING, chunked);
        }
        // What is in memory can be sent again; what streams by is gone.
        let again = match request.body() {
            RequestBody::Empty => Some(RequestBody::Empty),
            RequestBody::Whole(bytes) => Some(RequestBody::Whole(bytes.clone())),
            RequestBody::Stream(_) => None,
        };
        self.trace.begin(again.is_some());
        let (parts, body) = request.into_parts();
        let (body, progress) = Outgoing::new(body);
        // Unconstrained: a turn that is cut short wakes its task, and here that would be nobody.
        let mut response = std::pin::pin!(tokio::task::coop::unconstrained(
            self.sender.try_send_request(Request::from_parts(parts, body))
        ));
        let mut patience = Patience::new(progress.as_deref(), self.plan.response_timeout, now);
        // What the response waits for is done by the connection driven here, so its waker would wake but
        // ourselves; and once the response is there, nobody waits for the connection. So after the first time,
        // which sends the request, it is driven quietly as long as that gets the response.
        let mut quiet = Context::from_waker(Waker::noop());
        let mut is_sent = false;
        let outcome = std::future::poll_fn(|context| {
            if std::mem::replace(&mut is_sent, true) {
                self.driven.poll_quietly();
                if let Poll::Ready(outcome) = response.as_mut().poll(&mut quiet) {
                    return Poll::Ready(Some(outcome));
                }
            }
            self.driven.poll(context);
            if let Poll::Ready(outcome) = response.as_mut().poll(&mut quiet) {
                return Poll::Ready(Some(outcome));
            }
            if self.driven.has_ended && self.driven.connection.take().is_some() {
                // A request that the codec has not begun comes back as it goes.
                if let Poll::Ready(outcome) = response.as_mut().poll(&mut quiet) {
                    return Poll::Ready(Some(outcome));
                }
            }
            ready!(patience.poll(self.timer.as_mut(), context));
            Poll::Ready(None)
        })
        .await;
        match outcome {
            Some(Ok(response)) => {
                self.trace.forget();
                self.is_used = true;
                Ok(response)
            }
            Some(Err(mut error)) => {
                let failure = self.driven.failure.take().unwrap_or_else(|| Failure::of_codec(error.error()));
                let given_back =
                    error.take_message().map(|request| Box::new(request.map(Outgoing::into_inner)));
                let has_reached = given_back.is_none() && self.trace.has_sent();
                Err(Unanswered {
                    failure,
                    request: given_back.or_else(|| self.rebuild(again)),
                    has_reached,
                    is_silent: !self.trace.has_received(),
                    client: progress.and_then(|progress| progress.take_error()),
                })
            }
            None => Err(Unanswered {
                failure: Failure::new(
                    UpstreamError::ResponseTimeout,
                    format!("no response within {:?}", self.plan.response_timeout),
                ),
                request: self.rebuild(again),
                has_reached: true,
                is_silent: false,
                client: None,
            }),
        }
    }

    /// The next frame of the response's body.
    pub(super) fn poll_frame(
        &mut self,
        incoming: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // What comes out of the body is put in by the connection driven here, so its waker would wake but
        // ourselves.
        let mut quiet = Context::from_waker(Waker::noop());
        if let Poll::Ready(frame) = Pin::new(&mut *incoming).poll_frame(&mut quiet) {
            return Poll::Ready(frame);
        }
        self.driven.poll(context);
        Pin::new(incoming).poll_frame(&mut quiet)
    }

    /// Arms the timer.
    pub(super) fn arm(&mut self, timeout: Duration) {
        self.timer.as_mut().reset(Instant::now() + timeout);
    }

    /// Whether the timer has run out.
    pub(super) fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().poll(context)
    }

    /// Whether it could serve another exchange now: nothing of the last one is left. Takes it out of the hands
    /// of the task that used it, which the next exchange would wake.
    pub(super) fn is_reusable(&mut self) -> bool {
        if self.driven.is_watched || !self.sender.is_ready() {
            self.driven.poll_quietly();
        }
        self.driven.is_open() && self.sender.is_ready() && !self.trace.is_broken()
    }

    /// Whether an idle connection is still open, as far as is known. Takes it out of the hands of
    /// the task that used it last.
    pub(super) fn is_open(&mut self) -> bool {
        let mut quiet = Context::from_waker(Waker::noop());
        self.driven.poll_quietly();
        let _ = self.timer.as_mut().poll(&mut quiet);
        self.driven.is_open()
    }

    /// Takes the byte stream back after a 101, with what was read beyond the head.
    pub(super) fn into_io(mut self) -> Option<(UpstreamIo, Bytes)> {
        let parts = self.driven.connection.take()?.into_parts();
        Some((parts.io.into_inner(), parts.read_buf))
    }

    fn rebuild(&self, body: Option<RequestBody>) -> Option<Box<Request<RequestBody>>> {
        let written = self.trace.written()?;
        replay::rebuild(&written, body?).map(Box::new)
    }
}

/// The codec's connection and how it ended.
struct Driven {
    connection: Option<Connection<TokioIo<UpstreamIo>, Outgoing>>,
    /// Whether a task is woken when there is something to do.
    is_watched: bool,
    has_ended: bool,
    failure: Option<Failure>,
}

impl Driven {
    /// Lets the connection do what it can, and wakes nobody when it can do more.
    fn poll_quietly(&mut self) {
        self.poll(&mut Context::from_waker(Waker::noop()));
        self.is_watched = false;
    }

    /// Lets the connection do what it can.
    fn poll(&mut self, context: &mut Context<'_>) {
        self.is_watched = true;
        if self.has_ended {
            return;
        }
        if let Some(connection) = &mut self.connection
            && let Poll::Ready(result) = connection.poll_without_shutdown(context)
        {
            self.has_ended = true;
            self.failure = result.err().map(|error| Failure::of_codec(&error));
        }
    }

    const fn is_open(&self) -> bool {
        self.connection.is_some() && !self.has_ended
    }
}

/// How long a server may let us wait for the response's head: counted from the request's last
/// byte, and while it does not take the request's body, from the last piece it took.
pub(super) struct Patience<'a> {
    progress: Option<&'a Progress>,
    timeout: Duration,
    began: Instant,
    /// The piece of the body from which the timer was armed.
    armed: Option<u64>,
}

impl<'a> Patience<'a> {
    /// Patience that begins at `began`.
    pub(super) const fn new(progress: Option<&'a Progress>, timeout: Duration, began: Instant) -> Self {
        Self { progress, timeout, began, armed: None }
    }

    /// Ready when it has run out.
    pub(super) fn poll(&mut self, mut timer: Pin<&mut Sleep>, context: &mut Context<'_>) -> Poll<()> {
        let piece = match self.progress {
            None => 0,
            // The server has taken everything there was; it is the client that keeps us waiting.
            Some(progress) if progress.waits_for_client() => {
                self.armed = None;
                return Poll::Pending;
            }
            Some(progress) => progress.pieces(),
        };
        if self.armed != Some(piece) {
            let since = if self.progress.is_none() { self.began } else { Instant::now() };
            timer.as_mut().reset(since + self.timeout);
            self.armed = Some(piece);
        }
        timer.poll(context)
    }
}

//! A response's body on its way in; its end gives the connection back.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tidegate_control::{Timestamp, meters::UpstreamError};
use tidegate_runtime::Clock;
use tokio::time::{Instant, Sleep};

use super::{
    balance::Chosen,
    error::describe,
    http1::{Broken, Http1},
    http2,
    io::UpstreamIo,
};
use crate::body::{BodyError, RESET_WITHIN, is_whole};

/// The body of a server's response.
///
/// At the end of the message the connection goes back to its pool, the server's health and response
/// time hear of it, and the request no longer counts as in flight. Dropped before, the connection
/// is closed (on HTTP/2 the stream reset), and nobody is blamed.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    state: State,
    answered_at: Timestamp,
    connect_time: Option<Duration>,
    /// Whether any field of the head ends at this hop.
    ends_here: bool,
    /// Whether anything of it had to be waited for.
    has_waited: bool,
    /// Whether there is nothing in it, whatever length its head says.
    is_empty: bool,
}

/// An upgraded connection to a server.
pub(crate) struct UpstreamUpgraded {
    /// The bytes.
    pub(crate) io: UpstreamIo,
    /// What the server sent right behind its 101.
    pub(crate) leftover: Bytes,
    /// The server, where the connection counts as in flight until this is dropped.
    pub(crate) chosen: Chosen,
}

/// What an exchange holds until its end.
pub(super) struct Exchange {
    pub(super) chosen: Chosen,
    pub(super) clock: Clock,
    /// Until the connection was open, if one was opened for it.
    pub(super) connect_time: Option<Duration>,
    /// From the request's first byte to the response's head.
    pub(super) response_time: Duration,
}

/// A response whose head is there, on the connection it comes by.
pub(super) enum Message {
    Http1(Box<Http1>),
    Http2(http2::Stream, Incoming),
}

/// How long the server has been silent: since the last piece of its message, or of the request's body, as long as that comes. While
/// its client is waited for, it may have nothing to say.
#[derive(Debug, Default)]
struct Silence {
    /// Who was waited for when the timer was armed, as [`Silence::poll`] is told.
    armed: Option<Option<u64>>,
}

impl Silence {
    /// Something of the message has come.
    const fn end(&mut self) {
        self.armed = None;
    }

    /// Ready when it has been too long. So many `pieces` of the request were taken, or `None` while its client is waited for. `timer` is
    /// polled, and begins anew before if told so.
    fn poll(&mut self, pieces: Option<u64>, mut timer: impl FnMut(bool) -> Poll<()>) -> Poll<()> {
        loop {
            let begins = self.armed.replace(pieces) != Some(pieces);
            ready!(timer(begins));
            if pieces.is_some() {
                return Poll::Ready(());
            }
            // Nobody may tell that the client has gone on.
            self.armed = None;
        }
    }
}

enum State {
    Ended,
    Http1 {
        exchange: Exchange,
        http1: Box<Http1>,
        silence: Silence,
    },
    Http2 {
        exchange: Exchange,
        stream: http2::Stream,
        incoming: Incoming,
        timer: Option<Pin<Box<Sleep>>>,
        silence: Silence,
    },
    Upgraded(Box<UpstreamUpgraded>),
}

impl UpstreamBody {
    pub(super) fn new(
        exchange: Exchange,
        message: Message,
        status: StatusCode,
        now: Timestamp,
        ends_here: bool,
    ) -> Self {
        let mut body = Self {
            connect_time: exchange.connect_time,
            ends_here,
            state: match message {
                Message::Http1(http1) if status == StatusCode::SWITCHING_PROTOCOLS => {
                    exchange.chosen.server.shared.on_success(now, exchange.response_time);
                    let (io, leftover) = http1.into_io();
                    State::Upgraded(Box::new(UpstreamUpgraded { io, leftover, chosen: exchange.chosen }))
                }
                Message::Http1(http1) => State::Http1 { exchange, http1, silence: Silence::default() },
                Message::Http2(stream, incoming) => {
                    State::Http2 { exchange, stream, incoming, timer: None, silence: Silence::default() }
                }
            },
            answered_at: now,
            has_waited: false,
            is_empty: status == StatusCode::NOT_MODIFIED,
        };
        if body.is_end() && !matches!(body.state, State::Upgraded(_)) {
            body.finish(now);
        }
        body
    }

    /// When the head came.
    pub(crate) const fn answered_at(&self) -> Timestamp {
        self.answered_at
    }

    /// The connection, after a 101.
    pub(crate) fn into_upgraded(self) -> Option<UpstreamUpgraded> {
        match self.state {
            State::Upgraded(upgraded) => Some(*upgraded),
            _ => None,
        }
    }

    /// How long the connection took to open, if one was opened for it.
    pub(crate) const fn connect_time(&self) -> Option<Duration> {
        self.connect_time
    }

    /// Whether any field of the head ends at this hop.
    pub(crate) const fn ends_here(&self) -> bool {
        self.ends_here
    }

    fn is_end(&self) -> bool {
        match &self.state {
            State::Http1 { http1, .. } => http1.is_end(),
            State::Http2 { incoming, .. } => incoming.is_end_stream(),
            State::Ended | State::Upgraded(_) => true,
        }
    }

    /// The end of the message.
    fn finish(&mut self, now: Timestamp) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Http1 { exchange, http1, .. } => {
                exchange.succeeded(now);
                exchange.chosen.server.pool.put_back(http1, now);
            }
            State::Http2 { exchange, stream, .. } => {
                exchange.succeeded(now);
                stream.touch(now);
            }
            State::Ended | State::Upgraded(_) => {}
        }
    }

    fn finish_now(&mut self) {
        if let State::Http1 { exchange, .. } | State::Http2 { exchange, .. } = &self.state {
            // What came along with the head ended when that came.
            let now = if self.has_waited { exchange.clock.now() } else { self.answered_at };
            self.finish(now);
        }
    }

    /// The server broke off, or is taken to have.
    fn fail(&mut self, message: &str) -> BodyError {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Http1 { exchange, .. } | State::Http2 { exchange, .. } => {
                exchange.chosen.server.failed(UpstreamError::Body, exchange.clock.now());
                BodyError::Upstream(format!("{}: {message}", exchange.chosen.endpoint()))
            }
            State::Ended | State::Upgraded(_) => BodyError::Upstream(message.to_owned()),
        }
    }
}

impl Exchange {
    fn succeeded(&self, now: Timestamp) {
        self.chosen.server.shared.on_success(now, self.response_time);
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = match &mut this.state {
            State::Ended | State::Upgraded(_) => return Poll::Ready(None),
            State::Http1 { http1, silence, .. } => {
                let polled = http1.poll_frame(context);
                let (timeout, pieces) = (http1.plan.body_idle_timeout, http1.pieces());
                if polled.is_ready() {
                    silence.end();
                } else {
                    let timer = |begins| {
                        if begins {
                            http1.arm(timeout);
                        }
                        http1.poll_timer(context)
                    };
                    if silence.poll(pieces, timer).is_ready() {
                        return Poll::Ready(Some(Err(this.fail(&silent(timeout)))));
                    }
                }
                match polled {
                    Poll::Ready(Some(Err(Broken::Client(error)))) => {
                        this.state = State::Ended;
                        return Poll::Ready(Some(Err(error)));
                    }
                    Poll::Ready(Some(Err(Broken::Server(failure)))) => {
                        return Poll::Ready(Some(Err(this.fail(&failure.message))));
                    }
                    Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(frame))),
                    Poll::Ready(None) => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            }
            State::Http2 { stream, incoming, timer, silence, .. } => {
                let polled = Pin::new(&mut *incoming).poll_frame(context);
                let is_broken = match &polled {
                    Poll::Ready(None) => !is_whole(incoming),
                    Poll::Ready(Some(frame)) => frame.is_err(),
                    Poll::Pending => false,
                };
                if is_broken && let Some(error) = stream.take_client_error() {
                    this.state = State::Ended;
                    return Poll::Ready(Some(Err(error)));
                }
                // The length is that of what is not sent (RFC 9113, section 8.1.1). The codec misses it where the end comes by itself.
                if is_broken && this.is_empty {
                    this.finish_now();
                    return Poll::Ready(None);
                }
                if is_broken && matches!(polled, Poll::Ready(None)) {
                    return Poll::Ready(Some(Err(this.fail(RESET_WITHIN))));
                }
                let timeout = stream.body_idle_timeout();
                if polled.is_ready() {
                    silence.end();
                } else {
                    let timer = |begins| {
                        let new = || Box::pin(tokio::time::sleep(timeout));
                        let timer = timer.get_or_insert_with(new);
                        if begins {
                            timer.as_mut().reset(Instant::now() + timeout);
                        }
                        timer.as_mut().poll(context)
                    };
                    if silence.poll(stream.pieces(), timer).is_ready() {
                        stream.suspect();
                        return Poll::Ready(Some(Err(this.fail(&silent(timeout)))));
                    }
                }
                polled
            }
        };
        match polled {
            Poll::Pending => {
                this.has_waited = true;
                Poll::Pending
            }
            Poll::Ready(Some(Ok(frame))) => {
                if frame.is_trailers() || this.is_end() {
                    this.finish_now();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                this.finish_now();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(this.fail(&describe(&error))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Http1 { http1, .. } => http1.left().map_or_else(SizeHint::default, SizeHint::with_exact),
            State::Http2 { incoming, .. } => incoming.size_hint(),
            State::Ended | State::Upgraded(_) => SizeHint::with_exact(0),
        }
    }
}

fn silent(timeout: Duration) -> String {
    format!("nothing of the body for {timeout:?}")
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ended => "Ended",
            Self::Http1 { .. } => "Http1",
            Self::Http2 { .. } => "Http2",
            Self::Upgraded(_) => "Upgraded",
        })
    }
}

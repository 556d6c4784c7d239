//! A response's body on its way in; its end gives the connection back.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{StatusCode, Version};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tidegate_control::{Timestamp, meters::UpstreamError};
use tidegate_runtime::Clock;
use tokio::time::{Instant, Sleep};

use super::{balance::Chosen, error::describe, http1::Http1, http2, io::UpstreamIo, pool::Lease};
use crate::body::BodyError;

/// The body of a server's response.
///
/// At the end of the message the connection goes back to its pool, the server's health and response
/// time hear of it, and the request no longer counts as in flight. Dropped before, the connection
/// is closed (on HTTP/2 the stream reset), and nobody is blamed.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    state: State,
    answered_at: Timestamp,
    /// Whether anything of it had to be waited for.
    has_waited: bool,
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
    /// From the request's first byte to the response's head.
    pub(super) response_time: Duration,
}

enum State {
    Ended,
    Http1 {
        exchange: Exchange,
        http1: Box<Http1>,
        incoming: Incoming,
        /// Whether the timer runs: only while we wait for the server.
        is_armed: bool,
        /// Whether the connection may serve another exchange.
        is_lasting: bool,
    },
    Http2 {
        exchange: Exchange,
        stream: http2::Stream,
        incoming: Incoming,
        timer: Option<Pin<Box<Sleep>>>,
    },
    Upgraded(Box<UpstreamUpgraded>),
}

impl UpstreamBody {
    pub(super) fn new(
        exchange: Exchange,
        lease: Lease,
        incoming: Incoming,
        status: StatusCode,
        version: Version,
        now: Timestamp,
    ) -> Self {
        let mut body = Self {
            state: match lease {
                Lease::Http1(http1) if status == StatusCode::SWITCHING_PROTOCOLS => match http1.into_io() {
                    Some((io, leftover)) => {
                        exchange.chosen.server.shared.on_success(now, exchange.response_time);
                        let chosen = exchange.chosen;
                        State::Upgraded(Box::new(UpstreamUpgraded { io, leftover, chosen }))
                    }
                    None => State::Ended,
                },
                // Under HTTP/1.0 the codec sends no body of unknown length, and says nothing of it.
                Lease::Http1(http1) => State::Http1 {
                    exchange,
                    http1,
                    incoming,
                    is_armed: false,
                    is_lasting: version == Version::HTTP_11,
                },
                Lease::Http2(stream) => State::Http2 { exchange, stream, incoming, timer: None },
            },
            answered_at: now,
            has_waited: false,
        };
        if body.incoming().is_some_and(Body::is_end_stream) {
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

    fn incoming(&self) -> Option<&Incoming> {
        match &self.state {
            State::Http1 { incoming, .. } | State::Http2 { incoming, .. } => Some(incoming),
            State::Ended | State::Upgraded(_) => None,
        }
    }

    /// The end of the message.
    fn finish(&mut self, now: Timestamp) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Http1 { exchange, http1, is_lasting, .. } => {
                exchange.succeeded(now);
                if is_lasting {
                    exchange.chosen.server.pool.put_back(http1, now);
                }
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
            State::Http1 { http1, incoming, is_armed, .. } => {
                let polled = http1.poll_frame(incoming, context);
                let timeout = http1.plan.body_idle_timeout;
                if polled.is_ready() {
                    *is_armed = false;
                } else {
                    if !*is_armed {
                        http1.arm(timeout);
                        *is_armed = true;
                    }
                    if http1.poll_timer(context).is_ready() {
                        return Poll::Ready(Some(Err(this.fail(&silent(timeout)))));
                    }
                }
                polled
            }
            State::Http2 { stream, incoming, timer, .. } => {
                let polled = Pin::new(incoming).poll_frame(context);
                let timeout = stream.body_idle_timeout();
                if polled.is_ready() {
                    *timer = None;
                } else {
                    let timer = timer
                        .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + timeout)));
                    if timer.as_mut().poll(context).is_ready() {
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
                if frame.is_trailers() || this.incoming().is_some_and(Body::is_end_stream) {
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
        self.incoming().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
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

//! The rest of a request's body on its way to the server, behind what was gathered: while its client sends slowly the exchange
//! rests, and the server gets the end of it only once it counts again.
//!
//! Until it has the end a server has little to do, and holding that back bounds what it has. In a gRPC call a client may be
//! silent since the server computes; it counts until it is a long stream by its age, as its response does.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::{
    in_flight::{Standing, Upstreaming},
    waits::{Side, Waits},
};
use crate::body::{BodyError, RequestBody};

/// A body that comes as it is sent on.
pub(super) struct Uploading {
    body: RequestBody,
    exchange: Upstreaming,
    /// When it is a long stream, where it converses.
    long_at: Option<Instant>,
    waits: Waits,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether it asks for a permit, to go on with that.
    is_resuming: bool,
    held_back: Option<Polled>,
}

type Polled = Option<Result<Frame<Bytes>, BodyError>>;

impl Uploading {
    /// What is left of a body. `long_at`: where it converses, when it is a long stream.
    pub(super) fn new(body: RequestBody, exchange: Upstreaming, long_at: Option<Instant>) -> Self {
        Self {
            body,
            exchange,
            long_at,
            waits: Waits::default(),
            timer: None,
            is_resuming: false,
            held_back: None,
        }
    }

    /// The client is waited for; whether it is time to rest.
    fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let counts = self.exchange.standing().filter(|standing| *standing == Standing::Counts);
        let due = counts.and_then(|standing| self.waits.due(standing));
        let Some(due) = due.map(|due| self.long_at.map_or(due, |long_at| due.max(long_at))) else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        timer.as_mut().poll(context)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Polled> {
        // Since it gave the last piece, the server was waited for.
        let now = Instant::now();
        let has_waited = self.waits.due(Standing::Rests).is_some_and(|due| due <= now);
        self.is_resuming |= has_waited && self.exchange.standing() == Some(Standing::Rests);
        loop {
            if self.is_resuming {
                ready!(self.exchange.poll_resume(context));
                self.is_resuming = false;
                self.waits.change(Instant::now());
                if let Some(end) = self.held_back.take() {
                    return Poll::Ready(end);
                }
            }
            let Poll::Ready(piece) = Pin::new(&mut self.body).poll_frame(context) else {
                self.waits.begin(Side::Client, now);
                while self.poll_due(context).is_ready() {
                    let rested = match self.long_at {
                        Some(_) => self.exchange.become_stream(),
                        None => self.exchange.rest(),
                    };
                    let now = Instant::now();
                    match rested {
                        Ok(()) => drop(self.waits.change(now)),
                        Err(_) => self.waits.defer(now),
                    }
                }
                return Poll::Pending;
            };
            self.waits.begin(Side::Server, now);
            let is_end = match &piece {
                Some(Ok(frame)) => frame.is_trailers() || self.body.is_end_stream(),
                None => true,
                Some(Err(_)) => false,
            };
            if !is_end || self.exchange.standing() != Some(Standing::Rests) {
                return Poll::Ready(piece);
            }
            self.held_back = Some(piece);
            self.is_resuming = true;
        }
    }
}

impl Drop for Uploading {
    fn drop(&mut self) {
        if self.is_resuming {
            self.exchange.withdraw();
        }
    }
}

impl Body for Uploading {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Polled> {
        let polled = self.poll(context);
        self.exchange.owe(polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.held_back.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.held_back.as_ref().map_or_else(|| self.body.size_hint(), |_| SizeHint::default())
    }
}

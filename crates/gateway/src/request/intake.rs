//! A request's body as it comes from the client, within its bounds, gathered before it is sent on.
//!
//! # When a body is gathered, and who holds a permit meanwhile
//!
//! A request asks for admission with its head alone, so that nobody uploads in vain. Once admitted,
//! its body gets a few turns of the event loop to show what has arrived already: usually all of it.
//! A body that then is still not whole would keep a server waiting at its client's speed: the permit
//! goes back, up to `spool` bytes are gathered without it, and the request asks again, as a newcomer
//! whose ingress tokens are taken already.
//! What is longer than `spool` streams from there on, in step with the server, under the permit but while it rests. So does a
//! gRPC call (over HTTP/2) from its first message on: its server may have to answer that before the client sends the next.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tidegate_control::{
    Timestamp,
    knobs::{Values, keys},
};
use tidegate_runtime::{Clock, Spooled};
use tokio::time::Sleep;

use super::{
    error::ClientFault,
    frames::{Frames, length},
    trailers,
};
use crate::body::{BodyError, ClientBody, RESET_WITHIN, RequestBody};

/// Turns of the event loop a body gets to show that it is there.
const TURNS: usize = 3;

/// Time a client has before its rate counts.
const RATE_AFTER: Duration = Duration::from_secs(10);

/// A client's body within its bounds.
pub(super) struct Intake {
    /// Taken out when this is dropped.
    body: Option<ClientBody>,
    clock: Clock,
    bounds: Bounds,
    /// Time spent waiting for the client; while a server is slow, the client is not.
    waited: Duration,
    waiting_since: Option<Timestamp>,
    timer: Option<Pin<Box<Sleep>>>,
    received: Rc<Received>,
}

/// Bounds of a body, either way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    bytes_max: u64,
    idle_timeout: Duration,
    rate_min_bytes_per_s: Option<u64>,
}

/// What has come of a body so far, for whoever does not read it.
#[derive(Debug, Default)]
pub(super) struct Received {
    bytes: Cell<u64>,
    fault: Cell<Option<ClientFault>>,
    is_whole: Cell<bool>,
}

impl Received {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    pub(super) fn fault(&self) -> Option<ClientFault> {
        self.fault.get()
    }

    /// Whether all of it has come.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole.get()
    }
}

impl Bounds {
    pub(super) fn new(host: &Values, application: &Values) -> Self {
        Self {
            bytes_max: application.get(keys::BODY_BYTES_MAX).map_or(u64::MAX, |bytes| bytes.0),
            idle_timeout: host.get(keys::BODY_IDLE_TIMEOUT),
            rate_min_bytes_per_s: host.get(keys::BODY_RATE_MIN).map(|bytes| bytes.0),
        }
    }

    /// Bounds of how a client takes a response.
    pub(super) fn of_response(host: &Values) -> Self {
        Self {
            bytes_max: u64::MAX,
            idle_timeout: host.get(keys::BODY_IDLE_TIMEOUT),
            rate_min_bytes_per_s: host.get(keys::RESPONSE_RATE_MIN).map(|bytes| bytes.0),
        }
    }

    /// The same of a body that waits for answers: its client is not slow.
    pub(super) fn of_conversation(self) -> Self {
        Self { rate_min_bytes_per_s: None, ..self }
    }

    /// For how long nothing may come, or be taken.
    pub(super) const fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    /// Whether an announced length is allowed.
    pub(super) fn admit(&self, length: Option<u64>) -> bool {
        length.is_none_or(|length| length <= self.bytes_max)
    }

    /// How long a client may still be waited for, having been waited for before and sent, or taken, so much.
    pub(super) fn patience(&self, bytes: u64, waited: Duration) -> Duration {
        self.patience_by_rate(bytes, waited)
            .map_or(self.idle_timeout, |by_rate| by_rate.min(self.idle_timeout))
    }

    /// The same by its rate alone, where one is asked for.
    pub(super) fn patience_by_rate(&self, bytes: u64, waited: Duration) -> Option<Duration> {
        self.rate_min_bytes_per_s.map(|rate| {
            // The average falls below the rate once waiting has taken longer than this.
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
            let span = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            span.max(RATE_AFTER).saturating_sub(waited)
        })
    }
}

impl Intake {
    /// A client's body.
    pub(super) fn new(body: ClientBody, clock: Clock, bounds: Bounds) -> Self {
        Self {
            body: Some(body),
            clock,
            bounds,
            waited: Duration::ZERO,
            waiting_since: None,
            timer: None,
            received: Rc::default(),
        }
    }

    pub(super) fn received(&self) -> Rc<Received> {
        Rc::clone(&self.received)
    }

    fn fail(&self, fault: ClientFault, message: impl std::fmt::Display) -> BodyError {
        self.received.fault.set(Some(fault));
        match fault {
            ClientFault::Broken => BodyError::Client(message.to_string()),
            ClientFault::TooLarge => BodyError::TooLarge(self.bounds.bytes_max),
            ClientFault::TooSlow => BodyError::TooSlow,
        }
    }

    /// Ready once the client has been waited for too long.
    fn poll_patience(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let now = self.clock.now();
        let since = *self.waiting_since.get_or_insert(now);
        let end = since + self.bounds.patience(self.received.bytes(), self.waited);
        let deadline = tokio::time::Instant::from_std(self.clock.instant(end));
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context)
    }
}

impl Body for Intake {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) else {
            ready!(this.poll_patience(context));
            return Poll::Ready(Some(Err(this.fail(ClientFault::TooSlow, ""))));
        };
        if let Some(since) = this.waiting_since.take() {
            this.waited += this.clock.now().since(since);
        }
        Poll::Ready(match frame {
            None if body.is_whole() => {
                this.received.is_whole.set(true);
                None
            }
            None => Some(Err(this.fail(ClientFault::Broken, RESET_WITHIN))),
            Some(Err(error)) => Some(Err(this.fail(ClientFault::Broken, error))),
            Some(Ok(frame)) => {
                let bytes = this.received.bytes() + frame.data_ref().map_or(0, |data| data.len() as u64);
                this.received.bytes.set(bytes);
                this.received.is_whole.set(body.is_end_stream());
                if bytes > this.bounds.bytes_max {
                    Some(Err(this.fail(ClientFault::TooLarge, "")))
                } else {
                    Some(Ok(trailers::of_request(frame)))
                }
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        if let Some(body) = self.body.take() {
            body.done();
        }
    }
}

/// A body that is being gathered.
pub(super) struct Gathering {
    /// `None` once it has ended.
    intake: Option<Intake>,
    frames: Frames,
    bytes: u64,
    bytes_max: u64,
    spooled: Spooled,
}

impl Gathering {
    /// Gathers up to `bytes_max` bytes, as far as memory is granted.
    pub(super) fn new(intake: Intake, bytes_max: u64, spooled: Spooled) -> Self {
        Self { intake: Some(intake), frames: Frames::default(), bytes: 0, bytes_max, spooled }
    }

    /// Takes what is there within a few turns of the event loop; whether that is enough.
    pub(super) async fn glance(&mut self) -> Result<bool, BodyError> {
        for turn in 0..=TURNS {
            if turn > 0 {
                tokio::task::yield_now().await;
            }
            let filled = poll_fn(|context| Poll::Ready(self.poll_fill(context))).await;
            if let Poll::Ready(result) = filled {
                return result.map(|()| true);
            }
        }
        Ok(false)
    }

    /// Waits until the body has ended or no more is to be gathered.
    pub(super) async fn fill(&mut self) -> Result<(), BodyError> {
        poll_fn(|context| self.poll_fill(context)).await
    }

    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        while let Some(intake) = &mut self.intake {
            if intake.is_end_stream() {
                self.intake = None;
                break;
            }
            if self.bytes >= self.bytes_max {
                break;
            }
            match ready!(Pin::new(intake).poll_frame(context)).transpose()? {
                None => self.intake = None,
                Some(frame) => {
                    let bytes = length(&frame);
                    self.frames.push(frame);
                    self.bytes += bytes;
                    if !self.spooled.grow(bytes) {
                        // Without memory the rest goes in step with the server.
                        self.bytes_max = self.bytes;
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The body to send on: whole if it has ended, else what was gathered and then the rest.
    pub(super) fn into_body(mut self) -> RequestBody {
        if self.intake.is_some() || self.frames.has_trailers() {
            return RequestBody::Stream(Box::pin(self));
        }
        let only = self.frames.is_single();
        let Some(first) = self.frames.pop().and_then(|frame| frame.into_data().ok()) else {
            return RequestBody::Empty;
        };
        let bytes = if only {
            first
        } else {
            let mut bytes = BytesMut::with_capacity(usize::try_from(self.bytes).unwrap_or(0));
            bytes.extend_from_slice(&first);
            while let Some(frame) = self.frames.pop() {
                bytes.extend(frame.into_data());
            }
            bytes.freeze()
        };
        RequestBody::Whole(Bytes::from_owner(Kept { bytes, _spooled: self.spooled }))
    }
}

/// Bytes with the memory granted for them.
struct Kept {
    bytes: Bytes,
    _spooled: Spooled,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body for Gathering {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if let Some(frame) = this.frames.pop() {
            this.spooled.shrink(length(&frame));
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut this.intake {
            Some(intake) => Pin::new(intake).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.intake.as_ref().is_none_or(Body::is_end_stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_with_silence_or_when_the_average_falls_below_the_rate() {
        let s = Duration::from_secs;
        let bounds = Bounds { bytes_max: 10, idle_timeout: s(30), rate_min_bytes_per_s: Some(100) };
        // Nothing sent: ten seconds in all.
        assert_eq!(bounds.patience(0, s(0)), s(10));
        assert_eq!(bounds.patience(0, s(4)), s(6));
        // 2,000 bytes are good for 20 s.
        assert_eq!(bounds.patience(2000, s(15)), s(5));
        assert_eq!(bounds.patience(2000, s(25)), s(0));
        // Plenty sent: silence counts.
        assert_eq!(bounds.patience(1 << 40, s(100)), s(30));
        let unbounded = Bounds { rate_min_bytes_per_s: None, ..bounds };
        assert_eq!(unbounded.patience(0, s(100)), s(30));
        assert!(bounds.admit(Some(10)) && bounds.admit(None) && !bounds.admit(Some(11)));
    }
}

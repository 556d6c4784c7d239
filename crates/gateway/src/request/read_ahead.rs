//! Reads a server's response ahead of a slow client, so that the client holds neither server nor permit.
//!
//! A task of its own reads the server's message into a buffer, bounded by `spool` and by the memory
//! all exchanges share; the client's connection takes from it. Without memory the two go in step, a
//! frame at a time.

use std::{
    cell::RefCell,
    collections::VecDeque,
    future::Future,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame};
use tidegate_control::{Timestamp, admission::Outcome, knobs::HalfClosed};
use tidegate_runtime::Spooled;

use super::{in_flight::InFlight, linger};
use crate::{body::BodyError, connection::Connection, upstream::UpstreamBody};

/// The client's end of a response that is read ahead. Dropped, it tells the task that the client has
/// left.
#[derive(Debug)]
pub(super) struct ReadAhead {
    shared: Rc<RefCell<Buffer>>,
}

/// What is read and not yet taken.
#[derive(Debug)]
struct Buffer {
    frames: VecDeque<Frame<Bytes>>,
    bytes: u64,
    bytes_max: u64,
    spooled: Spooled,
    /// Whether the last frame had to be taken without memory being granted for it.
    in_step: bool,
    end: Option<End>,
    left: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// How a message ended.
#[derive(Debug)]
enum End {
    /// Whole, at that time.
    Whole(Timestamp),
    /// It broke off; the error is told once.
    Broken(Option<BodyError>),
}

/// What a task that reads ahead needs to know.
pub(super) struct Reading {
    pub(super) upstream: UpstreamBody,
    pub(super) in_flight: InFlight,
    pub(super) status: StatusCode,
    /// The client's connection, and whether it counts as left once half closed.
    pub(super) connection: Rc<Connection>,
    pub(super) half_closed: HalfClosed,
    /// Bytes read ahead at most.
    pub(super) bytes_max: u64,
    /// How long the client may take nothing while the buffer is full.
    pub(super) idle_timeout: Duration,
    /// What was read before, and the memory granted for it.
    pub(super) frames: VecDeque<Frame<Bytes>>,
    pub(super) spooled: Spooled,
}

impl ReadAhead {
    /// Starts reading ahead.
    pub(super) fn start(mut reading: Reading) -> Self {
        let frames = std::mem::take(&mut reading.frames);
        let spooled = std::mem::replace(&mut reading.spooled, reading.in_flight.service().spool().account());
        let shared = Rc::new(RefCell::new(Buffer {
            bytes: frames.iter().map(length).sum(),
            frames,
            bytes_max: reading.bytes_max,
            spooled,
            in_step: false,
            end: None,
            left: false,
            reader: None,
            writer: None,
        }));
        tokio::task::spawn_local(pump(reading, Rc::clone(&shared)));
        Self { shared }
    }

    /// The next frame; `None` after the last.
    pub(super) fn poll_frame(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut buffer = self.shared.borrow_mut();
        if let Some(frame) = buffer.frames.pop_front() {
            let writer = buffer.take(length(&frame));
            drop(buffer);
            if let Some(writer) = writer {
                writer.wake();
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut buffer.end {
            Some(End::Whole(_)) => Poll::Ready(None),
            Some(End::Broken(error)) => Poll::Ready(error.take().map(Err)),
            None => {
                buffer.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Whether the server has finished and everything is taken.
    pub(super) fn is_end(&self) -> bool {
        let buffer = self.shared.borrow();
        buffer.frames.is_empty() && matches!(buffer.end, Some(End::Whole(_)))
    }

    /// When the server's message ended.
    pub(super) fn served(&self) -> Option<Timestamp> {
        match self.shared.borrow().end {
            Some(End::Whole(at)) => Some(at),
            Some(End::Broken(_)) | None => None,
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let mut buffer = self.shared.borrow_mut();
        buffer.left = true;
        buffer.frames.clear();
        let (bytes, writer) = (buffer.spooled.bytes(), buffer.writer.take());
        buffer.spooled.shrink(bytes);
        drop(buffer);
        if let Some(writer) = writer {
            writer.wake();
        }
    }
}

/// How things stand at the buffer.
enum Room {
    Yes,
    Left,
}

impl Buffer {
    /// The reader takes `bytes`; gives whom to wake.
    fn take(&mut self, bytes: u64) -> Option<Waker> {
        self.bytes -= bytes;
        let surplus = self.spooled.bytes().saturating_sub(self.bytes);
        self.spooled.shrink(surplus);
        if self.frames.is_empty() {
            self.in_step = false;
        }
        self.writer.take_if(|_| !self.in_step && self.bytes < self.bytes_max)
    }

    /// Adds a frame; gives whom to wake.
    fn push(&mut self, frame: Frame<Bytes>) -> Option<Waker> {
        let bytes = length(&frame);
        self.in_step = !self.spooled.grow(bytes);
        self.bytes += bytes;
        self.frames.push_back(frame);
        self.reader.take()
    }

    /// Nothing more comes.
    fn close(&mut self, end: End) {
        self.end = Some(end);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn poll_room(&mut self, context: &Context<'_>) -> Poll<Room> {
        if self.left {
            return Poll::Ready(Room::Left);
        }
        // At least one frame whatever the bound, or nothing would ever flow.
        let full = self.in_step || (self.bytes >= self.bytes_max && !self.frames.is_empty());
        if !full {
            return Poll::Ready(Room::Yes);
        }
        self.writer = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Bytes of a frame that count; trailers are bounded by the codec.
fn length(frame: &Frame<Bytes>) -> u64 {
    frame.data_ref().map_or(0, |data| data.len() as u64)
}

/// What the task goes on with.
enum Event {
    Frame(Option<Result<Frame<Bytes>, BodyError>>),
    /// The client has left.
    Left,
    /// The client has taken nothing for too long.
    Stalled,
    /// The response has streamed for long enough to count as a long stream.
    Long,
}

async fn pump(reading: Reading, shared: Rc<RefCell<Buffer>>) {
    let Reading { mut upstream, mut in_flight, status, connection, half_closed, idle_timeout, .. } = reading;
    let mut departed = pin!(connection.departed(half_closed));
    let clock = *in_flight.service().core.shared().clock();
    let long_at = tokio::time::Instant::from_std(clock.instant(in_flight.long_stream_at()));
    let mut long = pin!(tokio::time::sleep_until(long_at));
    let mut may_become_long = !in_flight.is_stream();
    let mut stalled = pin!(None::<tokio::time::Sleep>);
    let end = loop {
        let event = std::future::poll_fn(|context| {
            if may_become_long && long.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Long);
            }
            let room = shared.borrow_mut().poll_room(context);
            match room {
                Poll::Ready(Room::Left) => return Poll::Ready(Event::Left),
                Poll::Ready(Room::Yes) => stalled.set(None),
                Poll::Pending => {
                    if stalled.is_none() {
                        stalled.set(Some(tokio::time::sleep(idle_timeout)));
                    }
                    if let Some(stalled) = stalled.as_mut().as_pin_mut() {
                        ready!(stalled.poll(context));
                    }
                    return Poll::Ready(Event::Stalled);
                }
            }
            match Pin::new(&mut upstream).poll_frame(context) {
                Poll::Ready(frame) => Poll::Ready(Event::Frame(frame)),
                Poll::Pending => {
                    // Told when the client leaves while the server is silent.
                    shared.borrow_mut().writer = Some(context.waker().clone());
                    departed.as_mut().poll(context).map(|()| Event::Left)
                }
            }
        });
        match event.await {
            Event::Frame(Some(Ok(frame))) => {
                let reader = shared.borrow_mut().push(frame);
                if let Some(reader) = reader {
                    reader.wake();
                }
                if upstream.is_end_stream() {
                    break End::Whole(in_flight.finish(status));
                }
            }
            Event::Frame(None) => break End::Whole(in_flight.finish(status)),
            Event::Frame(Some(Err(error))) => {
                in_flight.fail(Outcome::Drop);
                break End::Broken(Some(error));
            }
            Event::Left => {
                // Its connection, if it does not know yet, is to end too.
                shared.borrow_mut().close(End::Broken(Some(BodyError::Client("it has left".into()))));
                return linger::drain(upstream, in_flight, status).await;
            }
            Event::Stalled => {
                in_flight.fail(Outcome::Ignore);
                let error = BodyError::Client("it takes nothing of the response".into());
                break End::Broken(Some(error));
            }
            Event::Long => {
                // Where no more long streams may be, the permit stays with it.
                let _ = in_flight.become_stream();
                may_become_long = false;
            }
        }
    };
    // The server is done with; its connection goes back before the client has read everything.
    drop(upstream);
    shared.borrow_mut().close(end);
}

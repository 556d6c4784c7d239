//! Reads a server's response ahead of a slow client, so that the client holds neither server nor permit.
//!
//! As long as the client takes what comes, its own connection reads the server's message, in step: that
//! costs no task and no waking. Once the client does not take what is there, or the message goes on for
//! longer than a sweep, a task of its own reads into a buffer, bounded by `spool` and by the memory all
//! exchanges share; the client's connection takes from it. Without memory the two go in step again, a frame
//! at a time. HTTP/2, where each stream is blocked by itself, has the task from the start.

use std::{
    cell::RefCell,
    future::Future,
    pin::{Pin, pin},
    rc::{Rc, Weak},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame};
use tidegate_control::{Timestamp, admission::Outcome, knobs::HalfClosed};
use tidegate_runtime::Spooled;

use super::{
    error::outcome_of_broken,
    frames::{Frames, length},
    in_flight::{AGAIN, InFlight, Rest, Standing},
    intake::Bounds,
    linger,
    waits::{Side, Waits},
};
use crate::{
    body::BodyError,
    connection::{Connection, Protocol},
    upstream::UpstreamBody,
};

/// The client's end of a response's body. Dropped, it tells that the client has left.
#[derive(Debug)]
pub(super) struct ReadAhead {
    source: Rc<RefCell<Source>>,
}

/// A response that its client's connection reads in step, for that connection to say when it no longer can.
#[derive(Clone, Debug, Default)]
pub(crate) struct InStep {
    source: Weak<RefCell<Source>>,
}

/// Where the body comes from.
#[derive(Debug, Default)]
enum Source {
    /// From the server, by whoever takes it.
    InStep(Box<Reading>),
    /// From the buffer that a task fills.
    Ahead(Rc<RefCell<Buffer>>),
    /// From nowhere: the client's connection has taken all, at that time, or was told why not.
    #[default]
    Broken,
    Whole(Timestamp),
}

/// What is read and not yet taken.
#[derive(Debug)]
struct Buffer {
    frames: Frames,
    bytes: u64,
    bytes_max: u64,
    /// Bytes that the client has taken.
    taken: u64,
    spooled: Spooled,
    /// Whether the last frame had to be taken without memory being granted for it.
    in_step: bool,
    /// Whether every byte that was announced has been read, if not yet the end.
    is_all: bool,
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

/// A message that is being read, and what is to be known of it.
pub(super) struct Reading {
    pub(super) upstream: UpstreamBody,
    pub(super) in_flight: InFlight,
    pub(super) status: StatusCode,
    /// The client's connection, and whether it counts as left once half closed.
    pub(super) connection: Rc<Connection>,
    pub(super) half_closed: HalfClosed,
    /// Bytes read ahead at most.
    pub(super) bytes_max: u64,
    /// How slowly the client may take it while the buffer is full.
    pub(super) bounds: Bounds,
    /// What was read before, and the memory granted for it.
    pub(super) frames: Frames,
    pub(super) spooled: Spooled,
}

impl ReadAhead {
    /// The rest of a message of which something is still to come.
    pub(super) fn new(reading: Reading) -> Self {
        let connection = Rc::clone(&reading.connection);
        let source = match connection.protocol() {
            Protocol::Http1 => Source::InStep(Box::new(reading)),
            Protocol::Http2 => Source::Ahead(reading.start(None)),
        };
        let is_in_step = matches!(source, Source::InStep(_));
        let source = Rc::new(RefCell::new(source));
        if is_in_step {
            connection.read_in_step(InStep { source: Rc::downgrade(&source) });
        }
        Self { source }
    }

    /// The next frame, of data at most so many bytes where it is in memory; `None` after the last.
    pub(super) fn poll_piece(
        &self,
        context: &mut Context<'_>,
        most: usize,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut source = self.source.borrow_mut();
        match &mut *source {
            Source::InStep(reading) => {
                let event = ready!(reading.poll_event(context));
                let Source::InStep(reading) = std::mem::take(&mut *source) else { return Poll::Pending };
                let (frame, next) = reading.go_on(event);
                *source = next;
                Poll::Ready(frame)
            }
            Source::Ahead(buffer) => Buffer::poll_piece(buffer, context, most),
            Source::Whole(_) | Source::Broken => Poll::Ready(None),
        }
    }

    /// Whether the server has finished and everything is taken.
    pub(super) fn is_end(&self) -> bool {
        match &*self.source.borrow() {
            Source::InStep(_) | Source::Broken => false,
            Source::Ahead(buffer) => {
                let buffer = buffer.borrow();
                buffer.frames.is_empty() && matches!(buffer.end, Some(End::Whole(_)))
            }
            Source::Whole(_) => true,
        }
    }

    /// Whether the server has finished, or has sent every byte that it announced, and all is taken: its client may leave before
    /// an HTTP/2 server says that this was the end.
    pub(super) fn has_given_all(&self) -> bool {
        let has_all_announced = match &*self.source.borrow() {
            Source::Ahead(buffer) => {
                let buffer = buffer.borrow();
                buffer.is_all && buffer.frames.is_empty()
            }
            Source::InStep(_) | Source::Whole(_) | Source::Broken => false,
        };
        has_all_announced || self.is_end()
    }

    /// When the server's message ended.
    pub(super) fn served(&self) -> Option<Timestamp> {
        match &*self.source.borrow() {
            Source::InStep(_) | Source::Broken => None,
            Source::Ahead(buffer) => match buffer.borrow().end {
                Some(End::Whole(at)) => Some(at),
                Some(End::Broken(_)) | None => None,
            },
            Source::Whole(at) => Some(*at),
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        match self.source.take() {
            Source::InStep(reading) => reading.linger(),
            Source::Ahead(buffer) => Buffer::leave(&buffer),
            Source::Whole(_) | Source::Broken => {}
        }
    }
}

impl InStep {
    /// From now on a task reads ahead of the client, and wakes `reader` when there is something to take.
    pub(crate) fn read_ahead(&self, reader: &Waker) {
        let Some(source) = self.source.upgrade() else { return };
        let mut source = source.borrow_mut();
        *source = match std::mem::take(&mut *source) {
            Source::InStep(reading) => Source::Ahead(reading.start(Some(reader.clone()))),
            other => other,
        };
    }
}

impl Reading {
    /// What comes next, in step.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if let Some(frame) = self.frames.pop() {
            self.spooled.shrink(length(&frame));
            return Poll::Ready(Event::Frame(Some(Ok(frame))));
        }
        match Pin::new(&mut self.upstream).poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(Event::Frame(frame)),
            Poll::Pending => self.connection.poll_departed(self.half_closed, context).map(|()| Event::Left),
        }
    }

    /// What the client's connection gets of that, and where the rest comes from.
    fn go_on(self: Box<Self>, event: Event) -> (Option<Result<Frame<Bytes>, BodyError>>, Source) {
        match event {
            Event::Frame(Some(Ok(frame))) => {
                let rest = match self.frames.is_empty() {
                    true if self.upstream.is_end_stream() => self.finish(),
                    // Every byte announced is there, and over HTTP/1 no trailers follow those. Its client may leave
                    // before an HTTP/2 server says that this was the end.
                    true if is_all(&self.upstream) => {
                        let now = self.in_flight.service().now();
                        self.linger();
                        Source::Whole(now)
                    }
                    _ => Source::InStep(self),
                };
                (Some(Ok(frame)), rest)
            }
            Event::Frame(None) => (None, self.finish()),
            Event::Frame(Some(Err(error))) => {
                self.in_flight.fail(outcome_of_broken(&error));
                (Some(Err(error)), Source::Broken)
            }
            Event::Left | Event::Stalled | Event::Long | Event::Waited => {
                self.linger();
                (Some(Err(left())), Source::Broken)
            }
        }
    }

    fn finish(self) -> Source {
        Source::Whole(self.in_flight.finish(self.status))
    }

    /// Nobody wants what is left of it.
    fn linger(self) {
        tokio::task::spawn_local(linger::drain(self.upstream, self.in_flight, self.status));
    }

    /// Starts to read ahead.
    fn start(mut self, reader: Option<Waker>) -> Rc<RefCell<Buffer>> {
        let frames = std::mem::take(&mut self.frames);
        let spooled = std::mem::replace(&mut self.spooled, self.in_flight.service().spool().account());
        let buffer = Rc::new(RefCell::new(Buffer {
            bytes: frames.bytes(),
            frames,
            bytes_max: self.bytes_max,
            taken: 0,
            spooled,
            in_step: false,
            is_all: is_all(&self.upstream),
            end: None,
            left: false,
            reader,
            writer: None,
        }));
        tokio::task::spawn_local(pump(self, Rc::clone(&buffer)));
        buffer
    }
}

/// How things stand at the buffer.
enum Room {
    Yes,
    Left,
}

impl Buffer {
    /// The next frame, of data at most so many bytes; `None` after the last.
    fn poll_piece(
        buffer: &RefCell<Self>,
        context: &mut Context<'_>,
        most: usize,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut this = buffer.borrow_mut();
        if let Some(frame) = this.frames.pop_piece(most) {
            let writer = this.take(length(&frame));
            drop(this);
            if let Some(writer) = writer {
                writer.wake();
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut this.end {
            Some(End::Whole(_)) => Poll::Ready(None),
            Some(End::Broken(error)) => Poll::Ready(error.take().map(Err)),
            None => {
                this.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The reader has left.
    fn leave(buffer: &RefCell<Self>) {
        let mut this = buffer.borrow_mut();
        this.left = true;
        this.clear();
        let writer = this.writer.take();
        drop(this);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// What is there is not wanted any more.
    fn clear(&mut self) {
        self.frames = Frames::default();
        let bytes = self.spooled.bytes();
        self.spooled.shrink(bytes);
    }

    /// The reader takes `bytes`; gives whom to wake.
    fn take(&mut self, bytes: u64) -> Option<Waker> {
        self.bytes -= bytes;
        self.taken += bytes;
        let surplus = self.spooled.bytes().saturating_sub(self.bytes);
        self.spooled.shrink(surplus);
        if self.frames.is_empty() {
            self.in_step = false;
        }
        let is_full = self.is_full();
        self.writer.take_if(|_| !is_full)
    }

    /// Whether no frame fits. At least one does whatever the bound, or nothing would ever flow.
    fn is_full(&self) -> bool {
        self.in_step || (self.bytes >= self.bytes_max && !self.frames.is_empty())
    }

    /// Adds a frame; gives whom to wake.
    fn push(&mut self, frame: Frame<Bytes>) -> Option<Waker> {
        let bytes = length(&frame);
        self.in_step = !self.spooled.grow(bytes);
        self.bytes += bytes;
        self.frames.push(frame);
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
        if !self.is_full() {
            return Poll::Ready(Room::Yes);
        }
        self.writer = Some(context.waker().clone());
        Poll::Pending
    }
}

/// What whoever reads goes on with.
enum Event {
    Frame(Option<Result<Frame<Bytes>, BodyError>>),
    /// The client has left.
    Left,
    /// The client has taken nothing for too long, or too little.
    Stalled,
    /// The response has streamed for long enough to count as a long stream.
    Long,
    /// The client, or while it rests the server, was waited for long enough.
    Waited,
}

async fn pump(reading: Reading, shared: Rc<RefCell<Buffer>>) {
    let Reading { mut upstream, in_flight, status, connection, half_closed, bounds, .. } = reading;
    let mut departed = pin!(connection.departed(half_closed));
    let clock = *in_flight.service().core.shared().clock();
    let long_at = tokio::time::Instant::from_std(clock.instant(in_flight.long_stream_at()));
    let mut long = pin!(tokio::time::sleep_until(long_at));
    let mut may_become_long = in_flight.standing() != Standing::Streams;
    // A stream is reset if its client takes nothing; how little that is at a time is not to be seen from here.
    let shows_silence = connection.protocol() == Protocol::Http2;
    let mut stalled = pin!(None::<tokio::time::Sleep>);
    // Since when the buffer is full, and for how long it was before.
    let (mut full_since, mut full) = (None, Duration::ZERO);
    let mut waits = Waits::default();
    let mut waited = pin!(tokio::time::sleep_until(long_at));
    // While it asks for a permit, to go on with that.
    let mut resuming: Option<Pin<Box<dyn Future<Output = ()>>>> = None;
    let end = loop {
        let event = std::future::poll_fn(|context| {
            if may_become_long && long.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Long);
            }
            let now = tokio::time::Instant::now();
            let room = shared.borrow_mut().poll_room(context);
            match room {
                Poll::Ready(Room::Left) => return Poll::Ready(Event::Left),
                Poll::Ready(Room::Yes) => {
                    if let Some(since) = full_since.take() {
                        full += now.duration_since(since);
                        stalled.set(None);
                    }
                }
                Poll::Pending => {
                    if in_flight.poll_resumed(context).is_ready() {
                        waits.change(now);
                    }
                    waits.begin(Side::Client, now);
                    if poll_due(&waits, &in_flight, waited.as_mut(), context).is_ready() {
                        return Poll::Ready(Event::Waited);
                    }
                    if full_since.is_none() {
                        full_since = Some(now);
                        let taken = shared.borrow().taken;
                        let patience = match shows_silence {
                            true => bounds.patience_by_rate(taken, full),
                            false => Some(bounds.patience(taken, full)),
                        };
                        stalled.set(patience.map(|patience| tokio::time::sleep_until(now + patience)));
                    }
                    return match stalled.as_mut().as_pin_mut() {
                        Some(stalled) => stalled.poll(context).map(|()| Event::Stalled),
                        None => Poll::Pending,
                    };
                }
            }
            let has_permit =
                resuming.as_mut().is_none_or(|resuming| resuming.as_mut().poll(context).is_ready());
            if has_permit {
                if resuming.take().is_some() {
                    waits.change(now);
                }
                if let Poll::Ready(frame) = Pin::new(&mut upstream).poll_frame(context) {
                    waits.go_on(now);
                    return Poll::Ready(Event::Frame(frame));
                }
                // What it waits for may be the client's to send.
                match in_flight.is_owed() {
                    true => waits.go_on(now),
                    false => waits.begin(Side::Server, now),
                }
                if poll_due(&waits, &in_flight, waited.as_mut(), context).is_ready() {
                    return Poll::Ready(Event::Waited);
                }
            }
            // Told when the client leaves while the server is silent.
            shared.borrow_mut().writer = Some(context.waker().clone());
            departed.as_mut().poll(context).map(|()| Event::Left)
        });
        match event.await {
            Event::Frame(Some(Ok(frame))) => {
                let reader = shared.borrow_mut().push(frame);
                if let Some(reader) = reader {
                    reader.wake();
                }
                shared.borrow_mut().is_all = is_all(&upstream);
                if upstream.is_end_stream() {
                    break End::Whole(in_flight.finish(status));
                }
            }
            Event::Frame(None) => break End::Whole(in_flight.finish(status)),
            Event::Frame(Some(Err(error))) => {
                in_flight.fail(outcome_of_broken(&error));
                break End::Broken(Some(error));
            }
            Event::Left => {
                // Its connection, if it does not know yet, is to end too.
                shared.borrow_mut().close(End::Broken(Some(left())));
                return linger::drain(upstream, in_flight, status).await;
            }
            Event::Stalled => {
                in_flight.fail(Outcome::Ignore);
                shared.borrow_mut().clear();
                let is_silent = full_since.is_some_and(|since| since.elapsed() >= bounds.idle_timeout());
                let error = match is_silent && !shows_silence {
                    true => BodyError::Client("it takes nothing of the response".into()),
                    false => BodyError::TakenTooSlowly,
                };
                break End::Broken(Some(error));
            }
            Event::Long => {
                // Where no more long streams may be, the permit stays with it until there may.
                may_become_long = in_flight.become_stream().is_err();
                long.as_mut().reset(tokio::time::Instant::now() + AGAIN);
                resuming = None;
            }
            Event::Waited if in_flight.standing() == Standing::Rests => {
                resuming = Some(Box::pin(in_flight.resume()));
            }
            Event::Waited => {
                let now = tokio::time::Instant::now();
                let mut rested = waits.clone();
                let waited = rested.change(now);
                let rest = match in_flight.is_owed() {
                    true => Rest::Request,
                    false => Rest::Response(status, waited),
                };
                match in_flight.rest(rest) {
                    Ok(()) => waits = rested,
                    Err(_) => waits.defer(now),
                }
            }
        }
    };
    // The server is done with; its connection goes back before the client has read everything.
    drop(upstream);
    shared.borrow_mut().close(end);
}

/// Whether it is time to rest, or to go on.
fn poll_due(
    waits: &Waits,
    in_flight: &InFlight,
    mut timer: Pin<&mut tokio::time::Sleep>,
    context: &mut Context<'_>,
) -> Poll<()> {
    let Some(due) = waits.due(in_flight.standing()) else { return Poll::Pending };
    if timer.deadline() != due {
        timer.as_mut().reset(due);
    }
    timer.poll(context)
}

/// Whether every byte that was announced has come.
fn is_all(upstream: &UpstreamBody) -> bool {
    upstream.size_hint().exact() == Some(0)
}

fn left() -> BodyError {
    BodyError::Client("it has left".into())
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").field("status", &self.status).finish_non_exhaustive()
    }
}

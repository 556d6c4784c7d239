//! A request body on its way out over HTTP/2, watched: whose turn it is, what went wrong in it, and how it began.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    rc::Rc,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::{sync::oneshot, time::Instant};

use super::patience::Turn;
use crate::body::{BodyError, RequestBody};

/// Bytes of a streaming body that are kept until there is an answer: a server that goes away or refuses the request has
/// taken no more than its window, and another is to have all of it.
const KEPT_MAX: usize = 256 * 1024;

/// The body the codec reads.
pub(super) struct Outgoing {
    source: Source,
    /// `None` without a body.
    hold: Option<Hold>,
}

enum Source {
    /// In memory: keeps nobody waiting and does not fail.
    Whole(RequestBody),
    Streaming(Rc<Progress>),
}

/// Resolves once the codec holds nothing more of a body: all of it went out, or its stream has ended.
pub(super) type Released = oneshot::Receiver<Infallible>;

/// What is known of a body that was given to the codec.
pub(super) struct Sent {
    pub(super) released: Released,
    pub(super) upload: Upload,
}

/// What tells so by being dropped.
struct Held(#[expect(dead_code, reason = "held")] oneshot::Sender<Infallible>);

/// What a body has of those that look how it goes.
struct Hold {
    /// Shared with every piece that the codec holds.
    held: Arc<Held>,
    /// When the codec took the last piece, or the first might have gone.
    moved: Rc<Cell<Instant>>,
}

/// A piece of a body that the codec holds.
struct Piece {
    bytes: Bytes,
    _held: Arc<Held>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body on its way, for the requests that share its connection.
pub(super) struct Upload {
    held: Weak<Held>,
    moved: Rc<Cell<Instant>>,
}

/// How far a streaming body has come.
#[derive(Debug)]
pub(super) struct Progress {
    rest: RefCell<RequestBody>,
    /// What the codec has taken; `None` where that is more than is kept.
    taken: RefCell<Option<Taken>>,
    pieces: Cell<u64>,
    waits: Cell<bool>,
    error: ClientError,
}

/// What went wrong on the client's side, for whoever is to know when the codec has let go of the body.
pub(super) type ClientError = Rc<RefCell<Option<BodyError>>>;

#[derive(Debug, Default)]
struct Taken {
    frames: VecDeque<Frame<Bytes>>,
    bytes: usize,
}

/// A body from its beginning, of which a part was taken before.
struct Again {
    taken: VecDeque<Frame<Bytes>>,
    rest: RequestBody,
}

/// What the codec is told when the client's side fails; the cause is in [`Progress`].
#[derive(Debug, thiserror::Error)]
#[error("the request's body failed")]
pub(super) struct ClientFailed;

impl Outgoing {
    /// A body that may go out from `now` on.
    pub(super) fn new(body: RequestBody, now: Instant) -> (Self, Option<Rc<Progress>>, Option<Sent>) {
        let (hold, sent) = match &body {
            RequestBody::Empty => (None, None),
            RequestBody::Whole(_) | RequestBody::Stream(_) => {
                let (sender, released) = oneshot::channel();
                let hold = Hold { held: Arc::new(Held(sender)), moved: Rc::new(Cell::new(now)) };
                let upload = Upload { held: Arc::downgrade(&hold.held), moved: Rc::clone(&hold.moved) };
                (Some(hold), Some(Sent { released, upload }))
            }
        };
        if !matches!(body, RequestBody::Stream(_)) {
            return (Self { source: Source::Whole(body), hold }, None, sent);
        }
        let progress = Rc::new(Progress {
            rest: RefCell::new(body),
            taken: RefCell::new(Some(Taken::default())),
            pieces: Cell::new(0),
            waits: Cell::new(false),
            error: Rc::default(),
        });
        (Self { source: Source::Streaming(Rc::clone(&progress)), hold }, Some(progress), sent)
    }
}

impl Upload {
    /// Whether the codec has let go of all of it.
    pub(super) fn is_out(&self) -> bool {
        self.held.strong_count() == 0
    }

    /// Since when the server has taken no piece, while the codec holds one.
    pub(super) fn stands_since(&self) -> Option<Instant> {
        // One is the body's own, as long as that is there.
        let is_body_there = Rc::strong_count(&self.moved) > 1;
        (self.held.strong_count() > usize::from(is_body_there)).then(|| self.moved.get())
    }
}

impl Progress {
    /// Who is waited for.
    pub(super) fn turn(&self) -> Turn {
        match self.waits.get() {
            true => Turn::Client,
            false => Turn::Pieces(self.pieces.get()),
        }
    }

    /// What went wrong on the client's side.
    pub(super) fn take_error(&self) -> Option<BodyError> {
        self.error.take()
    }

    /// Where it will stand if something does.
    pub(super) fn error(&self) -> ClientError {
        Rc::clone(&self.error)
    }

    /// The whole body once more, if all that was taken of it is still there. The codec gets no more of it.
    pub(super) fn take_back(&self) -> Option<RequestBody> {
        let taken = self.taken.take()?.frames;
        let rest = self.rest.replace(RequestBody::Empty);
        Some(RequestBody::Stream(Box::pin(Again { taken, rest })))
    }

    /// It is not wanted once more.
    pub(super) fn forget(&self) {
        self.taken.take();
    }

    fn poll_frame(&self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ClientFailed>>> {
        let polled = Pin::new(&mut *self.rest.borrow_mut()).poll_frame(context);
        self.waits.set(polled.is_pending());
        if polled.is_ready() {
            self.pieces.set(self.pieces.get() + 1);
        }
        polled.map(|frame| {
            frame.map(|frame| match frame {
                Ok(frame) => {
                    self.keep(&frame);
                    Ok(frame)
                }
                Err(error) => {
                    self.error.replace(Some(error));
                    Err(ClientFailed)
                }
            })
        })
    }

    fn keep(&self, frame: &Frame<Bytes>) {
        let mut kept = self.taken.borrow_mut();
        let Some(taken) = &mut *kept else { return };
        taken.bytes += frame.data_ref().map_or(0, Bytes::len);
        match (frame.data_ref(), frame.trailers_ref()) {
            _ if taken.bytes > KEPT_MAX => *kept = None,
            (Some(data), _) => taken.frames.push_back(Frame::data(data.clone())),
            (None, Some(trailers)) => taken.frames.push_back(Frame::trailers(trailers.clone())),
            (None, None) => {}
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = ClientFailed;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientFailed>>> {
        let Self { source, hold } = self.get_mut();
        let polled = match source {
            Source::Whole(body) => Pin::new(body)
                .poll_frame(context)
                .map(|frame| frame.map(|frame| frame.map_err(|_| ClientFailed))),
            Source::Streaming(progress) => progress.poll_frame(context),
        };
        let Some(Hold { held, moved }) = hold else { return polled };
        if polled.is_ready() {
            moved.set(Instant::now());
        }
        let piece = |bytes| Bytes::from_owner(Piece { bytes, _held: Arc::clone(held) });
        polled.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Whole(body) => body.is_end_stream(),
            Source::Streaming(progress) => progress.rest.borrow().is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(body) => body.size_hint(),
            Source::Streaming(progress) => progress.rest.borrow().size_hint(),
        }
    }
}

impl Body for Again {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match this.taken.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => Pin::new(&mut this.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.taken.is_empty() && self.rest.is_end_stream()
    }
}

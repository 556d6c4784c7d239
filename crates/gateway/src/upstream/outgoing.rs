//! A request body on its way out over HTTP/2, watched: whose turn it is, and what went wrong in it.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::patience::Turn;
use crate::body::{BodyError, RequestBody};

/// The body the codec reads.
#[derive(Debug)]
pub(super) struct Outgoing {
    body: RequestBody,
    /// `None` for a body in memory, which keeps nobody waiting and does not fail.
    progress: Option<Rc<Progress>>,
}

/// How far a streaming body has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pieces: Cell<u64>,
    waits: Cell<bool>,
    error: RefCell<Option<BodyError>>,
}

/// What the codec is told when the client's side fails; the cause is in [`Progress`].
#[derive(Debug, thiserror::Error)]
#[error("the request's body failed")]
pub(super) struct ClientFailed;

impl Outgoing {
    pub(super) fn new(body: RequestBody) -> (Self, Option<Rc<Progress>>) {
        let progress = match &body {
            RequestBody::Empty | RequestBody::Whole(_) => None,
            RequestBody::Stream(_) => Some(Rc::new(Progress::default())),
        };
        (Self { body, progress: progress.clone() }, progress)
    }

    pub(super) fn into_inner(self) -> RequestBody {
        self.body
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
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = ClientFailed;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientFailed>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(context);
        if let Some(progress) = &this.progress {
            progress.waits.set(polled.is_pending());
            if polled.is_ready() {
                progress.pieces.set(progress.pieces.get() + 1);
            }
        }
        polled.map(|frame| {
            frame.map(|frame| {
                frame.map_err(|error| {
                    if let Some(progress) = &this.progress {
                        progress.error.replace(Some(error));
                    }
                    ClientFailed
                })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

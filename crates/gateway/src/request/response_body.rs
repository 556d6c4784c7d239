//! The body of a response on its way to a client.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tidegate_runtime::Spooled;

use super::{
    frames::{Frames, length},
    read_ahead::ReadAhead,
    record::Record,
    trailers,
};
use crate::body::BodyError;

/// A response's body. With it travels the request's account, which ends when the body does.
pub(crate) struct ResponseBody {
    content: Content,
    record: Option<Box<Record>>,
}

enum Content {
    /// Nothing, or nothing more.
    Empty,
    /// In memory.
    Whole(Bytes),
    /// In memory, in several pieces or with trailers.
    Pieces(Box<Pieces>),
    /// Read ahead of the client.
    ReadAhead(ReadAhead),
    /// There is no response: the connection is to be broken off.
    Broken,
}

/// Of a body in memory what is still to be given, and the account of its memory.
struct Pieces {
    frames: Frames,
    spooled: Spooled,
}

impl ResponseBody {
    pub(super) const fn empty() -> Self {
        Self { content: Content::Empty, record: None }
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        Self { content: if bytes.is_empty() { Content::Empty } else { Content::Whole(bytes) }, record: None }
    }

    /// What was read to its end.
    pub(super) fn pieces(mut frames: Frames, spooled: Spooled) -> Self {
        if !frames.is_single() || spooled.bytes() > 0 || frames.has_trailers() {
            return Self { content: Content::Pieces(Box::new(Pieces { frames, spooled })), record: None };
        }
        let only = frames.pop().and_then(|frame| frame.into_data().ok());
        only.map_or(Self::empty(), Self::whole)
    }

    pub(super) const fn read_ahead(content: ReadAhead) -> Self {
        Self { content: Content::ReadAhead(content), record: None }
    }

    /// No response at all: nobody is there to get it.
    pub(super) const fn broken() -> Self {
        Self { content: Content::Broken, record: None }
    }

    /// Whether there is no response at all.
    pub(crate) const fn is_broken(&self) -> bool {
        matches!(self.content, Content::Broken)
    }

    /// Lets the account travel along.
    pub(super) fn with_record(mut self, record: Box<Record>) -> Self {
        self.record = Some(record);
        self
    }

    /// Its client has a whole response, and no more of the server's message belongs there: that to HEAD, say, which the server
    /// has yet to end.
    pub(crate) fn suffice(mut self) {
        self.settle(true);
    }

    /// Ends the account. `is_enough`: with a whole response, whatever has come of it.
    fn settle(&mut self, is_enough: bool) {
        let Some(mut record) = self.record.take() else { return };
        if let Content::ReadAhead(content) = &self.content
            && let Some(served) = content.served()
        {
            record.serve(served);
        }
        let has_given_all = match &self.content {
            Content::ReadAhead(content) => content.has_given_all(),
            _ => self.is_end(),
        };
        if is_enough || has_given_all {
            record.finish();
        }
    }

    fn is_end(&self) -> bool {
        match &self.content {
            Content::Empty => true,
            Content::Whole(_) | Content::Broken => false,
            Content::Pieces(pieces) => pieces.frames.is_empty(),
            Content::ReadAhead(content) => content.is_end(),
        }
    }

    /// The next frame, of data at most so many bytes: what is left of it stays where its memory is accounted for.
    pub(crate) fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        most: usize,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = match &mut self.content {
            Content::Empty => None,
            Content::Whole(bytes) => {
                let piece = bytes.split_to(bytes.len().min(most));
                if bytes.is_empty() {
                    self.content = Content::Empty;
                }
                Some(Ok(Frame::data(piece)))
            }
            Content::Pieces(pieces) => pieces.frames.pop_piece(most).map(|frame| {
                pieces.spooled.shrink(length(&frame));
                Ok(frame)
            }),
            Content::ReadAhead(content) => std::task::ready!(content.poll_piece(context, most)),
            Content::Broken => Some(Err(BodyError::Client("it has left".into()))),
        };
        if let (Some(record), Some(result)) = (&mut self.record, &frame) {
            match result {
                Ok(frame) => record.add_bytes_out(length(frame)),
                Err(error) => record.break_off(error),
            }
        }
        Poll::Ready(frame.map(|frame| frame.map(trailers::of_response)))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.get_mut().poll_piece(context, usize::MAX)
    }

    fn is_end_stream(&self) -> bool {
        self.is_end()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty => SizeHint::with_exact(0),
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            // Trailers go only where the length is not announced, or was by the server.
            Content::Pieces(pieces) if pieces.frames.has_trailers() => SizeHint::default(),
            Content::Pieces(pieces) => SizeHint::with_exact(pieces.frames.bytes()),
            Content::ReadAhead(_) | Content::Broken => SizeHint::default(),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.settle(false);
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.content {
            Content::Empty => "Empty",
            Content::Whole(_) => "Whole",
            Content::Pieces(_) => "Pieces",
            Content::ReadAhead(_) => "ReadAhead",
            Content::Broken => "Broken",
        })
    }
}

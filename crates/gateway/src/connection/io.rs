//! The bytes of a client connection: plain or TLS, preceded by what was read of it before.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::{interim::Interim, pulse::Pulse};
use crate::{socket::Rewound, transport::Transport};

/// A client's byte stream, as codecs and upgrades use it. What moves is noted on the connection's
/// pulse.
pub(crate) struct ClientIo {
    /// Bytes that were read already and come first.
    before: Bytes,
    stream: Stream,
    pulse: Rc<Pulse>,
    /// What a codec answers to no request, so of its own accord, is held back: it cannot be told what
    /// to say. `None`: everything is written.
    held_back: Option<Vec<u8>>,
    interim: Option<Rc<Interim>>,
    /// Of interim responses, what has been begun.
    begun: Bytes,
    /// Whether the codec has written everything it had.
    is_flushed: bool,
}

/// What lies below.
pub(crate) type Stream = Transport<TlsStream<Rewound>>;

impl ClientIo {
    /// A stream whose first bytes were read already.
    pub(super) const fn new(stream: Stream, before: Bytes, pulse: Rc<Pulse>) -> Self {
        Self { before, stream, pulse, held_back: None, interim: None, begun: Bytes::new(), is_flushed: true }
    }

    /// The same for a codec of HTTP/1, whose own answers are held back, and by whose side `interim` responses go.
    pub(super) fn for_codec(stream: Stream, before: Bytes, pulse: Rc<Pulse>, interim: Rc<Interim>) -> Self {
        let io = Self::new(stream, before, pulse);
        Self { held_back: Some(Vec::new()), interim: Some(interim), ..io }
    }

    /// What was held back; from now on everything is written.
    pub(super) fn release(&mut self) -> Vec<u8> {
        self.held_back.take().unwrap_or_default()
    }

    /// Holds bytes back that answer no request; whether it did.
    fn hold_back<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]>) -> Option<usize> {
        let held_back = self.held_back.as_mut().filter(|_| !self.pulse.is_asked())?;
        let before = held_back.len();
        slices.for_each(|slice| held_back.extend_from_slice(slice));
        Some(held_back.len() - before)
    }

    /// Writes the interim responses that wait, where that is safe.
    fn poll_interim(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.begun.is_empty()
            && let Some(interim) = &self.interim
        {
            let waiting = interim.take();
            // In the middle of what the codec writes they would be taken for a part of it.
            if self.is_flushed && !waiting.is_empty() {
                self.begun = waiting.into();
            }
        }
        while self.begun.has_remaining() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.begun))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.begun.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    /// The stream below.
    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pulse.reading();
        let before = buffer.filled().len();
        let result = if self.before.has_remaining() {
            let len = self.before.len().min(buffer.remaining());
            buffer.put_slice(&self.before.split_to(len));
            if self.before.is_empty() {
                self.before = Bytes::new();
            }
            Poll::Ready(Ok(()))
        } else {
            Pin::new(&mut self.stream).poll_read(context, buffer)
        };
        match &result {
            Poll::Ready(Ok(())) => self.pulse.read(Some(buffer.filled().len() - before)),
            Poll::Ready(Err(_)) => self.pulse.read(Some(0)),
            Poll::Pending => self.pulse.read(None),
        }
        result
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(held) = self.hold_back(std::iter::once(bytes)) {
            return Poll::Ready(Ok(held));
        }
        ready!(self.poll_interim(context))?;
        self.is_flushed = false;
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.pulse.wrote(result.is_pending());
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(held) = self.hold_back(slices.iter().map(|slice| &**slice)) {
            return Poll::Ready(Ok(held));
        }
        ready!(self.poll_interim(context))?;
        self.is_flushed = false;
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.pulse.wrote(result.is_pending());
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The codec flushes only once it has written everything.
        self.is_flushed = true;
        ready!(self.poll_interim(context))?;
        let result = Pin::new(&mut self.stream).poll_flush(context);
        match result.is_pending() {
            true => self.pulse.wrote(true),
            false => self.pulse.flushed(),
        }
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

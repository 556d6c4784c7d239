//! The bytes of a client connection: plain or TLS, preceded by what was read of it before.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::pulse::Pulse;
use crate::{socket::Rewound, transport::Transport};

/// A client's byte stream, as codecs and upgrades use it. What moves is noted on the connection's
/// pulse.
pub(crate) struct ClientIo {
    /// Bytes that were read already and come first.
    before: Bytes,
    stream: Stream,
    pulse: Rc<Pulse>,
}

/// What lies below.
pub(crate) type Stream = Transport<TlsStream<Rewound>>;

impl ClientIo {
    /// A stream whose first bytes were read already.
    pub(super) const fn new(stream: Stream, before: Bytes, pulse: Rc<Pulse>) -> Self {
        Self { before, stream, pulse }
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
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.pulse.wrote(result.is_pending());
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.pulse.wrote(result.is_pending());
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        if result.is_pending() {
            self.pulse.wrote(true);
        }
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

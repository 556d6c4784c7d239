//! The byte stream to a server, plain or TLS, and what the codec wrote of a request's head.

use std::{
    cell::{Cell, RefCell},
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::{socket::Socket, transport::Transport};

/// A connection's byte stream.
#[derive(Debug)]
pub(crate) struct UpstreamIo {
    stream: Transport<TlsStream<Socket>>,
    trace: Rc<Trace>,
}

/// What went over a connection for the present exchange.
///
/// The codec keeps nothing of a head it has written. So what it writes is remembered here until
/// the response begins: a request that met a stale connection can be rebuilt from it. That costs a
/// copy of some hundred bytes, a third of what cloning each request's header map would.
#[derive(Debug, Default)]
pub(super) struct Trace {
    written: RefCell<Vec<u8>>,
    is_recording: Cell<bool>,
    /// Whether anything of the exchange went out.
    has_sent: Cell<bool>,
    /// Whether anything came back.
    has_received: Cell<bool>,
    /// Whether the server has stopped listening.
    is_broken: Cell<bool>,
}

impl UpstreamIo {
    pub(super) fn plain(socket: Socket) -> Self {
        Self { stream: Transport::Plain(socket), trace: Rc::default() }
    }

    pub(super) fn tls(stream: TlsStream<Socket>) -> Self {
        Self { stream: Transport::Tls(Box::new(stream)), trace: Rc::default() }
    }

    pub(super) fn trace(&self) -> Rc<Trace> {
        Rc::clone(&self.trace)
    }
}

impl Trace {
    /// More is not remembered: then the request cannot be rebuilt.
    const WRITTEN_MAX: usize = 64 * 1024;
    /// Room that a connection keeps from one exchange to the next.
    const KEPT: usize = 4 * 1024;

    /// A new exchange begins; `record` says whether its head is to be remembered.
    pub(super) fn begin(&self, record: bool) {
        self.written.borrow_mut().clear();
        self.is_recording.set(record);
        self.has_sent.set(false);
        self.has_received.set(false);
    }

    /// The response has begun: what was written is not needed any more.
    pub(super) fn forget(&self) {
        self.is_recording.set(false);
        let mut written = self.written.borrow_mut();
        written.clear();
        if written.capacity() > Self::KEPT {
            written.shrink_to(Self::KEPT);
        }
    }

    /// What was written since the exchange began; `None` if it was not recorded whole.
    pub(super) fn written(&self) -> Option<Vec<u8>> {
        self.is_recording.get().then(|| self.written.take())
    }

    /// Whether the kernel has taken anything of the exchange.
    pub(super) fn has_sent(&self) -> bool {
        self.has_sent.get()
    }

    /// Whether anything has come back.
    pub(super) fn has_received(&self) -> bool {
        self.has_received.get()
    }

    fn record<'a>(&self, slices: impl Iterator<Item = &'a [u8]>, limit: usize) {
        if !self.is_recording.get() {
            return;
        }
        let mut written = self.written.borrow_mut();
        let mut left = limit;
        for slice in slices {
            let slice = slice.get(..left).unwrap_or(slice);
            if written.len() + slice.len() > Self::WRITTEN_MAX {
                self.is_recording.set(false);
                return;
            }
            written.extend_from_slice(slice);
            left -= slice.len();
        }
    }

    /// Whether the server has stopped listening: the connection is good for no other exchange.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// Takes note of an attempt to write, and says what the codec is to be told of it.
    ///
    /// A server that answers before it has read the whole request may close at once, and the next
    /// write fails while its answer is still to be read. The codec would give up; so it is told
    /// that all is well once something of the request has gone out, and what has really become of
    /// the connection the reading side finds out. A first write that fails is told as it is: nothing
    /// has reached the server then. What it offered is remembered, since it is not offered again.
    fn note<'a>(
        &self,
        result: Poll<io::Result<usize>>,
        slices: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Poll<io::Result<usize>> {
        match result {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(taken)) => {
                self.has_sent.set(true);
                self.record(slices, taken);
                Poll::Ready(Ok(taken))
            }
            Poll::Ready(Err(_)) if self.has_sent.get() => {
                self.is_broken.set(true);
                Poll::Ready(Ok(slices.map(<[u8]>::len).sum()))
            }
            Poll::Ready(Err(error)) => {
                self.record(slices, usize::MAX);
                Poll::Ready(Err(error))
            }
        }
    }
}

impl AsyncRead for UpstreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.trace.has_received.set(true);
        }
        result
    }
}

impl AsyncWrite for UpstreamIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.trace.note(result, std::iter::once(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.trace.note(result, slices.iter().map(|slice| &**slice))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

//! A byte stream to a client or to a server: plain or TLS.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use crate::socket::Socket;

/// Bytes that a TLS record carries at most (RFC 8446, section 5.1).
const RECORD_MAX: usize = 16 * 1024;

/// A stream; `T` is what speaks TLS.
#[derive(Debug)]
pub(crate) enum Transport<T> {
    /// No TLS.
    Plain(Socket),
    /// TLS, its handshake done.
    Tls(Box<T>),
}

/// Calls the same method of whichever stream it is, pinned.
macro_rules! either {
    ($transport:expr, $stream:ident => $call:expr) => {
        match $transport.get_mut() {
            Transport::Plain(socket) => {
                let $stream = Pin::new(socket);
                $call
            }
            Transport::Tls(stream) => {
                let $stream = Pin::new(&mut **stream);
                $call
            }
        }
    };
}

impl<T: AsyncRead + AsyncBufRead + Unpin> AsyncRead for Transport<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(stream) if buffer.remaining() < RECORD_MAX => {
                poll_record(Pin::new(&mut **stream), context, buffer)
            }
            Self::Tls(stream) => Pin::new(&mut **stream).poll_read(context, buffer),
        }
    }
}

/// Reads one record, or what there is room for. The stream's own `poll_read` looks for the next one as well, which behind a
/// short message is for nothing.
fn poll_record<T: AsyncBufRead>(
    mut stream: Pin<&mut T>,
    context: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let record = ready!(stream.as_mut().poll_fill_buf(context))?;
    let len = record.len().min(buffer.remaining());
    buffer.put_slice(&record[..len]);
    stream.consume(len);
    Poll::Ready(Ok(()))
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Transport<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(context))
    }
}

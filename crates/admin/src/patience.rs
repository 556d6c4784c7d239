//! A connection whose peer has to take what it is sent: one that takes nothing is cut.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

/// How long a peer may take nothing while something is to be sent.
const PATIENCE: Duration = Duration::from_secs(30);

/// A stream with a bound on the time of each write.
#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while a write waits.
    timeout: Pin<Box<Sleep>>,
    waits: bool,
}

impl<S> Patient<S> {
    /// Watches the writes to `stream`.
    pub(crate) fn new(stream: S) -> Self {
        Self::within(stream, PATIENCE)
    }

    fn within(stream: S, patience: Duration) -> Self {
        Self { stream, patience, timeout: Box::pin(tokio::time::sleep(Duration::ZERO)), waits: false }
    }

    /// The outcome of a write, or an error when it has waited for too long.
    fn bounded<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waits = false;
            return outcome;
        }
        if !self.waits {
            self.waits = true;
            self.timeout.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.timeout.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.bounded(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_cut() {
        let (ours, _theirs) = duplex(4);
        let mut ours = Patient::within(ours, Duration::from_millis(10));
        ours.write_all(&[0; 4]).await.unwrap();
        assert_eq!(ours.write_all(&[0]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn one_that_takes_it_bit_by_bit_gets_all() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = Patient::new(ours);
        let writes = tokio::spawn(async move { ours.write_all(&[7; 12]).await });
        let mut taken = [0; 12];
        theirs.read_exact(&mut taken).await.unwrap();
        writes.await.unwrap().unwrap();
        assert_eq!(taken, [7; 12]);
    }
}

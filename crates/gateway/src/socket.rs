//! A client's socket: read and written by a codec, and watched at the same time for the client's departure.

use std::{
    cell::RefCell,
    io::{self, IoSlice},
    net::Shutdown,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use socket2::SockRef;
use tidegate_control::knobs::HalfClosed;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// Bytes that the kernel takes beyond what the network has room for (`TCP_NOTSENT_LOWAT`). By itself it takes megabytes,
/// and says nothing of what the other end takes until a third of them has gone: that of a slow reader would be
/// minutes without a sign of life, and memory that nobody counts.
pub(crate) const UNSENT_MAX: u32 = 256 * 1024;

/// Bytes in several slices that are brought together before they are written: to copy so few costs less than the way
/// of a vectored write through the kernel.
const GATHERED_MAX: usize = 4 * 1024;

thread_local! {
    /// Room to bring slices together.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A stream socket, shared between the codec that reads and writes it and whoever watches it.
/// Cheap to clone; closed when the last clone goes.
#[derive(Clone, Debug)]
pub(crate) struct Socket {
    /// Counted across threads, since a handshake may be computed on another one; polled on one only.
    stream: Arc<Stream>,
}

/// A socket whose first bytes were read already.
#[derive(Debug)]
pub(crate) struct Rewound {
    /// Those bytes.
    pub(crate) before: Bytes,
    /// What comes after them.
    pub(crate) socket: Socket,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Calls the same method of whichever stream it is.
macro_rules! either {
    ($stream:expr, $inner:ident => $call:expr) => {
        match &*$stream {
            Stream::Tcp($inner) => $call,
            Stream::Unix($inner) => $call,
        }
    };
}

impl Socket {
    /// A client's TCP connection.
    pub(crate) fn tcp(stream: TcpStream) -> Self {
        Self { stream: Arc::new(Stream::Tcp(stream)) }
    }

    /// A client's connection to a Unix socket.
    pub(crate) fn unix(stream: UnixStream) -> Self {
        Self { stream: Arc::new(Stream::Unix(stream)) }
    }

    /// Waits until there is something to read, or the peer has closed.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        either!(self.stream, stream => stream.readable().await)
    }

    /// Reads what is there into `buffer`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] when nothing is.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        either!(self.stream, stream => stream.try_read(buffer))
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] when there is none.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        either!(self.stream, stream => stream.try_write(bytes))
    }

    /// The same for `len` bytes in several slices, by the cheapest system call.
    fn try_write_slices(&self, slices: &[IoSlice<'_>], len: usize) -> io::Result<usize> {
        match slices {
            [only] => self.try_write(only),
            _ if len <= GATHERED_MAX => GATHERED.with_borrow_mut(|gathered| {
                gathered.clear();
                slices.iter().for_each(|slice| gathered.extend_from_slice(slice));
                self.try_write(gathered)
            }),
            _ => either!(self.stream, stream => stream.try_write_vectored(slices)),
        }
    }

    /// Resolves when the client has gone, whatever of it is still unread. A client that has only
    /// closed its sending half looks just like one that has closed altogether until something is
    /// sent to it; `half_closed` says which of the two to take it for.
    pub(crate) async fn departed(&self, half_closed: HalfClosed) {
        let interest = match half_closed {
            // Nothing is ever received as "priority": what fires is the end of the stream, which
            // belongs to every interest in reading.
            HalfClosed::Gone => Interest::PRIORITY,
            HalfClosed::Waits => Interest::ERROR,
        };
        // An error here means that the runtime is going away, and with it the client.
        let _ = either!(self.stream, stream => stream.ready(interest).await);
    }

    /// Closes with a reset as soon as the last clone goes: nothing lingers, nothing is sent.
    pub(crate) fn reset_on_close(&self) {
        let socket = either!(self.stream, stream => SockRef::from(stream));
        let _ = socket.set_linger(Some(Duration::ZERO));
    }

    fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.stream, stream => stream.poll_read_ready(context))
    }

    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.stream, stream => stream.poll_write_ready(context))
    }

    /// After a short read or write the next one would block: says so to the reactor and saves the
    /// system call that would find out (the readiness is edge-triggered, so nothing is lost).
    fn forget_readiness(&self, interest: Interest) {
        let would_block = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = either!(self.stream, stream => stream.try_io(interest, would_block));
    }

    fn poll_write_with(
        &self,
        context: &mut Context<'_>,
        len: usize,
        write: impl Fn() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_write_ready(context))?;
            match write() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(written) => {
                    if written > 0 && written < len {
                        self.forget_readiness(Interest::WRITABLE);
                    }
                    return Poll::Ready(Ok(written));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.remaining();
        loop {
            ready!(self.poll_read_ready(context))?;
            match either!(self.stream, stream => stream.try_read_buf(buffer)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(read) => {
                    if read > 0 && read < room {
                        self.forget_readiness(Interest::READABLE);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(context, bytes.len(), || self.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = slices.iter().map(|slice| slice.len()).sum();
        self.poll_write_with(context, len, || self.try_write_slices(slices, len))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = either!(self.stream, stream => SockRef::from(stream));
        match socket.shutdown(Shutdown::Write) {
            // The peer was faster.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            result => Poll::Ready(result),
        }
    }
}

impl AsyncRead for Rewound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.before.has_remaining() {
            let len = self.before.len().min(buffer.remaining());
            buffer.put_slice(&self.before.split_to(len));
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn run<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(20), future).await.expect("in time") })
    }

    async fn pair() -> (Socket, std::net::TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Socket::tcp(listener.accept().await.unwrap().0), client)
    }

    async fn is_there(socket: &Socket, half_closed: HalfClosed) -> bool {
        tokio::time::timeout(Duration::from_millis(50), socket.departed(half_closed)).await.is_err()
    }

    /// What departures rest on: tokio counts the end of a stream to interest in priority, whatever
    /// lies unread before it, and a reset to interest in errors.
    #[test]
    fn a_departure_is_seen_whatever_is_unread() {
        run(async {
            let (socket, mut client) = pair().await;
            client.write_all(&[0; 100_000]).unwrap();
            assert!(is_there(&socket, HalfClosed::Gone).await);
            client.shutdown(Shutdown::Write).unwrap();
            socket.departed(HalfClosed::Gone).await;
            // It may still read, unless it resets: that is what closing with bytes unread does.
            assert!(is_there(&socket, HalfClosed::Waits).await);
            socket.clone().write_all(b"unread").await.unwrap();
            client.read_exact(&mut [0]).unwrap();
            drop(client);
            socket.departed(HalfClosed::Waits).await;
        });
    }

    /// Giving up readiness after a short read loses nothing: bytes that come later are announced.
    #[test]
    fn everything_is_read_and_written_however_it_is_cut() {
        run(async {
            let (mut socket, mut client) = pair().await;
            let echo = std::thread::spawn(move || {
                let mut bytes = vec![0; 300_000];
                client.read_exact(&mut bytes).unwrap();
                for chunk in bytes.chunks(1_000) {
                    client.write_all(chunk).unwrap();
                }
            });
            let sent: Vec<u8> = (0..300_000_u32).flat_map(|n| n.to_le_bytes()).take(300_000).collect();
            socket.write_all(&sent).await.unwrap();
            let mut received = Vec::new();
            let mut buffer = [0; 777];
            loop {
                match socket.read(&mut buffer).await.unwrap() {
                    0 => break,
                    len => received.extend_from_slice(&buffer[..len]),
                }
            }
            echo.join().unwrap();
            assert!(received == sent);
        });
    }

    #[test]
    fn slices_go_out_in_order_however_many_and_large() {
        run(async {
            let (mut socket, mut client) = pair().await;
            for lens in [&[7][..], &[0, 5, 0], &[300, 1024], &[GATHERED_MAX, 1], &[3000, 3000, 10_000]] {
                let pieces: Vec<Vec<u8>> = (1..).zip(lens).map(|(n, len)| vec![n; *len]).collect();
                let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
                let written = socket.write_vectored(&slices).await.unwrap();
                assert!(written > 0, "{lens:?}");
                let mut received = vec![0; written];
                client.read_exact(&mut received).unwrap();
                assert!(pieces.concat().starts_with(&received), "{lens:?}");
            }
        });
    }

    #[test]
    fn a_reset_leaves_nothing_behind() {
        run(async {
            let (socket, mut client) = pair().await;
            socket.reset_on_close();
            drop(socket);
            assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        });
    }
}

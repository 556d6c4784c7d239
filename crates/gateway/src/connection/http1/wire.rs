//! What lies on the wire of a connection: bytes read and not taken yet, and the body that comes next.

use std::{
    cell::RefCell,
    future::Future,
    io,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::io::AsyncReadExt;

use super::super::{ClientIo, interim::Interim};
use crate::http1::{Decoded, Decoder};

/// Bytes that there is room for at each reading, and at most: a large body is read in large pieces.
const READ_MIN: usize = 8 * 1024;
const READ_MAX: usize = 64 * 1024;

/// The reading side of a connection, shared with whoever reads a request's body.
pub(super) struct Wire {
    /// `None` once the connection is somebody else's.
    io: Option<ClientIo>,
    /// Read and not taken yet.
    pub(super) input: BytesMut,
    /// Whether the last reading filled the room there was.
    is_full: bool,
    /// What is still to come of the request's body.
    body: Decoder,
    expects_continue: bool,
    /// Which body of the connection it is. Somebody may hold on to one before it.
    number: u64,
    /// Whether somebody wants it.
    is_wanted: bool,
    /// Who is told when nobody wants it any more.
    waiter: Option<Waker>,
    interim: Rc<Interim>,
}

/// A request's body: read when it is asked for, by whoever asks.
pub(crate) struct Upload {
    wire: Rc<RefCell<Wire>>,
    number: u64,
}

impl Wire {
    pub(super) const fn new(io: ClientIo, input: BytesMut, interim: Rc<Interim>) -> Self {
        Self {
            io: Some(io),
            input,
            is_full: false,
            body: Decoder::Ended,
            expects_continue: false,
            number: 0,
            is_wanted: false,
            waiter: None,
            interim,
        }
    }

    /// The byte stream, for writing; `None` once it is somebody else's.
    pub(super) const fn io(&mut self) -> Option<&mut ClientIo> {
        self.io.as_mut()
    }

    /// Gives the byte stream away, and what was read of it.
    pub(super) fn take(&mut self) -> Option<(ClientIo, BytesMut)> {
        Some((self.io.take()?, std::mem::take(&mut self.input)))
    }

    /// Reads what there is; 0 at the end of the connection.
    pub(super) fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(io) = &mut self.io else { return Poll::Ready(Ok(0)) };
        // A client that sends little at a time is not given much room.
        let most = if self.is_full { READ_MAX } else { READ_MIN };
        let wanted = self.body.wanted(READ_MIN, most);
        // Costs nothing as long as nobody else holds what was read before, and there is room in its place.
        if self.input.capacity() - self.input.len() < wanted && !self.input.try_reclaim(wanted) {
            // Not `reserve`: where the place grows, it moves what was taken out of it long ago along.
            let mut larger = BytesMut::with_capacity(self.input.len() + wanted);
            larger.extend_from_slice(&self.input);
            self.input = larger;
        }
        let room = self.input.capacity() - self.input.len();
        let read = ready!(pin!(io.read_buf(&mut self.input)).poll(context))?;
        self.is_full = read == room;
        Poll::Ready(Ok(read))
    }

    /// Gives the room for reading back, unless something is in it.
    pub(super) fn give_room_back(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
    }

    /// The request's body comes next; `None` if there is none.
    pub(super) fn expect(wire: &Rc<RefCell<Self>>, body: Decoder, expects_continue: bool) -> Option<Upload> {
        let mut this = wire.borrow_mut();
        (this.body, this.expects_continue) = (body, expects_continue);
        this.number += 1;
        this.is_wanted = body != Decoder::Ended;
        this.is_wanted.then(|| Upload { wire: Rc::clone(wire), number: this.number })
    }

    /// Whether all of the body has been read.
    pub(super) fn is_read(&self) -> bool {
        self.body == Decoder::Ended
    }

    /// Whether something of the body is still to come that somebody wants, who will tell when it is over.
    pub(super) fn is_wanted(&mut self, context: &Context<'_>) -> bool {
        let is_wanted = self.is_wanted && !self.is_read();
        if is_wanted {
            self.waiter = Some(context.waker().clone());
        }
        is_wanted
    }

    /// The response is there: a body that nobody wants is gone over as far as it has come. Whether the next request can be
    /// read behind it, for all that is known.
    pub(super) fn answer(&mut self) -> bool {
        self.expects_continue = false;
        let mut has_read = false;
        while !self.is_wanted && !self.is_read() {
            match self.body.decode(&mut self.input) {
                Ok(Decoded::Frame(_) | Decoded::End) => {}
                Ok(Decoded::More) if !has_read => {
                    has_read = true;
                    let quiet = &mut Context::from_waker(Waker::noop());
                    if !matches!(self.poll_read(quiet), Poll::Ready(Ok(1..))) {
                        self.wants_nothing();
                        return false;
                    }
                }
                Ok(Decoded::More) | Err(_) => return false,
            }
        }
        true
    }

    /// The next frame of the body.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        if std::mem::take(&mut self.expects_continue) && self.input.is_empty() {
            self.interim.go_on();
        }
        Poll::Ready(loop {
            match self.body.decode(&mut self.input) {
                Ok(Decoded::Frame(frame)) => break Some(Ok(frame)),
                Ok(Decoded::End) => break None,
                Ok(Decoded::More) => {}
                Err(malformed) => break Some(Err(malformed.to_string())),
            }
            match ready!(self.poll_read(context)) {
                Ok(0) => break Some(Err("the connection ended within the body".into())),
                Ok(_) => {}
                Err(error) => break Some(Err(error.to_string())),
            }
        })
    }

    /// Nobody waits for what the client may send: it is not slow if it sends nothing.
    fn wants_nothing(&self) {
        if let Some(io) = &self.io {
            io.wants_nothing();
        }
    }

    fn tell(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        let mut wire = self.wire.borrow_mut();
        if wire.number == self.number { wire.poll_frame(context) } else { Poll::Ready(None) }
    }

    fn is_end_stream(&self) -> bool {
        let wire = self.wire.borrow();
        wire.number != self.number || wire.is_read()
    }

    fn size_hint(&self) -> SizeHint {
        let wire = self.wire.borrow();
        match wire.body {
            _ if wire.number != self.number => SizeHint::with_exact(0),
            Decoder::Ended => SizeHint::with_exact(0),
            Decoder::Length(left) => SizeHint::with_exact(left),
            _ => SizeHint::default(),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let mut wire = self.wire.borrow_mut();
        if wire.number == self.number {
            wire.is_wanted = false;
            wire.wants_nothing();
            wire.tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::{io::AsyncWriteExt, net::UnixStream, runtime::LocalRuntime};

    use super::*;
    use crate::{
        connection::{Pulses, io::Stream},
        socket::Socket,
    };

    /// A wire, and its client.
    fn bed() -> (Rc<RefCell<Wire>>, UnixStream) {
        let (client, server) = UnixStream::pair().unwrap();
        let pulse = Rc::clone(Rc::new(Pulses::default()).register().pulse());
        let io = ClientIo::new(Stream::Plain(Socket::unix(server)), Bytes::new(), pulse);
        (Rc::new(RefCell::new(Wire::new(io, BytesMut::new(), Rc::default()))), client)
    }

    fn run(test: impl Future<Output = ()>) {
        LocalRuntime::new().unwrap().block_on(test);
    }

    #[test]
    fn a_body_ends_where_it_says_and_what_is_behind_stays() {
        run(async {
            let (wire, mut client) = bed();
            let mut upload = Wire::expect(&wire, Decoder::Length(5), false).unwrap();
            client.write_all(b"helloGET /").await.unwrap();
            let mut body = Vec::new();
            while let Some(frame) = upload.frame().await {
                body.extend_from_slice(&frame.unwrap().into_data().unwrap());
            }
            assert_eq!(body, b"hello");
            assert!(upload.is_end_stream() && wire.borrow().is_read());
            wire.borrow_mut().give_room_back();
            assert_eq!(wire.borrow().input, b"GET /"[..]);
            wire.borrow_mut().input.clear();
            wire.borrow_mut().give_room_back();
            assert_eq!(wire.borrow().input.capacity(), 0);
        });
    }

    #[test]
    fn whoever_holds_on_to_a_body_gets_nothing_of_the_next() {
        run(async {
            let (wire, mut client) = bed();
            client.write_all(b"firstsecond").await.unwrap();
            let mut first = Wire::expect(&wire, Decoder::Length(5), false).unwrap();
            assert_eq!(first.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
            let mut second = Wire::expect(&wire, Decoder::Length(6), false).unwrap();
            assert!(first.frame().await.is_none() && first.is_end_stream());
            drop(first);
            assert!(wire.borrow_mut().is_wanted(&Context::from_waker(Waker::noop())));
            assert_eq!(second.frame().await.unwrap().unwrap().into_data().unwrap(), "second");
        });
    }

    #[test]
    fn what_nobody_wants_is_skipped_if_it_is_there() {
        for (sent, expected) in [("hello", true), ("hel", false), ("", false)] {
            run(async {
                let (wire, _client) = bed();
                drop(Wire::expect(&wire, Decoder::Length(5), false));
                wire.borrow_mut().input.extend_from_slice(sent.as_bytes());
                assert_eq!(wire.borrow_mut().answer(), expected, "{sent}");
            });
        }
    }

    #[test]
    fn a_connection_that_ends_within_a_body_is_told() {
        run(async {
            let (wire, mut client) = bed();
            let mut upload = Wire::expect(&wire, Decoder::Size, false).unwrap();
            client.write_all(b"5\r\nhel").await.unwrap();
            drop(client);
            assert_eq!(upload.frame().await.unwrap().unwrap().into_data().unwrap(), "hel");
            assert!(upload.frame().await.unwrap().is_err());
            drop(upload);
            assert!(!wire.borrow_mut().answer());
        });
    }
}

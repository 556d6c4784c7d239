//! A message on its way onto the wire: a head, and a body by its length, in chunks, or to the end of the connection
//! (RFC 9112, sections 6 and 7).

use std::{
    io::{self, IoSlice, Write},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, header::TRAILER};
use http_body::Frame;
use tokio::io::AsyncWrite;

use super::fields::members;

/// Room made at once, and kept from one message to the next. What grew to its size by and by would leave holes between
/// what lasts, where thousands of connections fall idle.
const KEPT: usize = 8 * 1024;
/// A piece of a body as short as this is copied behind what is before it: to write it by itself costs more.
const COPIED_MAX: usize = 4 * 1024;
/// As long as no more than this waits, short pieces still go behind it.
const GATHERED_MAX: usize = 16 * 1024;

/// What of a message is still to be written.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// The head, sizes of chunks, short pieces; comes before the piece.
    lead: Vec<u8>,
    /// Bytes of it that are written.
    led: usize,
    piece: Bytes,
    /// Comes after the piece.
    tail: &'static [u8],
    rest: Rest,
}

/// What is still to come of a body.
#[derive(Debug, Default)]
pub(crate) enum Rest {
    /// Nothing.
    #[default]
    Nothing,
    /// So many bytes.
    Length(u64),
    /// Chunks, and then those trailers that were announced.
    Chunks {
        /// The names of the trailers.
        announced: Vec<HeaderName>,
    },
    /// Whatever comes until the connection ends.
    ToEnd,
}

/// A body is not as long as was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherLength;

impl Outgoing {
    /// Room for a head, behind what still waits to be written.
    pub(crate) fn head(&mut self) -> &mut Vec<u8> {
        if self.led == self.lead.len() {
            self.lead.clear();
            self.lead.shrink_to(KEPT);
            self.lead.reserve_exact(KEPT);
            self.led = 0;
        }
        &mut self.lead
    }

    /// What comes behind the head: `piece` at once, then the rest as it is pushed.
    pub(crate) fn follow(&mut self, piece: Bytes, rest: Rest) {
        (self.piece, self.tail, self.rest) = (piece, b"", rest);
    }

    /// Whether something waits to be written.
    pub(crate) fn has_bytes(&self) -> bool {
        self.led < self.lead.len() || !self.piece.is_empty() || !self.tail.is_empty()
    }

    /// Whether more of the body is to come.
    pub(crate) const fn wants_more(&self) -> bool {
        !matches!(self.rest, Rest::Nothing)
    }

    /// Whether the body ends with the connection.
    pub(crate) const fn ends_with_connection(&self) -> bool {
        matches!(self.rest, Rest::ToEnd)
    }

    /// Whether another frame has a place behind what waits. Behind what is written in part it has none: that would
    /// grow for as long as a slow peer never takes all of it.
    pub(crate) fn has_room(&self) -> bool {
        let is_short = self.led == self.lead.len() || (self.led == 0 && self.lead.len() < GATHERED_MAX);
        is_short && self.piece.is_empty() && self.tail.is_empty()
    }

    /// Writes some of what waits.
    ///
    /// # Errors
    ///
    /// Those of `io`, and [`io::ErrorKind::WriteZero`] where it takes nothing.
    pub(crate) fn poll_write(
        &mut self,
        io: Pin<&mut impl AsyncWrite>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let written = ready!(match self.slices() {
            // Most messages are a head and little else: the plainer system call is the cheaper one.
            [lead, piece, tail] if piece.is_empty() && tail.is_empty() => io.poll_write(context, &lead),
            slices => io.poll_write_vectored(context, &slices),
        })?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.advance(written);
        Poll::Ready(Ok(()))
    }

    /// What waits to be written.
    pub(crate) fn slices(&self) -> [IoSlice<'_>; 3] {
        [IoSlice::new(&self.lead[self.led..]), IoSlice::new(&self.piece), IoSlice::new(self.tail)]
    }

    /// So many bytes are written.
    pub(crate) fn advance(&mut self, mut written: usize) {
        let of_lead = written.min(self.lead.len() - self.led);
        self.led += of_lead;
        written -= of_lead;
        let of_piece = written.min(self.piece.len());
        self.piece.advance(of_piece);
        written -= of_piece;
        self.tail = self.tail.get(written..).unwrap_or_default();
        if self.piece.is_empty() {
            // What it is a part of may be given back.
            self.piece = Bytes::new();
        }
    }

    /// Gives the room for heads back, unless something waits in it.
    pub(crate) fn give_room_back(&mut self) {
        if !self.has_bytes() {
            self.lead = Vec::new();
            self.led = 0;
        }
    }

    /// Nothing more of it is written.
    pub(crate) fn abandon(&mut self) {
        self.led = self.lead.len();
        (self.piece, self.tail, self.rest) = (Bytes::new(), b"", Rest::Nothing);
    }

    /// The next frame of the body, where it [has room](Self::has_room); `None` at its end. `is_last`: it is known that
    /// no other comes.
    ///
    /// # Errors
    ///
    /// [`OtherLength`] if the body is not as long as was said.
    pub(crate) fn push(&mut self, frame: Option<Frame<Bytes>>, is_last: bool) -> Result<(), OtherLength> {
        let data = match frame.map(Frame::into_data) {
            Some(Ok(data)) => data,
            Some(Err(frame)) => return self.finish(frame.into_trailers().ok()),
            None => return self.finish(None),
        };
        match &mut self.rest {
            Rest::Nothing => return Err(OtherLength),
            Rest::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or(OtherLength)?;
                let left = *left;
                self.data(data, b"");
                match (left, is_last) {
                    (0, _) => self.rest = Rest::Nothing,
                    (_, true) => return Err(OtherLength),
                    (_, false) => {}
                }
            }
            // An empty chunk would be the last.
            Rest::Chunks { .. } if data.is_empty() && !is_last => {}
            Rest::Chunks { .. } if data.is_empty() => return self.finish(None),
            Rest::Chunks { .. } => {
                // Writing to memory does not fail.
                let _ = write!(self.head(), "{:x}\r\n", data.len());
                self.data(data, if is_last { b"\r\n0\r\n\r\n" } else { b"\r\n" });
                if is_last {
                    self.rest = Rest::Nothing;
                }
            }
            Rest::ToEnd => {
                self.data(data, b"");
                if is_last {
                    self.rest = Rest::Nothing;
                }
            }
        }
        Ok(())
    }

    /// Data, and what comes behind it.
    fn data(&mut self, data: Bytes, tail: &'static [u8]) {
        if data.len() <= COPIED_MAX {
            let lead = self.head();
            lead.extend_from_slice(&data);
            lead.extend_from_slice(tail);
        } else {
            (self.piece, self.tail) = (data, tail);
        }
    }

    fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), OtherLength> {
        match std::mem::take(&mut self.rest) {
            Rest::Nothing | Rest::Length(0) | Rest::ToEnd => Ok(()),
            Rest::Length(_) => Err(OtherLength),
            Rest::Chunks { announced } => {
                let lead = self.head();
                lead.extend_from_slice(b"0\r\n");
                for (name, value) in trailers.iter().flatten().filter(|(name, _)| announced.contains(name)) {
                    field(lead, name.as_str().as_bytes(), value.as_bytes());
                }
                lead.extend_from_slice(b"\r\n");
                Ok(())
            }
        }
    }
}

/// Writes a field.
pub(crate) fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    // Each by itself: of a loop over them none has a length that the compiler knows.
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The trailers a head announces.
pub(crate) fn announced_trailers(headers: &HeaderMap) -> Vec<HeaderName> {
    let names = headers.get_all(TRAILER).iter().flat_map(members);
    names.filter_map(|name| HeaderName::from_bytes(name).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// All that waits, by a stream that takes so many bytes at a time.
    fn written(out: &mut Outgoing, step: usize) -> String {
        struct Slow(Vec<u8>, usize);
        impl AsyncWrite for Slow {
            fn poll_write(
                mut self: Pin<&mut Self>,
                _context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                let len = bytes.len().min(self.1);
                self.0.extend_from_slice(&bytes[..len]);
                Poll::Ready(Ok(len))
            }

            fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
        }
        let mut slow = Slow(Vec::new(), step);
        while out.has_bytes() {
            let context = &mut Context::from_waker(Waker::noop());
            assert!(matches!(out.poll_write(Pin::new(&mut slow), context), Poll::Ready(Ok(()))));
        }
        String::from_utf8(slow.0).unwrap()
    }

    fn begun(rest: Rest) -> Outgoing {
        let mut out = Outgoing::default();
        out.head().extend_from_slice(b"HEAD ");
        out.follow(Bytes::new(), rest);
        out
    }

    fn chunks() -> Rest {
        Rest::Chunks { announced: Vec::new() }
    }

    #[test]
    fn short_pieces_go_together_and_the_last_brings_the_end_along() {
        for step in [1, 5, 1000] {
            let mut out = begun(chunks());
            for (text, is_last) in [("abc", false), ("", false), ("0123456789abcdefg", true)] {
                assert!(out.has_room());
                out.push(Some(Frame::data(text.into())), is_last).unwrap();
            }
            assert!(!out.wants_more());
            assert_eq!(written(&mut out, step), "HEAD 3\r\nabc\r\n11\r\n0123456789abcdefg\r\n0\r\n\r\n");
        }
    }

    #[test]
    fn a_long_piece_is_not_copied_and_nothing_goes_behind_it() {
        let long = "x".repeat(COPIED_MAX + 1);
        for (rest, before, after) in
            [(chunks(), format!("{:x}\r\n", long.len()), "\r\n0\r\n\r\n"), (Rest::ToEnd, String::new(), "")]
        {
            let mut out = begun(rest);
            out.push(Some(Frame::data(long.clone().into())), true).unwrap();
            assert!(!out.has_room() && !out.wants_more());
            assert_eq!(written(&mut out, 1000), format!("HEAD {before}{long}{after}"));
            assert!(out.has_room());
        }
    }

    #[test]
    fn what_waits_is_bounded_however_slowly_it_is_taken() {
        let mut out = begun(Rest::ToEnd);
        let mut taken = 0;
        for _ in 0..1000 {
            while out.has_room() {
                out.push(Some(Frame::data(vec![b'x'; 1000].into())), false).unwrap();
            }
            assert!(out.lead.len() < GATHERED_MAX + 1000);
            out.advance(1000);
            taken += 1000;
        }
        assert_eq!(taken, 1_000_000);
    }

    #[test]
    fn a_length_that_was_said_is_kept_to() {
        let push = |length, text: &'static str, is_last| {
            let mut out = begun(Rest::Length(length));
            out.push(Some(Frame::data(text.into())), is_last).map(|()| written(&mut out, 9))
        };
        assert_eq!(push(3, "abc", false), Ok("HEAD abc".into()));
        assert_eq!(push(4, "abc", false), Ok("HEAD abc".into()));
        assert_eq!(push(4, "abc", true), Err(OtherLength));
        assert_eq!(push(2, "abc", true), Err(OtherLength));
        let mut out = begun(Rest::Length(3));
        assert_eq!(out.push(None, false), Err(OtherLength));
    }
}

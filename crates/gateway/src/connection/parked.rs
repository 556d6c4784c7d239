//! A connection between requests: its socket, its TLS session if it has one, and nothing else until a
//! request's head is there.
//!
//! The head is read through the core's scratch buffer. Once it is complete it is judged; if the
//! request must wait, socket and head are all that is held until the verdict, and only then a codec
//! with its buffers is set up, which gets the same bytes. What is in any way out of the ordinary
//! goes to the codec unjudged: it alone decides what a request is.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderName, header};
use tokio::io::{AsyncRead, ReadBuf};

use super::{
    Connection,
    http1::head::{self, Bounds, Head},
    io::Stream,
    pulse::{Order, Phase},
};
use crate::{http1::Room, request::Judged, workers::Worker};

/// What a parked connection wakes up to.
pub(super) enum Woken {
    /// Bytes for the HTTP/1 codec, and the verdict on the first request in them.
    Http1 {
        /// The bytes.
        before: Bytes,
        /// The verdict, if it was asked for.
        judged: Option<Judged>,
    },
    /// HTTP/2 by prior knowledge, and the bytes of it so far.
    Http2(Bytes),
    /// The rest of the head takes too long.
    Late,
    /// The client has gone, or was idle for too long.
    Ended,
}

/// How an HTTP/2 connection begins (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Waits for the next request; `before` are bytes of it read already. Only the `first` of a plain connection may
/// turn out to be HTTP/2.
pub(super) async fn wait(
    worker: &Rc<Worker>,
    connection: &Rc<Connection>,
    stream: &mut Stream,
    before: Bytes,
    first: bool,
) -> Woken {
    let limits = worker.limits();
    let mut partial = Vec::new();
    let pulse = connection.pulse();
    match before.is_empty() {
        true => pulse.park(),
        false => {
            pulse.enter(Phase::Head);
            partial.extend_from_slice(&before);
        }
    }
    drop(before);
    connection.departure.take();
    let mut checked = 0;
    loop {
        if !partial.is_empty() {
            match look(&partial, &mut checked, first, limits.head_bytes_max) {
                Look::Partial => {}
                Look::Http2 => return Woken::Http2(partial.into()),
                Look::Codec => return Woken::Http1 { before: partial.into(), judged: None },
                Look::Head => return judge(worker, connection, partial).await,
            }
        }
        let is_parked = pulse.phase() == Phase::Parked;
        let _parked = is_parked.then(|| connection.parked.enter());
        let event = poll_fn(|context| match poll_read(worker, stream, &mut partial, context) {
            Poll::Ready(read) => Poll::Ready(Event::Read(read)),
            Poll::Pending => pulse.poll_order(context).map(Event::Ordered),
        });
        match event.await {
            Event::Read(Ok(0)) if partial.is_empty() => return Woken::Ended,
            // The client has closed its half inside a head: the codec says what that is.
            Event::Read(Ok(0)) => return Woken::Http1 { before: partial.into(), judged: None },
            Event::Read(Ok(_)) if is_parked => pulse.enter(Phase::Head),
            Event::Read(Ok(_)) => {}
            Event::Read(Err(_)) => return Woken::Ended,
            Event::Ordered(Order::HeadLate) if !is_parked => return Woken::Late,
            Event::Ordered(Order::Close) => return Woken::Ended,
            Event::Ordered(_) => {}
        }
    }
}

/// What a connection between requests goes on with.
enum Event {
    Read(io::Result<usize>),
    Ordered(Order),
}

/// Reads what is there, through the core's scratch buffer, so that `bytes` are no longer than what came.
fn poll_read(
    worker: &Worker,
    stream: &mut Stream,
    bytes: &mut Vec<u8>,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut scratch = worker.scratch.borrow_mut();
    let mut buffer = ReadBuf::new(&mut scratch);
    ready!(match stream {
        Stream::Plain(socket) => Pin::new(socket).poll_read(context, &mut buffer),
        Stream::Tls(stream) => Pin::new(stream).poll_read(context, &mut buffer),
    })?;
    let read = buffer.filled();
    bytes.reserve_exact(read.len());
    bytes.extend_from_slice(read);
    Poll::Ready(Ok(read.len()))
}

/// What bytes may become.
enum Look {
    /// More bytes are needed.
    Partial,
    /// HTTP/2.
    Http2,
    /// A whole head of HTTP/1.
    Head,
    /// For the codec to say.
    Codec,
}

fn look(bytes: &[u8], checked: &mut usize, first: bool, head_bytes_max: usize) -> Look {
    if first {
        if bytes.starts_with(HTTP2_PREFACE) {
            return Look::Http2;
        }
        if HTTP2_PREFACE.starts_with(bytes) {
            return Look::Partial;
        }
    }
    // Somebody who speaks TLS, to whom more bytes would be none the better.
    if bytes.first().is_some_and(|byte| !head::may_begin(*byte)) {
        return Look::Codec;
    }
    let is_head = head::may_end(bytes, *checked);
    *checked = bytes.len();
    if is_head {
        return Look::Head;
    }
    if bytes.len() >= head_bytes_max { Look::Codec } else { Look::Partial }
}

/// Asks for the verdict on the request whose head is in `bytes`, and waits for it if need be.
async fn judge(worker: &Rc<Worker>, connection: &Rc<Connection>, bytes: Vec<u8>) -> Woken {
    let judged = early(worker, connection, &bytes);
    let before = Bytes::from(bytes);
    let judged = match judged {
        None => None,
        Some(judged) => {
            connection.pulse().enter(Phase::Waiting);
            match judged.settled(connection).await {
                Some(judged) => Some(judged),
                None => return Woken::Ended,
            }
        }
    };
    Woken::Http1 { before, judged }
}

/// The verdict on a head, if it is one that can be judged without a codec.
fn early(worker: &Rc<Worker>, connection: &Rc<Connection>, bytes: &[u8]) -> Option<Judged> {
    /// Fields that make more of a request than head and body.
    const EXTRAORDINARY: [HeaderName; 3] = [header::UPGRADE, header::EXPECT, header::TRANSFER_ENCODING];
    let read = head::read(bytes, &mut Room::default(), Bounds::of(&worker.limits()));
    let Ok(Some((Head { parts, .. }, _))) = read else { return None };
    let is_ordinary = !EXTRAORDINARY.iter().any(|name| parts.headers.contains_key(name));
    is_ordinary.then(|| worker.service.judge(connection, &parts))
}

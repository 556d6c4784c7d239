//! Serving HTTP/1: read and written by a codec while there is something to serve, parked in between.
//!
//! The codec is one task's walk from head to head: it reads one, has it served, writes the response, and begins anew.
//! A request's body is read by whoever serves the request ([`wire`]); what heads mean is said in [`head`] and
//! [`encode`], how bodies lie on the wire in [`crate::http1`].

mod encode;
pub(super) mod head;
mod wire;

use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Method, Response, StatusCode, Version};
use http_body::Body;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio_rustls::server::TlsStream;

pub(crate) use self::wire::Upload;
use self::{
    encode::Asked,
    head::{Bounds, Head},
    wire::Wire,
};
use super::{
    ClientIo, Connection, Upgrade, close, http2,
    io::Stream,
    parked::{self, Woken},
    pulse::{Exchange, Order, Phase, Pulse},
};
use crate::{
    body::ClientBody,
    http1::{OtherLength, Outgoing, Room},
    request::{self, HeadFault, Judged, ResponseBody},
    socket::{Rewound, Socket},
    workers::Worker,
};

/// Serves a plain connection, HTTP/1 or HTTP/2 by prior knowledge; `before` are bytes read of it
/// already.
pub(super) async fn serve_plain(worker: Rc<Worker>, connection: Rc<Connection>, before: Bytes) {
    let stream = Stream::Plain(connection.socket.clone());
    serve_requests(worker, connection, stream, before).await;
}

/// Serves a TLS connection.
pub(super) async fn serve_tls(
    worker: Rc<Worker>,
    connection: Rc<Connection>,
    stream: Box<TlsStream<Rewound>>,
) {
    serve_requests(worker, connection, Stream::Tls(stream), Bytes::new()).await;
}

/// Parked until there is a request, then served by the codec until there has been none for a while, and so on.
async fn serve_requests(
    worker: Rc<Worker>,
    connection: Rc<Connection>,
    mut stream: Stream,
    mut before: Bytes,
) {
    let mut first = matches!(stream, Stream::Plain(_));
    loop {
        let (bytes, judged) = match parked::wait(&worker, &connection, &mut stream, before, first).await {
            Woken::Http1 { before, judged } => (before, judged),
            Woken::Http2(before) => return http2::serve(worker, connection, stream, before).await,
            Woken::Late => {
                let io = ClientIo::new(stream, Bytes::new(), Rc::clone(connection.pulse()));
                return Box::pin(bad_head(&worker, &connection, io, HeadFault::Late)).await;
            }
            Woken::Ended => {
                // TLS says goodbye.
                if let Stream::Tls(_) = stream {
                    let io = ClientIo::new(stream, Bytes::new(), Rc::clone(connection.pulse()));
                    close(io, connection.pulse()).await;
                }
                return;
            }
        };
        first = false;
        match Box::pin(serve(&worker, &connection, stream, bytes, judged)).await {
            Some(parked) => (stream, before) = parked,
            None => return,
        }
    }
}

/// Serves requests until the connection is idle for long enough to be parked (the stream comes
/// back) or has ended.
async fn serve(
    worker: &Rc<Worker>,
    connection: &Rc<Connection>,
    stream: Stream,
    before: Bytes,
    judged: Option<Judged>,
) -> Option<(Stream, Bytes)> {
    let pulse = connection.pulse();
    let mut codec = Codec::new(worker, connection, stream, before);
    let stop = codec.run(judged).await;
    let (mut io, leftover) = codec.into_parts()?;
    match stop {
        Stop::Parked => return Some((io.into_stream(), Bytes::new())),
        Stop::Bad(fault) => {
            bad_head(worker, connection, io, fault).await;
            return None;
        }
        Stop::Upgraded(upgrade) => {
            pulse.enter(Phase::Upgraded);
            tokio::select! {
                () = upgrade.run(io, leftover) => {}
                () = stalled(pulse) => connection.socket.reset_on_close(),
            }
            return None;
        }
        Stop::Broken => {
            connection.socket.reset_on_close();
            return None;
        }
        Stop::Stalled => say(&mut io, &request::stalled()).await,
        Stop::Ended => {}
    }
    close(io, pulse).await;
    None
}

/// Resolves once the client of an upgraded connection has taken nothing for too long.
async fn stalled(pulse: &Pulse) {
    while poll_fn(|context| pulse.poll_order(context)).await != Order::Stalled {}
}

/// Why the codec stops.
enum Stop {
    /// Nothing was under way for a while.
    Parked,
    /// It is over.
    Ended,
    /// It is over, and a clean end could be taken for the end of a body.
    Broken,
    /// The client owes a body and sends nothing of it; it has no answer yet.
    Stalled,
    /// What came is no head.
    Bad(HeadFault),
    /// It goes on as something else.
    Upgraded(Box<dyn Upgrade>),
}

/// Reads and writes a connection.
struct Codec<'a> {
    worker: &'a Rc<Worker>,
    connection: &'a Rc<Connection>,
    wire: Rc<RefCell<Wire>>,
    outgoing: Outgoing,
    /// Whether what was written is on its way.
    is_flushed: bool,
    /// Whether the request under way came before the response to the one before it had gone out.
    is_pipelined: bool,
    /// Whether the end of the connection can be taken for that of the response under way.
    ends_with_it: bool,
    /// Room for the next head.
    room: Room,
}

/// A response whose head is written.
struct Answer {
    body: ResponseBody,
    is_upgrade: bool,
    /// Whether the connection lasts beyond it.
    lasts: bool,
}

/// A response on its way out. Dropped in its middle, as where a drain is over, it ends the connection with a reset: a clean
/// end could be taken for the end of its body.
struct Unfinished<'a>(Option<&'a Socket>);

impl Unfinished<'_> {
    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(socket) = self.0 {
            socket.reset_on_close();
        }
    }
}

impl<'a> Codec<'a> {
    fn new(worker: &'a Rc<Worker>, connection: &'a Rc<Connection>, stream: Stream, before: Bytes) -> Self {
        let io = ClientIo::new(stream, Bytes::new(), Rc::clone(connection.pulse()));
        let wire = Wire::new(io, BytesMut::from(before), Rc::clone(&connection.interim));
        Self {
            worker,
            connection,
            wire: Rc::new(RefCell::new(wire)),
            outgoing: Outgoing::default(),
            is_flushed: true,
            is_pipelined: false,
            ends_with_it: true,
            room: Room::default(),
        }
    }

    /// The stream, and what was read of it and not taken.
    fn into_parts(self) -> Option<(ClientIo, Bytes)> {
        let (io, input) = self.wire.borrow_mut().take()?;
        Some((io, input.freeze()))
    }

    /// Serves one request after the other; the first may have been judged.
    async fn run(&mut self, mut judged: Option<Judged>) -> Stop {
        loop {
            let bounds = Bounds::of(&self.worker.limits());
            let is_idle = self.wire.borrow().input.is_empty();
            self.connection.pulse().enter(if is_idle { Phase::Idle } else { Phase::Head });
            let mut looked_at = 0;
            let next = poll_fn(|context| self.poll_next(bounds, &mut looked_at, context)).await;
            let served = match next {
                Ok(head) => self.serve(head, judged.take()).await,
                Err(stop) => Err(stop),
            };
            if let Err(stop) = served {
                return stop;
            }
            self.is_pipelined = !self.wire.borrow().input.is_empty();
        }
    }

    /// The next request, once its head is there. `looked_at`: bytes of what was read that are no whole head.
    fn poll_next(
        &mut self,
        bounds: Bounds,
        looked_at: &mut usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<Head, Stop>> {
        let mut wire = self.wire.borrow_mut();
        loop {
            let len = wire.input.len();
            if len > 0 && (*looked_at == 0 || head::may_end(&wire.input, *looked_at)) {
                match head::parse(&mut wire.input, &mut self.room, bounds) {
                    Ok(Some(head)) => return Poll::Ready(Ok(head)),
                    Ok(None) => {}
                    Err(fault) => return Poll::Ready(Err(Stop::Bad(fault))),
                }
            } else if let Some(fault) = bounds.exceeded(&wire.input) {
                return Poll::Ready(Err(Stop::Bad(fault)));
            }
            *looked_at = len;
            match wire.poll_read(context) {
                Poll::Ready(Ok(1..)) => continue,
                // Nothing can be said of half a head: its client is gone.
                Poll::Ready(Ok(_) | Err(_)) => return Poll::Ready(Err(Stop::Ended)),
                Poll::Pending => {}
            }
            match ready!(self.connection.pulse().poll_order(context)) {
                Order::Park if len == 0 => return Poll::Ready(Err(Stop::Parked)),
                Order::Close => return Poll::Ready(Err(Stop::Ended)),
                Order::HeadLate => return Poll::Ready(Err(Stop::Bad(HeadFault::Late))),
                Order::Park | Order::Stalled | Order::ReadAhead | Order::Drain | Order::Flood => {}
            }
        }
    }

    /// Serves a request, interim responses on the way, and writes its response.
    async fn serve(&mut self, head: Head, judged: Option<Judged>) -> Result<(), Stop> {
        let Head { parts, body, expects_continue, takes_trailers, is_lasting } = head;
        let connection = self.connection;
        let exchange = connection.begin();
        let asked = Asked {
            is_http10: parts.version == Version::HTTP_10,
            is_head: parts.method == Method::HEAD,
            takes_trailers,
        };
        // What came too late for the request before.
        connection.interim.clear();
        let body = Wire::expect(&self.wire, body, expects_continue);
        let body = body.map_or(ClientBody::Empty, ClientBody::Http1);
        let service = Rc::clone(&self.worker.service);
        let Answer { body, is_upgrade, lasts } = {
            let mut serving = pin!(service.serve(Rc::clone(connection), parts, body, judged));
            poll_fn(|context| {
                loop {
                    if let Poll::Ready(response) = serving.as_mut().poll(context) {
                        // There is none, which without a body would not show.
                        if response.body().is_broken() {
                            return Poll::Ready(Err(Stop::Broken));
                        }
                        return Poll::Ready(Ok(self.answer(response, asked, is_lasting)));
                    }
                    connection.interim.move_behind(&mut self.outgoing);
                    match self.poll_write(context) {
                        Poll::Ready(Err(stop)) => return Poll::Ready(Err(stop)),
                        // More have come than went out at once.
                        Poll::Ready(Ok(())) if !connection.interim.is_empty() => continue,
                        _ => {}
                    }
                    if connection.waits.take() {
                        self.give_room_back();
                    }
                    // A drain is told by the response.
                    if ready!(connection.pulse().poll_order(context)) == Order::Stalled {
                        return Poll::Ready(Err(Stop::Stalled));
                    }
                }
            })
            .await?
        };
        exchange.answer();
        let unfinished = Unfinished(Some(&connection.socket));
        // Ends once nothing more is taken of the body.
        let mut source = Some((body, exchange));
        let written = poll_fn(|context| {
            loop {
                let filled = self.poll_fill(&mut source, context);
                if let Poll::Ready(Err(stop)) = filled {
                    return Poll::Ready(Err(stop));
                }
                match self.poll_write(context) {
                    Poll::Ready(Err(stop)) => return Poll::Ready(Err(stop)),
                    Poll::Ready(Ok(())) if source.is_none() => return Poll::Ready(Ok(())),
                    // There is room again.
                    Poll::Ready(Ok(())) if filled.is_ready() => continue,
                    Poll::Ready(Ok(())) => {}
                    Poll::Pending => connection.read_ahead(context.waker()),
                }
                match ready!(connection.pulse().poll_order(context)) {
                    Order::Stalled => return Poll::Ready(Err(Stop::Broken)),
                    Order::ReadAhead => connection.read_ahead(context.waker()),
                    Order::Park | Order::Close | Order::HeadLate | Order::Drain | Order::Flood => {}
                }
            }
        })
        .await;
        if !matches!(written, Err(Stop::Broken)) {
            unfinished.finish();
        }
        written?;
        match connection.upgrade.take().filter(|_| is_upgrade) {
            Some(upgrade) => Err(Stop::Upgraded(upgrade)),
            None if lasts => self.body_ended().await,
            None => Err(Stop::Ended),
        }
    }

    /// Nothing is read or written for a while.
    fn give_room_back(&mut self) {
        self.wire.borrow_mut().give_room_back();
        self.outgoing.give_room_back();
        self.room = Room::default();
    }

    /// Begins to write a response.
    fn answer(&mut self, response: Response<ResponseBody>, asked: Asked, is_lasting: bool) -> Answer {
        let (head, body) = response.into_parts();
        let is_read = self.wire.borrow_mut().answer();
        self.connection.interim.move_to(&mut self.outgoing);
        let lasts = is_lasting && is_read && !self.connection.is_draining();
        let lasts = encode::begin(&mut self.outgoing, &head, &body, asked, lasts);
        self.ends_with_it = self.outgoing.ends_with_connection();
        self.room.refill(head.headers);
        Answer { body, is_upgrade: head.status == StatusCode::SWITCHING_PROTOCOLS, lasts }
    }

    /// Takes what there is of a response's body, as far as there is room. Both go from `source` once nothing more is
    /// wanted of them. Pending while the body is waited for.
    fn poll_fill(
        &mut self,
        source: &mut Option<(ResponseBody, Exchange)>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Stop>> {
        while let Some((body, _)) = source {
            if !self.outgoing.wants_more() {
                if let Some((body, _)) = source.take() {
                    body.suffice();
                }
                break;
            }
            if !self.outgoing.has_room() {
                break;
            }
            // Broken off, or not as long as was said.
            let Ok(frame) = ready!(Pin::new(&mut *body).poll_frame(context)).transpose() else {
                return Poll::Ready(Err(self.broken()));
            };
            if let Err(OtherLength) = self.outgoing.push(frame, body.is_end_stream()) {
                return Poll::Ready(Err(self.broken()));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The response under way comes to no end. That of the request before may be on its way still, and a reset would destroy it.
    const fn broken(&self) -> Stop {
        if self.is_pipelined && !self.ends_with_it { Stop::Ended } else { Stop::Broken }
    }

    /// Writes all that waits to be written.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Stop>> {
        if !self.outgoing.has_bytes() && self.is_flushed {
            return Poll::Ready(Ok(()));
        }
        let mut wire = self.wire.borrow_mut();
        let Some(io) = wire.io() else { return Poll::Ready(Err(Stop::Ended)) };
        self.is_flushed = false;
        while self.outgoing.has_bytes() {
            if ready!(self.outgoing.poll_write(Pin::new(io), context)).is_err() {
                return Poll::Ready(Err(Stop::Ended));
            }
        }
        let flushed = ready!(Pin::new(io).poll_flush(context));
        self.is_flushed = true;
        Poll::Ready(flushed.map_err(|_| Stop::Ended))
    }

    /// Waits until a request's body has ended or nobody wants it any more; what is there of it then is skipped.
    async fn body_ended(&mut self) -> Result<(), Stop> {
        if self.wire.borrow().is_read() {
            return Ok(());
        }
        poll_fn(|context| {
            let mut wire = self.wire.borrow_mut();
            while wire.is_wanted(context) {
                if ready!(self.connection.pulse().poll_order(context)) == Order::Stalled {
                    return Poll::Ready(Err(Stop::Broken));
                }
            }
            Poll::Ready(if wire.answer() { Ok(()) } else { Err(Stop::Ended) })
        })
        .await
    }
}

/// Ends a connection on which no head came that can be read.
async fn bad_head(worker: &Worker, connection: &Connection, mut io: ClientIo, fault: HeadFault) {
    say(&mut io, &worker.service.bad_request(connection, fault)).await;
    close(io, connection.pulse()).await;
}

/// Says the last words on a connection.
async fn say(io: &mut ClientIo, words: &[u8]) {
    const WITHIN: Duration = Duration::from_secs(1);
    let _ = tokio::time::timeout(WITHIN, async {
        io.write_all(words).await?;
        io.flush().await
    })
    .await;
}

//! Serving HTTP/1: by hyper while there is something to serve, parked in between.

use std::{cell::Cell, convert::Infallible, future::poll_fn, pin::Pin, rc::Rc, task::Poll, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Version, header};
use hyper::{
    body::{Body, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio_rustls::server::TlsStream;

use super::{
    ClientIo, Connection, close, http2,
    io::Stream,
    parked::{self, Woken},
    pulse::{Order, Phase},
    response::Guarded,
};
use crate::{
    request::{self, HeadFault, Judged, ResponseBody},
    socket::Rewound,
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
                return Box::pin(head_late(&worker, &connection, io)).await;
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

/// Why the codec stops.
enum Stop {
    /// It came to its end by itself.
    Ended(hyper::Result<()>),
    /// It was told to.
    Ordered(Order),
}

/// Serves requests until the connection is idle for long enough to be parked (the stream comes
/// back, with the bytes read of the next request) or has ended.
async fn serve(
    worker: &Rc<Worker>,
    connection: &Rc<Connection>,
    stream: Stream,
    before: Bytes,
    judged: Option<Judged>,
) -> Option<(Stream, Bytes)> {
    let pulse = connection.pulse();
    let io = ClientIo::for_codec(stream, before, Rc::clone(pulse), Rc::clone(&connection.interim));
    let answered = Rc::new(Cell::new(false));
    let handler = {
        let (worker, connection, answered) = (Rc::clone(worker), Rc::clone(connection), Rc::clone(&answered));
        let judged = Cell::new(judged);
        service_fn(move |request: Request<Incoming>| {
            let exchange = connection.begin();
            answered.set(false);
            let is_http10 = request.version() == Version::HTTP_10;
            let (service, connection) = (Rc::clone(&worker.service), Rc::clone(&connection));
            let (answered, judged) = (Rc::clone(&answered), judged.take());
            // Boxed for each request: an idle connection then holds nothing of it.
            Box::pin(async move {
                // Called in here, or the future would have room for it twice.
                let mut response = service.serve(connection, request, judged).await;
                if is_http10 {
                    say_close(&mut response);
                }
                let (head, body) = response.into_parts();
                exchange.answer();
                answered.set(true);
                Ok::<_, Infallible>(Response::from_parts(head, Guarded::new(body, exchange)))
            })
        })
    };
    pulse.enter(Phase::Idle);
    let mut codec = worker.limits().http1.serve_connection(TokioIo::new(io), handler);
    let stop = poll_fn(|context| {
        let mut drained = false;
        loop {
            if let Poll::Ready(end) = codec.poll_without_shutdown(context) {
                return Poll::Ready(Stop::Ended(end));
            }
            if pulse.is_write_blocked() {
                connection.read_ahead(context.waker());
            }
            if connection.is_draining() && !drained {
                drained = true;
                Pin::new(&mut codec).graceful_shutdown();
                continue;
            }
            match pulse.poll_order(context) {
                Poll::Pending => return Poll::Pending,
                // A codec that is not idle after all would end its connection instead.
                Poll::Ready(Order::Park) if pulse.phase() != Phase::Idle => {}
                Poll::Ready(order @ (Order::Park | Order::Close)) => {
                    Pin::new(&mut codec).graceful_shutdown();
                    if let Poll::Ready(Ok(())) = codec.poll_without_shutdown(context) {
                        return Poll::Ready(Stop::Ordered(order));
                    }
                }
                Poll::Ready(order @ (Order::HeadLate | Order::Stalled)) => {
                    return Poll::Ready(Stop::Ordered(order));
                }
                Poll::Ready(Order::ReadAhead) => connection.read_ahead(context.waker()),
                Poll::Ready(Order::Drain | Order::ResetFlood) => {}
            }
        }
    })
    .await;
    let phase = pulse.phase();
    let parts = codec.into_parts();
    let (mut io, leftover) = (parts.io.into_inner(), parts.read_buf);
    let unasked = io.release();
    // What the handler still holds of the last request goes now.
    drop(parts.service);
    match stop {
        Stop::Ordered(Order::Park) if !pulse.has_ended() => {
            // Cut to size: the codec's buffer is larger than what is left in it.
            let leftover = if leftover.is_empty() { Bytes::new() } else { Bytes::copy_from_slice(&leftover) };
            return Some((io.into_stream(), leftover));
        }
        Stop::Ordered(Order::HeadLate) if phase == Phase::Head => {
            head_late(worker, connection, io).await;
            return None;
        }
        Stop::Ordered(Order::Stalled) if !answered.get() => say(&mut io, &request::stalled()).await,
        Stop::Ordered(Order::Stalled) => {
            connection.socket.reset_on_close();
            return None;
        }
        Stop::Ordered(_) => {}
        Stop::Ended(Ok(())) => {
            if let Some(upgrade) = connection.upgrade.take() {
                pulse.enter(Phase::Upgraded);
                upgrade.run(io, leftover).await;
                return None;
            }
        }
        Stop::Ended(Err(error)) => {
            tracing::debug!(connection = connection.facts.id, %error, "HTTP/1 connection ended");
            if error.is_user() || error.is_body_write_aborted() {
                // The response broke off: a clean end could be taken for the end of its body.
                connection.socket.reset_on_close();
                return None;
            }
            if error.is_parse() {
                broken_head(worker, connection, &mut io, (&unasked, &leftover), &error).await;
            }
        }
    }
    close(io, pulse).await;
    None
}

/// Tells a client of HTTP/1.0, which knows no chunks, where the end of the connection is the end of the body: the next
/// response never comes on that (RFC 9112, section 9.3). The codec keeps from saying the opposite beside `close` only
/// where the response is of that version too.
fn say_close(response: &mut Response<ResponseBody>) {
    if response.body().size_hint().exact().is_none()
        && !response.headers().contains_key(header::CONTENT_LENGTH)
    {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if response.headers().contains_key(header::CONNECTION) {
        *response.version_mut() = Version::HTTP_10;
    }
}

/// A head that the codec could not read. What it answered by itself is replaced, unless it went out
/// together with the end of a response before it. `unread` is what the codec has left of the head.
async fn broken_head(
    worker: &Worker,
    connection: &Connection,
    io: &mut ClientIo,
    (unasked, unread): (&[u8], &[u8]),
    error: &hyper::Error,
) {
    let held = std::str::from_utf8(unasked).unwrap_or_default();
    let status = held.split(' ').nth(1).and_then(|status| status.parse().ok());
    let fault = match status {
        // The target is beyond what the codec can hold at all.
        Some(414) => HeadFault::TargetTooLong,
        _ if error.is_parse_too_large() => {
            let limits = worker.limits();
            HeadFault::too_large(unread, limits.head_bytes_max, limits.headers_max)
        }
        _ => HeadFault::Malformed,
    };
    worker.service.bad_request(connection, fault, status.is_some());
    if status.is_some() {
        let date = held.lines().find_map(|line| line.strip_prefix("date: "));
        say(io, &fault.answer(date)).await;
    }
}

/// Ends a connection whose head took too long.
async fn head_late(worker: &Worker, connection: &Connection, mut io: ClientIo) {
    worker.service.bad_request(connection, HeadFault::Late, true);
    say(&mut io, &HeadFault::Late.answer(None)).await;
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

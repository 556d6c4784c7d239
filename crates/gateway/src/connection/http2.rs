//! Serving HTTP/2.

use std::{convert::Infallible, future::poll_fn, rc::Rc, task::Poll, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{io::AsyncReadExt, time::timeout};

use super::{ClientIo, Connection, Protocol, io::Stream, pulse::Order, response::Guarded};
use crate::{
    body::{ClientBody, LINGER},
    socket::Socket,
    workers::Worker,
};

/// Serves a connection to its end; `before` are bytes read of it already.
pub(super) async fn serve(worker: Rc<Worker>, connection: Rc<Connection>, stream: Stream, before: Bytes) {
    connection.protocol.set(Protocol::Http2);
    connection.pulse().multiplex();
    let io = ClientIo::new(stream, before, Rc::clone(connection.pulse()));
    let handler = {
        let (worker, connection) = (Rc::clone(&worker), Rc::clone(&connection));
        service_fn(move |request: Request<Incoming>| {
            let exchange = connection.begin();
            let (service, connection) = (Rc::clone(&worker.service), Rc::clone(&connection));
            // Boxed: a stream's task has room twice for what it runs.
            let (parts, body) = request.into_parts();
            let body = ClientBody::of_stream(body, connection.pulse());
            let response = Box::pin(service.serve(connection, Box::new(parts), body, None));
            async move {
                let (head, body) = response.await.into_parts();
                exchange.answer();
                Ok::<_, Infallible>(Response::from_parts(head, Guarded::new(body, exchange)))
            }
        })
    };
    // Boxed by itself: a connection that is idle holds this, and nothing of what it was made of.
    let mut codec = Box::pin(worker.limits().http2.serve_connection(TokioIo::new(io), handler));
    if connection.is_draining() {
        codec.as_mut().graceful_shutdown();
    }
    let ended = poll_fn(|context| {
        loop {
            if let Poll::Ready(end) = codec.as_mut().poll(context) {
                return Poll::Ready(Some(end));
            }
            match connection.pulse().poll_order(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Order::Close | Order::Drain) => codec.as_mut().graceful_shutdown(),
                Poll::Ready(Order::Stalled | Order::Flood) => return Poll::Ready(None),
                Poll::Ready(Order::Park | Order::HeadLate | Order::ReadAhead) => {}
            }
        }
    })
    .await;
    match ended {
        // Nothing follows, and it has been told so. What was sent last may still be on its way.
        Some(Ok(())) if !connection.pulse().has_ended() => {
            drop(codec);
            let within = worker.limits().patience.body_idle;
            Box::pin(linger(connection.socket.clone(), within)).await;
        }
        Some(Ok(())) => {}
        Some(Err(error)) => {
            tracing::debug!(connection = connection.facts.id, %error, "HTTP/2 connection ended");
        }
        // The client takes nothing, or floods: nothing more is said to it.
        None => connection.socket.reset_on_close(),
    }
}

/// Takes in what the client is still sending, until it closes as well. It sends as it reads (WINDOW_UPDATE), and to a
/// socket that is closed: the kernel would answer with a reset and destroy what the client has not taken yet. So it has
/// [`LINGER`] from one sign of life to the next, and not for all.
async fn linger(mut socket: Socket, within: Duration) {
    const CHUNK_BYTES: usize = 4 * 1024;
    let lingering = async {
        let mut buffer = [0; CHUNK_BYTES];
        while matches!(timeout(LINGER, socket.read(&mut buffer)).await, Ok(Ok(1..))) {}
    };
    let _ = timeout(within, lingering).await;
}

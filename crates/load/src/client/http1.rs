//! One HTTP/1.1 connection, driven inside the task of the request that uses it.
//!
//! No task of its own: dropping the exchange at a timeout drops the socket with it, so the server
//! sees the client go at that moment, and a request costs no switch between tasks.

use std::{
    cell::Cell,
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::http1::{self, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;

use super::{HeadReader, Reply, stream::Stream};
use crate::outcome::{ErrorKind, Phase};

/// A connection with at most one request on it.
pub(crate) struct Http1 {
    sender: SendRequest<Full<Bytes>>,
    connection: Pin<Box<Connection<TokioIo<Stream>, Full<Bytes>>>>,
    /// How the connection ended, once it has.
    ended: Option<Option<ErrorKind>>,
    carried: u32,
}

impl Http1 {
    pub(crate) async fn begin(stream: Stream) -> Result<Self, ErrorKind> {
        let (sender, connection) = http1::Builder::new()
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|fault| ErrorKind::of_exchange(&fault))?;
        Ok(Self { sender, connection: Box::pin(connection), ended: None, carried: 0 })
    }

    /// Whether it can carry another request, as far as this end knows.
    pub(crate) async fn is_reusable(&mut self) -> bool {
        std::future::poll_fn(|cx| {
            self.drive(cx);
            Poll::Ready(())
        })
        .await;
        self.ended.is_none() && self.sender.is_ready()
    }

    /// How many requests it has carried.
    pub(crate) fn carried(&self) -> u32 {
        self.carried
    }

    /// Sends the request and reads the whole reply.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        phase: &Cell<Phase>,
        reader: HeadReader<'_>,
    ) -> Result<Reply, ErrorKind> {
        self.carried = self.carried.saturating_add(1);
        let response = self.head(request).await?;
        phase.set(Phase::Body);
        let mut reply = reader.read(&response);
        reply.body_bytes = self.body(response.into_body()).await?;
        Ok(reply)
    }

    async fn head(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, ErrorKind> {
        let mut sending = pin!(self.sender.send_request(request));
        let (connection, ended) = (&mut self.connection, &mut self.ended);
        std::future::poll_fn(|cx| {
            drive(connection, ended, cx);
            match sending.as_mut().poll(cx) {
                Poll::Ready(Ok(response)) => Poll::Ready(Ok(response)),
                // The connection's own fault says more than the request's "canceled".
                Poll::Ready(Err(fault)) => {
                    Poll::Ready(Err(ended.flatten().unwrap_or_else(|| ErrorKind::of_exchange(&fault))))
                }
                Poll::Pending => match ended {
                    Some(kind) => Poll::Ready(Err(kind.unwrap_or(ErrorKind::Closed))),
                    None => Poll::Pending,
                },
            }
        })
        .await
    }

    async fn body(&mut self, mut body: Incoming) -> Result<u64, ErrorKind> {
        let mut bytes = 0;
        std::future::poll_fn(|cx| {
            // The body asks its connection for more by waking this very task, so driving it once
            // between two looks at the body is enough.
            let mut driven = false;
            loop {
                match Pin::new(&mut body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => {
                        bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                        driven = false;
                    }
                    Poll::Ready(Some(Err(fault))) => {
                        let kind = self.ended.flatten().unwrap_or_else(|| ErrorKind::of_exchange(&fault));
                        return Poll::Ready(Err(kind));
                    }
                    Poll::Ready(None) => return Poll::Ready(Ok(bytes)),
                    Poll::Pending if self.ended.is_some() => return Poll::Ready(Err(ErrorKind::Closed)),
                    Poll::Pending if driven => return Poll::Pending,
                    Poll::Pending => {
                        self.drive(cx);
                        driven = true;
                    }
                }
            }
        })
        .await
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.connection, &mut self.ended, cx);
    }
}

fn drive(
    connection: &mut Pin<Box<Connection<TokioIo<Stream>, Full<Bytes>>>>,
    ended: &mut Option<Option<ErrorKind>>,
    cx: &mut Context<'_>,
) {
    if ended.is_none() {
        match connection.as_mut().poll(cx) {
            Poll::Ready(Ok(())) => *ended = Some(None),
            Poll::Ready(Err(fault)) => *ended = Some(Some(ErrorKind::of_exchange(&fault))),
            Poll::Pending => {}
        }
    }
}

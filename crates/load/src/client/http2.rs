//! HTTP/2 connections shared by the requests of one thread.

use std::{cell::Cell, future::Future, pin::Pin};

use bytes::Bytes;
use http::Request;
use http_body::Body as _;
use http_body_util::Full;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};

use super::{HeadReader, Reply, stream::Stream};
use crate::outcome::{ErrorKind, Phase, is_unprocessed};

/// A handle to one connection; its clones share it.
#[derive(Clone)]
pub(crate) struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    carried: u32,
}

impl Http2 {
    pub(crate) async fn begin(stream: Stream) -> Result<Self, ErrorKind> {
        let (sender, connection) = http2::Builder::new(LocalExecutor)
            .timer(TokioTimer::new())
            // Room for a hundred bodies of 64 KiB under way, so that the window is not measured.
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(1 << 24)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|fault| ErrorKind::of_exchange(&fault))?;
        // Ends when the last sender is dropped or the peer closes; requests report its faults.
        tokio::task::spawn_local(connection);
        Ok(Self { sender, carried: 0 })
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// How many requests its handles were given out for.
    pub(crate) fn carried(&self) -> u32 {
        self.carried
    }

    /// A handle for one more request.
    pub(crate) fn one_more(&mut self) -> Self {
        self.carried = self.carried.saturating_add(1);
        self.clone()
    }

    /// Sends the request on a stream of its own; dropping the future resets the stream. `None`: the server has done nothing with
    /// it, since it closes the connection or takes no more streams.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        phase: &Cell<Phase>,
        reader: HeadReader<'_>,
    ) -> Result<Option<Reply>, ErrorKind> {
        let kind = |fault: &hyper::Error| ErrorKind::of_exchange(fault);
        let response = match self.sender.send_request(request).await {
            Ok(response) => response,
            Err(fault) if is_unprocessed(&fault) => return Ok(None),
            Err(fault) => return Err(kind(&fault)),
        };
        phase.set(Phase::Body);
        let mut reply = reader.read(&response);
        let mut body = response.into_body();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|fault| kind(&fault))?;
            reply.body_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(Some(reply))
    }
}

/// Runs hyper's tasks on this thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalExecutor;

impl<F> hyper::rt::Executor<F> for LocalExecutor
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

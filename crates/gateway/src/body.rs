//! Bodies as they pass through: what is sent to a server and what goes wrong on the way.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, request::Parts};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::connection::{Pulse, Upload};

/// What went wrong inside a body, and on which side.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The client's side: it left, sent garbage or was too slow.
    #[error("client: {0}")]
    Client(String),
    /// The request body is larger than `body.bytes.max`.
    #[error("client: the body is larger than {0} bytes")]
    TooLarge(u64),
    /// The client sends less of the request body than `body.idle_timeout` or `body.rate.min` asks.
    #[error("client: the body comes too slowly")]
    TooSlow,
    /// The client takes less of the response than `response.rate.min` asks.
    #[error("client: it takes the response too slowly")]
    TakenTooSlowly,
    /// The server's side: it broke off, fell silent or contradicted its own length.
    #[error("server: {0}")]
    Upstream(String),
}

/// A request's body as it comes from a client.
pub(crate) enum ClientBody {
    /// None.
    Empty,
    /// Over HTTP/1.
    Http1(Upload),
    /// Over HTTP/2, and where to note what came.
    Http2(Incoming, Rc<Pulse>),
}

impl ClientBody {
    /// That of a request over HTTP/2.
    pub(crate) fn of_stream(incoming: Incoming, pulse: &Rc<Pulse>) -> Self {
        if incoming.is_end_stream() { Self::Empty } else { Self::Http2(incoming, Rc::clone(pulse)) }
    }

    /// Whether one that gives no more frames has come to its end.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            // There is an error wherever something is missing.
            Self::Empty | Self::Http1(_) => true,
            Self::Http2(incoming, _) => is_whole(incoming),
        }
    }

    /// Done with one that may not have come whole. Over HTTP/2 the codec resets the stream of one that is
    /// dropped, with NO_ERROR behind the answer (RFC 9113, section 8.1), and there are clients that lose the answer by
    /// that (curl 7.88), or wait for ever (Java 17). So what still comes is taken in and thrown away for a while, as a
    /// connection of HTTP/1 does that closes.
    pub(crate) fn done(self) {
        if matches!(&self, Self::Http2(incoming, _) if !incoming.is_end_stream()) {
            let mut body = self;
            tokio::task::spawn_local(tokio::time::timeout(LINGER, async move {
                while let Some(Ok(_)) = body.frame().await {}
            }));
        }
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Http1(upload) => Pin::new(upload).poll_frame(context),
            Self::Http2(incoming, pulse) => {
                let frame = ready!(Pin::new(incoming).poll_frame(context)).transpose();
                if let Ok(Some(data)) = frame.as_ref().map(|frame| frame.as_ref().and_then(Frame::data_ref)) {
                    pulse.carry(data.len() as u64);
                }
                Poll::Ready(frame.map_err(|error| error.to_string()).transpose())
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Http1(upload) => upload.is_end_stream(),
            Self::Http2(incoming, _) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Http1(upload) => upload.size_hint(),
            Self::Http2(incoming, _) => incoming.size_hint(),
        }
    }
}

/// Whether a body over HTTP/2 that gives no more frames has come to its end: only END_STREAM ends a message (RFC 9113,
/// section 8.1), while the codec gives no error where a stream was reset with NO_ERROR.
pub(crate) fn is_whole(body: &Incoming) -> bool {
    body.is_end_stream()
}

/// What is said of a body that is not whole.
pub(crate) const RESET_WITHIN: &str = "the stream was reset before the end of its message";

/// How long a client that has its answer may go on sending.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// A request on its way to a server. Its head is boxed, as it is handed on from step to step.
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) head: Box<Parts>,
    pub(crate) body: RequestBody,
}

impl From<Request<RequestBody>> for Outbound {
    fn from(request: Request<RequestBody>) -> Self {
        let (head, body) = request.into_parts();
        Self { head: Box::new(head), body }
    }
}

/// A request body on its way to a server.
pub enum RequestBody {
    /// None.
    Empty,
    /// Wholly in memory.
    Whole(Bytes),
    /// Arrives as it goes.
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = BodyError>>>),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match this {
            Self::Empty => Poll::Ready(None),
            Self::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *this = Self::Empty;
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::Stream(body) => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(body) => body.size_hint(),
        }
    }
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

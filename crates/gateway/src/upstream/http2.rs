//! One HTTP/2 connection to a server, shared by the exchanges of a core.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    io,
    pin::Pin,
    rc::{Rc, Weak},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use http::{
    Request, Response, Uri, Version,
    header::HOST,
    request::Parts,
    uri::{Authority, Scheme},
};
use hyper::{
    body::{Body, Incoming},
    client::conn::http2::{Builder, Connection, SendRequest},
    rt::Executor,
};
use hyper_util::rt::TokioIo;
use tidegate_control::{Timestamp, meters::UpstreamError};
use tidegate_runtime::servers::Server;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{Notify, oneshot::error::TryRecvError},
    time::{Instant, Sleep},
};

use super::{
    error::{Failure, describe, h2_error},
    http1::Unanswered,
    io::UpstreamIo,
    outgoing::{ClientError, Outgoing, Progress, Released, Sent, Upload},
    patience::{Patience, Turn},
    plan::Plan,
    proxy_header::Ends,
};
use crate::body::{BodyError, LINGER, Outbound, RequestBody};

/// Streams of one connection that we use at once, whatever the server would allow.
const STREAMS_MAX: usize = 128;
/// Bytes of a response that a server may send ahead of us, a stream. The connection's window holds
/// that many for each stream, so that one slow reader holds up no other.
const STREAM_WINDOW: u32 = 256 * 1024;
/// A server that takes nothing of an upload for so long may have no room for others on its connection either: it gives all
/// streams together a window, and Go's is no larger than one stream's.
pub(super) const STANDS_AFTER: Duration = Duration::from_millis(250);
/// Size of a response's head.
const HEAD_MAX: u32 = 64 * 1024;

/// A connection with a task of its own, and how much of it is in use.
pub(super) struct Http2 {
    sender: SendRequest<Outgoing>,
    /// Tells who waits for a stream that one has ended.
    turn: Rc<Notify>,
    active: Cell<usize>,
    /// Uploads among these that go on beyond their exchanges.
    left_over: Cell<usize>,
    /// Bodies of requests that are on their way.
    uploads: RefCell<Vec<Upload>>,
    /// Shared with the task that drives it: only it knows how many streams the server allows now.
    /// `None` once it has ended.
    connection: Rc<RefCell<Option<Driven>>>,
    /// A stream on it timed out: it may be dead, so nothing new goes there.
    is_suspect: Cell<bool>,
    /// Whether it has answered before.
    is_used: Cell<bool>,
    news: Rc<News>,
    /// The server's own name, for requests that name no host.
    authority: Option<Authority>,
    pub(super) plan: Rc<Plan>,
    pub(super) ends: Option<Ends>,
    pub(super) idle_since: Cell<Timestamp>,
}

type Driven = Connection<TokioIo<Heard>, Outgoing, Here>;

/// A stream for one exchange; given back when dropped.
pub(super) struct Stream {
    connection: Rc<Http2>,
    /// The request's body, as long as the codec holds something of it.
    upload: Cell<Option<Released>>,
    /// How far it has come, as long as more of it is to come.
    progress: RefCell<Weak<Progress>>,
    /// What has gone wrong in it on the client's side.
    client_error: RefCell<ClientError>,
}

/// Runs the codec's tasks on this core.
#[derive(Clone, Copy, Debug)]
struct Here;

impl<F: Future<Output = ()> + 'static> Executor<F> for Here {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

impl Http2 {
    /// Begins to speak HTTP/2 over a new connection, and waits until the server has said how many streams it allows:
    /// a burst sent before that would be refused but for so many, again on each connection that is new.
    pub(super) async fn start(
        server: &Server,
        io: UpstreamIo,
        plan: Rc<Plan>,
        ends: Option<Ends>,
        turn: Rc<Notify>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Rc<Self>, Failure> {
        let news = Rc::new(News::default());
        let io = Heard { io, news: Rc::clone(&news) };
        let streams = u32::try_from(STREAMS_MAX).unwrap_or(u32::MAX);
        let (sender, connection) = Builder::new(Here)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAM_WINDOW * streams)
            .initial_max_send_streams(0)
            .max_header_list_size(HEAD_MAX)
            // It counts over a connection's whole life, and each 304 whose end comes by itself: see `UpstreamBody`.
            .max_local_error_reset_streams(None)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|error| Failure::new(UpstreamError::Connect, describe(&error)))?;
        let connection = Rc::new(RefCell::new(Some(connection)));
        let (driven, told) = (Rc::clone(&connection), Rc::clone(&news));
        tokio::task::spawn_local(async move {
            std::future::poll_fn(|context| match driven.borrow_mut().as_mut() {
                // How a connection ends, its streams are told one by one.
                Some(open) => Pin::new(open).poll(context).map(|_| ()),
                None => Poll::Ready(()),
            })
            .await;
            // Dropped, so that requests it has not begun come back.
            let ended = driven.take();
            drop(ended);
            told.changed.notify_one();
        });
        let http2 = Self {
            sender,
            turn,
            active: Cell::new(0),
            left_over: Cell::new(0),
            uploads: RefCell::default(),
            connection,
            is_suspect: Cell::new(false),
            is_used: Cell::new(false),
            news,
            authority: plan.host_at(server).parse().ok(),
            plan,
            ends,
            idle_since: Cell::new(now),
        };
        let failed = |kind, why| Err(Failure::new(kind, format!("{}: {why}", server.endpoint())));
        loop {
            match http2.allowed() {
                Some(0) if tokio::time::timeout_at(deadline, http2.news.changed.notified()).await.is_ok() => {
                }
                Some(0) => {
                    return failed(UpstreamError::ConnectTimeout, "allows no stream of HTTP/2 in time");
                }
                Some(_) => return Ok(Rc::new(http2)),
                None if http2.news.has_come.get() => {
                    return failed(UpstreamError::Garbage, "speaks no HTTP/2");
                }
                None => return failed(UpstreamError::Reset, "closed before it spoke HTTP/2"),
            }
        }
    }

    /// Whether it takes new streams at all. What a server has not read of an upload takes room of others.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed() && !self.is_suspect.get() && self.left_over.get() == 0
    }

    /// Whether no stream is in use.
    pub(super) fn is_idle(&self) -> bool {
        self.active.get() == 0
    }

    /// Whether an upload on it stands still, so that another might, too.
    pub(super) fn holds_uploads_up(&self) -> bool {
        let mut uploads = self.uploads.borrow_mut();
        uploads.retain(|upload| !upload.is_out());
        let stands =
            |upload: &Upload| upload.stands_since().is_some_and(|since| since.elapsed() >= STANDS_AFTER);
        uploads.iter().any(stands)
    }

    /// Takes a stream, if there is one to be had.
    pub(super) fn stream(self: &Rc<Self>) -> Option<Stream> {
        if !self.is_open() || self.active.get() >= self.allowed()?.min(STREAMS_MAX) {
            return None;
        }
        self.active.set(self.active.get() + 1);
        Some(Stream {
            connection: Rc::clone(self),
            upload: Cell::new(None),
            progress: RefCell::default(),
            client_error: RefCell::default(),
        })
    }

    /// Takes a stream back.
    fn take_back(&self) {
        self.active.set(self.active.get() - 1);
        self.turn.notify_one();
    }

    /// Streams that the server allows; `None` once the connection has ended.
    fn allowed(&self) -> Option<usize> {
        // Empty or in use just when it ends.
        Some(self.connection.try_borrow().ok()?.as_ref()?.current_max_send_streams())
    }
}

/// What has come of a connection, for whoever waits for its beginning; and its end, before its codec would see one.
#[derive(Default)]
struct News {
    /// Whether anything has come at all.
    has_come: Cell<bool>,
    changed: Notify,
    is_cut: Cell<bool>,
    /// Wakes the codec, which waits for more.
    reader: RefCell<Option<Waker>>,
}

impl News {
    /// Ends the connection, and all that goes on over it.
    fn cut(&self) {
        self.is_cut.set(true);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// A connection's bytes, with news of what comes.
struct Heard {
    io: UpstreamIo,
    news: Rc<News>,
}

impl AsyncRead for Heard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.news.is_cut.get() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buffer.filled().len();
        let Poll::Ready(read) = Pin::new(&mut self.io).poll_read(context, buffer) else {
            self.news.reader.replace(Some(context.waker().clone()));
            return Poll::Pending;
        };
        if buffer.filled().len() > before {
            self.news.has_come.set(true);
        }
        self.news.changed.notify_one();
        Poll::Ready(read)
    }
}

impl AsyncWrite for Heard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl Stream {
    /// Sends a request, now, and waits for the response's head.
    pub(super) async fn send(
        &self,
        request: Outbound,
        now: Instant,
    ) -> Result<Response<Incoming>, Unanswered> {
        let connection = &self.connection;
        let plan = &connection.plan;
        let Outbound { mut head, body } = request;
        // The codec does not give back what it has begun, so what can be sent twice is kept.
        let again = match &body {
            RequestBody::Whole(bytes) => RequestBody::Whole(bytes.clone()),
            RequestBody::Empty | RequestBody::Stream(_) => RequestBody::Empty,
        };
        let mut kept = Request::new(again);
        kept.method_mut().clone_from(&head.method);
        kept.uri_mut().clone_from(&head.uri);
        kept.headers_mut().clone_from(&head.headers);
        let mut kept = Outbound::from(kept);
        to_http2(&mut head, plan.tls.is_some(), connection.authority.as_ref());
        let has_body = !body.is_end_stream();
        let (body, progress, sent) = Outgoing::new(body, now);
        if let Some(Sent { released, upload }) = sent {
            self.upload.set(Some(released));
            let mut uploads = connection.uploads.borrow_mut();
            uploads.retain(|upload| !upload.is_out());
            uploads.push(upload);
        }
        if let Some(progress) = &progress {
            self.progress.replace(Rc::downgrade(progress));
            self.client_error.replace(progress.error());
        }
        let mut sender = connection.sender.clone();
        let mut response = std::pin::pin!(sender.try_send_request(Request::from_parts(*head, body)));
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        let mut patience = Patience::new(plan.response_timeout, now);
        let outcome = std::future::poll_fn(|context| {
            if let Poll::Ready(outcome) = response.as_mut().poll(context) {
                return Poll::Ready(Some(outcome));
            }
            let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(now)));
            let turn = progress.as_deref().map_or(Turn::Whole, Progress::turn);
            ready!(patience.poll(turn, timer.as_mut(), context));
            Poll::Ready(None)
        })
        .await;
        match outcome {
            Some(Ok(response)) => {
                connection.is_used.set(true);
                if let Some(progress) = progress {
                    progress.forget();
                }
                Ok(response)
            }
            Some(Err(mut error)) => {
                let was_left = was_left(error.error()) && (kept.head.method.is_idempotent() || has_body);
                let has_moved = error.take_message().is_some() || went_away(error.error()) || was_left;
                let wants_http1 = plan.lets_server_choose() && wants_http1(error.error());
                let has_reached = !has_moved && !wants_http1 && !was_refused(error.error());
                let request = match &progress {
                    None => Some(kept),
                    Some(progress) if !has_reached => progress.take_back().map(|body| {
                        kept.body = body;
                        kept
                    }),
                    Some(_) => None,
                };
                Err(Unanswered {
                    failure: Failure::of_codec(error.error()),
                    request,
                    has_moved,
                    wants_http1,
                    has_reached,
                    is_silent: !has_reached || h2_error(error.error()).is_none_or(|error| error.is_io()),
                    client: progress.and_then(|progress| progress.take_error()),
                })
            }
            None => {
                connection.is_suspect.set(true);
                Err(Unanswered {
                    failure: Failure::new(
                        UpstreamError::ResponseTimeout,
                        format!("no response within {:?}", plan.response_timeout),
                    ),
                    request: progress.is_none().then_some(kept),
                    has_moved: false,
                    wants_http1: false,
                    has_reached: true,
                    is_silent: false,
                    client: None,
                })
            }
        }
    }

    /// Whether its connection has answered before.
    pub(super) fn is_used(&self) -> bool {
        self.connection.is_used.get()
    }

    /// Pieces of the request's body that have been taken; `None` while its client is waited for.
    pub(super) fn pieces(&self) -> Option<u64> {
        match self.progress.borrow().upgrade().map_or(Turn::Whole, |progress| progress.turn()) {
            Turn::Client => None,
            Turn::Pieces(pieces) => Some(pieces),
            Turn::Whole => Some(u64::MAX),
        }
    }

    /// What went wrong in the request's body on the client's side, for which the codec has reset the stream.
    pub(super) fn take_client_error(&self) -> Option<BodyError> {
        self.client_error.borrow().take()
    }

    /// Nothing new goes over this stream's connection.
    pub(super) fn suspect(&self) {
        self.connection.is_suspect.set(true);
    }

    /// Notes when its connection was last in use.
    pub(super) fn touch(&self, now: Timestamp) {
        self.connection.idle_since.set(now);
    }

    /// How long the server may be silent within a body.
    pub(super) fn body_idle_timeout(&self) -> Duration {
        self.connection.plan.body_idle_timeout
    }
}

/// An exchange is over. An upload of its that goes on, since its server has answered and neither reads the rest nor refuses it,
/// has as long as a client that has its answer; then the connection ends, as soon as it is of no other use.
impl Drop for Stream {
    fn drop(&mut self) {
        let connection = Rc::clone(&self.connection);
        let upload = self.upload.take().map(|mut upload| (upload.try_recv(), upload));
        let Some((Err(TryRecvError::Empty), mut upload)) = upload else { return connection.take_back() };
        connection.left_over.set(connection.left_over.get() + 1);
        tokio::task::spawn_local(async move {
            while tokio::time::timeout(LINGER, &mut upload).await.is_err() {
                if connection.active.get() == connection.left_over.get() {
                    connection.news.cut();
                    break;
                }
            }
            connection.left_over.set(connection.left_over.get() - 1);
            connection.take_back();
        });
    }
}

/// From the form of HTTP/1 (path in the request line, `Host`) to that of HTTP/2 (whole URI). A request of HTTP/1.0 may
/// name no host, which the codec does not send: it then asks for the server by its own name.
fn to_http2(head: &mut Parts, is_tls: bool, server: Option<&Authority>) {
    head.version = Version::HTTP_2;
    let host = head.headers.remove(HOST);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut parts = std::mem::take(&mut head.uri).into_parts();
    parts.scheme = Some(if is_tls { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = authority.or(parts.authority).or_else(|| server.cloned());
    // Without authority the codec refuses the request, which then comes back as an error.
    if let Ok(uri) = Uri::from_parts(parts) {
        head.uri = uri;
    }
}

/// Whether the server went away before it looked at the request (RFC 9113, section 6.8). The codec gives a GOAWAY to those
/// streams only that are beyond its last.
fn went_away(error: &hyper::Error) -> bool {
    h2_error(error).is_some_and(|error| error.is_remote() && error.is_go_away())
}

/// Whether the connection ended while the request waited in the codec for a stream, as it does where a server allows fewer
/// than before. Its head may have gone out at the last moment, no part of its body has.
fn was_left(error: &hyper::Error) -> bool {
    error.is_user()
}

/// Whether the server takes this request over HTTP/1.1 only (RFC 9113, section 7), as IIS does where it authenticates
/// connections.
fn wants_http1(error: &hyper::Error) -> bool {
    h2_error(error)
        .is_some_and(|error| error.is_remote() && error.reason() == Some(h2::Reason::HTTP_1_1_REQUIRED))
}

/// Whether the server says that it has not looked at the request, and refuses it (RFC 9113, section 8.7).
fn was_refused(error: &hyper::Error) -> bool {
    h2_error(error).is_some_and(|error| {
        error.is_remote() && error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM)
    })
}

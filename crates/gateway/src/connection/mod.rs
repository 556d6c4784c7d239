//! A client connection as a request sees it, and how it is served from its accept to its end.

mod http1;
mod http2;
mod interim;
mod io;
mod limits;
mod parked;
mod pulse;
mod response;
mod stream;

use std::{
    cell::{Cell, OnceCell, RefCell},
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tidegate_config::Listener;
use tidegate_control::{
    ApplicationId, Refusal,
    admission::Greeting,
    knobs::{HalfClosed, Mode, keys},
    meters::{Handshake, Meter, SessionMet},
    tls_sessions::Session,
};
use tidegate_runtime::{CoreApplication, Level, Subject};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub(crate) use self::{
    http1::Upload,
    io::ClientIo,
    limits::Limits,
    pulse::{Pulse, Pulses},
};
use self::{
    interim::Interim,
    io::Stream,
    pulse::{Exchange, Registered},
};
use crate::{
    body::LINGER,
    facts::{ConnectionFacts, TlsFacts},
    listener::Serving,
    place::Place,
    preface,
    proxy_protocol::Speaker,
    request::InStep,
    socket::{Rewound, Socket},
    workers::Worker,
};

/// A client connection.
pub(crate) struct Connection {
    /// What is known of it.
    pub(crate) facts: ConnectionFacts,
    protocol: Cell<Protocol>,
    socket: Socket,
    draining: Rc<Cell<bool>>,
    parked: Level,
    upgrade: RefCell<Option<Box<dyn Upgrade>>>,
    departure: RefCell<Option<Departure>>,
    /// The response that is read by this connection's own task.
    in_step: RefCell<InStep>,
    interim: Rc<Interim>,
    /// Whether the request under way has begun to wait for its turn.
    waits: Cell<bool>,
    registered: Registered,
    _place: Place,
}

/// The watch for the client's departure, kept from one request to the next: to look at it costs a fraction of
/// registering it.
struct Departure {
    half_closed: HalfClosed,
    /// `None` once the client has left.
    watch: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

/// The version of HTTP a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// What goes on with a connection after a 101.
pub(crate) trait Upgrade {
    /// Serves the connection to its end; `leftover` are bytes the client sent after its request.
    fn run(self: Box<Self>, client: ClientIo, leftover: Bytes) -> Pin<Box<dyn Future<Output = ()>>>;
}

impl Connection {
    /// Resolves the moment the client leaves, also with unread bytes pending. Never on HTTP/2,
    /// where the request's future is dropped instead.
    ///
    /// One at a time: only who asked last is woken.
    pub(crate) async fn departed(&self, half_closed: HalfClosed) {
        poll_fn(|context| self.poll_departed(half_closed, context)).await;
    }

    /// The same, for futures written by hand.
    pub(crate) fn poll_departed(&self, half_closed: HalfClosed, context: &mut Context<'_>) -> Poll<()> {
        if self.protocol() == Protocol::Http2 {
            return Poll::Pending;
        }
        let mut departure = self.departure.borrow_mut();
        let departure = match &mut *departure {
            Some(known) if known.half_closed == half_closed => known,
            other => {
                let socket = self.socket.clone();
                let watch: Pin<Box<dyn Future<Output = ()>>> =
                    Box::pin(async move { socket.departed(half_closed).await });
                other.insert(Departure { half_closed, watch: Some(watch) })
            }
        };
        if let Some(watch) = &mut departure.watch {
            ready!(watch.as_mut().poll(context));
            departure.watch = None;
        }
        Poll::Ready(())
    }

    /// Whether the client has left, as of the last turn of the event loop.
    pub(crate) async fn has_departed(&self, half_closed: HalfClosed) -> bool {
        poll_fn(|context| Poll::Ready(self.poll_departed(half_closed, context).is_ready())).await
    }

    /// A response is read by this connection's own task, until that cannot go on with it.
    pub(crate) fn read_in_step(&self, response: InStep) {
        self.in_step.replace(response);
        self.pulse().step();
    }

    /// What is read in step is read ahead from now on; `waker` is this connection's task.
    fn read_ahead(&self, waker: &Waker) {
        self.in_step.take().read_ahead(waker);
    }

    /// Passes an interim response on, before the one that is waited for; on HTTP/1 only, whose client asked by
    /// HTTP/1.1.
    pub(crate) fn say_meanwhile(&self, status: StatusCode, headers: &HeaderMap) {
        if self.protocol() == Protocol::Http1 {
            self.interim.push(status, headers);
        }
    }

    /// A request begins to wait for its turn: room that its connection keeps for reading and writing may go meanwhile.
    pub(crate) fn begin_to_wait(&self) {
        self.waits.set(true);
    }

    /// So many bytes of HTTP/2 were a request's head.
    pub(crate) fn carry(&self, bytes: u32) {
        self.pulse().carry(u64::from(bytes));
    }

    /// Hands the connection over once the response, which is a 101, has been sent. HTTP/1 only.
    pub(crate) fn set_upgrade(&self, upgrade: Box<dyn Upgrade>) {
        self.upgrade.replace(Some(upgrade));
    }

    /// The version of HTTP.
    pub(crate) const fn protocol(&self) -> Protocol {
        self.protocol.get()
    }

    /// Whether the gateway wants this connection to end: it says so in the next response.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// A request begins.
    fn begin(&self) -> Exchange {
        self.facts.requests.set(self.facts.requests.get() + 1);
        self.pulse().begin()
    }

    fn pulse(&self) -> &Rc<Pulse> {
        self.registered.pulse()
    }
}

/// A socket as accepted.
pub(crate) struct Accepted {
    /// The socket.
    pub(crate) socket: Socket,
    /// Its peer; `None` on a Unix socket.
    pub(crate) peer: Option<SocketAddr>,
    /// Its own address; `None` on a Unix socket.
    pub(crate) local: Option<SocketAddr>,
}

/// Serves a connection from its accept to its end.
pub(crate) async fn serve(worker: Rc<Worker>, accepted: Accepted, serving: Arc<Serving>) {
    let host = worker.core.meters().host();
    host.add(Meter::CONNECTIONS_ACCEPTED, 1);
    let mut place = match Place::accept(worker.core.shared()) {
        Ok(place) => place,
        Err(refusal) => return refuse(&worker, &accepted.socket, refusal),
    };
    let registered = worker.pulses.register();
    let Accepted { socket, peer, local } = accepted;
    let mut origin = Origin { peer, client: peer, local, is_known: true };
    // Judged before anything is read: else a client that says nothing could hold all places for `hello.timeout`.
    if !serving.listener.proxy_protocol
        && let Err(refusal) = place.arrive(worker.client_hash(peer))
    {
        return refuse(&worker, &socket, refusal);
    }
    if serving.tls.is_none() && !serving.listener.proxy_protocol {
        let connection = Connection::new(&worker, &serving.listener, origin, None, socket, registered, place);
        return http1::serve_plain(worker, connection, Bytes::new()).await;
    }
    registered.pulse().enter(pulse::Phase::Waiting);
    let mut has_hello = false;
    let preface = Box::pin(secure(&worker, &serving, &socket, &mut origin, &mut place, &mut has_hello));
    let (tls, stream) = match tokio::time::timeout(worker.limits().hello_timeout, preface).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(Unopened::Refused(refusal))) => {
            host.add_labelled(Meter::CONNECTIONS_REFUSED, refusal.index(), 1);
            return;
        }
        Ok(Err(Unopened::Broken(reason))) => {
            host.add(Meter::BROKEN_PREFACES, 1);
            tracing::debug!(listener = serving.listener.name, peer = ?origin.peer, reason, "preface broken");
            return;
        }
        Ok(Err(Unopened::Handshake { reason, begun })) => {
            host.add_labelled(Meter::HANDSHAKES, Handshake::Failed as usize, 1);
            tracing::debug!(listener = serving.listener.name, client = ?origin.client, reason, "TLS handshake failed");
            if begun {
                // So that the alert arrives, whatever the client has sent after what was wrong.
                linger(socket, || false).await;
            }
            return;
        }
        Err(_) => {
            match has_hello {
                // Its turn on a thread may not have come, which is no fault of the client's.
                true => host.add_labelled(Meter::HANDSHAKES, Handshake::Failed as usize, 1),
                false => host.add(Meter::BROKEN_PREFACES, 1),
            }
            return socket.reset_on_close();
        }
    };
    registered.pulse().enter(pulse::Phase::Idle);
    let listener = &serving.listener;
    match stream {
        Opened::Plain(before) => {
            let connection = Connection::new(&worker, listener, origin, None, socket, registered, place);
            http1::serve_plain(worker, connection, before).await;
        }
        Opened::Tls(stream) => {
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let connection = Connection::new(&worker, listener, origin, tls, socket, registered, place);
            match is_http2 {
                true => http2::serve(worker, connection, Stream::Tls(stream), Bytes::new()).await,
                false => http1::serve_tls(worker, connection, stream).await,
            }
        }
    }
}

/// Where a connection comes from.
#[derive(Clone, Copy)]
struct Origin {
    peer: Option<SocketAddr>,
    client: Option<SocketAddr>,
    local: Option<SocketAddr>,
    /// Whether anybody knows who speaks.
    is_known: bool,
}

/// A connection whose preface is complete.
enum Opened {
    /// Without TLS: the bytes read so far.
    Plain(Bytes),
    /// With TLS.
    Tls(Box<tokio_rustls::server::TlsStream<Rewound>>),
}

/// Why a preface came to nothing. The socket has been told whatever it is to be told.
enum Unopened {
    Refused(Refusal),
    Broken(&'static str),
    /// `begun`: something of it has been read and answered.
    Handshake {
        reason: String,
        begun: bool,
    },
}

impl From<preface::Broken> for Unopened {
    fn from(broken: preface::Broken) -> Self {
        Self::Broken(broken.0)
    }
}

/// Reads the preface, asks whether a client that a PROXY header names is let in, and does the TLS handshake.
async fn secure(
    worker: &Worker,
    serving: &Serving,
    socket: &Socket,
    origin: &mut Origin,
    place: &mut Place,
    has_hello: &mut bool,
) -> Result<(Option<TlsFacts>, Opened), Unopened> {
    let mut buffer = preface::Buffer::new(socket, &worker.scratch);
    if serving.listener.proxy_protocol {
        if !serving.trusts(origin.peer) {
            socket.reset_on_close();
            return Err(Unopened::Broken("a PROXY header is believed from trusted networks only"));
        }
        match preface::proxy_header(&mut buffer).await? {
            Speaker::Client(addresses) => {
                origin.client = Some(addresses.source);
                origin.local = Some(addresses.destination);
            }
            Speaker::Unknown => origin.is_known = false,
            Speaker::Balancer => {}
        }
        place.arrive(worker.client_hash(origin.client)).map_err(|refusal| {
            socket.reset_on_close();
            Unopened::Refused(refusal)
        })?;
    }
    let Some(tls) = &serving.tls else {
        return Ok((None, Opened::Plain(buffer.into_bytes())));
    };
    let hello = preface::hello(&mut buffer).await?;
    *has_hello = true;
    let present = tls.present();
    let is_resumable = tidegate_hello::resumable(&hello, |ticket| present.opens(ticket));
    let view = worker.core.view();
    let application = match (&serving.listener.application, &hello.server_name) {
        (Some(only), _) => {
            view.snapshot.application_named(only).and_then(|position| view.applications.get(position))
        }
        (None, Some(name)) => match view.application_for_host(name) {
            None => {
                preface::alert(socket, preface::Alert::UnrecognizedName);
                let reason = format!("no application serves {name:?}");
                return Err(Unopened::Handshake { reason, begun: false });
            }
            known => known,
        },
        // Whoever serves any host, if one does.
        (None, None) => view.application_for_host(""),
    };
    let greeted = match application {
        Some(application) => greet(worker, application, is_resumable).map_err(|refusal| {
            socket.reset_on_close();
            Unopened::Refused(refusal)
        })?,
        None => None,
    };
    let gate = application.map(|application| application.gate.clone());
    drop((hello, view));
    let handshake =
        preface::handshake(buffer, present, is_resumable, worker.handshakes(), worker.handshakes_max());
    let stream = handshake.await.map_err(|reason| Unopened::Handshake { reason, begun: true })?;
    let facts = crate::tls::facts(stream.get_ref().1, greeted);
    if let Some((gate, (_, session))) = gate.zip(greeted) {
        gate.begin_session(session);
    }
    let kind = crate::tls::handshake(&facts);
    worker.core.meters().host().add_labelled(Meter::HANDSHAKES, kind as usize, 1);
    Ok((Some(facts), Opened::Tls(Box::new(stream))))
}

/// Asks whether a session is let in, where its application looks at that, and counts it.
fn greet(
    worker: &Worker,
    application: &CoreApplication,
    is_resumable: bool,
) -> Result<Option<(ApplicationId, Session)>, Refusal> {
    let CoreApplication { application, gate, .. } = application;
    if application.settings.values.get(keys::TLS_SESSIONS_MODE).0 == Mode::Off {
        return Ok(None);
    }
    let session = if is_resumable { Session::Resumed } else { Session::New };
    let greeting = gate.greet(session);
    let cells = worker.core.meters().cells(Subject::Application(application.id));
    cells.add_labelled(Meter::TLS_SESSIONS, SessionMet::of(session, greeting) as usize, 1);
    match greeting {
        Greeting::Admit | Greeting::WouldRefuse => Ok(Some((application.id, session))),
        Greeting::Refuse => Err(Refusal::NewSession),
    }
}

/// Refuses a connection before anything of it is read.
fn refuse(worker: &Worker, socket: &Socket, refusal: Refusal) {
    worker.core.meters().host().add_labelled(Meter::CONNECTIONS_REFUSED, refusal.index(), 1);
    socket.reset_on_close();
}

impl Connection {
    fn new(
        worker: &Worker,
        listener: &Arc<Listener>,
        origin: Origin,
        tls: Option<TlsFacts>,
        socket: Socket,
        registered: Registered,
        place: Place,
    ) -> Rc<Self> {
        Rc::new(Self {
            facts: ConnectionFacts {
                id: worker.next_connection_id(),
                listener: Arc::clone(listener),
                transport_peer: origin.peer,
                client: origin.client,
                local: origin.local,
                tls,
                // Behind a load balancer that passes bytes on, whoever it names wrote the fields.
                trusted: origin.is_known && crate::listener::is_trusted(&listener.trusted, origin.client),
                requests: Cell::new(0),
                forwarding: OnceCell::new(),
                presence: OnceCell::new(),
            },
            protocol: Cell::new(Protocol::Http1),
            socket,
            draining: Rc::clone(&worker.draining),
            parked: worker.core.shared().parked().clone(),
            upgrade: RefCell::default(),
            departure: RefCell::default(),
            in_step: RefCell::default(),
            interim: Rc::default(),
            waits: Cell::new(false),
            registered,
            _place: place,
        })
    }
}

/// Ends a connection so that the response that was sent last still arrives.
async fn close(io: ClientIo, pulse: &Pulse) {
    linger(io, || pulse.has_ended()).await;
}

/// Says that nothing follows, then takes in what the client is still sending, for a while, since closing with unread
/// bytes would reset the connection and destroy what was sent last on its way.
async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin, has_ended: impl Fn() -> bool) {
    const CHUNK_BYTES: usize = 16 * 1024;
    // Boxed, so that connections that are open hold nothing of it.
    let lingering = async {
        if stream.shutdown().await.is_err() || has_ended() {
            return;
        }
        let mut buffer = vec![0; CHUNK_BYTES];
        while matches!(stream.read(&mut buffer).await, Ok(1..)) {}
    };
    let _ = Box::pin(tokio::time::timeout(LINGER, lingering)).await;
}

//! One thread's HTTP client: connections by kind, reuse, and one exchange at a time on each.

mod http1;
mod http2;
mod stream;

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response, Version, header};
use http_body_util::Full;
use rustls::{ClientConfig, HandshakeKind, ProtocolVersion};
use rustls_pki_types::ServerName;
use tokio::{net::TcpStream, sync::Mutex};
use tokio_rustls::TlsConnector;

pub(crate) use self::http2::LocalExecutor;
use self::{http1::Http1, http2::Http2, stream::Stream};
use crate::{
    outcome::{ErrorKind, Phase},
    plan::{ClassTemplate, Protocol},
    tally::ConnectionTally,
};

/// What a [`Client`] needs to know of the target.
#[derive(Clone)]
pub(crate) struct Destination {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) authority: header::HeaderValue,
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    pub(crate) protocol: Protocol,
    pub(crate) keep_alive: bool,
    pub(crate) h2_connections: usize,
}

/// The connections of one thread.
pub(crate) struct Client {
    destination: Destination,
    /// The address that answered last, so that a dead first address is tried once only.
    address: Cell<usize>,
    /// Idle HTTP/1 connections, used most recently at the back: those that stay idle long enough
    /// for a server to close them are the ones that are not needed.
    idle: RefCell<VecDeque<Http1>>,
    /// Shared HTTP/2 connections; the lock lets one request connect while the others wait.
    shared: Vec<Mutex<Option<Http2>>>,
    next_shared: Cell<usize>,
    /// Set when ALPN chose HTTP/1.1 though HTTP/2 was offered.
    alpn_chose_http1: Cell<bool>,
    tally: RefCell<ConnectionTally>,
}

/// A whole reply, its body counted and thrown away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) retry_after: Option<Duration>,
}

enum Fresh {
    Http1(Http1),
    Http2(Http2),
}

impl Client {
    pub(crate) fn new(destination: Destination) -> Self {
        let shared = (0..destination.h2_connections).map(|_| Mutex::new(None)).collect();
        Self {
            destination,
            address: Cell::new(0),
            idle: RefCell::default(),
            shared,
            next_shared: Cell::new(0),
            alpn_chose_http1: Cell::new(false),
            tally: RefCell::default(),
        }
    }

    /// Sends one request and reads its reply. Dropping the future closes the HTTP/1 connection
    /// or resets the HTTP/2 stream. `phase` says all the while what is being waited for.
    pub(crate) async fn exchange(
        &self,
        class: &ClassTemplate,
        body: &Bytes,
        phase: &Cell<Phase>,
    ) -> Result<Reply, ErrorKind> {
        if self.uses_http2() {
            match self.shared_connection(phase).await? {
                Some(Fresh::Http2(mut connection)) => {
                    phase.set(Phase::Head);
                    return connection.exchange(self.request(class, body, Version::HTTP_2), phase).await;
                }
                Some(Fresh::Http1(connection)) => return self.finish(connection, class, body, phase).await,
                None => {}
            }
        }
        while let Some(mut connection) = self.take_idle() {
            if !connection.is_reusable().await {
                self.tally.borrow_mut().closed_while_idle += 1;
                continue;
            }
            phase.set(Phase::Head);
            let reply = connection.exchange(self.request(class, body, Version::HTTP_11), phase).await;
            match reply {
                Ok(reply) => {
                    self.tally.borrow_mut().reuses += 1;
                    self.give_back(connection).await;
                    return Ok(reply);
                }
                // The server closed an idle connection while the request was on its way: what a
                // browser does is to send it once more (RFC 9112, section 9.3.1).
                Err(ErrorKind::Closed | ErrorKind::Reset)
                    if phase.get() == Phase::Head && class.method.is_idempotent() =>
                {
                    self.tally.borrow_mut().closed_while_idle += 1;
                    break;
                }
                Err(kind) => return Err(kind),
            }
        }
        match self.connect(phase).await? {
            Fresh::Http1(connection) => self.finish(connection, class, body, phase).await,
            Fresh::Http2(_) => Err(ErrorKind::Protocol),
        }
    }

    /// What the connections went through; the client starts again from zero.
    pub(crate) fn take_tally(&self) -> ConnectionTally {
        self.tally.take()
    }

    fn uses_http2(&self) -> bool {
        match self.destination.protocol {
            Protocol::Http1 => false,
            Protocol::Http2 => true,
            Protocol::Auto => self.destination.tls.is_some() && !self.alpn_chose_http1.get(),
        }
    }

    async fn finish(
        &self,
        mut connection: Http1,
        class: &ClassTemplate,
        body: &Bytes,
        phase: &Cell<Phase>,
    ) -> Result<Reply, ErrorKind> {
        phase.set(Phase::Head);
        let reply = connection.exchange(self.request(class, body, Version::HTTP_11), phase).await?;
        self.give_back(connection).await;
        Ok(reply)
    }

    fn request(&self, class: &ClassTemplate, body: &Bytes, version: Version) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = class.method.clone();
        *request.version_mut() = version;
        *request.headers_mut() = class.headers.clone();
        if version == Version::HTTP_2 {
            *request.uri_mut() = class.absolute.clone();
        } else {
            *request.uri_mut() = class.origin_form.clone();
            request.headers_mut().entry(header::HOST).or_insert_with(|| self.destination.authority.clone());
        }
        request
    }

    fn take_idle(&self) -> Option<Http1> {
        self.idle.borrow_mut().pop_back()
    }

    async fn give_back(&self, mut connection: Http1) {
        if self.destination.keep_alive && connection.is_reusable().await {
            self.idle.borrow_mut().push_back(connection);
        }
    }

    /// An HTTP/2 connection, or the HTTP/1 one that ALPN made of it; `None` if ALPN chose HTTP/1
    /// for another request while this one waited.
    async fn shared_connection(&self, phase: &Cell<Phase>) -> Result<Option<Fresh>, ErrorKind> {
        let index = self.next_shared.get();
        self.next_shared.set((index + 1) % self.shared.len().max(1));
        let slot = self.shared.get(index).ok_or(ErrorKind::Protocol)?;
        phase.set(Phase::Connect);
        let mut slot = slot.lock().await;
        if !self.uses_http2() {
            return Ok(None);
        }
        if let Some(connection) = slot.as_ref().filter(|connection| connection.is_open()) {
            self.tally.borrow_mut().reuses += 1;
            return Ok(Some(Fresh::Http2(connection.clone())));
        }
        let fresh = self.connect(phase).await?;
        match &fresh {
            Fresh::Http2(connection) => *slot = Some(connection.clone()),
            Fresh::Http1(_) => self.alpn_chose_http1.set(true),
        }
        Ok(Some(fresh))
    }

    async fn connect(&self, phase: &Cell<Phase>) -> Result<Fresh, ErrorKind> {
        phase.set(Phase::Connect);
        let began = Instant::now();
        let fresh = self.connect_inner(phase).await;
        let mut tally = self.tally.borrow_mut();
        match &fresh {
            Ok(Fresh::Http1(_)) => tally.opened_http1 += 1,
            Ok(Fresh::Http2(_)) => tally.opened_http2 += 1,
            Err(_) => tally.failed += 1,
        }
        if fresh.is_ok() {
            tally.record_setup(began.elapsed());
        }
        fresh
    }

    async fn connect_inner(&self, phase: &Cell<Phase>) -> Result<Fresh, ErrorKind> {
        let socket = self.connect_tcp().await?;
        phase.set(Phase::Handshake);
        let Some((config, name)) = &self.destination.tls else {
            return if self.destination.protocol == Protocol::Http2 {
                Ok(Fresh::Http2(Http2::begin(Stream::Plain(socket)).await?))
            } else {
                Ok(Fresh::Http1(Http1::begin(Stream::Plain(socket)).await?))
            };
        };
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector.connect(name.clone(), socket).await.map_err(|_| ErrorKind::Tls)?;
        let session = stream.get_ref().1;
        {
            let mut tally = self.tally.borrow_mut();
            match session.handshake_kind() {
                Some(HandshakeKind::Resumed) => tally.tls_resumed += 1,
                _ => tally.tls_full += 1,
            }
            match session.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => tally.tls13 += 1,
                _ => tally.tls12 += 1,
            }
        }
        let chose_http2 = session.alpn_protocol() == Some(b"h2");
        let stream = Stream::Tls(Box::new(stream));
        if chose_http2 {
            Ok(Fresh::Http2(Http2::begin(stream).await?))
        } else if self.destination.protocol == Protocol::Http2 {
            Err(ErrorKind::Protocol)
        } else {
            Ok(Fresh::Http1(Http1::begin(stream).await?))
        }
    }

    async fn connect_tcp(&self) -> Result<TcpStream, ErrorKind> {
        let addresses = &self.destination.addresses;
        let mut last = ErrorKind::Connect;
        for step in 0..addresses.len() {
            let index = (self.address.get() + step) % addresses.len();
            let Some(address) = addresses.get(index) else { break };
            match TcpStream::connect(address).await {
                Ok(socket) => {
                    self.address.set(index);
                    // A request is one write: Nagle could only delay a large body's last segment.
                    let _ = socket.set_nodelay(true);
                    return Ok(socket);
                }
                Err(fault) => last = ErrorKind::of_connect(&fault),
            }
        }
        Err(last)
    }
}

impl Reply {
    fn from_head<B>(response: &Response<B>) -> Self {
        let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| {
            let seconds: u32 = value.to_str().ok()?.trim().parse().ok()?;
            Some(Duration::from_secs(seconds.into()))
        });
        Self { status: response.status().as_u16(), body_bytes: 0, retry_after }
    }
}

//! One thread's HTTP client: connections by kind, reuse, and one exchange at a time on each.

mod http1;
mod http2;
mod pool;
mod stream;

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, Uri, Version, header,
    uri::{Authority, Scheme},
};
use http_body_util::Full;
use rustls::{HandshakeKind, ProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use self::{http1::Http1, http2::Http2, stream::Stream};
pub(crate) use self::{http2::LocalExecutor, pool::Pool};
use crate::{
    onward::{Onward, retry_after},
    outcome::{ErrorKind, Phase},
    plan::Protocol,
    random::SplitMix64,
    request::RequestTemplate,
    tally::ConnectionTally,
    tls::TlsClient,
};

/// What a [`Client`] needs to know of the target.
#[derive(Clone)]
pub(crate) struct Destination {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) protocol: Protocol,
    pub(crate) keep_alive: bool,
    pub(crate) requests_per_connection: Option<u32>,
    pub(crate) h2_connections: usize,
}

/// One thread's way to the server; the connections are in a [`Pool`].
pub(crate) struct Client {
    destination: Destination,
    host: HeaderValue,
    /// The address that answered last, so that a dead first address is tried once only.
    address: Cell<usize>,
    /// Draws which connections offer to resume.
    random: RefCell<SplitMix64>,
    tally: RefCell<ConnectionTally>,
}

/// A whole reply, its body counted and thrown away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) retry_after: Option<Duration>,
    /// Where it sends its client, if it does.
    pub(crate) onward: Option<Onward>,
    /// Its `Set-Cookie` lines.
    pub(crate) cookies: Vec<HeaderValue>,
}

/// A request on its way: what is asked for, and what is being waited for.
pub(crate) struct Exchange<'a> {
    pub(crate) template: &'a RequestTemplate,
    pub(crate) body: &'a Bytes,
    pub(crate) phase: &'a Cell<Phase>,
    /// Whose reply is read for where it sends its client and for cookies.
    pub(crate) reads_on: bool,
}

/// Times a request is sent at most whose server says each time that it has done nothing with it.
const SENDINGS_MAX: u32 = 3;

enum Fresh {
    Http1(Http1),
    Http2(Http2),
}

impl Client {
    pub(crate) fn new(destination: Destination, random: SplitMix64) -> Self {
        let host = HeaderValue::from_str(destination.authority.as_str());
        Self {
            // An authority has no characters that a header has not.
            host: host.unwrap_or_else(|_| HeaderValue::from_static("")),
            destination,
            address: Cell::new(0),
            random: RefCell::new(random),
            tally: RefCell::default(),
        }
    }

    pub(crate) fn destination(&self) -> &Destination {
        &self.destination
    }

    /// Sends one request and reads its reply. Dropping the future closes the HTTP/1 connection
    /// or resets the HTTP/2 stream. The phase says all the while what is being waited for.
    pub(crate) async fn exchange(&self, pool: &Pool, exchange: &Exchange<'_>) -> Result<Reply, ErrorKind> {
        let phase = exchange.phase;
        let mut sendings = 0;
        while pool.uses_http2() {
            match self.shared_connection(pool, phase).await? {
                Some(Fresh::Http2(mut connection)) => {
                    phase.set(Phase::Head);
                    let request = self.request(exchange, Version::HTTP_2);
                    sendings += 1;
                    if let Some(reply) = connection.exchange(request, phase, self.reader(exchange)).await? {
                        return Ok(reply);
                    }
                    if sendings == SENDINGS_MAX {
                        return Err(ErrorKind::Closed);
                    }
                    self.tally.borrow_mut().closed_while_idle += 1;
                    // The connection's own task has yet to hear that it takes no more.
                    tokio::task::yield_now().await;
                }
                Some(Fresh::Http1(connection)) => return self.finish(pool, connection, exchange).await,
                None => break,
            }
        }
        while let Some(mut connection) = pool.take_idle() {
            if !connection.is_reusable().await {
                self.tally.borrow_mut().closed_while_idle += 1;
                continue;
            }
            phase.set(Phase::Head);
            let request = self.request(exchange, Version::HTTP_11);
            match connection.exchange(request, phase, self.reader(exchange)).await {
                Ok(reply) => {
                    self.tally.borrow_mut().reuses += 1;
                    self.give_back(pool, connection).await;
                    return Ok(reply);
                }
                // The server closed an idle connection while the request was on its way: what a
                // browser does is to send it once more (RFC 9112, section 9.3.1).
                Err(ErrorKind::Closed | ErrorKind::Reset)
                    if phase.get() == Phase::Head && exchange.template.method.is_idempotent() =>
                {
                    self.tally.borrow_mut().closed_while_idle += 1;
                    break;
                }
                Err(kind) => return Err(kind),
            }
        }
        match self.connect(pool, phase).await? {
            Fresh::Http1(connection) => self.finish(pool, connection, exchange).await,
            Fresh::Http2(_) => Err(ErrorKind::Protocol),
        }
    }

    /// What the connections went through; the client starts again from zero.
    pub(crate) fn take_tally(&self) -> ConnectionTally {
        self.tally.take()
    }

    async fn finish(
        &self,
        pool: &Pool,
        mut connection: Http1,
        exchange: &Exchange<'_>,
    ) -> Result<Reply, ErrorKind> {
        exchange.phase.set(Phase::Head);
        let request = self.request(exchange, Version::HTTP_11);
        let reply = connection.exchange(request, exchange.phase, self.reader(exchange)).await?;
        self.give_back(pool, connection).await;
        Ok(reply)
    }

    fn request(&self, exchange: &Exchange<'_>, version: Version) -> Request<Full<Bytes>> {
        let template = exchange.template;
        let mut request = Request::new(Full::new(exchange.body.clone()));
        *request.method_mut() = template.method.clone();
        *request.version_mut() = version;
        *request.headers_mut() = template.headers.clone();
        let mut parts = http::uri::Parts::default();
        parts.path_and_query = Some(template.target.clone());
        if version == Version::HTTP_2 {
            // HTTP/2 derives its pseudo-headers from an absolute URI.
            parts.scheme = Some(self.destination.scheme.clone());
            parts.authority = Some(self.asked_host(template));
            request.headers_mut().remove(header::HOST);
        } else {
            request.headers_mut().entry(header::HOST).or_insert_with(|| self.host.clone());
        }
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        request
    }

    /// How the reply's head is read.
    fn reader<'a>(&'a self, exchange: &Exchange<'a>) -> HeadReader<'a> {
        let template = exchange.reads_on.then_some(exchange.template);
        HeadReader(template.map(|template| (template, self.asked_host(template))))
    }

    /// The host that a request asks for: by a `Host` of its own, or its server's.
    fn asked_host(&self, template: &RequestTemplate) -> Authority {
        let own = template.headers.get(header::HOST);
        let own = own.and_then(|host| Authority::try_from(host.as_bytes()).ok());
        own.unwrap_or_else(|| self.destination.authority.clone())
    }

    async fn give_back(&self, pool: &Pool, mut connection: Http1) {
        let is_used_up =
            self.destination.requests_per_connection.is_some_and(|most| connection.carried() >= most);
        if self.destination.keep_alive && !is_used_up && connection.is_reusable().await {
            pool.give_back(connection);
        }
    }

    /// An HTTP/2 connection, or the HTTP/1 one that ALPN made of it; `None` if ALPN chose HTTP/1
    /// for another request while this one waited.
    async fn shared_connection(&self, pool: &Pool, phase: &Cell<Phase>) -> Result<Option<Fresh>, ErrorKind> {
        let slot = pool.next_slot().ok_or(ErrorKind::Protocol)?;
        phase.set(Phase::Connect);
        let mut slot = slot.lock().await;
        if !pool.uses_http2() {
            return Ok(None);
        }
        let most = self.destination.requests_per_connection;
        let open =
            slot.as_mut().filter(|open| open.is_open() && most.is_none_or(|most| open.carried() < most));
        if let Some(connection) = open {
            self.tally.borrow_mut().reuses += 1;
            return Ok(Some(Fresh::Http2(connection.one_more())));
        }
        let fresh = self.connect(pool, phase).await?;
        Ok(Some(match fresh {
            Fresh::Http2(mut connection) => {
                let handle = connection.one_more();
                *slot = Some(connection);
                Fresh::Http2(handle)
            }
            Fresh::Http1(connection) => {
                pool.note_alpn_chose_http1();
                Fresh::Http1(connection)
            }
        }))
    }

    async fn connect(&self, pool: &Pool, phase: &Cell<Phase>) -> Result<Fresh, ErrorKind> {
        phase.set(Phase::Connect);
        let began = Instant::now();
        let fresh = self.connect_inner(pool, phase).await;
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

    async fn connect_inner(&self, pool: &Pool, phase: &Cell<Phase>) -> Result<Fresh, ErrorKind> {
        let socket = self.connect_tcp().await?;
        phase.set(Phase::Handshake);
        let Some(tls) = pool.tls() else {
            return if self.destination.protocol == Protocol::Http2 {
                Ok(Fresh::Http2(Http2::begin(Stream::Plain(socket)).await?))
            } else {
                Ok(Fresh::Http1(Http1::begin(Stream::Plain(socket)).await?))
            };
        };
        let drawn = tls.resume_share >= 1.0 || self.random.borrow_mut().unit() <= tls.resume_share;
        let offers = drawn || pool.owes_resumptions();
        let config = if offers { &tls.resuming } else { &tls.full };
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector.connect(tls.name.clone(), socket).await.map_err(|fault| {
            self.tally.borrow_mut().tls_fault.get_or_insert_with(|| fault.to_string());
            ErrorKind::Tls
        })?;
        let session = stream.get_ref().1;
        {
            let resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
            pool.note_handshake(drawn, resumed);
            let mut tally = self.tally.borrow_mut();
            *(if resumed { &mut tally.tls_resumed } else { &mut tally.tls_full }) += 1;
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

/// Reads of a reply's head what its client goes by.
///
/// With the request and the host it asks for, if where the reply leads is of interest.
struct HeadReader<'a>(Option<(&'a RequestTemplate, Authority)>);

impl HeadReader<'_> {
    fn read<B>(&self, response: &Response<B>) -> Reply {
        let (status, headers) = (response.status(), response.headers());
        let onward = self.0.as_ref().and_then(|(template, authority)| {
            Onward::read(status, headers, &template.method, template.target.as_str(), authority)
        });
        let cookies = match self.0 {
            Some(_) => headers.get_all(header::SET_COOKIE).iter().cloned().collect(),
            None => Vec::new(),
        };
        Reply { status: status.as_u16(), body_bytes: 0, retry_after: retry_after(headers), onward, cookies }
    }
}

//! The admin interface's own small HTTP server, on a thread of its own.
//!
//! It answers whatever load the gateway is under: it shares no thread with the workers and takes
//! no lock for longer than a reading.

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    pin::pin,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls_pki_types::CertificateDer;
use serde_json::{Value as Json, json};
use tidegate_config::{AdminAccess, Certificate};
use tidegate_control::Timestamp;
use tidegate_runtime::Shared;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    access::{self, Access, Caller, Peer, TokenError},
    bypasses, capacity,
    controllers::{Board, Controllers},
    door::{Door, Doorkeeper},
    events::{Events, Kind},
    knobs::Knobs,
    measurements, metrics,
    openapi::openapi,
    overview, page,
    parameters::Parameters,
    patience::Patient,
    problem::Problem,
    questions::Questions,
    record::Record,
    recording::{Recording, State},
    reports,
    servers::Servers,
    stream::{self, Stream},
    tls::{self, AdminTlsError, Tls},
    waiting_rooms,
    watch::Watch,
};

/// Largest request body taken.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Largest head of a request.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Connections served at once; further ones wait in the kernel.
const CONNECTIONS_MAX: usize = 256;
/// Measurements asked for that are answered at once.
const QUESTIONS_MAX: usize = 2;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// What is answered: a whole text, or events that go on.
type Answer = Response<Either<Full<Bytes>, Stream>>;

/// The admin interface of one process.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    socket: StdListener,
    keeper: Doorkeeper,
    ready: Arc<AtomicBool>,
    shared: Arc<Shared>,
    events: Arc<Events>,
    access: Arc<Access>,
    tls: Arc<RwLock<Option<Arc<Tls>>>>,
    /// Ends the serving thread when dropped.
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// Why the admin interface cannot answer as configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// Its address could not be taken.
    #[error("admin address {address}: {source}: {}", mend(source))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What went wrong.
        source: io::Error,
    },
    /// A token cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Its certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] AdminTlsError),
    /// Tokens or certificates would be asked of nobody any more.
    #[error(
        "admin address {0} can be reached from elsewhere: no token or certificate would be asked of who comes; what was asked before still is"
    )]
    Unguarded(SocketAddr),
}

/// What helps where the address could not be taken.
fn mend(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "free it, or set another: \"admin\" in a file, --admin without one",
        io::ErrorKind::AddrNotAvailable => {
            "it is none of this host's; set another: \"admin\" in a file, --admin without one"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need CAP_NET_BIND_SERVICE; or set another: \"admin\" in a file, --admin without one"
        }
        // Of which there is no kind.
        _ => "with too few open files, raise LimitNOFILE or `ulimit -n`",
    }
}

/// Reads the tokens and the certificate of the admin interface as a start would.
///
/// # Errors
///
/// [`AdminError`] for each that cannot be used.
pub fn check_access(settings: &AdminAccess) -> Result<(), Vec<AdminError>> {
    let tokens = settings.tokens.iter().filter_map(|token| access::read(token).err()).map(AdminError::from);
    let tls = settings.tls.as_ref().and_then(|tls| tls::read(tls).err()).map(AdminError::from);
    let faults: Vec<_> = tokens.chain(tls).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

impl Admin {
    /// Binds `address`, or takes over the socket of the process that this one succeeds, and serves from a thread of its
    /// own from [`Admin::set_ready`] until the value is dropped.
    ///
    /// # Errors
    ///
    /// [`AdminError`] when the address cannot be taken, or a token's or certificate's file not be used.
    pub fn start(
        shared: Arc<Shared>,
        recording: &Recording,
        controllers: &Controllers,
        address: SocketAddr,
        inherited: Option<StdListener>,
    ) -> Result<Self, AdminError> {
        let fail = |source| AdminError::Bind { address, source };
        let settings = &shared.snapshot().settings.admin_access;
        let access = Arc::new(Access::new(settings, *shared.clock())?);
        let tls = Arc::new(RwLock::new(settings.tls.as_ref().map(tls::read).transpose()?));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
        let socket = inherited.map_or_else(|| StdListener::bind(address), Ok).map_err(fail)?;
        let address = socket.local_addr().map_err(fail)?;
        let listener = {
            let _context = runtime.enter();
            socket.set_nonblocking(true).map_err(fail)?;
            socket.try_clone().and_then(TcpListener::from_std).map_err(fail)?
        };
        let keeper = Doorkeeper::new();
        let door = keeper.door();
        let ready = Arc::new(AtomicBool::new(false));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        if !address.ip().is_loopback() {
            if !access.is_demanded() {
                return Err(AdminError::Unguarded(address));
            }
            if settings.tls.is_none() {
                tracing::warn!(%address, "admin: tokens cross the network in plain text: give admin_tls.certificate, or put TLS before it");
            }
        }
        let api = Api {
            access: Arc::clone(&access),
            started: shared.clock().now(),
            shared: Arc::clone(&shared),
            state: recording.state(),
            knobs: recording.knobs(),
            record: recording.record(),
            events: recording.events(),
            watch: Arc::default(),
            questions: Questions::new(QUESTIONS_MAX),
            overviews: Questions::new(1),
            readers: Arc::new(Semaphore::new(stream::READERS_MAX)),
            controllers: controllers.board(),
            ready: Arc::clone(&ready),
            door: door.clone(),
        };
        let present = Arc::clone(&tls);
        std::thread::Builder::new()
            .name("tidegate-admin".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(listener, api.clone(), present, door) => {}
                        () = api.look_each_second() => {}
                        _ = stopped => {}
                    }
                });
            })
            .map_err(fail)?;
        let events = recording.events();
        Ok(Self { address, socket, keeper, ready, shared, events, access, tls, _stop: stop })
    }

    /// Where it answers.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it speaks TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The certificate in force, with the chain as it was read from its files; `None` where it speaks plain HTTP.
    #[must_use]
    pub fn certificate(&self) -> Option<(Certificate, Vec<CertificateDer<'static>>)> {
        let present = self.tls.read().unwrap_or_else(PoisonError::into_inner);
        present.as_ref().map(|tls| (tls.files.clone(), tls.chain.clone()))
    }

    /// Takes up tokens and certificates as settings and files say now.
    ///
    /// # Errors
    ///
    /// [`AdminError`]; what was in force stays so.
    pub fn reload(&self) -> Result<(), AdminError> {
        let settings = &self.shared.snapshot().settings.admin_access;
        if !self.address.ip().is_loopback() && !settings.is_demanded() {
            return Err(AdminError::Unguarded(self.address));
        }
        let read = settings.tls.as_ref().map(tls::read).transpose()?;
        self.access.reload(settings)?;
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    /// Whether `/readyz` is green: from the moment listeners accept until draining begins. Load
    /// does not change it, since an overloaded gateway works. It answers from the first time on.
    pub fn set_ready(&self, ready: bool) {
        if self.ready.swap(ready, Ordering::Relaxed) && !ready {
            self.events.publish(self.shared.clock().now(), Kind::Ending, json!({}));
        }
        if ready {
            self.keeper.open();
        }
    }

    /// The socket, for a successor, while which starts nobody is taken in here: [`Admin::resume`] if it does not, or
    /// [`Admin::hand_over`].
    pub fn offer(&self) -> &StdListener {
        self.keeper.shut();
        &self.socket
    }

    /// Answers on: there is no successor.
    pub fn resume(&self) {
        self.keeper.open();
    }

    /// A successor answers from now on: what is asked here is answered to its end, streams of events end, and so do
    /// connections.
    pub fn hand_over(&self) {
        self.keeper.end();
    }
}

/// What answers requests.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Arc<State>,
    pub(crate) controllers: Board,
    pub(crate) watch: Arc<Watch>,
    pub(crate) started: Timestamp,
    /// Overviews are short, and do not wait for questions that are long.
    pub(crate) overviews: Questions,
    questions: Questions,
    access: Arc<Access>,
    knobs: Knobs,
    record: Arc<Record>,
    events: Arc<Events>,
    /// Places for readers of events.
    readers: Arc<Semaphore>,
    ready: Arc<AtomicBool>,
    door: Door,
}

async fn serve(listener: TcpListener, api: Api, tls: Arc<RwLock<Option<Arc<Tls>>>>, mut door: Door) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        if !door.opens().await {
            break;
        }
        let accepted = tokio::select! {
            biased;
            () = door.shuts() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "admin: accept failed");
                // Out of file descriptors is the usual cause, and trying at once would spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let api = api.clone();
        let present = tls.read().unwrap_or_else(PoisonError::into_inner).clone();
        tokio::spawn(async move {
            let (stream, mut peer) = (Patient::new(stream), Peer { address: peer.ip(), certificate: None });
            match present {
                None => api.converse(stream, peer).await,
                Some(tls) => {
                    let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
                    match tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => {
                            peer.certificate = tls::fingerprint(stream.get_ref().1);
                            api.converse(stream, peer).await;
                        }
                        Ok(Err(error)) => tracing::debug!(%error, "admin: no handshake"),
                        Err(_) => tracing::debug!("admin: the handshake took too long"),
                    }
                }
            }
            drop(permit);
        });
    }
    drop(listener);
    // The connections that are left live as long as the process.
    std::future::pending().await
}

/// Paths that answer whoever asks: the page, which shows nothing without the API.
fn is_open(path: &[&str]) -> bool {
    matches!(path, [name] if page::is_file(name))
}

/// The methods of a path; `None` where nothing is.
fn allowed(path: &[&str]) -> Option<&'static str> {
    Some(match path {
        ["healthz" | "readyz" | "metrics"] => "GET, HEAD",
        [name] if page::is_file(name) => "GET, HEAD",
        ["api", "v1", "knobs"] => "GET, HEAD, PATCH",
        ["api", "v1", "knobs", "revert"] => "POST",
        ["api", "v1", "knobs", "changes"] => "GET, HEAD",
        [
            "api",
            "v1",
            "session" | "overview" | "events" | "measurements" | "archives" | "controllers" | "applications"
            | "capacity" | "waiting-rooms" | "openapi.json",
        ] => "GET, HEAD",
        ["api", "v1", "waiting-rooms", "keys"]
        | ["api", "v1", "applications", _, "capacity", "rediscover"]
        | ["api", "v1", "applications", _, "waiting-room", "bypass" | "report"] => "POST",
        ["api", "v1", "applications", _, "waiting-room"] => "GET, HEAD",
        ["api", "v1", "applications", _, "capacity"] => "GET, HEAD, POST",
        ["api", "v1", "applications", _, "servers"] => "GET, HEAD, POST",
        ["api", "v1", "applications", _, "servers", _] => "PATCH, DELETE",
        _ => return None,
    })
}

/// Whether who answers reads the query; others have no parameter. What is not of the API leaves it unread.
fn reads_query(method: &Method, path: &[&str]) -> bool {
    match path {
        ["api", "v1", "overview" | "events" | "measurements"] | ["api", "v1", "knobs", "changes"] => true,
        ["api", "v1", "knobs"] => method == Method::GET,
        ["api", "v1", "applications", _, "servers", _] => method == Method::DELETE,
        ["api", ..] => false,
        _ => true,
    }
}

impl Api {
    /// Answers the requests of one connection.
    async fn converse(&self, stream: impl AsyncRead + AsyncWrite + Unpin, peer: Peer) {
        let service = service_fn(|request| async {
            let mut answer = self.answer(request, &peer).await;
            harden(answer.headers_mut());
            Ok::<_, std::convert::Infallible>(answer)
        });
        let mut served = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service)
        );
        let mut door = self.door.clone();
        let served = tokio::select! {
            served = served.as_mut() => served,
            () = door.is_over() => {
                served.as_mut().graceful_shutdown();
                served.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "admin: connection ended");
        }
    }
}

/// What keeps browsers from doing with an answer what it is not for.
fn harden(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

impl Api {
    async fn look_each_second(&self) {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            self.watch.look(&self.shared, &self.state, &self.events);
        }
    }

    /// Whether listeners accept and draining has not begun.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Answer {
        match self.route(request, peer).await {
            Ok(response) => response,
            Err(problem) => problem.response().map(Either::Left),
        }
    }

    async fn route(&self, request: Request<Incoming>, peer: &Peer) -> Result<Answer, Problem> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        if let Some(allowed) = allowed(&parts)
            && !allowed.split(", ").any(|method| head.method == *method)
        {
            let detail = format!("{} is not for this: there is {allowed}", head.method);
            let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail);
            return Err(problem.with(header::ALLOW, allowed.to_owned()));
        }
        // Who looks whether traffic may come does so as often and by whatever name he likes.
        if let ["healthz" | "readyz"] = parts.as_slice() {
            return Ok(if parts == ["healthz"] {
                text(StatusCode::OK, "text/plain", "ok\n")
            } else if self.is_ready() {
                text(StatusCode::OK, "text/plain", "ready\n")
            } else {
                text(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "starting or draining\n")
            });
        }
        self.access.admit(peer, &head)?;
        let caller = match is_open(&parts) {
            true => Caller::anyone(),
            false => self.access.identify(peer, &head)?,
        };
        // The codec leaves the body away.
        if head.method == Method::HEAD {
            head.method = Method::GET;
        }
        if allowed(&parts).is_some() && !reads_query(&head.method, &parts) {
            Parameters::read(head.uri.query(), &[])?;
        }
        match (&head.method, parts.as_slice()) {
            (&Method::GET, [name]) if let Some(file) = page::file(&head, name) => Ok(file.map(Either::Left)),
            (&Method::GET, ["metrics"]) => {
                let accept = head.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
                let (content_type, page) = metrics::answer(&self.shared, accept);
                Ok(text(StatusCode::OK, content_type, page))
            }
            (method, ["api", "v1", "applications", application, "servers", rest @ ..]) if rest.len() < 2 => {
                let (application, body) = (unescape(application)?, read(body).await?);
                let server = rest.first().map(|name| unescape(name)).transpose()?;
                let Self { shared, knobs, record, .. } = self;
                let servers = Servers { shared, knobs, record, caller: &caller };
                let of = (application.as_str(), server.as_deref());
                Ok(json_response(&servers.handle(method, of, head.uri.query(), &body).await?))
            }
            (&Method::GET, ["api", "v1", "capacity"]) => Ok(json_response(&capacity::list(&self.shared))),
            (&Method::GET, ["api", "v1", "waiting-rooms"]) => {
                Ok(json_response(&waiting_rooms::list(&self.shared)))
            }
            (&Method::POST, ["api", "v1", "waiting-rooms", "keys"]) => {
                let Self { shared, state, record, .. } = self;
                let body = read(body).await?;
                Ok(json_response(&waiting_rooms::rotate(shared, state, record, &body, &caller).await?))
            }
            (&Method::GET, ["api", "v1", "applications", application, "waiting-room"]) => {
                Ok(json_response(&waiting_rooms::of(&self.shared, &unescape(application)?)?))
            }
            (&Method::POST, ["api", "v1", "applications", application, "waiting-room", "bypass"]) => {
                let (application, body) = (unescape(application)?, read(body).await?);
                let Self { shared, record, .. } = self;
                Ok(json_response(&bypasses::make(shared, record, &application, &body, &caller).await?))
            }
            (&Method::POST, ["api", "v1", "applications", application, "waiting-room", "report"]) => {
                let (application, body) = (unescape(application)?, read(body).await?);
                Ok(json_response(&reports::take(&self.shared, &application, &body, &caller)?))
            }
            (method, ["api", "v1", "applications", application, "capacity", rest @ ..]) => {
                let (application, body) = (unescape(application)?, read(body).await?);
                let (Self { shared, record, .. }, of) = (self, (application.as_str(), rest));
                Ok(json_response(&capacity::handle(shared, record, method, of, &body, &caller).await?))
            }
            (&Method::GET, ["api", "v1", "measurements"]) => {
                let answered = measurements::answer(&self.shared, &self.questions, head.uri.query());
                let (content_type, text_of) = answered.await?;
                Ok(text(StatusCode::OK, content_type, text_of))
            }
            (&Method::GET, ["api", "v1", "openapi.json"]) => Ok(json_response(&openapi())),
            (&Method::GET, ["api", "v1", "session"]) => Ok(json_response(&caller.describe())),
            (&Method::GET, ["api", "v1", "overview"]) => {
                Ok(json_response(&self.overview(overview::window(head.uri.query())?).await?))
            }
            (&Method::GET, ["api", "v1", "events"]) => self.events(&head, peer, &caller),
            (&Method::GET, ["api", "v1", "archives"]) => {
                Ok(json_response(&measurements::describe(&self.shared, &self.state)))
            }
            (&Method::GET, ["api", "v1", "knobs"]) => Ok(json_response(&self.knobs.list(head.uri.query())?)),
            (&Method::PATCH, ["api", "v1", "knobs"]) => {
                Ok(json_response(&self.knobs.change(&read(body).await?, &caller).await?))
            }
            (&Method::GET, ["api", "v1", "knobs", "changes"]) => {
                Ok(json_response(&self.record.list(head.uri.query()).await?))
            }
            (&Method::POST, ["api", "v1", "knobs", "revert"]) => {
                Ok(json_response(&self.knobs.revert(&read(body).await?, &caller).await?))
            }
            (&Method::GET, ["api", "v1", "controllers"]) => Ok(json_response(&self.controllers.describe())),
            (&Method::GET, ["api", "v1", "applications"]) => {
                let snapshot = self.shared.snapshot();
                let names: Vec<_> = snapshot.applications.iter().map(|a| a.settings.name.clone()).collect();
                Ok(json_response(&json!({ "applications": names })))
            }
            _ => Err(Problem::new(
                StatusCode::NOT_FOUND,
                "nothing is here: there is /healthz, /readyz, /metrics, and what /api/v1/openapi.json lists",
            )),
        }
    }
}

impl Api {
    fn events(&self, head: &http::request::Parts, peer: &Peer, caller: &Caller) -> Result<Answer, Problem> {
        let last = head.headers.get("last-event-id").map(|id| id.to_str().unwrap_or("not text"));
        let wanted = stream::Wanted::read(&self.events, head.uri.query(), last)?;
        let api = self.clone();
        let meters = move || {
            let api = api.clone();
            async move { api.overview(overview::WINDOW).await }
        };
        let ends = (self.door.clone(), self.access.guest(peer, head, caller));
        let stream = Stream::begin(&self.readers, &self.events, ends, wanted, meters)?;
        let mut response = Response::new(Either::Right(stream));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
        Ok(response)
    }
}

async fn read(body: Incoming) -> Result<Bytes, Problem> {
    let whole = Limited::new(body, BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, whole).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body did not come within {} s", BODY_TIMEOUT.as_secs()),
        )),
        Ok(Err(error)) => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body could not be read, at most {BODY_BYTES_MAX} bytes: {error}"),
        )),
    }
}

/// Percent-decoding of one path segment.
fn unescape(segment: &str) -> Result<String, Problem> {
    percent_encoding::percent_decode_str(segment).decode_utf8().map(Into::into).map_err(|_| {
        Problem::new(StatusCode::BAD_REQUEST, format!("{segment:?} is not percent-encoded UTF-8"))
    })
}

fn text(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

fn json_response(value: &Json) -> Answer {
    text(StatusCode::OK, "application/json", format!("{value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_taken_says_what_helps() {
        let said = |errno: i32| {
            let source = io::Error::from_raw_os_error(errno);
            AdminError::Bind { address: SocketAddr::from(([127, 0, 0, 1], 9900)), source }.to_string()
        };
        let (too_many_files, in_use) = (said(24), said(98));
        assert!(
            too_many_files.contains("LimitNOFILE") && !too_many_files.contains("free it"),
            "{too_many_files}"
        );
        assert!(in_use.contains("free it"), "{in_use}");
    }
}

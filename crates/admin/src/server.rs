//! The admin interface's own small HTTP server, on a thread of its own.
//!
//! It answers whatever load the gateway is under: it shares no thread with the workers and takes
//! no lock for longer than a reading.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value as Json, json};
use tidegate_runtime::Shared;
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::Semaphore,
};

use crate::{
    capacity,
    controllers::{Board, Controllers},
    history::History,
    knobs::Knobs,
    measurements, metrics, page,
    problem::Problem,
    recording::{Recording, State},
    servers, waiting_rooms,
};

/// Largest request body taken.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Connections served at once; further ones wait in the kernel.
const CONNECTIONS_MAX: usize = 256;
const BACKLOG: u32 = 128;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The admin interface of one process.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    ready: Arc<AtomicBool>,
    /// Ends the serving thread when dropped.
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// The admin address could not be taken.
#[derive(Debug, thiserror::Error)]
#[error("admin address {address}: {source}: free it, or set another by \"admin\"")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

impl Admin {
    /// Binds `address` and serves from a thread of its own until the value is dropped.
    /// `succeeds`: a predecessor holds the address until it has drained, and both answer there
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`BindError`] when the address cannot be taken.
    pub fn start(
        shared: Arc<Shared>,
        recording: &Recording,
        controllers: &Controllers,
        address: SocketAddr,
        succeeds: bool,
    ) -> Result<Self, BindError> {
        let fail = |source| BindError { address, source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
        let listener = {
            let _context = runtime.enter();
            listen(address, succeeds).map_err(fail)?
        };
        let address = listener.local_addr().map_err(fail)?;
        let ready = Arc::new(AtomicBool::new(false));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let state = recording.state();
        let knobs = Knobs::new(Arc::clone(&shared), Arc::clone(&state));
        let controllers = controllers.board();
        let api =
            Api { shared, state, knobs, controllers, ready: Arc::clone(&ready), history: Arc::default() };
        std::thread::Builder::new()
            .name("tidegate-admin".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(listener, api.clone()) => {}
                        () = api.keep_history() => {}
                        _ = stopped => {}
                    }
                });
            })
            .map_err(fail)?;
        Ok(Self { address, ready, _stop: stop })
    }

    /// Where it answers.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether `/readyz` is green: from the moment listeners accept until draining begins. Load
    /// does not change it, since an overloaded gateway works.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }
}

#[derive(Clone)]
struct Api {
    shared: Arc<Shared>,
    state: Arc<State>,
    knobs: Knobs,
    controllers: Board,
    ready: Arc<AtomicBool>,
    history: Arc<History>,
}

fn listen(address: SocketAddr, succeeds: bool) -> io::Result<TcpListener> {
    let socket = || match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    if !succeeds && address.port() != 0 {
        // With SO_REUSEPORT a stranger's address would be shared in silence.
        let alone = socket()?;
        alone.set_reuseaddr(true)?;
        alone.bind(address)?;
        drop(alone.listen(1)?);
    }
    let shared = socket()?;
    shared.set_reuseaddr(true)?;
    shared.set_reuseport(true)?;
    shared.bind(address)?;
    shared.listen(BACKLOG)
}

async fn serve(listener: TcpListener, api: Api) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "admin: accept failed");
                // Out of file descriptors is the usual cause, and trying at once would spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let api = api.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let api = api.clone();
                async move { Ok::<_, std::convert::Infallible>(api.answer(request).await) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            if let Err(error) = served {
                tracing::debug!(%error, "admin: connection ended");
            }
            drop(permit);
        });
    }
}

impl Api {
    async fn keep_history(&self) {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            self.history.sample(&self.shared);
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match self.route(request).await {
            Ok(response) => response,
            Err(problem) => problem.response(),
        }
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Problem> {
        let (head, body) = request.into_parts();
        guard(&head)?;
        let path = head.uri.path().to_owned();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match (&head.method, parts.as_slice()) {
            (&Method::GET | &Method::HEAD, [""]) => Ok(text(
                StatusCode::OK,
                "text/html; charset=utf-8",
                page::render(&self.shared, &self.history),
            )),
            (&Method::GET | &Method::HEAD, ["healthz"]) => Ok(text(StatusCode::OK, "text/plain", "ok\n")),
            (&Method::GET | &Method::HEAD, ["readyz"]) => Ok(if self.ready.load(Ordering::Relaxed) {
                text(StatusCode::OK, "text/plain", "ready\n")
            } else {
                text(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "starting or draining\n")
            }),
            (&Method::GET | &Method::HEAD, ["metrics"]) => {
                Ok(text(StatusCode::OK, metrics::CONTENT_TYPE, metrics::render(&self.shared)))
            }
            (method, ["api", "v1", "applications", application, "servers", rest @ ..]) if rest.len() < 2 => {
                let server = rest.first().map(|name| unescape(name)).transpose()?;
                let body = read(body).await?;
                let answer =
                    servers::handle(&self.shared, method, &unescape(application)?, server.as_deref(), &body)?;
                Ok(json_response(&answer))
            }
            (&Method::GET, ["api", "v1", "capacity"]) => Ok(json_response(&capacity::list(&self.shared))),
            (&Method::GET, ["api", "v1", "waiting-rooms"]) => {
                Ok(json_response(&waiting_rooms::list(&self.shared)))
            }
            (&Method::POST, ["api", "v1", "waiting-rooms", "keys"]) => {
                Ok(json_response(&waiting_rooms::rotate(&self.shared, &self.state, &read(body).await?)?))
            }
            (&Method::GET, ["api", "v1", "applications", application, "waiting-room"]) => {
                Ok(json_response(&waiting_rooms::of(&self.shared, &unescape(application)?)?))
            }
            (method, ["api", "v1", "applications", application, "capacity", rest @ ..]) => {
                let (application, body) = (unescape(application)?, read(body).await?);
                Ok(json_response(&capacity::handle(&self.shared, method, &application, rest, &body)?))
            }
            (&Method::GET, ["api", "v1", "measurements"]) => {
                let (content_type, text_of) = measurements::answer(&self.shared, head.uri.query())?;
                Ok(text(StatusCode::OK, content_type, text_of))
            }
            (&Method::GET, ["api", "v1", "archives"]) => {
                Ok(json_response(&measurements::describe(&self.shared, &self.state)))
            }
            (&Method::GET, ["api", "v1", "knobs"]) => Ok(json_response(&self.knobs.list(head.uri.query())?)),
            (&Method::PATCH, ["api", "v1", "knobs"]) => {
                Ok(json_response(&self.knobs.change(&read(body).await?).await?))
            }
            (&Method::GET, ["api", "v1", "knobs", "changes"]) => {
                Ok(json_response(&self.knobs.changes(head.uri.query()).await?))
            }
            (&Method::POST, ["api", "v1", "knobs", "revert"]) => {
                Ok(json_response(&self.knobs.revert(&read(body).await?).await?))
            }
            (&Method::GET, ["api", "v1", "controllers"]) => Ok(json_response(&self.controllers.describe())),
            (_, ["api", "v1", "measurements" | "archives" | "controllers" | "knobs", ..]) => {
                Err(Problem::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "GET for measurements, archives, controllers, knobs and knobs/changes; PATCH for knobs; POST for knobs/revert",
                ))
            }
            (&Method::GET, ["api", "v1", "applications"]) => {
                let snapshot = self.shared.snapshot();
                let names: Vec<_> = snapshot.applications.iter().map(|a| a.settings.name.clone()).collect();
                Ok(json_response(&json!({ "applications": names })))
            }
            _ => Err(Problem::new(
                StatusCode::NOT_FOUND,
                "nothing is here: see /metrics, /healthz, /readyz, /api/v1/measurements, /api/v1/archives, /api/v1/controllers, /api/v1/knobs, /api/v1/capacity, /api/v1/applications/NAME/servers, /api/v1/applications/NAME/capacity, /api/v1/waiting-rooms, /api/v1/applications/NAME/waiting-room",
            )),
        }
    }
}

/// Refuses what a web page could make a browser send here: a foreign name that resolves to this
/// address (DNS rebinding), and cross-site requests.
fn guard(head: &http::request::Parts) -> Result<(), Problem> {
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_local_name(host) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "the Host header must be an IP address or localhost",
        ));
    }
    if let Some(origin) = head.headers.get(header::ORIGIN) {
        let origin_host = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.parse::<Uri>().ok())
            .and_then(|uri| uri.authority().map(ToString::to_string));
        if origin_host.as_deref() != Some(host) {
            return Err(Problem::new(StatusCode::FORBIDDEN, "cross-site requests are not answered"));
        }
    }
    // A form of a foreign page can send other types without asking first.
    if [Method::POST, Method::PATCH, Method::PUT].contains(&head.method) {
        let sent =
            head.headers.get(header::CONTENT_TYPE).and_then(|sent| sent.to_str().ok()).unwrap_or_default();
        let essence = sent.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send JSON, with Content-Type: application/json",
            ));
        }
    }
    Ok(())
}

fn is_local_name(host: &str) -> bool {
    let name = host.parse::<http::uri::Authority>().map(|authority| authority.host().to_owned());
    name.is_ok_and(|name| {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
    })
}

async fn read(body: Incoming) -> Result<Bytes, Problem> {
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) => Err(Problem::new(
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

fn text(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}

fn json_response(value: &Json) -> Response<Full<Bytes>> {
    text(StatusCode::OK, "application/json", format!("{value}\n"))
}

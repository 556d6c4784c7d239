//! An HTTP server whose capacity is known, for live tests and benchmarks.
//!
//! It speaks HTTP/1.1 and HTTP/2 (prior knowledge, or ALPN over TLS).
//!
//! | path | answers |
//! |---|---|
//! | any other, `?cost_ms=16&bytes=1024` | after so much CPU time on the worker pool; without `cost_ms` the cost of the path's longest matching prefix, or the default cost |
//! | `/bytes/N` | N bytes, byte `i` being `i % 251`, with their length |
//! | `/chunked/N?chunk=4096` | the same without a length, in chunks |
//! | `/trailers` | 1 KiB in chunks and the trailer `x-origin-trailer: kept`; `x-origin-te` repeats the request's `TE` |
//! | `/slow?ms=100&bytes=N` | after a pause that costs nothing |
//! | `/drip?bytes=10&chunk=1&ms=100` | a pause before each piece |
//! | `/status/N` | that status |
//! | `/refresh?s=1&again=0&to=/&status=200` | `Refresh: s; url=to`, `again` times to itself before that |
//! | `/redirect?to=/&status=302&after=1` | a redirect, with `Retry-After` where `after` is given |
//! | `/cookie/NAME/VALUE`, `/member/NAME/VALUE` | sets that cookie; 403 without it |
//! | `/echo` | JSON of the request as it arrived: method, uri, headers, trailers, body size and SHA-256 |
//! | `/upload` | JSON of the body's size and SHA-256 |
//! | `/stats` | JSON of [`Stats`] |

mod body;
mod cpu;
mod routes;

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::LocalRuntime,
    sync::watch,
};
use tokio_rustls::TlsAcceptor;

pub(crate) use self::cpu::pin;
use self::cpu::{CpuPool, Spend};
use crate::client::LocalExecutor;

/// The most connections one origin holds; further ones are closed at once.
const CONNECTIONS_MAX: u64 = 65_536;
/// Accept backlog asked of the system (which caps it at `net.core.somaxconn`).
const ACCEPT_BACKLOG: i32 = 4096;

/// How an origin is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address to listen on; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Threads that do CPU work, one request at a time each; 1 to 1,024.
    pub workers: usize,
    /// Event-loop threads that read and write, 1 to 256. Their CPU time comes on top of the cost.
    pub threads: usize,
    /// CPU time of a request that names none and matches no prefix; zero for no work.
    pub cost: Duration,
    /// CPU time by path prefix; the longest match counts. What lies there is work, also where another route would be.
    pub costs: Vec<(String, Duration)>,
    /// Whether a worker waits for so long instead, as for a database: then as many workers as wanted are at work at
    /// once, whatever the processors.
    pub waits: bool,
    /// Requests that may wait for a worker; beyond it 503. Like a server's connection limit it is
    /// far above what any client waits for.
    pub queue: usize,
    /// Processors of the worker threads, in turn; empty leaves them to the system.
    pub worker_cpus: Vec<usize>,
    /// Processors of the event-loop threads, in turn.
    pub thread_cpus: Vec<usize>,
    /// PEM files of certificate chain and key: HTTPS instead of HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            workers: 1,
            threads: 1,
            cost: Duration::ZERO,
            costs: Vec::new(),
            waits: false,
            queue: 8192,
            worker_cpus: Vec::new(),
            thread_cpus: Vec::new(),
            tls: None,
        }
    }
}

/// Why an origin did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// A setting is out of its range.
    #[error("origin: {0}")]
    Setting(String),
    /// The address cannot be listened on.
    #[error("origin: cannot listen on {address}: {source}; choose another address or stop what is there")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A thread could not be started or pinned.
    #[error("origin: cannot {attempt}: {source}")]
    System {
        /// What was tried.
        attempt: String,
        /// What the system said.
        source: io::Error,
    },
    /// Certificate or key do not work.
    #[error("origin: {path}: {fault}; give PEM files of a chain and its key")]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
}

/// What an origin has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub connections_open: u64,
    /// Requests read, of any route.
    pub requests: u64,
    /// Bytes of request bodies.
    pub body_bytes: u64,
    /// Requests a worker began.
    pub work_started: u64,
    /// Requests a worker finished.
    pub work_completed: u64,
    /// Of those, requests whose client had left: work for nobody.
    pub work_for_nobody: u64,
    /// Requests refused because the queue was full.
    pub work_refused: u64,
    /// Requests that wait for a worker now.
    pub work_waiting: u64,
    /// CPU time spent on requests, in microseconds.
    pub work_cpu_us: u64,
    /// Median time of the requests a worker finished, from when they were read until then, in microseconds.
    pub work_p50_us: u64,
}

/// A running origin; stops when dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    secure: bool,
    inner: Arc<Inner>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inner {
    pool: CpuPool,
    counts: Counts,
    cost: Duration,
    costs: Vec<(String, Duration)>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    connections_open: AtomicU64,
    requests: AtomicU64,
    body_bytes: AtomicU64,
}

impl Origin {
    /// Listens and serves on threads of its own.
    ///
    /// # Errors
    /// See [`OriginError`].
    pub fn start(settings: &Settings) -> Result<Self, OriginError> {
        settings.check()?;
        let tls = settings.tls.as_ref().map(|(chain, key)| server_config(chain, key)).transpose()?;
        let system = |attempt: &str| {
            let attempt = attempt.to_owned();
            move |source| OriginError::System { attempt, source }
        };
        let spend = if settings.waits { Spend::Waiting } else { Spend::Computing };
        let pool = CpuPool::start(settings.workers, settings.queue, &settings.worker_cpus, spend)
            .map_err(system("start a worker"))?;
        let mut costs = settings.costs.clone();
        costs.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let inner = Arc::new(Inner { pool, counts: Counts::default(), cost: settings.cost, costs });
        let (stop, stopped) = watch::channel(false);
        let mut origin =
            Self { address: settings.listen, secure: tls.is_some(), inner, stop, threads: Vec::new() };
        for index in 0..settings.threads {
            let listener = listen(origin.address)
                .map_err(|source| OriginError::Listen { address: origin.address, source })?;
            origin.address = listener
                .local_addr()
                .map_err(|source| OriginError::Listen { address: origin.address, source })?;
            let (inner, tls, stopped) = (Arc::clone(&origin.inner), tls.clone(), stopped.clone());
            let cpus = &settings.thread_cpus;
            let cpu = if cpus.is_empty() { None } else { cpus.get(index % cpus.len()).copied() };
            let (ready, is_ready) = std::sync::mpsc::channel();
            let thread = thread::Builder::new()
                .name(format!("origin-{index}"))
                .spawn(move || serve_thread(listener, &inner, tls, stopped, cpu, &ready))
                .map_err(system("start a thread"))?;
            origin.threads.push(thread);
            is_ready
                .recv()
                .unwrap_or_else(|_| Err(io::Error::other("the thread ended")))
                .map_err(system("start or pin an event loop"))?;
        }
        Ok(origin)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL without path: `http://127.0.0.1:41234`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.address)
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Requests of that cost it carries out a second when its workers do nothing else, measured
    /// over about `span`. Blocks; [`Stats`] does not count it. Network work is not in it.
    #[must_use]
    pub fn calibrate(&self, cost: Duration, span: Duration) -> f64 {
        self.inner.pool.calibrate(cost, span)
    }

    /// Worker threads: the nominal capacity is this divided by the cost.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.inner.pool.workers()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            // A thread that panicked has closed its sockets.
            let _ = thread.join();
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), OriginError> {
        let fault = |text: &str| Err(OriginError::Setting(text.to_owned()));
        if !(1..=1024).contains(&self.workers) {
            return fault("workers: give 1 to 1024");
        }
        if !(1..=256).contains(&self.threads) {
            return fault("threads: give 1 to 256");
        }
        if !(1..=1_000_000).contains(&self.queue) {
            return fault("queue: give 1 to 1000000");
        }
        if let Some((prefix, _)) = self.costs.iter().find(|(prefix, _)| !prefix.starts_with('/')) {
            return fault(&format!("cost of `{prefix}`: a path prefix starts with `/`"));
        }
        let costs = self.costs.iter().map(|(_, cost)| *cost).chain([self.cost]);
        if costs.max().unwrap_or_default() > routes::COST_MAX {
            return fault("cost: give at most 60s");
        }
        Ok(())
    }
}

impl Inner {
    fn stats(&self) -> Stats {
        let work = self.pool.counts();
        Stats {
            connections: self.counts.connections.load(Relaxed),
            connections_open: self.counts.connections_open.load(Relaxed),
            requests: self.counts.requests.load(Relaxed),
            body_bytes: self.counts.body_bytes.load(Relaxed),
            work_started: work.started.load(Relaxed),
            work_completed: work.completed.load(Relaxed),
            work_for_nobody: work.completed_for_nobody.load(Relaxed),
            work_refused: work.refused.load(Relaxed),
            work_waiting: self.pool.waiting() as u64,
            work_cpu_us: work.cpu_ns.load(Relaxed) / 1000,
            work_p50_us: self.pool.median_us(),
        }
    }

    /// The cost of a path that has one of its own.
    fn cost_of(&self, path: &str) -> Option<Duration> {
        self.costs.iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, cost)| *cost)
    }
}

/// What the routes see.
type Shared = Arc<Inner>;

fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(ACCEPT_BACKLOG)?;
    Ok(socket.into())
}

fn serve_thread(
    listener: std::net::TcpListener,
    inner: &Shared,
    tls: Option<Arc<ServerConfig>>,
    mut stopped: watch::Receiver<bool>,
    cpu: Option<usize>,
    ready: &std::sync::mpsc::Sender<io::Result<()>>,
) {
    let prepared = pin(cpu).and_then(|()| LocalRuntime::new()).and_then(|runtime| {
        let _entered = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        Ok((listener, runtime))
    });
    let (listener, runtime) = match prepared {
        Ok(prepared) => prepared,
        Err(fault) => {
            // If nobody listens the origin has been given up already.
            let _ = ready.send(Err(fault));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    let tls = tls.map(TlsAcceptor::from);
    let mut server = auto::Builder::new(LocalExecutor);
    server.http1().timer(TokioTimer::new()).http2().timer(TokioTimer::new()).max_concurrent_streams(10_000);
    let server = Rc::new(server);
    runtime.block_on(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopped.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((socket, _)) => {
                    let _ = socket.set_nodelay(true);
                    tokio::task::spawn_local(serve(
                        socket,
                        Arc::clone(inner),
                        tls.clone(),
                        Rc::clone(&server),
                    ));
                }
                // Out of descriptors: those that end make room.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    });
}

async fn serve(
    socket: TcpStream,
    inner: Shared,
    tls: Option<TlsAcceptor>,
    server: Rc<auto::Builder<LocalExecutor>>,
) {
    let _open = Open::count(&inner);
    if inner.counts.connections_open.load(Relaxed) > CONNECTIONS_MAX {
        return;
    }
    let service = routes::service(Arc::clone(&inner));
    // What a connection ends with is the client's affair: the figures are in `Stats`.
    match tls {
        None => {
            let _ = server.serve_connection(TokioIo::new(socket), service).await;
        }
        Some(acceptor) => {
            if let Ok(stream) = acceptor.accept(socket).await {
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            }
        }
    }
}

struct Open<'a>(&'a Counts);

impl<'a> Open<'a> {
    fn count(inner: &'a Inner) -> Self {
        inner.counts.connections.fetch_add(1, Relaxed);
        inner.counts.connections_open.fetch_add(1, Relaxed);
        Self(&inner.counts)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.connections_open.fetch_sub(1, Relaxed);
    }
}

fn server_config(chain: &PathBuf, key: &PathBuf) -> Result<Arc<ServerConfig>, OriginError> {
    let fault = |path: &PathBuf| {
        let path = path.clone();
        move |fault: String| OriginError::Tls { path, fault }
    };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect)
        .map_err(|cause| fault(chain)(cause.to_string()))?;
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|cause| fault(key)(cause.to_string()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key_der))
        .map_err(|cause| fault(chain)(cause.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer =
        rustls::crypto::aws_lc_rs::Ticketer::new().map_err(|cause| fault(key)(cause.to_string()))?;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrivals, ClassPlan, Plan, run_blocking};

    /// A class of an experiment may be called as a route is.
    #[test]
    fn a_path_with_a_cost_of_its_own_is_work_whatever_it_is_called() {
        let costs = vec![("/slow".to_owned(), Duration::from_micros(100))];
        let origin = Origin::start(&Settings { costs, ..Settings::default() }).expect("an origin");
        let plan = ["/slow", "/slow/page", "/status/204"].into_iter().fold(
            Plan::new(origin.url()).duration(Duration::from_secs(1)),
            |plan, path| {
                let class = ClassPlan::new(path, Arrivals::closed(1)).path(path).requests_max(5);
                plan.class(class)
            },
        );
        let report = run_blocking(plan).expect("a run");
        assert_eq!(report.total.good, 15, "{:?}", report.total.statuses);
        assert_eq!(origin.stats().work_completed, 10);
    }
}

//! The server: one thread for the sockets, a queue, and a fixed pool of workers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use http::header::{CONTENT_TYPE, COOKIE};
use http::{HeaderMap, Request as HttpRequest};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::cost::{Costs, thread_time};
use crate::fault::Fault;
use crate::queue::Queue;
use crate::site::{Answer, Request, Site, sorry};
use crate::{Error, Options};

/// The auction site.
#[derive(Debug)]
pub struct Auction;

impl Auction {
    /// Opens (or first generates) the content, listens, and starts the workers. At the first start of the default
    /// size this takes about a second.
    ///
    /// # Errors
    /// When the address, the directory or the database cannot be used; see [`Error`].
    pub fn start(options: Options) -> Result<Running, Error> {
        let site = Arc::new(Site::open(&options)?);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Thread)?;
        let listener = {
            let _inside = runtime.enter();
            listen(&options).map_err(|source| Error::Listen { address: options.listen, source })?
        };
        let address =
            listener.local_addr().map_err(|source| Error::Listen { address: options.listen, source })?;
        let shared = Arc::new(Shared {
            site,
            queue: Queue::new(options.queue_max),
            counters: Counters::default(),
            body_max: 64 * 1024,
        });
        let (stop, stopped) = oneshot::channel();
        let mut running =
            Running { address, shared: Arc::clone(&shared), stop: Some(stop), threads: Vec::new() };
        for number in 0..options.workers.get() {
            let db = shared.site.store.connect()?;
            let shared = Arc::clone(&shared);
            running.spawn(format!("auction-{number}"), move || work(&shared, &db))?;
        }
        running.spawn("auction-io".into(), move || {
            runtime.block_on(serve(listener, shared, options.connections_max, stopped));
        })?;
        Ok(running)
    }
}

/// Runs a site until SIGINT or SIGTERM; tells `ready` the address it listens on.
///
/// # Errors
/// As [`Auction::start`].
pub fn run(options: Options, ready: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Thread)?;
    let entered = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Thread)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Thread)?;
    drop(entered);
    // Outside of the runtime: a start that fails ends one of its own.
    let site = Auction::start(options)?;
    ready(site.address());
    runtime.block_on(async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    });
    site.stop();
    Ok(())
}

/// A site that runs; stopped when dropped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The costs of its pages, which can be changed while it runs.
    #[must_use]
    pub fn costs(&self) -> &Costs {
        &self.shared.site.costs
    }

    /// What it has done so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let counters = &self.shared.counters;
        Figures {
            served: counters.served.load(Ordering::Relaxed),
            wasted: counters.wasted.load(Ordering::Relaxed),
            refused: counters.refused.load(Ordering::Relaxed),
            waiting: self.shared.queue.len(),
            working: counters.working.load(Ordering::Relaxed),
            busy: Duration::from_nanos(counters.busy_ns.load(Ordering::Relaxed)),
        }
    }

    /// Stops: the request each worker is at is finished, what waits is dropped, connections are closed.
    pub fn stop(self) {
        drop(self);
    }

    fn spawn(&mut self, name: String, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = std::thread::Builder::new().name(name).spawn(body).map_err(Error::Thread)?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.queue.close();
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            // A worker that panicked outside a page has nothing more to tell.
            let _ = thread.join();
        }
    }
}

/// What a site has done since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Requests worked on whose answer was taken.
    pub served: u64,
    /// Requests worked on whose client had left before the answer was ready.
    pub wasted: u64,
    /// Requests answered 503 because the queue was full.
    pub refused: u64,
    /// Requests waiting for a worker now.
    pub waiting: usize,
    /// Requests being worked on now.
    pub working: usize,
    /// Processor time the workers have spent on requests.
    pub busy: Duration,
}

#[derive(Debug)]
struct Shared {
    site: Arc<Site>,
    queue: Queue<Job>,
    counters: Counters,
    body_max: usize,
}

#[derive(Debug, Default)]
struct Counters {
    served: AtomicU64,
    wasted: AtomicU64,
    refused: AtomicU64,
    busy_ns: AtomicU64,
    working: AtomicUsize,
}

#[derive(Debug)]
struct Job {
    request: Request,
    reply: oneshot::Sender<Answer>,
}

/// A worker's life. It does not look whether the client is still there: as in the servers this stands for, a request
/// that waits in the queue is worked on when its turn comes.
fn work(shared: &Shared, db: &rusqlite::Connection) {
    while let Some(job) = shared.queue.pop() {
        let counters = &shared.counters;
        counters.working.fetch_add(1, Ordering::Relaxed);
        let before = thread_time();
        let answer = catch_unwind(AssertUnwindSafe(|| shared.site.answer(db, &job.request)))
            .unwrap_or_else(|_| sorry(&Fault::Internal("a page panicked".into())));
        let spent = thread_time().saturating_sub(before);
        counters.busy_ns.fetch_add(u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let taken = if job.reply.is_closed() { &counters.wasted } else { &counters.served };
        taken.fetch_add(1, Ordering::Relaxed);
        counters.working.fetch_sub(1, Ordering::Relaxed);
        // Fails where the client has left, which was counted.
        let _ = job.reply.send(answer);
    }
}

fn listen(options: &Options) -> std::io::Result<TcpListener> {
    let socket = if options.listen.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(options.listen)?;
    socket.listen(options.backlog)
}

async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    connections_max: usize,
    mut stopped: oneshot::Receiver<()>,
) {
    let places = Arc::new(Semaphore::new(connections_max.clamp(1, Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    loop {
        let accept = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            // Ready when the sender is dropped, too.
            _ = &mut stopped => return,
            Some(_) = connections.join_next() => {}
            (place, accepted) = accept => match accepted {
                Ok((stream, _)) => {
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move {
                        let _place = place;
                        converse(stream, shared).await;
                    });
                }
                // Out of descriptors, usually: none comes free by asking at once again.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            },
        }
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    // Only delays answers where it fails.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(request, &shared).await) }
    });
    // An error ends this connection alone: the client left, or sent no HTTP.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(60))
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(request: HttpRequest<Incoming>, shared: &Shared) -> Answer {
    let (head, body) = request.into_parts();
    let read = tokio::time::timeout(Duration::from_secs(30), Limited::new(body, shared.body_max).collect());
    let body = match read.await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return sorry(&Fault::TooLarge),
        Ok(Err(_)) | Err(_) => return sorry(&Fault::bad("the body did not arrive".into())),
    };
    let request = Request {
        cookie: text(&head.headers, &COOKIE),
        content_type: text(&head.headers, &CONTENT_TYPE),
        method: head.method,
        uri: head.uri,
        body,
    };
    let (reply, answer) = oneshot::channel();
    if shared.queue.push(Job { request, reply }).is_err() {
        shared.counters.refused.fetch_add(1, Ordering::Relaxed);
        return sorry(&Fault::Full);
    }
    // The sender is dropped unanswered only when the site stops.
    answer.await.unwrap_or_else(|_| sorry(&Fault::Full))
}

fn text(headers: &HeaderMap, name: &http::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

//! Worker threads: one runtime each, connections that never leave their thread.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    hash::BuildHasher,
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use foldhash::quality::RandomState;
use socket2::{SockAddr, SockRef};
use tidegate_config::Address;
use tidegate_control::{ApplicationId, Timestamp, capacity::CapacityEvent, meters::Meter};
use tidegate_runtime::{Application, Clock, Core, Shared, Subject};
use tokio::{
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    runtime::{Builder, LocalOptions, LocalRuntime},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::MissedTickBehavior,
};

use crate::{
    connection::{self, Accepted, Limits, Pulses},
    exhaustion,
    listener::{Bound, Listening},
    request::{AccessLog, Service},
    socket::Socket,
    tls::Handshakes,
    upstream::Upstreams,
    watchdog::{self, Question},
};

/// Bytes read from a socket at once where the codec does not do it.
const SCRATCH: usize = 64 * 1024;
/// How often counts go to the totals and new applications are looked for.
const BEAT: Duration = Duration::from_secs(1);
/// How long the start waits for the names of servers to be looked up.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long accepting pauses when the process has no file descriptors or memory left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// What the connections of one core share.
pub(crate) struct Worker {
    /// This core's handles.
    pub(crate) core: Rc<Core>,
    /// What serves requests.
    pub(crate) service: Rc<Service>,
    /// The connections.
    pub(crate) pulses: Rc<Pulses>,
    /// Whether the gateway is going away.
    pub(crate) draining: Rc<Cell<bool>>,
    /// Where bytes are read before they have a place of their own; never borrowed across an await.
    pub(crate) scratch: RefCell<Box<[u8]>>,
    limits: RefCell<Rc<Limits>>,
    process: Arc<Process>,
    /// Applications whose timers this core drives.
    driven: RefCell<BTreeSet<ApplicationId>>,
    clock_is_odd: Cell<bool>,
    /// That connections could not be accepted for want of something of our own.
    exhaustion: exhaustion::Said,
    workers: usize,
}

/// What the workers of a process share beside [`Shared`].
#[derive(Debug)]
pub(crate) struct Process {
    connections: AtomicU64,
    handshakes: Handshakes,
    /// Seeded anew in each process, so that nobody outside can aim at a client's entry.
    hasher: RandomState,
}

impl Process {
    /// Of a process that begins.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            connections: AtomicU64::default(),
            handshakes: Handshakes::new(clock),
            hasher: RandomState::default(),
        }
    }
}

/// What a worker is told.
pub(crate) enum Command {
    /// Accept from a socket.
    Listen(Arc<Listening>, Bound),
    /// Stop accepting from the sockets of a listener.
    Unlisten(Arc<Listening>),
    /// There is a new snapshot.
    Published,
    /// Stop accepting, serve what there is, end.
    Drain {
        /// Whether other processes hold the same sockets, so that what waits in their backlogs is
        /// theirs.
        handed_over: bool,
    },
}

/// A worker thread.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    /// The group it belongs to.
    pub(crate) group: String,
    commands: mpsc::UnboundedSender<Command>,
    /// By which it is asked whether it turns.
    pub(crate) questions: mpsc::Sender<Question>,
    thread: Option<JoinHandle<()>>,
    ended: Option<oneshot::Receiver<Ended>>,
}

/// What is left when a worker has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ended {
    /// Connections that were cut.
    pub(crate) cut: usize,
}

/// Where a worker stands.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    /// Its number, from 0, over all groups.
    pub(crate) index: usize,
    /// Workers in all.
    pub(crate) workers: usize,
    /// Its group.
    pub(crate) group: String,
}

impl WorkerHandle {
    /// Starts a worker. `ready` is dropped once it knows where the servers are.
    pub(crate) fn start(
        station: Station,
        shared: Arc<Shared>,
        process: Arc<Process>,
        access_log: AccessLog,
        ready: mpsc::Sender<()>,
    ) -> io::Result<Self> {
        // Bounded by who sends: commands come from configuration and signals only.
        let (commands, received) = mpsc::unbounded_channel();
        let (questions, asked) = mpsc::channel(1);
        let (end, ended) = oneshot::channel();
        let group = station.group.clone();
        let build = || Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        // A runtime stays on the thread that builds it: this one only shows whether there can be one.
        drop(build()?);
        let thread =
            std::thread::Builder::new().name(format!("tidegate-{}", station.index)).spawn(move || {
                let runtime = match build() {
                    Ok(runtime) => runtime,
                    Err(error) => {
                        tracing::error!(worker = station.index, %error, "no runtime");
                        return;
                    }
                };
                let left = runtime.block_on(async {
                    let _listed = shared.workers().register(station.index, &station.group);
                    let core = Rc::new(Core::new(station.index, shared));
                    let upstreams = Upstreams::new(Rc::clone(&core));
                    if station.index == 0 {
                        let _ = tokio::time::timeout(RESOLVE_TIMEOUT, upstreams.resolve_all()).await;
                    }
                    drop(ready);
                    tokio::task::spawn_local(watchdog::answer(asked));
                    tokio::task::spawn_local(Rc::clone(&upstreams).maintain());
                    let service = Service::new(Rc::clone(&core), upstreams, access_log);
                    let worker = Rc::new(Worker::new(core, service, process, station.workers));
                    worker.run(received).await
                });
                wind_up(runtime);
                let _ = end.send(left);
            })?;
        Ok(Self { group, commands, questions, thread: Some(thread), ended: Some(ended) })
    }

    /// Tells the worker something; false if it has ended.
    pub(crate) fn tell(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    /// Waits until the worker has ended.
    pub(crate) async fn ended(&mut self) -> Ended {
        let ended = match self.ended.take() {
            // An error means that the thread panicked.
            Some(ended) => ended.await.unwrap_or_default(),
            None => Ended::default(),
        };
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(group = self.group, "a worker thread panicked");
        }
        ended
    }
}

/// Drops everything that still runs, which gives back what it holds. A name that is being looked up just now, with a resolver
/// that is silent, is not waited for.
fn wind_up(runtime: LocalRuntime) {
    runtime.shutdown_background();
}

impl Worker {
    fn new(core: Rc<Core>, service: Rc<Service>, process: Arc<Process>, workers: usize) -> Self {
        let view = core.view();
        let limits = Limits::new(view.snapshot.version, &view.snapshot.settings.host);
        Self {
            core,
            service,
            pulses: Rc::default(),
            draining: Rc::default(),
            scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
            limits: RefCell::new(Rc::new(limits)),
            process,
            driven: RefCell::default(),
            clock_is_odd: Cell::new(false),
            exhaustion: exhaustion::Said::default(),
            workers,
        }
    }

    /// The bounds on connections, as the present snapshot says.
    pub(crate) fn limits(&self) -> Rc<Limits> {
        let version = self.core.shared().version();
        if self.limits.borrow().version != version {
            let view = self.core.view();
            let limits = Limits::new(view.snapshot.version, &view.snapshot.settings.host);
            self.limits.replace(Rc::new(limits));
        }
        Rc::clone(&self.limits.borrow())
    }

    /// Where full handshakes are computed.
    pub(crate) fn handshakes(&self) -> &Handshakes {
        &self.process.handshakes
    }

    /// How many of them at once: one for every two workers unless the settings say.
    pub(crate) fn handshakes_max(&self) -> usize {
        let max = self.limits().handshakes_max.and_then(|max| usize::try_from(max).ok());
        max.unwrap_or((self.workers / 2).max(1))
    }

    /// A number for a new connection.
    pub(crate) fn next_connection_id(&self) -> u64 {
        self.process.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// What stands for a client when connections are counted: its address, or the network of its
    /// address in IPv6, where a client has a /64 to itself. Clients on a Unix socket have no
    /// address and each stand for themselves.
    pub(crate) fn client_hash(&self, client: Option<SocketAddr>) -> u64 {
        let hasher = &self.process.hasher;
        match client.map(|client| client.ip().to_canonical()) {
            Some(IpAddr::V4(address)) => hasher.hash_one(address),
            Some(IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                hasher.hash_one([a, b, c, d])
            }
            None => hasher.hash_one(self.process.connections.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Does what it is told until it is told to drain, and then until that is done.
    async fn run(self: Rc<Self>, mut commands: mpsc::UnboundedReceiver<Command>) -> Ended {
        let mut accepting = JoinSet::new();
        let mut sockets: Vec<(Arc<Listening>, oneshot::Sender<Stop>)> = Vec::new();
        let sweeping = tokio::task::spawn_local(Rc::clone(&self).sweep());
        // On the second, so that what the recorder takes a moment later is of one second.
        let clock = self.core.shared().clock();
        let mut beat = tokio::time::interval_at(clock.instant(next_second(clock.now())).into(), BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Skip);
        self.drive_timers();
        let handed_over = loop {
            tokio::select! {
                _ = beat.tick() => {
                    self.count_decisions();
                    self.service.count_unwritten();
                    self.core.flush_meters();
                    self.drive_timers();
                    self.steer_clock();
                }
                command = commands.recv() => match command {
                    Some(Command::Listen(listening, socket)) => {
                        let (stop, stopped) = oneshot::channel();
                        sockets.push((Arc::clone(&listening), stop));
                        accepting.spawn_local(Rc::clone(&self).accept(listening, socket, stopped));
                    }
                    Some(Command::Unlisten(listening)) => {
                        let (closed, kept) =
                            sockets.drain(..).partition::<Vec<_>, _>(|(other, _)| Arc::ptr_eq(other, &listening));
                        sockets = kept;
                        for (_, stop) in closed {
                            let _ = stop.send(Stop::Empty);
                        }
                    }
                    Some(Command::Published) => self.drive_timers(),
                    Some(Command::Drain { handed_over }) => break handed_over,
                    // Nobody is left who could tell it anything.
                    None => break false,
                }
            }
            while accepting.try_join_next().is_some() {}
        };
        self.draining.set(true);
        for (_, stop) in sockets {
            let _ = stop.send(if handed_over { Stop::Now } else { Stop::Empty });
        }
        let deadline = tokio::time::Instant::now() + self.limits().drain_timeout;
        // Without end where they cannot be accepted for want of open files, which those that are open hold.
        let all_accepted = async { while accepting.join_next().await.is_some() {} };
        let _ = tokio::time::timeout_at(deadline, all_accepted).await;
        drop(accepting);
        self.pulses.drain();
        let cut = tokio::select! {
            () = self.pulses.emptied() => 0,
            () = tokio::time::sleep_until(deadline) => self.pulses.len(),
        };
        sweeping.abort();
        self.count_decisions();
        self.service.count_unwritten();
        self.core.flush_meters();
        Ended { cut }
    }

    /// Counts what mode `watch` would have refused and what happened in waiting rooms, for the applications whose
    /// home this core is.
    fn count_decisions(&self) {
        for application in &self.core.view().applications {
            if self.is_home_of(application.application.id) {
                application.gate.drain_would_refuse(|class, refusal, n| {
                    application.class(class).add_labelled(Meter::WOULD_REFUSE, refusal.index(), n);
                });
                application.application.state.waiting_room().with(|room, _| {
                    room.drain_counts(|class, what, n| {
                        application.class(class).add_labelled(Meter::ROOM, what as usize, n);
                    });
                });
            }
        }
    }

    /// Keeps the clock near the wall clock; the first core does so for all.
    fn steer_clock(&self) {
        /// Further off than this is somebody's doing, not drift.
        const ODD: Duration = Duration::from_secs(10);
        if self.core.index() != 0 {
            return;
        }
        let ahead = self.core.shared().clock().steer();
        let is_odd = u128::from(ahead.unsigned_abs()) > ODD.as_nanos();
        if is_odd != self.clock_is_odd.replace(is_odd) && is_odd {
            tracing::warn!(
                wall_clock_ahead_s = ahead / 1_000_000_000,
                "the wall clock was set; times that are told follow it slowly: an upgrade in place (SIGUSR2) takes it up at once"
            );
        }
    }

    fn is_home_of(&self, application: ApplicationId) -> bool {
        application.index() % self.workers == self.core.index()
    }

    /// Drives the timers of the applications whose home this core is.
    fn drive_timers(&self) {
        let mut driven = self.driven.borrow_mut();
        for application in &self.core.view().applications {
            let id = application.application.id;
            if self.is_home_of(id) && driven.insert(id) {
                tokio::task::spawn_local(application.gate.clone().drive_timers());
                self.follow_capacity(&application.application);
                let state = Arc::clone(&application.application.state);
                tokio::task::spawn_local(state.keep_waiting_room());
            }
        }
    }

    /// Counts and logs what happens to an application's capacity.
    fn follow_capacity(&self, application: &Application) {
        let cells = self.core.meters().cells(Subject::Application(application.id));
        let (name, state) = (application.settings.name.clone(), Arc::clone(&application.state));
        tokio::task::spawn_local(state.follow_capacity(move |event| {
            cells.add_labelled(Meter::CAPACITY_CHANGES, event.cause.index(), 1);
            let CapacityEvent { cause, before, after, .. } = event;
            let to_hundredths = |per_s: f64| (per_s * 100.0).round() / 100.0;
            tracing::info!(
                application = name,
                cause = cause.name(),
                before = before.map(to_hundredths),
                after = after.map(to_hundredths),
                "capacity, requests a second"
            );
        }));
    }

    /// Looks after all that connections wait for.
    async fn sweep(self: Rc<Self>) {
        loop {
            let mut patience = self.limits().patience;
            if self.draining.get() {
                // Whose request may be on its way gets a moment: nobody has told him that his connection ends, and a
                // POST he could not send again.
                patience.keep_alive = patience.keep_alive.min(BEAT);
            }
            tokio::time::sleep(patience.interval()).await;
            self.pulses.sweep(Instant::now(), &patience);
        }
    }

    /// Accepts connections until told to stop.
    async fn accept(
        self: Rc<Self>,
        listening: Arc<Listening>,
        socket: Bound,
        mut stopped: oneshot::Receiver<Stop>,
    ) {
        let acceptor = match Acceptor::new(socket, &listening) {
            Ok(acceptor) => acceptor,
            Err(error) => {
                tracing::error!(listener = listening.name, %error, "the socket cannot be listened on");
                return;
            }
        };
        let stop = loop {
            tokio::select! {
                biased;
                stop = &mut stopped => break stop.unwrap_or(Stop::Now),
                accepted = acceptor.accept() => self.accepted(&listening, accepted).await,
            }
        };
        if stop == Stop::Empty {
            // What waits in the backlog would be reset when the socket closes.
            while let Some(accepted) = acceptor.accept_waiting() {
                self.accepted(&listening, accepted).await;
                // However many come, this core serves, too.
                tokio::task::coop::consume_budget().await;
            }
        }
    }

    async fn accepted(self: &Rc<Self>, listening: &Listening, accepted: io::Result<Accepted>) {
        match accepted {
            Ok(accepted) => {
                let serving = listening.serving.load_full();
                tokio::task::spawn_local(connection::serve(Rc::clone(self), accepted, serving));
            }
            Err(error) if is_of_the_connection(&error) => {}
            Err(error) => {
                if self.exhaustion.is_due() {
                    tracing::error!(
                        listener = listening.name, %error, "accepting failed and is tried again: with too few open files, raise LimitNOFILE or `ulimit -n`"
                    );
                }
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// How to stop accepting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// At once.
    Now,
    /// When the backlog is empty.
    Empty,
}

/// Errors that tell of the connection that was to be accepted, not of the listener (accept(2)).
fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::Interrupted
            | io::ErrorKind::PermissionDenied
    )
}

enum Acceptor {
    Tcp {
        listener: TcpListener,
        /// The address of every connection, where the listener has but one.
        local: Option<SocketAddr>,
    },
    Unix(UnixListener),
}

impl Acceptor {
    fn new(socket: Bound, listening: &Listening) -> io::Result<Self> {
        match socket {
            Bound::Tcp(socket) => {
                let local = match &listening.bound {
                    Address::Tcp(address) if !address.ip().is_unspecified() => Some(*address),
                    _ => None,
                };
                TcpListener::from_std(socket).map(|listener| Self::Tcp { listener, local })
            }
            Bound::Unix(socket) => UnixListener::from_std(socket).map(Self::Unix),
        }
    }

    async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp { listener, local } => {
                let (stream, peer) = listener.accept().await?;
                Ok(of_tcp(stream, peer, *local))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(Accepted { socket: Socket::unix(stream), peer: None, local: None })
            }
        }
    }

    /// What waits already; `None` when nothing does. The kernel is asked: what has come since the reactor last was is not ready
    /// for tokio.
    fn accept_waiting(&self) -> Option<io::Result<Accepted>> {
        let accepted = match self {
            Self::Tcp { listener, .. } => SockRef::from(listener).accept(),
            Self::Unix(listener) => SockRef::from(listener).accept(),
        };
        match accepted {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            accepted => Some(accepted.and_then(|(socket, peer)| self.take(socket, &peer))),
        }
    }

    fn take(&self, socket: socket2::Socket, peer: &SockAddr) -> io::Result<Accepted> {
        socket.set_nonblocking(true)?;
        match self {
            Self::Tcp { local, .. } => {
                let peer = peer.as_socket().ok_or(io::ErrorKind::ConnectionAborted)?;
                Ok(of_tcp(TcpStream::from_std(socket.into())?, peer, *local))
            }
            Self::Unix(_) => {
                let stream = UnixStream::from_std(socket.into())?;
                Ok(Accepted { socket: Socket::unix(stream), peer: None, local: None })
            }
        }
    }
}

fn of_tcp(stream: TcpStream, peer: SocketAddr, local: Option<SocketAddr>) -> Accepted {
    let local = local.or_else(|| stream.local_addr().ok().map(canonical));
    Accepted { socket: Socket::tcp(stream), peer: Some(canonical(peer)), local }
}

/// An IPv4 client of a listener for both versions, as the IPv4 address it is.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The next whole second.
fn next_second(now: Timestamp) -> Timestamp {
    const SECOND: u64 = 1_000_000_000;
    Timestamp::from_nanos((now.as_nanos() / SECOND + 1) * SECOND)
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        net,
        os::unix,
        sync::mpsc::{channel, sync_channel},
    };

    use super::*;

    #[test]
    fn a_runtime_ends_while_a_name_is_looked_up() {
        let (answer, resolver) = channel::<()>();
        let (ended, has_ended) = sync_channel(1);
        let worker = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).unwrap();
            let (asked, is_asked) = sync_channel(1);
            // As the system's resolver, which blocks.
            let lookup = runtime.spawn_blocking(move || {
                asked.send(()).unwrap();
                let _ = resolver.recv();
            });
            is_asked.recv().unwrap();
            drop(lookup);
            wind_up(runtime);
            ended.send(()).unwrap();
        });
        assert_eq!(has_ended.recv_timeout(Duration::from_secs(20)), Ok(()), "it waits for the answer");
        drop(answer);
        worker.join().unwrap();
    }

    #[test]
    fn what_waits_is_accepted_though_the_reactor_does_not_know_of_it() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let tcp = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let unix = unix::net::UnixListener::bind(&path).unwrap();
        tcp.set_nonblocking(true).unwrap();
        unix.set_nonblocking(true).unwrap();
        let address = tcp.local_addr().unwrap();
        let tcp = Acceptor::Tcp { listener: TcpListener::from_std(tcp).unwrap(), local: None };
        let unix = Acceptor::Unix(UnixListener::from_std(unix).unwrap());

        let mut client = net::TcpStream::connect(address).unwrap();
        let accepted = tcp.accept_waiting().unwrap().unwrap();
        assert_eq!((accepted.peer, accepted.local), (client.local_addr().ok(), Some(address)));
        drop(accepted);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        assert!(tcp.accept_waiting().is_none());

        let client = unix::net::UnixStream::connect(&path).unwrap();
        let accepted = unix.accept_waiting().unwrap().unwrap();
        assert_eq!((accepted.peer, accepted.local), (None, None));
        assert!(unix.accept_waiting().is_none());
        drop(client);
    }
}

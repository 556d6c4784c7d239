//! The life of the gateway: start, new settings, new certificates, a new binary, the end.

use std::{
    collections::HashSet,
    io,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use rustls_pki_types::CertificateDer;
use tidegate_config::{Address, Certificate, Listener, Settings, WorkerGroup};
use tidegate_control::Timestamp;
use tidegate_runtime::{CertificateExpiry, Shared, Snapshot, read_certificates};
use tokio::sync::mpsc;

use crate::{
    handover::{Inherited, Program, UpgradeError, notify},
    listener::{Bound, ListenError, Listening, Serving},
    request::AccessLog,
    tls::{self, Reminders, ServerTls, Ticketer, TicketerError, TlsError, WithChain},
    upstream::tls_fault,
    watchdog::{self, Asked, Watchdog},
    workers::{Command, Process, Station, WorkerHandle},
};

/// The gateway, before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Gateway;

/// Why the gateway could not start, or new settings could not be taken up; in the second case
/// everything stays as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A listener cannot be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The TLS of a listener cannot be set up.
    #[error("listener {listener}: {source}")]
    Tls {
        /// The listener.
        listener: String,
        /// Why.
        source: TlsError,
    },
    /// A file of the TLS to an application's servers cannot be used. Only a check fails by it: the other applications
    /// are served all the same.
    #[error("application {application}: TLS to its servers: {problem}")]
    Upstream {
        /// The application.
        application: String,
        /// What is wrong, and with which file.
        problem: String,
    },
    /// A listener names a worker group that does not run. Groups are made at the start.
    #[error(
        "listener {listener}: worker group {group} does not run; groups take effect at a start or an upgrade of the binary"
    )]
    Group {
        /// The listener.
        listener: String,
        /// The group.
        group: String,
    },
    /// A worker thread cannot be started.
    #[error(
        "a worker thread cannot be started: {0}; the limit on threads or file descriptors may be too low (`ulimit -u`, `ulimit -n`)"
    )]
    Thread(#[source] io::Error),
    /// The name of the running program is not known.
    #[error("the path of the running program cannot be found out: {0}")]
    Program(#[source] io::Error),
    /// The access log cannot be written.
    #[error(
        "the access log cannot be opened: {0}: make its directory, let Tidegate's user write there, and start the reader of a pipe first"
    )]
    AccessLog(#[source] io::Error),
    /// No keys for session tickets.
    #[error(transparent)]
    Tickets(#[from] TicketerError),
}

/// A certificate or a list of authorities that could not be read again; what was read before stays in force.
#[derive(Debug, thiserror::Error)]
#[error("{0}; what was read before stays in force")]
pub struct ReloadError(StartError);

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundListener {
    /// Its name.
    pub name: String,
    /// Its address, the port known.
    pub address: Address,
}

/// What came of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Drained {
    /// Connections that had not ended by `drain.timeout` and were cut.
    pub cut: usize,
}

/// The gateway while it runs. Dropped without [`Running::drain`], it drains by itself, unawaited.
pub struct Running {
    shared: Arc<Shared>,
    workers: Vec<WorkerHandle>,
    open: Mutex<Vec<Open>>,
    ticketer: Arc<Ticketer>,
    program: Program,
    access_log: AccessLog,
    reminders: Mutex<Reminders>,
    /// What the admin interface serves, which is none of ours but expires as they do.
    admin_certificate: Mutex<Option<WithChain>>,
    is_draining: Arc<AtomicBool>,
}

/// What a gateway logs to.
#[derive(Clone, Debug)]
pub struct Logs(AccessLog);

impl Logs {
    /// Opens the access log's file again, after it has been moved away.
    pub fn reopen(&self) {
        self.0.reopen();
    }
}

/// An open listener, and a handle of each of its sockets, to pass them on.
struct Open {
    listening: Arc<Listening>,
    sockets: Vec<Bound>,
}

impl Gateway {
    /// Opens the listeners of the present settings and starts the workers. Returns once every
    /// listener accepts connections.
    ///
    /// # Errors
    ///
    /// [`StartError`]; nothing is left running.
    pub fn start(shared: Arc<Shared>, mut inherited: Inherited) -> Result<Running, StartError> {
        let program = Program::current().map_err(StartError::Program)?;
        let keys = inherited.ticket_keys();
        let ticketer = match keys.and_then(|keys| Ticketer::from_bytes(*shared.clock(), &keys).ok()) {
            Some(ticketer) => ticketer,
            None => Ticketer::new(*shared.clock())?,
        };
        let snapshot = shared.snapshot();
        let settings = &snapshot.settings;
        let stations = stations(&settings.workers);
        for fault in upstream_faults(settings) {
            tracing::error!("{fault}");
        }
        // Everything that fails easily comes before the first thread.
        let mut open = Vec::new();
        for listener in &settings.listeners {
            let workers = stations.iter().filter(|station| station.group == listener.group).count();
            let opened = Open::new(listener, workers, &mut inherited, &ticketer);
            open.push(opened.inspect_err(|_| inherited.say_unclaimed(&settings.listeners))?);
        }
        let process = Arc::new(Process::new(*shared.clock()));
        let access_log = AccessLog::start(settings.access_log.as_ref()).map_err(StartError::AccessLog)?;
        let (ready, mut readied) = mpsc::channel(1);
        let mut workers = Vec::new();
        for station in stations {
            let (shared, process) = (Arc::clone(&shared), Arc::clone(&process));
            let worker = WorkerHandle::start(station, shared, process, access_log.clone(), ready.clone());
            workers.push(worker.map_err(StartError::Thread)?);
        }
        let none_open = Mutex::new(Vec::new());
        let (reminders, admin_certificate, is_draining) = Default::default();
        let running = Running {
            shared,
            workers,
            open: none_open,
            ticketer,
            program,
            access_log,
            reminders,
            admin_certificate,
            is_draining,
        };
        // Nothing is ever sent: this returns when every worker has dropped its end.
        drop(ready);
        let _ = std::thread::spawn(move || readied.blocking_recv()).join();
        // Before the first connection, whichever worker accepts it: a waiting room that has not heard of the capacity lets
        // everybody pass.
        for application in &running.shared.snapshot().applications {
            application.state.tell_waiting_room();
        }
        for open in open {
            running.listen(open).map_err(StartError::Thread)?;
        }
        inherited.ready();
        running.look_at_certificates(true);
        Ok(running)
    }
}

impl Running {
    /// Where the gateway listens.
    #[must_use]
    pub fn listeners(&self) -> Vec<BoundListener> {
        let bound = |open: &Open| BoundListener {
            name: open.listening.name.clone(),
            address: open.listening.bound.clone(),
        };
        self.open().iter().map(bound).collect()
    }

    /// The TCP address of a listener, by its name.
    #[must_use]
    pub fn address(&self, listener: &str) -> Option<SocketAddr> {
        self.listeners().into_iter().find_map(|bound| match bound.address {
            Address::Tcp(address) if bound.name == listener => Some(address),
            _ => None,
        })
    }

    /// Takes up the present snapshot: opens listeners that are new, closes those that are gone and
    /// serves new connections of the others as they are now. Connections stay as they are.
    ///
    /// Changes of worker groups take effect at the next start.
    ///
    /// # Errors
    ///
    /// [`StartError`]: listeners stay as they were, or the access log if that is what cannot be opened; the other is as the
    /// snapshot says.
    pub fn apply(&self) -> Result<(), StartError> {
        let snapshot = self.shared.snapshot();
        let logged = self.access_log.configure(snapshot.settings.access_log.as_ref());
        let logged = logged.map_err(StartError::AccessLog);
        let listening = self.apply_listeners(&snapshot);
        if let (Err(error), Err(_)) = (&logged, &listening) {
            tracing::error!(%error, "the access log stays as it was");
        }
        listening.and(logged)
    }

    fn apply_listeners(&self, snapshot: &Snapshot) -> Result<(), StartError> {
        let mut fresh = Vec::new();
        let mut changed = Vec::new();
        let mut present = self.open();
        for listener in &snapshot.settings.listeners {
            match present.iter().find(|open| open.listening.is_for(listener)) {
                Some(open) => {
                    let serving = serving(listener, &self.ticketer)?;
                    changed.push((Arc::clone(&open.listening), serving));
                }
                None => fresh.push(listener),
            }
        }
        let kept = |open: &Open| snapshot.settings.listeners.iter().any(|l| open.listening.is_for(l));
        let mut opened = Vec::new();
        for listener in fresh {
            let workers = self.group(&listener.group).count();
            if workers == 0 {
                let (listener, group) = (listener.name.clone(), listener.group.clone());
                return Err(StartError::Group { listener, group });
            }
            // The same address under another name or group: the sockets stay, only who serves changes.
            let mut inherited = Inherited::default();
            for open in present.iter().filter(|open| !kept(open) && open.listening.bound == listener.address)
            {
                inherited.add(&listener.name, &open.sockets);
            }
            opened.push(Open::new(listener, workers, &mut inherited, &self.ticketer)?);
        }
        // From here on nothing fails but for want of descriptors.
        for (listening, serving) in changed {
            listening.serving.store(Arc::new(serving));
        }
        let (kept, closed) = present.drain(..).partition::<Vec<_>, _>(kept);
        *present = kept;
        drop(present);
        for open in opened {
            self.listen(open).map_err(StartError::Thread)?;
        }
        for open in closed {
            tracing::info!(listener = open.listening.name, "listener closed");
            self.tell(|| Command::Unlisten(Arc::clone(&open.listening)));
        }
        self.tell(|| Command::Published);
        self.look_at_certificates(true);
        Ok(())
    }

    /// Reads the certificates of every listener again. Connections from now on are served with
    /// them. Gives what could not be read, also of the certificates towards servers, which each core
    /// reads when settings are put in force: of that, what was read before stays in force.
    pub fn reload_certificates(&self) -> Vec<ReloadError> {
        let mut errors = Vec::new();
        for open in self.open().iter() {
            let serving = open.listening.serving.load();
            if let (Some(settings), Some(tls)) = (&serving.listener.tls, &serving.tls) {
                let named =
                    |source| ReloadError(StartError::Tls { listener: open.listening.name.clone(), source });
                errors.extend(tls.reload(settings).into_iter().map(named));
            }
        }
        errors.extend(upstream_faults(&self.shared.snapshot().settings).map(ReloadError));
        self.look_at_certificates(true);
        errors
    }

    /// Warns of certificates of the listeners and the admin interface that clients will hardly accept, or not for long, once a
    /// day at most of each; to be called now and then.
    pub fn remind_of_certificates(&self) {
        self.look_at_certificates(false);
    }

    /// The admin interface serves this one from now on: its end is told and measured as those of the listeners' are.
    pub fn set_admin_certificate(&self, certificate: Option<(Certificate, Vec<CertificateDer<'static>>)>) {
        *self.admin_certificate() = certificate;
        self.look_at_certificates(false);
    }

    /// Tells systemd that every worker's event loop turns, if it asked to be told (`WatchdogSec=`), until what this
    /// gives is dropped: at the latest when another process has taken over.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    pub fn watch_over(&self) -> io::Result<Option<Watchdog>> {
        let Some(allowed) = watchdog::allowed() else { return Ok(None) };
        let workers = self.workers.iter().map(|worker| worker.questions.clone()).collect();
        let asked = Asked { workers, is_draining: Arc::clone(&self.is_draining) };
        Watchdog::start(allowed, asked, || notify("WATCHDOG=1")).map(Some)
    }

    /// What it logs to, to be opened again, also while it drains.
    #[must_use]
    pub fn logs(&self) -> Logs {
        Logs(self.access_log.clone())
    }

    /// Replaces the running binary: starts the program of the same path with the same arguments,
    /// passes it the listening sockets, that of the admin address too, and waits until it accepts connections. Then
    /// this process is to [`Running::drain`].
    ///
    /// # Errors
    ///
    /// [`UpgradeError`]; this process goes on as before.
    pub async fn upgrade(&self, admin: Option<&TcpListener>, within: Duration) -> Result<u32, UpgradeError> {
        let passed = self.open().iter().map(Open::duplicate).collect::<io::Result<Vec<_>>>();
        let passed = passed.map_err(UpgradeError::Sockets)?;
        let sockets: Vec<_> = passed
            .iter()
            .flat_map(|open| open.sockets.iter().map(|socket| (&*open.listening, socket)))
            .collect();
        self.program.succeed(&sockets, admin, &self.ticketer.to_bytes(), within).await
    }

    /// Stops accepting, serves what is under way, closes what is idle, and ends. What has not ended
    /// after `drain.timeout` is cut. `handed_over`: another process holds the same sockets and
    /// serves what waits in their backlogs.
    pub async fn drain(mut self, handed_over: bool) -> Drained {
        self.begin_drain(handed_over);
        let mut drained = Drained { cut: 0 };
        for worker in &mut self.workers {
            drained.cut += worker.ended().await.cut;
        }
        self.access_log.flush();
        drained
    }

    /// Notes when certificates expire, and says what clients will hardly accept.
    fn look_at_certificates(&self, were_read: bool) {
        let mut chains: Vec<WithChain> = Vec::new();
        for open in &*self.open() {
            chains.extend(open.listening.serving.load().tls.iter().flat_map(|tls| tls.chains()));
        }
        chains.extend(self.admin_certificate().clone());
        let expiries = chains.iter().filter_map(|(files, chain)| {
            let since_1970 = tls::first_expiry(chain)?;
            let at = Timestamp::from_nanos(u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX));
            Some(CertificateExpiry { at, file: files.chain.display().to_string() })
        });
        self.shared.set_certificates(expiries.collect());
        let doubts = tls::doubts(&chains);
        let mut reminders = self.reminders.lock().unwrap_or_else(PoisonError::into_inner);
        let due = reminders.due(doubts, were_read, Instant::now());
        drop(reminders);
        for doubt in due {
            tracing::warn!("{doubt}");
        }
    }

    fn admin_certificate(&self) -> MutexGuard<'_, Option<WithChain>> {
        self.admin_certificate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_drain(&self, handed_over: bool) {
        self.is_draining.store(true, Ordering::Relaxed);
        // The sockets close when the workers close theirs.
        self.open().clear();
        self.tell(|| Command::Drain { handed_over });
    }

    /// Hands a listener's sockets to the workers of its group.
    fn listen(&self, open: Open) -> io::Result<()> {
        let workers = self.group(&open.listening.group).cycle();
        for (worker, socket) in workers.zip(&open.sockets) {
            worker.tell(Command::Listen(Arc::clone(&open.listening), socket.duplicate()?));
        }
        let Listening { name, bound, .. } = &*open.listening;
        match bound {
            Address::Tcp(address) => tracing::info!(listener = name, %address, "listening"),
            Address::Unix(path) => tracing::info!(listener = name, path = %path.display(), "listening"),
        }
        self.open().push(open);
        Ok(())
    }

    fn group<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a WorkerHandle> + Clone {
        self.workers.iter().filter(move |worker| worker.group == name)
    }

    fn tell(&self, command: impl Fn() -> Command) {
        for worker in &self.workers {
            worker.tell(command());
        }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.begin_drain(false);
    }
}

impl Open {
    fn new(
        listener: &Listener,
        workers: usize,
        inherited: &mut Inherited,
        ticketer: &Arc<Ticketer>,
    ) -> Result<Self, StartError> {
        let serving = serving(listener, ticketer)?;
        let sockets = Bound::open(listener, workers, inherited)?;
        let bound = sockets.iter().find_map(|socket| socket.address().ok());
        let listening = Listening {
            name: listener.name.clone(),
            configured: listener.address.clone(),
            group: listener.group.clone(),
            bound: bound.unwrap_or_else(|| listener.address.clone()),
            serving: ArcSwap::from_pointee(serving),
        };
        Ok(Self { listening: Arc::new(listening), sockets })
    }

    fn duplicate(&self) -> io::Result<Self> {
        let sockets = self.sockets.iter().map(Bound::duplicate).collect::<io::Result<_>>()?;
        Ok(Self { listening: Arc::clone(&self.listening), sockets })
    }
}

fn serving(listener: &Listener, ticketer: &Arc<Ticketer>) -> Result<Serving, StartError> {
    let tls = match &listener.tls {
        None => None,
        Some(settings) => {
            let tls = ServerTls::new(settings, Arc::clone(ticketer));
            let named = |source| StartError::Tls { listener: listener.name.clone(), source };
            Some(Arc::new(tls.map_err(named)?))
        }
    };
    Ok(Serving { listener: Arc::new(listener.clone()), tls })
}

/// The workers of the groups, numbered over all.
fn stations(groups: &[WorkerGroup]) -> Vec<Station> {
    // Follows the affinity of the process and the quota of its cgroup.
    let available = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut stations: Vec<Station> = groups
        .iter()
        .flat_map(|group| std::iter::repeat_n(group, group.threads.unwrap_or(available).max(1)))
        .enumerate()
        .map(|(index, group)| Station { index, workers: 0, group: group.name.clone() })
        .collect();
    let workers = stations.len();
    for station in &mut stations {
        station.workers = workers;
    }
    stations
}

/// Reads the certificates and keys of every listener as a start would, and those towards servers.
///
/// # Errors
///
/// [`StartError`] for each certificate with which the TLS of its listener, or to its servers, cannot be set up, and for
/// those that would be served to nobody.
pub fn check_certificates(settings: &Settings) -> Result<(), Vec<StartError>> {
    let of_listener = |listener: &Listener| {
        let name = listener.name.clone();
        let faults = listener.tls.as_ref().map(tls::faults).unwrap_or_default();
        faults.into_iter().map(move |source| StartError::Tls { listener: name.clone(), source })
    };
    let faults: Vec<_> =
        settings.listeners.iter().flat_map(of_listener).chain(upstream_faults(settings)).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// What of the certificates of the listeners and the admin interface is served although clients will hardly accept it: what
/// has expired or soon will, or is not valid yet, and what is sent without the certificate that vouches for it. What cannot be
/// read is no doubt.
#[must_use]
pub fn certificate_doubts(settings: &Settings) -> Vec<String> {
    let of_listeners = settings.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let of_admin = settings.admin_access.tls.as_ref().map(|tls| &tls.certificate);
    let mut files: Vec<&Certificate> =
        of_listeners.flat_map(|tls| &tls.certificates).chain(of_admin).collect();
    let mut known = HashSet::new();
    files.retain(|files| known.insert(&files.chain));
    let read = |files: &Certificate| Some((files.clone(), read_certificates(&files.chain).ok()?));
    tls::doubts(&files.into_iter().filter_map(read).collect::<Vec<_>>())
}

/// What is wrong with the files that the TLS to servers names; once for each set of files, however many applications
/// name it.
fn upstream_faults(settings: &Settings) -> impl Iterator<Item = StartError> {
    let applications = &settings.applications;
    applications.iter().enumerate().filter_map(|(position, application)| {
        let tls = application.upstream.tls.as_ref()?;
        let is_known = applications[..position].iter().any(|known| known.upstream.tls.as_ref() == Some(tls));
        let problem = if is_known { None } else { tls_fault(tls) }?;
        Some(StartError::Upstream { application: application.name.clone(), problem })
    })
}

/// The files that the TLS of `settings` names: when one of a listener changes, [`Running::reload_certificates`]; those
/// of servers are looked at when settings are put in force.
#[must_use]
pub fn certificate_files(settings: &Settings) -> Vec<PathBuf> {
    use tidegate_config::ClientAuth;
    let mut files = Vec::new();
    for tls in settings.listeners.iter().filter_map(|listener| listener.tls.as_ref()) {
        for certificate in &tls.certificates {
            files.extend([certificate.chain.clone(), certificate.key.clone()]);
        }
        if let ClientAuth::Optional(path) | ClientAuth::Required(path) = &tls.client_auth {
            files.push(path.clone());
        }
    }
    for tls in settings.applications.iter().filter_map(|application| application.upstream.tls.as_ref()) {
        files.extend(tls.ca.clone());
        files.extend(tls.certificate.iter().flat_map(|files| [files.chain.clone(), files.key.clone()]));
    }
    files
}

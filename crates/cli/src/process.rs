//! The life of a gateway process: start, signals, reload, upgrade, drain.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use rustix::process::WaitOptions;
use tidegate_admin::{Admin, Controllers, Recording, Reporter, room_secrets};
use tidegate_config::{Address, AdminAccess, Application, Faults, Listener, Settings};
use tidegate_control::knobs::{ChoiceSet as _, RoomMethod, Value, keys};
use tidegate_gateway::{
    FileWatch, Gateway, Inherited, Running, StartError, Watchdog, notify, notify_reloading,
};
use tidegate_runtime::{Clock, RoomSecrets, Shared};
use tidegate_telemetry::Telemetry;
use tokio::{
    runtime::Runtime,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{asking::Asking, check, failure::Failure, open_files};

/// How long a new binary may take until it accepts connections.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(30);

/// How often it is looked whether a certificate expires.
const CERTIFICATES_EVERY: Duration = Duration::from_secs(3600);

/// Where the settings came from.
#[derive(Debug)]
enum Source {
    /// The command line: there is nothing to reload but certificates.
    CommandLine {
        /// The URL of the application that is protected.
        protects: String,
    },
    /// A file, loaded again on SIGHUP and when it changes.
    File(PathBuf),
}

impl Source {
    /// The files whose change is taken up.
    fn files(&self, settings: &Settings) -> Vec<PathBuf> {
        let mut files = tidegate_gateway::certificate_files(settings);
        files.extend(settings.controllers.iter().map(|controller| controller.file.clone()));
        files.extend(admin_files(&settings.admin_access));
        files.extend(tidegate_telemetry::files(settings));
        files.extend(pages(settings).cloned());
        if let Self::File(file) = self {
            files.push(file.clone());
        }
        files
    }
}

/// A gateway, its admin interface, and the thread-less runtime that waits for signals.
pub(crate) struct Process {
    shared: Arc<Shared>,
    running: Running,
    admin: Option<Admin>,
    controllers: Controllers,
    reporter: Reporter,
    asking: Asking,
    recording: Recording,
    telemetry: Telemetry,
    runtime: Runtime,
}

/// Protects the application that the command line names, until told to end.
pub(crate) fn protect(settings: Settings, protects: String) -> Result<(), Failure> {
    live(settings, Source::CommandLine { protects }, FileWatch::new([]))
}

/// Runs what a configuration file says, until told to end.
pub(crate) fn run(file: PathBuf) -> Result<(), Failure> {
    // Watched before it is read, as every file is: what changes in between is not missed.
    let watch = FileWatch::new([file.clone()]);
    let settings = tidegate_config::load(&file).map_err(Failure::input)?;
    live(settings, Source::File(file), watch)
}

/// What is hardly meant is in force all the same.
fn say_doubts(settings: &Settings) {
    for doubt in settings.doubts() {
        tracing::warn!("{doubt}");
    }
}

fn live(settings: Settings, source: Source, mut watch: FileWatch) -> Result<(), Failure> {
    say_doubts(&settings);
    watch.set(source.files(&settings));
    let runtime = runtime()?;
    // Before anything is started: whoever hears that it is ready may tell it something at once.
    let signals = {
        let _context = runtime.enter();
        Signals::new().map_err(Failure::work)?
    };
    let started_with = settings.clone();
    let process = Process::start(settings, runtime)?;
    process.announce(&source);
    let Process { shared, running, admin, controllers, reporter, asking, recording, telemetry, runtime } =
        process;
    let (listeners_lag, watchdog) = (false, running.watch_over().map_err(Failure::work)?);
    let life = Life {
        shared,
        running,
        admin,
        controllers,
        reporter,
        asking,
        recording,
        telemetry,
        source,
        started_with,
        listeners_lag,
        watchdog,
    };
    runtime.block_on(life.live(signals, watch))
}

/// What a process waits with.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::work)
}

impl Process {
    /// Starts a gateway with these settings.
    pub(crate) fn start(settings: Settings, runtime: Runtime) -> Result<Self, Failure> {
        open_files::raise();
        open_files::compare(&settings);
        let (address, state_bytes_max) = (settings.admin, settings.state_bytes_max);
        let state_directory = settings.state_directory.clone();
        let off = Value::Choice(RoomMethod::Off.name());
        let promises = |app: &Application| app.values.value(keys::ROOM_METHOD.knob()) != off;
        let now = Clock::start().now();
        let secrets = match room_secrets(state_directory.as_deref(), now) {
            // Nobody is promised anything yet, so the rest goes on in memory until the directory can be used.
            Err(error) if !settings.applications.iter().any(promises) => {
                tracing::error!(%error, "waiting rooms begun before the next start forget their promises then");
                RoomSecrets::of_this_process(now)
            }
            read => read.map_err(Failure::work)?,
        };
        let shared = Shared::with_secrets(settings, secrets).map_err(Failure::input)?;
        check::scripts(&shared)?;
        let telemetry = Telemetry::start(&shared).map_err(Failure::input)?;
        let mut inherited = Inherited::from_environment();
        let succeeds = inherited.has_predecessor();
        let recording = Recording::start(&shared, state_directory.as_deref(), state_bytes_max, succeeds);
        let recording = recording.map_err(Failure::work)?;
        let controllers = Controllers::start(Arc::clone(&shared), &recording).map_err(Failure::work)?;
        let start = |address| {
            let socket = inherited.take_admin(address);
            Admin::start(Arc::clone(&shared), &recording, &controllers, address, socket)
        };
        let admin = address.map(start).transpose();
        let admin = admin.map_err(Failure::work)?;
        let running = Gateway::start(Arc::clone(&shared), inherited).map_err(Failure::work)?;
        let reporter = Reporter::start(&shared, &recording).map_err(Failure::work)?;
        let asking = Asking::start(&shared).map_err(Failure::work)?;
        if let Some(admin) = &admin {
            running.set_admin_certificate(admin.certificate());
            admin.set_ready(true);
        }
        Ok(Self { shared, running, admin, controllers, reporter, asking, recording, telemetry, runtime })
    }

    /// The URLs at which clients reach the listeners, in the order of the settings.
    pub(crate) fn urls(&self) -> Vec<String> {
        let (snapshot, bound) = (self.shared.snapshot(), self.running.listeners());
        let url = |listener: &Listener| {
            let scheme = if listener.tls.is_some() { "https" } else { "http" };
            let bound = bound.iter().find(|bound| bound.name == listener.name)?;
            Some(match &bound.address {
                Address::Tcp(address) if address.ip().is_unspecified() => {
                    format!("{scheme}://localhost:{}", address.port())
                }
                Address::Tcp(address) => format!("{scheme}://{address}"),
                Address::Unix(path) => format!("unix:{}", path.display()),
            })
        };
        snapshot.settings.listeners.iter().filter_map(url).collect()
    }

    /// Where the admin interface answers.
    pub(crate) fn admin(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Admin::address)
    }

    /// Drains and ends.
    pub(crate) fn stop(self) {
        let Self {
            running,
            admin,
            runtime,
            controllers: _controllers,
            reporter: _reporter,
            asking: _asking,
            recording: _recording,
            telemetry: _telemetry,
            ..
        } = self;
        if let Some(admin) = &admin {
            admin.set_ready(false);
        }
        let _ = runtime.block_on(running.drain(false));
    }

    fn announce(&self, source: &Source) {
        notify("READY=1");
        let admin = self.admin.as_ref().map(|admin| {
            let scheme = if admin.is_tls() { "https" } else { "http" };
            format!("; status page, metrics and API on {scheme}://{}/", admin.address())
        });
        let admin = admin.unwrap_or_default();
        match source {
            Source::CommandLine { protects } => {
                tracing::info!(
                    "ready: protects {protects}; clients come to {}{admin}",
                    self.urls().join(", ")
                );
            }
            Source::File(_) => tracing::info!("ready{admin}"),
        }
    }
}

/// A running process that listens to its signals and files.
struct Life {
    shared: Arc<Shared>,
    running: Running,
    admin: Option<Admin>,
    controllers: Controllers,
    reporter: Reporter,
    asking: Asking,
    /// Ends last, so that what draining counts is written.
    recording: Recording,
    /// Ends last as well.
    telemetry: Telemetry,
    source: Source,
    /// What is read at the start only stays as it is here.
    started_with: Settings,
    /// Listeners or access log are not yet what the published settings say, since one could not be opened.
    listeners_lag: bool,
    /// While systemd wants to hear that the workers turn.
    watchdog: Option<Watchdog>,
}

/// Whether this is the first process of a container: it ends with this one, and processes whose parent has ended are left to it.
fn is_first() -> bool {
    std::process::id() == 1
}

/// Takes notice of processes that have ended and were left to this one, which otherwise stay in the system's table.
fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    reopen: Signal,
    upgrade: Signal,
    child: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
            child: signal(SignalKind::child())?,
        })
    }
}

/// Resolves when the process is told to end, with the signal's name.
async fn told_to_end(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

impl Life {
    async fn live(mut self, mut signals: Signals, mut watch: FileWatch) -> Result<(), Failure> {
        let first = tokio::time::Instant::now() + CERTIFICATES_EVERY;
        let mut look = tokio::time::interval_at(first, CERTIFICATES_EVERY);
        if is_first() {
            // Who ended before the signal was listened to.
            reap();
        }
        let handed_over = loop {
            tokio::select! {
                _ = look.tick() => self.running.remind_of_certificates(),
                _ = signals.terminate.recv() => break false,
                _ = signals.interrupt.recv() => break false,
                _ = signals.hang_up.recv() => {
                    tracing::info!("SIGHUP: reading configuration and certificates again");
                    self.reload(&mut watch);
                }
                changed = watch.changed() => {
                    tracing::info!(?changed, "files changed: reading configuration and certificates again");
                    self.reload(&mut watch);
                }
                _ = signals.reopen.recv() => self.running.logs().reopen(),
                _ = signals.child.recv(), if is_first() => reap(),
                _ = signals.upgrade.recv() => {
                    if is_first() {
                        tracing::error!(
                            "SIGUSR2: no new binary is started, since a container ends with its first process: replace the container"
                        );
                        continue;
                    }
                    tracing::info!("SIGUSR2: starting the new binary");
                    let admin = self.admin.as_ref();
                    let upgraded = tokio::select! {
                        upgraded = self.running.upgrade(admin.map(Admin::offer), UPGRADE_TIMEOUT) => Some(upgraded),
                        // Dropped, it stops the process that it started.
                        signal = told_to_end(&mut signals.terminate, &mut signals.interrupt) => {
                            tracing::info!(signal, "the upgrade is given up");
                            None
                        }
                    };
                    if let Some(Ok(pid)) = upgraded {
                        tracing::info!(pid, "the new process accepts connections");
                        break true;
                    }
                    if let Some(admin) = admin {
                        admin.resume();
                    }
                    match upgraded {
                        Some(Err(error)) => tracing::error!(%error, "upgrade failed; this process goes on"),
                        _ => break false,
                    }
                }
            }
        };
        self.end(handed_over, &mut signals).await
    }

    /// Drains; a second signal to end cuts it short, and the access log is opened again as ever. What can no longer be done is
    /// said. That another process has taken over was no such signal.
    async fn end(mut self, handed_over: bool, signals: &mut Signals) -> Result<(), Failure> {
        if let Some(admin) = &self.admin {
            admin.set_ready(false);
            if handed_over {
                admin.hand_over();
            }
        }
        if handed_over {
            self.recording.hand_over();
            self.reporter.stop();
            self.asking.stop();
            // systemd hears of the new process only.
            drop(self.watchdog.take());
        } else {
            notify("STOPPING=1");
        }
        // A successor is ready at the same address: then nobody needs to be told.
        let grace = match handed_over {
            true => Duration::ZERO,
            false => self.shared.snapshot().settings.host.get(keys::DRAIN_GRACE),
        };
        let running = self.running;
        let logs = running.logs();
        let drain = async {
            if !grace.is_zero() {
                tracing::info!(?grace, "not ready any more; listeners close after this");
                tokio::time::sleep(grace).await;
            }
            tracing::info!("draining");
            running.drain(handed_over).await
        };
        let cut_short = async {
            let mut is_first = handed_over;
            loop {
                tokio::select! {
                    signal = told_to_end(&mut signals.terminate, &mut signals.interrupt) => {
                        if !is_first {
                            break signal;
                        }
                        is_first = false;
                        tracing::info!(
                            signal,
                            "draining already, as another process has taken over; a second one cuts it short"
                        );
                    }
                    _ = signals.reopen.recv() => logs.reopen(),
                    _ = signals.hang_up.recv() => tracing::warn!("SIGHUP: draining, so nothing is read again"),
                    _ = signals.upgrade.recv() => {
                        tracing::warn!("SIGUSR2: draining, so no new binary is started");
                    }
                }
            }
        };
        tokio::select! {
            drained = drain => {
                tracing::info!(cut = drained.cut, "drained");
                Ok(())
            }
            signal = cut_short => {
                Err(Failure::work(format_args!("ended by a second {signal} before the drain was done")))
            }
        }
    }

    /// Takes up what the files say now. What is at fault is said, and everything stays as it is.
    fn reload(&mut self, watch: &mut FileWatch) {
        notify_reloading();
        if let Source::File(file) = &self.source {
            let loaded = tidegate_config::load(file);
            self.reload_settings(loaded);
        }
        // The settings may name other files now.
        watch.set(self.source.files(&self.shared.snapshot().settings));
        self.controllers.reload();
        if let Err(error) = self.telemetry.reload() {
            tracing::error!(%error, "what is exported, and where, stays as it was");
            self.tell_fault(&error);
        }
        if let Some(admin) = &self.admin {
            if let Err(error) = admin.reload() {
                tracing::error!("{error}");
                self.tell_fault(&error);
            }
            self.running.set_admin_certificate(admin.certificate());
        }
        for error in self.running.reload_certificates() {
            tracing::error!("{error}");
            self.tell_fault(&error);
        }
        notify("READY=1");
    }

    /// What the log says of files that were read again, as an event too.
    fn tell_fault(&self, fault: &dyn std::fmt::Display) {
        self.recording.tell_fault(&self.shared, &fault.to_string().replace('\n', "; "));
    }

    fn reload_settings(&mut self, loaded: Result<Settings, Faults>) {
        let before = self.shared.configured();
        match loaded {
            Err(faults) => {
                for line in faults.to_string().lines() {
                    tracing::error!("{line}");
                }
                tracing::error!("the configuration has faults; the one in force stays so");
                self.tell_fault(&faults);
            }
            Ok(settings) if settings == before => {
                // Pages, and certificates towards servers, are read when settings are put in force.
                let names_files = pages(&settings).next().is_some()
                    || settings.applications.iter().any(|application| application.upstream.tls.is_some());
                if names_files && let Err(error) = self.shared.renew() {
                    tracing::error!(%error, "the pages in force stay so");
                    self.tell_fault(&error);
                }
                match self.listeners_lag {
                    true => self.open_listeners(),
                    false => tracing::info!("nothing changed in the configuration"),
                }
            }
            Ok(settings) => {
                say_doubts(&settings);
                open_files::compare(&settings);
                let started = &self.started_with;
                if settings.admin != started.admin {
                    tracing::warn!("admin: a new address takes effect at the next start");
                }
                if settings.workers != started.workers {
                    tracing::warn!("workers: other groups and threads take effect at the next start");
                }
                if (&settings.state_directory, settings.state_bytes_max, &settings.archives)
                    != (&started.state_directory, started.state_bytes_max, &started.archives)
                {
                    tracing::warn!(
                        "state_directory, state_bytes_max and archive take effect at the next start"
                    );
                }
                if let Err(error) = self.shared.publish(settings) {
                    tracing::error!(%error, "the configuration in force stays so");
                    self.tell_fault(&error);
                    return;
                }
                self.open_listeners();
            }
        }
    }

    /// Has the listeners be what the published settings say.
    fn open_listeners(&mut self) {
        let applied = self.running.apply();
        self.listeners_lag = applied.is_err();
        match applied {
            Ok(()) => tracing::info!(version = self.shared.version(), "new configuration in force"),
            Err(error) => {
                match &error {
                    StartError::AccessLog(_) => tracing::error!(
                        %error, "the access log stays as it was; everything else is in force; it is tried again at the next SIGHUP"
                    ),
                    _ => tracing::error!(
                        %error, "listeners stay as they were; everything else is in force; they are tried again at the next SIGHUP"
                    ),
                }
                self.tell_fault(&error);
            }
        }
    }
}

/// The files of pages that applications show.
fn pages(settings: &Settings) -> impl Iterator<Item = &PathBuf> {
    settings.applications.iter().flat_map(|app| app.maintenance_page.iter().chain(&app.waiting_room.page))
}

/// The files of the admin interface's tokens and certificates.
fn admin_files(access: &AdminAccess) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = access.tokens.iter().map(|token| token.file.clone()).collect();
    if let Some(tls) = &access.tls {
        files.extend([tls.certificate.chain.clone(), tls.certificate.key.clone()]);
        files.extend(tls.clients.as_ref().map(|clients| clients.authorities.clone()));
    }
    files
}

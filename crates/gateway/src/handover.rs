//! Listening sockets that pass from one process to the next: systemd's socket activation and the
//! replacement of the running binary.
//!
//! Sockets are passed, never opened anew: what waits in their backlogs is not lost. With them go the
//! keys of session tickets, so that sessions can be resumed across the replacement.

use std::{
    collections::VecDeque,
    env,
    ffi::{OsStr, OsString},
    fs, io,
    io::{Read, Write},
    net::TcpListener,
    os::{
        fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            fs::MetadataExt,
            net::{SocketAddr, UnixDatagram, UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};

use listenfd::ListenFd;
use rustix::time::{ClockId, Timespec, clock_gettime};
use socket2::{Domain, SockRef, Socket};
use tidegate_config::{Address, Listener};
use tokio::{
    io::AsyncReadExt,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{
    listener::{Bound, Listening},
    watchdog::WATCHDOG_PID,
};

/// Tells the new process what it takes over: the old one's id and the descriptor of the line to it,
/// then a line for each listening socket, its descriptor and its listener's name, or [`ADMIN`].
const HANDOVER: &str = "TIDEGATE_HANDOVER";

/// The socket of the admin address; no listener's name has such a sign.
const ADMIN: &str = "/admin";

/// Before the name of a listener whose sockets are elsewhere than it is configured, since systemd says where they are. No
/// listener's name has such a sign either, so that a program which does not know it goes by the address alone.
const ELSEWHERE: &str = "@";

/// What systemd sets.
const LISTEN_FDS_NAMES: &str = "LISTEN_FDNAMES";
const LISTEN_FDS: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", LISTEN_FDS_NAMES];
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// What the new process says once it accepts connections.
const READY: u8 = b'1';
/// Bytes of ticket keys, at most.
const KEYS_BYTES_MAX: usize = 4096;
/// How long a process waits for what the other one has sent already.
const LINE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a new process that gives up may take to say why and end.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// What a process inherits.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: VecDeque<InheritedSocket>,
    ticket_keys: Option<Vec<u8>>,
    line: Option<UnixStream>,
}

#[derive(Debug)]
struct InheritedSocket {
    name: Option<String>,
    /// By systemd, whose configuration then says where to listen; also by way of processes before this one.
    activated: bool,
    socket: Bound,
}

impl Inherited {
    /// What the environment names: sockets of systemd's, or those of the process that this one
    /// replaces. To be called once, at the start.
    #[must_use]
    pub fn from_environment() -> Self {
        let mut inherited = env::var(HANDOVER).ok().and_then(|value| handed_over(&value)).unwrap_or_default();
        inherited.sockets.extend(activated());
        inherited
    }

    /// Whether this process replaces one that serves until this one is ready.
    #[must_use]
    pub const fn has_predecessor(&self) -> bool {
        self.line.is_some()
    }

    /// The sockets for a listener: those passed under its address; those passed under its name,
    /// where the system chose the port or systemd the address.
    pub(crate) fn take(&mut self, listener: &Listener) -> Vec<Bound> {
        let any_port = matches!(listener.address, Address::Tcp(address) if address.port() == 0);
        let (taken, left) = self.sockets.drain(..).partition::<VecDeque<_>, _>(|inherited| {
            let named = inherited.name.as_ref() == Some(&listener.name);
            inherited.socket.address().is_ok_and(|address| address == listener.address)
                || (named && (any_port || inherited.activated))
        });
        self.sockets = left;
        taken.into_iter().map(|inherited| inherited.socket).collect()
    }

    /// The socket of the admin address, if it is at this one.
    pub fn take_admin(&mut self, address: std::net::SocketAddr) -> Option<TcpListener> {
        let position = self.sockets.iter().position(|inherited| inherited.name.as_deref() == Some(ADMIN))?;
        let socket = match &self.sockets[position].socket {
            Bound::Tcp(socket)
                if address.port() == 0 || socket.local_addr().is_ok_and(|at| at == address) =>
            {
                socket.try_clone().ok()?
            }
            _ => return None,
        };
        self.sockets.remove(position);
        Some(socket)
    }

    /// Says what of systemd's sockets no listener takes, by name or address.
    pub(crate) fn say_unclaimed(&self, listeners: &[Listener]) {
        for left in self.sockets.iter().filter(|inherited| inherited.activated) {
            let Ok(address) = left.socket.address() else { continue };
            if !listeners
                .iter()
                .any(|known| left.name.as_ref() == Some(&known.name) || known.address == address)
            {
                tracing::warn!(
                    name = left.name,
                    %address,
                    "no listener takes this socket of systemd's: write its FileDescriptorName as the name of one, or its address"
                );
            }
        }
    }

    /// Adds what another listener of this process leaves.
    pub(crate) fn add(&mut self, name: &str, sockets: &[Bound]) {
        for socket in sockets.iter().filter_map(|socket| socket.duplicate().ok()) {
            self.sockets.push_back(InheritedSocket { name: Some(name.to_owned()), activated: false, socket });
        }
    }

    /// The keys of session tickets.
    pub(crate) fn ticket_keys(&mut self) -> Option<Vec<u8>> {
        self.ticket_keys.take()
    }

    /// Tells the process that this one replaces that it can go, and systemd that the service is up.
    pub(crate) fn ready(&mut self) {
        if let Some(mut line) = self.line.take()
            && let Err(error) = line.write_all(&[READY])
        {
            tracing::warn!(%error, "the process to be replaced did not hear that this one is ready");
        }
        for left in self.sockets.drain(..) {
            let address = left.socket.address().map_or_else(|error| error.to_string(), |at| at.to_string());
            tracing::warn!(
                name = left.name,
                address,
                "an inherited socket belongs to no listener and is closed"
            );
        }
        notify(&format!("READY=1\nMAINPID={}", std::process::id()));
    }
}

/// Why the running binary could not be replaced; the present process goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// Sockets could not be prepared for the new process.
    #[error("the listening sockets could not be prepared for the new process: {0}")]
    Sockets(#[source] io::Error),
    /// The new process could not be started.
    #[error("{} could not be started: {source}", program.display())]
    Start {
        /// The binary.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The new process ended before it was ready.
    #[error("the new process ended before it was ready ({status}); its own log says why")]
    Ended {
        /// How.
        status: String,
    },
    /// The new process did not become ready in time and was stopped.
    #[error("the new process was not ready within {0:?} and has been stopped")]
    Late(Duration),
}

/// How this process was started, to start its successor in the same way. Taken at the start: once
/// the file of the running binary has been replaced, the system no longer knows its name.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// The running one.
    pub(crate) fn current() -> io::Result<Self> {
        let mut arguments = env::args_os();
        let (called, running) = (arguments.next().unwrap_or_default(), env::current_exe()?);
        let paths = env::var_os("PATH").unwrap_or_default();
        let path = as_called(&called, &running, &paths).unwrap_or(running);
        Ok(Self { path, arguments: arguments.collect() })
    }

    /// Starts the successor, gives it the sockets and keys, and waits until it accepts connections.
    pub(crate) async fn succeed(
        &self,
        sockets: &[(&Listening, &Bound)],
        admin: Option<&TcpListener>,
        ticket_keys: &[u8],
        within: Duration,
    ) -> Result<u32, UpgradeError> {
        let mut ends = signal(SignalKind::child()).map_err(UpgradeError::Sockets)?;
        let (line, child) = self.start(sockets, admin, ticket_keys)?;
        let mut starting = Starting { child, is_ready: false };
        let said = async {
            let mut said = [0];
            let mut line = tokio::net::UnixStream::from_std(line)?;
            line.read_exact(&mut said).await?;
            Ok::<_, io::Error>(said == [READY])
        };
        let outcome = tokio::time::timeout(within, said).await;
        match outcome {
            Ok(Ok(true)) => {
                starting.is_ready = true;
                let id = starting.child.id();
                notify(&format!("MAINPID={id}"));
                // It outlives this process, and is reaped by whoever inherits it; until then here.
                std::thread::spawn(move || starting.child.wait());
                Ok(id)
            }
            Ok(_) => {
                // It has closed the line, which it does before it says why.
                let status = match tokio::time::timeout(END_TIMEOUT, starting.ended(&mut ends)).await {
                    Ok(status) => status,
                    Err(_) => starting.stop(),
                };
                Err(UpgradeError::Ended { status })
            }
            Err(_) => Err(UpgradeError::Late(within)),
        }
    }

    fn start(
        &self,
        sockets: &[(&Listening, &Bound)],
        admin: Option<&TcpListener>,
        ticket_keys: &[u8],
    ) -> Result<(UnixStream, Child), UpgradeError> {
        let (ours, theirs) = UnixStream::pair().map_err(UpgradeError::Sockets)?;
        let prepare = || -> io::Result<(String, Vec<OwnedFd>)> {
            (&ours).write_all(ticket_keys)?;
            // The end of the keys; this direction is used no more.
            ours.shutdown(std::net::Shutdown::Write)?;
            ours.set_nonblocking(true)?;
            SockRef::from(&theirs).set_cloexec(false)?;
            let mut lines = format!("{} {}", std::process::id(), theirs.as_raw_fd());
            let mut copies = Vec::with_capacity(sockets.len() + 1);
            for (listening, socket) in sockets {
                let copy: OwnedFd = match socket.duplicate()? {
                    Bound::Tcp(socket) => socket.into(),
                    Bound::Unix(socket) => socket.into(),
                };
                let mark = if listening.is_elsewhere() { ELSEWHERE } else { "" };
                copies.push((format!("{mark}{}", listening.name), copy));
            }
            if let Some(admin) = admin {
                copies.push((ADMIN.to_owned(), admin.try_clone()?.into()));
            }
            let mut passed = Vec::with_capacity(copies.len());
            for (name, copy) in copies {
                SockRef::from(&copy).set_cloexec(false)?;
                lines.push_str(&format!("\n{} {name}", copy.as_raw_fd()));
                passed.push(copy);
            }
            Ok((lines, passed))
        };
        let (lines, passed) = prepare().map_err(UpgradeError::Sockets)?;
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).env(HANDOVER, lines);
        // They name this process, and the successor is another.
        for name in LISTEN_FDS.into_iter().chain([WATCHDOG_PID]) {
            command.env_remove(name);
        }
        let child = command.spawn();
        // The copies without close-on-exec go before anything else is started.
        drop((passed, theirs));
        child
            .map(|child| (ours, child))
            .map_err(|source| UpgradeError::Start { program: self.path.clone(), source })
    }
}

/// The path by which the program was called: a link on the way to the file that runs may lead to another one later.
fn as_called(called: &OsStr, running: &Path, paths: &OsStr) -> Option<PathBuf> {
    let called = Path::new(called);
    let candidates: Vec<PathBuf> = match called.parent() {
        None => return None,
        Some(folder) if folder.as_os_str().is_empty() => {
            env::split_paths(paths).map(|folder| folder.join(called)).collect()
        }
        Some(_) => vec![called.to_owned()],
    };
    let runs = fs::metadata(running).ok()?;
    let is_it = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (runs.dev(), runs.ino()))
    };
    candidates.into_iter().filter_map(|path| std::path::absolute(path).ok()).find(is_it)
}

/// A process that was started; stopped when this is dropped before it is ready.
struct Starting {
    child: Child,
    is_ready: bool,
}

impl Starting {
    /// Waits until it has ended, and gives how. `ends` tells when any has.
    async fn ended(&mut self, ends: &mut Signal) -> String {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) => {}
                Err(error) => return error.to_string(),
            }
            ends.recv().await;
        }
    }

    /// Gives how it ended.
    fn stop(&mut self) -> String {
        let _ = self.child.kill();
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if !self.is_ready {
            self.stop();
        }
    }
}

/// Tells systemd, if it asked to be told (`Type=notify`).
pub fn notify(state: &str) {
    let Some(path) = env::var_os(NOTIFY_SOCKET) else { return };
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, state, "systemd could not be notified");
    }
}

/// Tells systemd that settings are read again, and since when: by that it knows the reload which it asked for
/// (`Type=notify-reload`).
pub fn notify_reloading() {
    notify(&reloading(clock_gettime(ClockId::Monotonic)));
}

fn reloading(now: Timespec) -> String {
    format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1_000)
}

/// What [`HANDOVER`] names, if it was meant for this process.
fn handed_over(value: &str) -> Option<Inherited> {
    let (first, lines) = value.split_once('\n').unwrap_or((value, ""));
    let (parent, line) = first.split_once(' ')?;
    let line = adopt(line.parse().ok()?)?;
    // Not the parent, who may have been killed while this process was starting: the line tells who made it.
    let made_by = rustix::net::sockopt::socket_peercred(&line).map(|of| of.pid.as_raw_nonzero().get());
    if made_by.is_err() || parent.parse().ok() != made_by.ok() {
        // Left in the environment by a generation before: what has the number now is somebody else's.
        let _ = line.into_raw_fd();
        return None;
    }
    let line = UnixStream::from(line);
    let mut inherited = Inherited::default();
    for entry in lines.lines() {
        let (descriptor, name) = entry.split_once(' ')?;
        if let Some(socket) = adopt(descriptor.parse().ok()?).and_then(listening) {
            let activated = name.starts_with(ELSEWHERE);
            let name = Some(name.trim_start_matches(ELSEWHERE).to_owned());
            inherited.sockets.push_back(InheritedSocket { name, activated, socket });
        }
    }
    let mut keys = Vec::new();
    let read = line.set_read_timeout(Some(LINE_TIMEOUT)).and_then(|()| {
        let mut limited = (&line).take(KEYS_BYTES_MAX as u64);
        limited.read_to_end(&mut keys)
    });
    match read {
        Ok(_) => inherited.ticket_keys = Some(keys),
        Err(error) => tracing::warn!(%error, "the keys of session tickets were not handed over"),
    }
    inherited.line = Some(line);
    Some(inherited)
}

/// What systemd passes.
fn activated() -> Vec<InheritedSocket> {
    let names = env::var(LISTEN_FDS_NAMES).unwrap_or_default();
    let mut names = names.split(':').map(str::to_owned);
    let mut passed = ListenFd::from_env();
    let mut sockets = Vec::new();
    for index in 0..passed.len() {
        let name = names.next();
        let tcp = passed.take_tcp_listener(index).ok().flatten().map(OwnedFd::from);
        let socket = tcp.or_else(|| passed.take_unix_listener(index).ok().flatten().map(OwnedFd::from));
        match socket.and_then(listening) {
            Some(socket) => sockets.push(InheritedSocket { name, activated: true, socket }),
            None => tracing::warn!(name, "systemd passed something that is no listening stream socket"),
        }
    }
    sockets
}

/// Takes over a descriptor that the environment names.
fn adopt(descriptor: RawFd) -> Option<OwnedFd> {
    // The standard streams are never handed over, and what is not open cannot be.
    if descriptor <= 2 || fs::symlink_metadata(format!("/proc/self/fd/{descriptor}")).is_err() {
        return None;
    }
    #[expect(unsafe_code, reason = "a descriptor inherited by number has no owner in this process yet")]
    // SAFETY: it is open (checked above), and the process that started this one passed it for this
    // use only; the variable that names it is read once, before anything else opens descriptors.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    SockRef::from(&owned).set_cloexec(true).ok()?;
    Some(owned)
}

fn listening(descriptor: OwnedFd) -> Option<Bound> {
    let socket = Socket::from(descriptor);
    if !socket.is_listener().ok()? {
        return None;
    }
    match socket.domain().ok()? {
        Domain::IPV4 | Domain::IPV6 => Some(Bound::Tcp(TcpListener::from(socket))),
        Domain::UNIX => Some(Bound::Unix(UnixListener::from(OwnedFd::from(socket)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_program_is_started_again_by_the_link_that_it_was_called_by() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("tidegate-1"), directory.path().join("tidegate"));
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        let paths = env::join_paths([Path::new("/nowhere"), directory.path()]).unwrap();
        let none = OsStr::new("");
        assert_eq!(as_called(link.as_os_str(), &file, none), Some(link.clone()));
        assert_eq!(as_called(OsStr::new("tidegate"), &file, &paths), Some(link.clone()));
        // What is called so by now is another one, or nothing.
        assert_eq!(as_called(OsStr::new("sh"), &file, OsStr::new("/bin")), None);
        assert_eq!(as_called(OsStr::new("tidegate"), &file, none), None);
        assert_eq!(as_called(none, &file, &paths), None);
    }

    #[test]
    fn a_process_that_is_not_waited_for_any_more_is_stopped() {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = PathBuf::from(format!("/proc/{}", child.id()));
        assert!(process.exists());
        drop(Starting { child, is_ready: false });
        assert!(!process.exists());
    }

    #[test]
    fn what_is_handed_over_is_taken_from_who_made_it_though_he_is_gone() {
        let offer = |maker: u32| {
            let (line, _other) = UnixStream::pair().expect("a pair");
            let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
            let (line, socket) = (line.into_raw_fd(), socket.into_raw_fd());
            (line, handed_over(&format!("{maker} {line}\n{socket} web")))
        };
        // This process is not its own parent.
        let (_, taken) = offer(std::process::id());
        let taken = taken.expect("made by this process");
        assert_eq!(taken.sockets.front().and_then(|socket| socket.name.as_deref()), Some("web"));
        let (line, taken) = offer(1);
        assert!(taken.is_none(), "left by another process");
        assert!(fs::symlink_metadata(format!("/proc/self/fd/{line}")).is_ok(), "it is left open");
    }

    #[test]
    fn a_reload_is_told_with_its_time() {
        let now = Timespec { tv_sec: 12, tv_nsec: 345_678_901 };
        assert_eq!(reloading(now), "RELOADING=1\nMONOTONIC_USEC=12345678");
    }
}

//! A `tidegate` process of a test: started, awaited, its log kept, stopped also when the test fails.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod admin;
pub(crate) mod client;
pub(crate) mod load;
pub(crate) mod origin;
pub(crate) mod unbroken;

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a start, a line of the log or an end may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running gateway and the directory of its files.
pub(crate) struct Gateway {
    child: Child,
    /// What it says on standard error.
    pub(crate) log: Arc<Log>,
    /// Where its configuration and logs are.
    pub(crate) directory: tempfile::TempDir,
}

/// How a gateway is started.
#[derive(Default)]
pub(crate) struct Start<'a> {
    /// Processors it is pinned to; empty: all.
    pub(crate) cpus: &'a [usize],
    /// More arguments in front of the command, such as `--log json`.
    pub(crate) arguments: &'a [&'a str],
    /// A listening socket passed as systemd does, under this name.
    pub(crate) activation: Option<(&'a str, TcpListener)>,
    /// How many files it may have open.
    pub(crate) open_files: Option<usize>,
    /// Modes of files bind it as they do who is not root.
    pub(crate) bound_by_modes: bool,
    /// It is the first process of a container, beside one that ends when somebody has written into this pipe.
    pub(crate) first_beside: Option<&'a Path>,
    /// More of its environment.
    pub(crate) environment: &'a [(&'a str, &'a str)],
}

/// Lines of a log as they come.
#[derive(Debug, Default)]
pub(crate) struct Log {
    state: Mutex<LogState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LogState {
    lines: Vec<String>,
    ended: bool,
}

impl Gateway {
    /// Runs `tidegate run` with a configuration and waits until it is ready.
    pub(crate) fn run(configuration: &str, start: &Start<'_>) -> Self {
        Self::run_in(tempfile::tempdir().expect("a directory for the test"), configuration, start)
    }

    /// Runs `tidegate run` with a configuration in a directory that holds other files already.
    pub(crate) fn run_in(directory: tempfile::TempDir, configuration: &str, start: &Start<'_>) -> Self {
        let file = directory.path().join("tidegate.toml");
        fs::write(&file, configuration).expect("write the configuration");
        Self::spawn(directory, &["run", file.to_str().expect("UTF-8")], start)
    }

    /// Runs `tidegate` with these arguments and waits until it is ready.
    pub(crate) fn command(arguments: &[&str], start: &Start<'_>) -> Self {
        Self::spawn(tempfile::tempdir().expect("a directory for the test"), arguments, start)
    }

    /// Runs `tidegate run` with a configuration that it cannot start with; gives its exit code and what it said.
    pub(crate) fn run_to_its_end(
        directory: &Path,
        configuration: &str,
        start: &Start<'_>,
    ) -> (Option<i32>, String) {
        let file = directory.join("tidegate.toml");
        fs::write(&file, configuration).expect("write the configuration");
        let ended = command(start).arg("run").arg(file).stdin(stdin(start)).output().expect("run tidegate");
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    }

    fn spawn(directory: tempfile::TempDir, arguments: &[&str], start: &Start<'_>) -> Self {
        let mut child = command(start)
            .envs(start.environment.iter().copied())
            .args(start.arguments)
            .args(arguments)
            .stdin(stdin(start))
            .stderr(Stdio::piped())
            // A group of its own, so that a signal to the test does not race with the drain.
            .process_group(0)
            .spawn()
            .expect("start tidegate");
        let log = Log::of(child.stderr.take().expect("piped"));
        let gateway = Self { child, log, directory };
        gateway.log.await_line(" ready", 1);
        gateway
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name, such as `HUP`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Replaces its configuration file, as a deployment does: whole or not at all.
    pub(crate) fn write_configuration(&self, configuration: &str) {
        let file = self.directory.path().join("tidegate.toml");
        let fresh = self.directory.path().join("tidegate.toml.new");
        fs::write(&fresh, configuration).expect("write the configuration");
        fs::rename(fresh, file).expect("put the configuration in its place");
    }

    /// Asks it to drain, waits for its end, and gives its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        self.ended()
    }

    /// Waits for its end and gives its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait for tidegate") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "tidegate did not end within {PATIENCE:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills it, as a crash does; gives the directory of its files.
    pub(crate) fn kill(mut self) -> tempfile::TempDir {
        self.child.kill().expect("kill tidegate");
        self.child.wait().expect("wait for tidegate");
        std::mem::replace(&mut self.directory, tempfile::tempdir().expect("a directory"))
    }

    /// Stops it, and fails if it panicked or ended otherwise than well.
    pub(crate) fn stop_sound(self) {
        let log = Arc::clone(&self.log);
        assert_eq!(self.stop(), Some(0), "exit code after SIGTERM");
        log.assert_no_panic();
    }

    /// Resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        resident_bytes(self.pid())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The whole group: a replaced binary's successor is in it.
        let _ = Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", self.pid())])
            .stderr(Stdio::null())
            .status();
        let _ = self.child.wait();
    }
}

impl Log {
    fn of(stream: ChildStderr) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let writer = Arc::clone(&log);
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                // Shown with the test that fails.
                eprintln!("tidegate: {line}");
                writer.change(|state| state.lines.push(line));
            }
            writer.change(|state| state.ended = true);
        });
        log
    }

    /// Waits until a text has been said in this many lines.
    pub(crate) fn await_line(&self, text: &str, times: usize) {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.lines.iter().filter(|line| line.contains(text)).count() >= times {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!state.ended, "tidegate ended without saying {text:?}: {:#?}", state.lines);
            assert!(!left.is_zero(), "tidegate did not say {text:?}: {:#?}", state.lines);
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lines with a text in them.
    pub(crate) fn lines_with(&self, text: &str) -> Vec<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.lines.iter().filter(|line| line.contains(text)).cloned().collect()
    }

    pub(crate) fn assert_no_panic(&self) {
        let panics = self.lines_with("panicked");
        assert!(panics.is_empty(), "tidegate panicked: {panics:#?}");
    }

    fn change(&self, change: impl FnOnce(&mut LogState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Sends a process a signal by name.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "signal {name}");
}

/// Resident memory of a process in bytes.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// A loopback address that nobody listens on, and each time another. Its port is below those the system gives to
/// outgoing connections, one of which might otherwise take it before it is listened on, or between two starts.
pub(crate) fn free_address() -> SocketAddr {
    const PORTS: std::ops::Range<u32> = 20_000..32_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Programs that run one after another begin at different ports.
    let first = std::process::id().wrapping_mul(97);
    loop {
        let given = GIVEN.fetch_add(1, Ordering::Relaxed);
        assert!(given < 100_000, "no free port in {PORTS:?}");
        let port = PORTS.start + first.wrapping_add(given) % (PORTS.end - PORTS.start);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(port).expect("below 32,000")));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// A certificate for `localhost` and 127.0.0.1, and its key: PEM files in a directory.
pub(crate) fn write_certificate(directory: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])
        .expect("make a certificate");
    write_pair(directory, &made.cert, &made.signing_key)
}

/// A certificate and its key: PEM files in a directory.
pub(crate) fn write_pair(
    directory: &Path,
    certificate: &rcgen::Certificate,
    of: &rcgen::KeyPair,
) -> (PathBuf, PathBuf) {
    let (chain, key) = (directory.join("chain.pem"), directory.join("key.pem"));
    fs::write(&key, of.serialize_pem()).expect("write the key");
    fs::write(&chain, certificate.pem()).expect("write the certificate");
    (chain, key)
}

/// Where a live test leaves its report: target/live/NAME.
pub(crate) fn report_file(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../live");
    fs::create_dir_all(&directory).expect("target/live");
    directory.join(name)
}

/// The socket that is passed, if any.
fn stdin(start: &Start<'_>) -> Stdio {
    start.activation.as_ref().map_or_else(Stdio::null, |(_, socket)| Stdio::from(copy_of(socket)))
}

fn copy_of(socket: &TcpListener) -> OwnedFd {
    socket.try_clone().expect("copy a socket").into()
}

/// Whether this machine lets a process have process numbers of its own.
pub(crate) fn has_containers() -> bool {
    alone().arg("true").status().is_ok_and(|status| status.success())
}

/// Runs what comes behind it as the first process of its own.
fn alone() -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child"]);
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare
}

fn command(start: &Start<'_>) -> Command {
    // Such as target/release/tidegate, which is what people run; absolute, since tests run in their crate's folder.
    let other = std::env::var("TIDEGATE_BINARY").ok();
    let binary = other.as_deref().unwrap_or(env!("CARGO_BIN_EXE_tidegate"));
    if let Some((name, _)) = &start.activation {
        // The socket comes as standard input; systemd passes it as descriptor 3, to the process of LISTEN_PID, as it names that
        // of WATCHDOG_PID.
        let script =
            "exec 3<&0 0</dev/null; WATCHDOG_PID=$$ LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=$0 exec \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, name, binary]);
        return shell;
    }
    if let Some(most) = start.open_files {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n \"$0\"; exec \"$@\"", &most.to_string(), binary]);
        return shell;
    }
    if let Some(pipe) = start.first_beside {
        let mut unshare = alone();
        unshare.args(["sh", "-c", "cat \"$0\" & exec \"$@\""]).arg(pipe).arg(binary);
        return unshare;
    }
    if start.bound_by_modes && rustix::process::geteuid().is_root() {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--bounding-set", "-dac_override,-dac_read_search", binary]);
        return setpriv;
    }
    if start.cpus.is_empty() {
        return Command::new(binary);
    }
    let cpus: Vec<String> = start.cpus.iter().map(ToString::to_string).collect();
    let mut taskset = Command::new("taskset");
    taskset.args(["-c", &cpus.join(","), binary]);
    taskset
}

//! A `tidegate run` process of a test: started with a configuration, awaited, stopped also when the test fails.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// How long a start may take on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running gateway and the directory of its files.
pub struct Gateway {
    child: Child,
    /// Where its configuration and logs are.
    pub directory: tempfile::TempDir,
}

/// How a gateway is started.
#[derive(Default)]
pub struct Start<'a> {
    /// Processors it is pinned to; empty: all.
    pub cpus: &'a [usize],
    /// More arguments in front of the command, such as `--log json`.
    pub arguments: &'a [&'a str],
}

impl Gateway {
    /// Runs `tidegate run` with a configuration and waits until it is ready.
    pub fn run(configuration: &str, start: &Start<'_>) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let file = directory.path().join("tidegate.toml");
        fs::write(&file, configuration).expect("write the configuration");
        Self::spawn(directory, &["run", file.to_str().expect("UTF-8")], start)
    }

    /// Runs `tidegate` with these arguments and waits until it is ready.
    pub fn command(arguments: &[&str], start: &Start<'_>) -> Self {
        Self::spawn(tempfile::tempdir().expect("a directory for the test"), arguments, start)
    }

    fn spawn(directory: tempfile::TempDir, arguments: &[&str], start: &Start<'_>) -> Self {
        let binary = env!("CARGO_BIN_EXE_tidegate");
        let mut command = if start.cpus.is_empty() {
            Command::new(binary)
        } else {
            let cpus: Vec<String> = start.cpus.iter().map(ToString::to_string).collect();
            let mut taskset = Command::new("taskset");
            taskset.args(["-c", &cpus.join(","), binary]);
            taskset
        };
        command.args(start.arguments).args(arguments).stdin(Stdio::null()).stderr(Stdio::piped());
        // A group of its own, so that a signal to the test does not race with the drain.
        command.process_group(0);
        let mut child = command.spawn().expect("start tidegate");
        let log = child.stderr.take().expect("piped");
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                // Shown with the test that fails.
                eprintln!("tidegate: {line}");
                if line.contains("ready") {
                    let _ = tell.send(());
                }
            }
        });
        let gateway = Self { child, directory };
        told.recv_timeout(START_TIMEOUT).expect("tidegate says that it is ready");
        gateway
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name, such as `HUP`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "signal {name}");
    }

    /// Asks it to drain, waits for its end, and gives its exit code.
    pub fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().expect("wait for tidegate").code()
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback address that nobody listens on.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address")
}

/// Where a live test leaves its report: target/live/NAME.
pub fn report_file(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../live");
    fs::create_dir_all(&directory).expect("target/live");
    directory.join(name)
}

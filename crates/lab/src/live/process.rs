//! A server in a process of its own: started, awaited, and ended whatever happens.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::LabError;

/// How long a server may take until it accepts connections, and until it has ended.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// A running server; ended when dropped.
pub(super) struct Server {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts a program on these processors and waits until it accepts connections.
    pub(super) fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        processors: &[usize],
        listen: SocketAddr,
        folder: &Path,
    ) -> Result<Self, LabError> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).map_err(|source| LabError::File {
            path: log.clone(),
            attempt: "create",
            source,
        })?;
        let mut command = if processors.is_empty() {
            Command::new(program)
        } else {
            let list: Vec<String> = processors.iter().map(ToString::to_string).collect();
            let mut taskset = Command::new("taskset");
            taskset.args(["-c", &list.join(",")]).arg(program);
            taskset
        };
        command
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            // A group of its own: it may have workers, and a signal to the lab must not race with the end.
            .process_group(0);
        let child = command.spawn().map_err(|source| {
            let program = command.get_program().to_string_lossy();
            LabError::Run(format!("{name}: cannot start {program}: {source}"))
        })?;
        let mut server = Self { name: name.to_owned(), child, log };
        server.await_listening(listen)?;
        Ok(server)
    }

    fn await_listening(&mut self, listen: SocketAddr) -> Result<(), LabError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if TcpStream::connect_timeout(&listen, Duration::from_secs(1)).is_ok() {
                return Ok(());
            }
            let ended = self.child.try_wait().ok().flatten();
            if let Some(status) = ended {
                return Err(LabError::Run(format!(
                    "{} ended at once ({status}): {}",
                    self.name,
                    self.said()
                )));
            }
            if Instant::now() > deadline {
                let said = self.said();
                return Err(LabError::Run(format!(
                    "{} does not listen on {listen} after {PATIENCE:?}: {said}",
                    self.name
                )));
            }
            thread::sleep(POLL);
        }
    }

    /// The end of its log.
    fn said(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        let last: Vec<&str> = lines.into_iter().rev().collect();
        if last.is_empty() { "it said nothing".to_owned() } else { last.join(" | ") }
    }

    /// The first line in which Tidegate's log tells of a fault, such as a script's, without its time.
    pub(super) fn fault(&self) -> Option<String> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().find_map(|line| Some(line.split_once(" ERROR ")?.1.trim().to_owned()))
    }

    /// Whether Tidegate's log tells that a controller was stopped.
    pub(super) fn has_stopped_script(&self) -> bool {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.lines().any(|line| line.contains(" ERROR ") && line.contains(": stopped, its settings "))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + Duration::from_secs(3);
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            thread::sleep(POLL);
        }
        // Workers that outlive their master, and a server that still serves.
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A loopback address that nobody listens on.
pub(super) fn free_address() -> Result<SocketAddr, LabError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|error| LabError::Run(format!("no free port on 127.0.0.1: {error}")))
}

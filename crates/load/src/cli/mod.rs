//! `tidegate load`: the command line of the generator and of its test origin.

mod options;
mod origin;
mod page;
mod progress;

use std::{
    io::{self, IsTerminal as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    process::ExitCode,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use clap::Subcommand;

pub use self::options::Arguments;
use self::{
    options::plan,
    origin::{OriginArguments, serve},
    page::Page,
    progress::show_progress,
};
use crate::{
    engine::run_resolved,
    error::LoadError,
    live::Live,
    origin::OriginError,
    plan::{Resolved, Target},
    report::Report,
    signals::wait_for_signal,
};

/// How long a new server may take to accept the first connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// What `tidegate load` can do beside loading.
#[derive(Debug, Subcommand)]
enum Command {
    /// Serve as an origin whose capacity is known: CPU work, bodies of any size, echo, uploads
    Origin(OriginArguments),
}

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Origin(#[from] OriginError),
    #[error("{0}")]
    Usage(String),
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
}

/// Carries out `tidegate load`: the result goes to standard output, faults and progress to
/// standard error. Exit code 0 done, 1 failed, 2 bad input.
#[must_use]
pub fn run(arguments: Arguments) -> ExitCode {
    let done = match arguments.command {
        Some(Command::Origin(origin)) => serve(origin),
        None => load(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Who has closed standard error still has the code.
            let _ = writeln!(io::stderr(), "error: {error}");
            let bad_input = match &error {
                CommandError::Load(error) => error.is_bad_input(),
                CommandError::Origin(error) => {
                    matches!(error, OriginError::Setting(_) | OriginError::Tls { .. })
                }
                CommandError::Usage(_) => true,
                CommandError::Output(_) => false,
            };
            ExitCode::from(if bad_input { 2 } else { 1 })
        }
    }
}

fn load(arguments: Arguments) -> Result<(), CommandError> {
    let (json, page) = (arguments.json, arguments.report.clone());
    let plan = plan(arguments)?;
    let resolved = plan.resolve()?;
    say_what_is_left_out(&resolved);
    probe(&resolved.target)?;
    // Before the run, not after it: a page that cannot be written is no reason to lose ten minutes.
    let page = page.as_deref().map(Page::create).transpose()?;
    let live = Arc::new(Live::new(&plan));
    on_signal(Arc::clone(&live));
    let (finish, finished) = mpsc::channel();
    let progress = io::stderr().is_terminal().then(|| {
        let (live, length) = (Arc::clone(&live), resolved.length);
        thread::spawn(move || show_progress(&live, length, &finished))
    });
    let report = run_resolved(&plan, &resolved, &live);
    drop(finish);
    if let Some(progress) = progress {
        // The line is for the eye only.
        let _ = progress.join();
    }
    let report = report?;
    if let Some(page) = page {
        page.write(&report)?;
    }
    match print(&report, json) {
        // A reader that has closed the pipe has seen what it wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::Output(error)),
        _ => Ok(()),
    }
}

fn print(report: &Report, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, report)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    out.flush()
}

/// Lines of a trace that say of no request are no fault, but nobody should wonder where they are.
fn say_what_is_left_out(resolved: &Resolved) {
    let skipped: u64 =
        resolved.classes.iter().filter_map(|class| Some(class.trace.as_ref()?.skipped())).sum();
    if skipped > 0 {
        // A note to nobody is no fault.
        let _ = writeln!(
            io::stderr(),
            "note: {skipped} line(s) of the trace have no request that could be sent and are left out"
        );
    }
}

/// Says at once that nothing listens, instead of a report of refused connections.
fn probe(target: &Target) -> Result<(), LoadError> {
    let name = format!("{}:{}", target.host, target.port);
    let addresses = (target.host.as_str(), target.port)
        .to_socket_addrs()
        .map_err(|source| LoadError::Resolve { host: target.host.clone(), source })?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(&address, PROBE_TIMEOUT) {
            Ok(_) => return Ok(()),
            Err(fault) => last = fault,
        }
    }
    Err(LoadError::Unreachable { target: name, source: last })
}

/// The first SIGINT or SIGTERM ends the run with its report; the second ends the process.
fn on_signal(live: Arc<Live>) {
    thread::spawn(move || {
        if wait_for_signal(None) {
            live.stop();
            if wait_for_signal(None) {
                std::process::exit(1);
            }
        }
    });
}

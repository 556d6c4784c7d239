//! `tidegate load origin`: the test origin as a program.

use std::{io::Write as _, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;

use super::CommandError;
use crate::{
    origin::{Origin, Settings},
    signals::wait_for_signal,
    units::parse_duration,
};

/// How long it measures its capacity.
const CALIBRATION: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct OriginArguments {
    /// Address to listen on; port 0 lets the system choose
    #[arg(short, long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Threads that do CPU work, one request at a time each
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: usize,
    /// Event-loop threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// CPU time of each request (16ms), or of a path prefix (/search=50ms). Repeatable
    #[arg(long, value_name = "[PREFIX=]TIME")]
    cost: Vec<String>,
    /// Requests that may wait for a worker
    #[arg(long, value_name = "N", default_value_t = Settings::default().queue)]
    queue: usize,
    /// Processors of the worker threads, such as 0
    #[arg(long, value_name = "CPUS", value_delimiter = ',')]
    worker_cpu: Vec<usize>,
    /// Processors of the event-loop threads
    #[arg(long, value_name = "CPUS", value_delimiter = ',')]
    thread_cpu: Vec<usize>,
    /// PEM file of the certificate chain: HTTPS instead of HTTP
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file of the certificate's key
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// End after this time [default: at SIGINT or SIGTERM]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    span: Option<Duration>,
    /// Print the address and at the end the counts as JSON lines
    #[arg(long)]
    json: bool,
}

/// Serves until a signal or the end of its time.
pub(super) fn serve(arguments: OriginArguments) -> Result<(), CommandError> {
    let mut settings = Settings {
        listen: arguments.listen,
        workers: arguments.workers,
        threads: arguments.threads,
        queue: arguments.queue,
        worker_cpus: arguments.worker_cpu,
        thread_cpus: arguments.thread_cpu,
        tls: arguments.cert.zip(arguments.key),
        ..Settings::default()
    };
    for text in &arguments.cost {
        let (prefix, time) = text.rsplit_once('=').map_or((None, text.as_str()), |(p, t)| (Some(p), t));
        let cost =
            parse_duration(time).map_err(|fault| CommandError::Usage(format!("--cost {text}: {fault}")))?;
        match prefix {
            Some(prefix) => settings.costs.push((prefix.to_owned(), cost)),
            None => settings.cost = cost,
        }
    }
    let origin = Origin::start(&settings)?;
    let capacity = (!settings.cost.is_zero()).then(|| origin.calibrate(settings.cost, CALIBRATION));
    let begun = if arguments.json {
        serde_json::json!({"url": origin.url(), "capacity_per_s": capacity, "workers": origin.workers()})
            .to_string()
    } else {
        let mut begun = format!("listening on {}", origin.url());
        if let Some(capacity) = capacity {
            let cost_ms = settings.cost.as_secs_f64() * 1e3;
            let workers = origin.workers();
            begun +=
                &format!("\ncapacity {capacity:.1} requests/s of {cost_ms} ms CPU on {workers} worker(s)");
        }
        begun
    };
    say(&begun)?;
    // Either way it is over.
    let _ = wait_for_signal(arguments.span);
    let stats = origin.stats();
    let ended = if arguments.json {
        serde_json::to_string(&stats).map_err(std::io::Error::from)?
    } else {
        format!(
            "{} connections, {} requests; work: {} begun, {} done, {} of them for clients who had left, {} refused",
            stats.connections,
            stats.requests,
            stats.work_started,
            stats.work_completed,
            stats.work_for_nobody,
            stats.work_refused
        )
    };
    say(&ended)
}

/// Says a line, and at once.
fn say(line: &str) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        // A reader that has closed the pipe has seen what it wanted.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(CommandError::Output(error)),
        _ => Ok(()),
    }
}

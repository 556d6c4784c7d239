//! `tidegate load`: the command line of the generator and of its test origin.

use std::{
    io::{IsTerminal as _, Write as _},
    net::{SocketAddr, TcpStream, ToSocketAddrs as _},
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use clap::{Args, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    arrivals::Arrivals,
    engine::run_blocking_with,
    error::LoadError,
    live::{Live, LiveCounts},
    origin::{Origin, OriginError, Settings},
    plan::{ClassPlan, Plan, Protocol, RetryPlan, TlsPlan, TlsVersions},
    units::{UnitError, parse_duration},
};

/// How long a new server may take to accept the first connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long `load origin` measures its capacity.
const CALIBRATION: Duration = Duration::from_secs(1);

/// Load a server and measure what it does, or be the server to be loaded.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "ARRIVALS:
  60/s                               evenly spaced
  poisson:60/s                       a Poisson process
  60/s:30s,600/s:4s,3/s:32s          a schedule (also after `poisson:`)
  poisson:repeat:600/s:2s,0/s:4s     on/off bursts
  closed:64  closed:64:think=1s      64 clients, each with its next request after its last

EXAMPLES:
  tidegate load http://127.0.0.1:8080/ -a poisson:200/s -d 30s -w 5s
  tidegate load http://127.0.0.1:8080/ -a closed:64 -d 10s --json
  tidegate load http://127.0.0.1:8080/ -d 30s \\
      --class 'critical;poisson:20/s;header=x-class: critical' --class 'regular;poisson:100/s;path=/list'
  tidegate load --plan plan.toml
  tidegate load origin --listen 127.0.0.1:9000 --cost 16ms --for 60s"
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Server and path, such as http://127.0.0.1:8080/search
    #[arg(required_unless_present = "plan")]
    url: Option<String>,
    /// Read everything from a TOML plan; the other options then change only --seed and --json
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "arrivals", "class", "duration"])]
    plan: Option<PathBuf>,
    /// When requests start (see below) [default: poisson:10/s unless --class is given]
    #[arg(short, long, value_name = "ARRIVALS", conflicts_with = "class")]
    arrivals: Option<Arrivals>,
    /// A class of its own: NAME;ARRIVALS and any of ;path=… ;method=… ;header=Name: value ;body=BYTES
    /// ;timeout=… ;retries=N, else as the options say. Repeatable
    #[arg(short, long, value_name = "CLASS")]
    class: Vec<String>,
    /// How long requests start [default: the schedule's length, or 10s]
    #[arg(short, long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Time at the start that is left out of the figures
    #[arg(short, long, value_parser = parse_duration, default_value = "0s")]
    warmup: Duration,
    /// Stop each class after so many requests
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<u64>,
    /// How long a client waits for a reply before it leaves
    #[arg(short, long, value_parser = parse_duration, default_value = "10s")]
    timeout: Duration,
    /// Tries after one that failed or was refused
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// Pause before the first retry; doubles each time
    #[arg(long, value_parser = parse_duration, default_value = "100ms")]
    backoff: Duration,
    /// Wait as a refusal's Retry-After says, up to this
    #[arg(long, value_name = "MOST", value_parser = parse_duration)]
    retry_after: Option<Duration>,
    /// Request method
    #[arg(short = 'X', long, default_value = "GET")]
    method: String,
    /// A header, `Name: value`. Repeatable
    #[arg(short = 'H', long, value_name = "HEADER")]
    header: Vec<String>,
    /// Request body size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    body: usize,
    /// HTTP version: 1, 2 (ALPN over TLS, prior knowledge without), or what ALPN chooses
    #[arg(long, value_enum, default_value_t = Http::One)]
    http: Http,
    /// HTTP/2 connections a thread
    #[arg(long, value_name = "N", default_value_t = 1)]
    h2_connections: usize,
    /// A new connection for each request
    #[arg(long)]
    new_connections: bool,
    /// Accept any certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// TLS versions offered
    #[arg(long, value_enum, default_value_t = Tls::Any)]
    tls: Tls,
    /// Make each TLS handshake a full one
    #[arg(long)]
    no_resume: bool,
    /// TLS server name (SNI), if not the URL's host
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Event-loop threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Processors to pin the threads to, such as 0,1
    #[arg(long, value_name = "CPUS", value_delimiter = ',')]
    cpu: Vec<usize>,
    /// Most requests in flight
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    in_flight: usize,
    /// Seed of the arrival times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON (schema tidegate-load/1)
    #[arg(long)]
    json: bool,
}

/// What `tidegate load` can do beside loading.
#[derive(Debug, Subcommand)]
enum Command {
    /// Serve as an origin whose capacity is known: CPU work, bodies of any size, echo, uploads
    Origin(OriginArguments),
}

#[derive(Debug, Args)]
struct OriginArguments {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Http {
    #[value(name = "1")]
    One,
    #[value(name = "2")]
    Two,
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tls {
    Any,
    #[value(name = "1.2")]
    Only12,
    #[value(name = "1.3")]
    Only13,
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
    Output(#[from] std::io::Error),
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
            eprintln!("error: {error}");
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
    let json = arguments.json;
    let plan = plan(arguments)?;
    plan.check()?;
    probe(&plan)?;
    let live = Arc::new(Live::new(&plan));
    on_signal(Arc::clone(&live));
    let (finish, finished) = mpsc::channel();
    let progress = std::io::stderr().is_terminal().then(|| {
        let (live, length) = (Arc::clone(&live), plan.length().unwrap_or_default());
        thread::spawn(move || show_progress(&live, length, &finished))
    });
    let report = run_blocking_with(&plan, &live);
    drop(finish);
    if let Some(progress) = progress {
        // The line is for the eye only.
        let _ = progress.join();
    }
    let report = report?;
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(())
}

fn plan(arguments: Arguments) -> Result<Plan, CommandError> {
    if let Some(path) = arguments.plan {
        let fault = |fault: String| LoadError::File { path: path.clone(), fault };
        let text = std::fs::read_to_string(&path).map_err(|cause| fault(cause.to_string()))?;
        let mut plan = Plan::from_toml(&text).map_err(fault)?;
        if arguments.seed != 1 {
            plan.seed = arguments.seed;
        }
        return Ok(plan);
    }
    let mut base = ClassPlan::poisson("all", 10.0).method(&arguments.method).timeout(arguments.timeout);
    base.body_bytes = arguments.body;
    base.requests_max = arguments.requests;
    for line in &arguments.header {
        add_header(&mut base, line)?;
    }
    if arguments.retries > 0 {
        let retry = RetryPlan::new(arguments.retries);
        base.retry =
            Some(RetryPlan { backoff: arguments.backoff, retry_after_max: arguments.retry_after, ..retry });
    }
    if let Some(arrivals) = arguments.arrivals {
        base.arrivals = arrivals;
    }
    let mut plan = Plan::new(arguments.url.unwrap_or_default());
    if arguments.class.is_empty() {
        plan.classes.push(base);
    } else {
        for text in &arguments.class {
            plan.classes.push(class(&base, text)?);
        }
    }
    plan.duration = arguments.duration;
    plan.duration = plan.length().or(Some(Duration::from_secs(10)));
    plan.warmup = arguments.warmup;
    plan.seed = arguments.seed;
    plan.threads = arguments.threads;
    plan.cpus = arguments.cpu;
    plan.in_flight_max = arguments.in_flight;
    plan.keep_alive = !arguments.new_connections;
    plan.h2_connections = arguments.h2_connections;
    plan.protocol = match arguments.http {
        Http::One => Protocol::Http1,
        Http::Two => Protocol::Http2,
        Http::Auto => Protocol::Auto,
    };
    plan.tls = TlsPlan {
        insecure: arguments.insecure,
        ca: arguments.ca,
        versions: match arguments.tls {
            Tls::Any => TlsVersions::Any,
            Tls::Only12 => TlsVersions::Only12,
            Tls::Only13 => TlsVersions::Only13,
        },
        resume: !arguments.no_resume,
        server_name: arguments.server_name,
    };
    Ok(plan)
}

/// `NAME;ARRIVALS[;key=value…]`, the rest as in `base`.
fn class(base: &ClassPlan, text: &str) -> Result<ClassPlan, CommandError> {
    let fault = |what: String| CommandError::Usage(format!("--class `{text}`: {what}"));
    let mut parts = text.split(';').map(str::trim);
    let (Some(name), Some(arrivals)) = (parts.next(), parts.next()) else {
        return Err(fault("write at least a name and arrivals: `critical;poisson:20/s`".to_owned()));
    };
    let mut class = ClassPlan { name: name.to_owned(), ..base.clone() };
    class.arrivals = arrivals.parse().map_err(|cause: UnitError| fault(cause.to_string()))?;
    for part in parts {
        let Some((key, value)) = part.split_once('=') else {
            return Err(fault(format!("`{part}` has no `=`")));
        };
        match key {
            "path" => class.path = Some(value.to_owned()),
            "method" => value.clone_into(&mut class.method),
            "header" => add_header(&mut class, value)?,
            "body" => {
                class.body_bytes =
                    value.parse().map_err(|_| fault(format!("body: `{value}` is no number of bytes")))?
            }
            "timeout" => class.timeout = parse_duration(value).map_err(|cause| fault(cause.to_string()))?,
            "retries" => {
                let retries = value.parse().map_err(|_| fault(format!("retries: `{value}` is no number")))?;
                class.retry = match class.retry {
                    _ if retries == 0 => None,
                    Some(retry) => Some(RetryPlan { retries, ..retry }),
                    None => Some(RetryPlan::new(retries)),
                };
            }
            _ => {
                return Err(fault(format!(
                    "`{key}` is not known; use path, method, header, body, timeout or retries"
                )));
            }
        }
    }
    Ok(class)
}

fn add_header(class: &mut ClassPlan, line: &str) -> Result<(), CommandError> {
    let (name, value) = line
        .split_once(':')
        .ok_or_else(|| CommandError::Usage(format!("header `{line}` has no colon; write `Name: value`")))?;
    class.headers.insert(name.trim().to_owned(), value.trim().to_owned());
    Ok(())
}

/// Says at once that nothing listens, instead of a report of refused connections.
fn probe(plan: &Plan) -> Result<(), LoadError> {
    let target = plan.resolve()?.target;
    let name = format!("{}:{}", target.host, target.port);
    let addresses = (target.host.as_str(), target.port)
        .to_socket_addrs()
        .map_err(|source| LoadError::Resolve { host: target.host.clone(), source })?;
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
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

/// Waits for SIGINT or SIGTERM, or until the time is up; whether a signal came.
fn wait_for_signal(span: Option<Duration>) -> bool {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return false;
    };
    runtime.block_on(async {
        let (Ok(mut interrupt), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return false;
        };
        let time_up = async {
            match span {
                Some(span) => tokio::time::sleep(span).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => true,
            _ = terminate.recv() => true,
            () = time_up => false,
        }
    })
}

/// One line a second on the terminal until the run is over.
fn show_progress(live: &Live, length: Duration, finished: &mpsc::Receiver<()>) {
    let begin = Instant::now();
    let mut before = LiveCounts::default();
    while let Err(mpsc::RecvTimeoutError::Timeout) = finished.recv_timeout(Duration::from_secs(1)) {
        let now = live.read().into_iter().fold(LiveCounts::default(), |mut sum, class| {
            sum.offered += class.offered;
            sum.good += class.good;
            sum.refused += class.refused;
            sum.timeouts += class.timeouts;
            sum.failed += class.failed;
            sum.in_flight += class.in_flight;
            sum.good_latency_us += class.good_latency_us;
            sum
        });
        let good = now.good - before.good;
        let mean_ms = (now.good_latency_us - before.good_latency_us) as f64 / 1e3 / good.max(1) as f64;
        eprint!(
            "\r\x1b[K{:>4.0}/{:.0} s  offered {}/s  good {good}/s ({mean_ms:.1} ms)  refused {}/s  \
             timeouts {}/s  failed {}/s  in flight {}",
            begin.elapsed().as_secs_f64(),
            length.as_secs_f64(),
            now.offered - before.offered,
            now.refused - before.refused,
            now.timeouts - before.timeouts,
            now.failed - before.failed,
            now.in_flight,
        );
        before = now;
    }
    eprint!("\r\x1b[K");
}

fn serve(arguments: OriginArguments) -> Result<(), CommandError> {
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
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let begun =
            serde_json::json!({"url": origin.url(), "capacity_per_s": capacity, "workers": origin.workers()});
        writeln!(out, "{begun}")?;
    } else {
        writeln!(out, "listening on {}", origin.url())?;
        if let Some(capacity) = capacity {
            let cost_ms = settings.cost.as_secs_f64() * 1e3;
            writeln!(
                out,
                "capacity {capacity:.1} requests/s of {cost_ms} ms CPU on {} worker(s)",
                origin.workers()
            )?;
        }
    }
    out.flush()?;
    drop(out);
    wait_for_signal(arguments.span);
    let stats = origin.stats();
    let mut out = std::io::stdout().lock();
    if arguments.json {
        serde_json::to_writer(&mut out, &stats).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        writeln!(
            out,
            "{} connections, {} requests; work: {} begun, {} done, {} of them for clients who had left, {} refused",
            stats.connections,
            stats.requests,
            stats.work_started,
            stats.work_completed,
            stats.work_for_nobody,
            stats.work_refused
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn plan_of(line: &[&str]) -> Result<Plan, CommandError> {
        let program = Program::try_parse_from([&["load"], line].concat());
        plan(program.map_err(|fault| CommandError::Usage(fault.to_string()))?.arguments)
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Program::command().debug_assert();
    }

    #[test]
    fn two_classes_share_what_they_do_not_say() {
        let plan = plan_of(&[
            "http://127.0.0.1:1/x",
            "-H",
            "accept: a/b",
            "--retries",
            "3",
            "-d",
            "5s",
            "--class",
            "critical;poisson:20/s;header=x-class: critical;timeout=1s;retries=0",
            "--class",
            "regular;100/s;path=/list;body=10",
        ])
        .expect("a plan");
        plan.check().expect("no fault");
        let [critical, regular] = &plan.classes[..] else { panic!("two classes") };
        assert_eq!(critical.headers.get("x-class").map(String::as_str), Some("critical"));
        assert_eq!(critical.headers.get("accept"), regular.headers.get("accept"));
        assert_eq!((critical.timeout, critical.retry.is_none()), (Duration::from_secs(1), true));
        assert_eq!(regular.retry.as_ref().map(|retry| retry.retries), Some(3));
        assert_eq!((regular.path.as_deref(), regular.body_bytes), (Some("/list"), 10));
    }

    #[test]
    fn faults_name_the_class_and_the_key() {
        for (text, said) in [
            ("lonely", "write at least a name"),
            ("a;60", "arrival pattern"),
            ("a;60/s;pth=/x", "`pth` is not known"),
            ("a;60/s;path", "has no `=`"),
            ("a;60/s;header=x", "no colon"),
        ] {
            let fault = plan_of(&["http://x/", "--class", text]).expect_err(text).to_string();
            assert!(fault.contains(said), "{text}: {fault}");
        }
        assert!(plan_of(&[]).is_err(), "a URL, a plan or a subcommand is needed");
    }
}

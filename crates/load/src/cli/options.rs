//! The options of `tidegate load`, and the plan they make.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, ValueEnum};

use super::{Command, CommandError};
use crate::{
    arrivals::Arrivals,
    error::LoadError,
    plan::{ClassPlan, FollowPlan, Plan, Protocol, RetryPlan, Signatures, TlsPlan, TlsVersions},
    session::Sessions,
    units::{UnitError, parse_duration},
};

/// What a plan says by itself: beside one it would be lost.
const IN_A_PLAN: [&str; 39] = [
    "url",
    "arrivals",
    "class",
    "sessions",
    "entry",
    "think",
    "duration",
    "warmup",
    "cooldown",
    "drain",
    "requests",
    "timeout",
    "retries",
    "backoff",
    "retry_after",
    "follow",
    "wait_max",
    "returning",
    "scripts",
    "method",
    "header",
    "body",
    "clients",
    "client_header",
    "http",
    "h2_connections",
    "new_connections",
    "reconnect",
    "insecure",
    "ca",
    "tls",
    "no_resume",
    "resume_share",
    "signatures",
    "server_name",
    "threads",
    "cpu",
    "in_flight",
    "waiting",
];

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
  trace:access.log:speed=2           times and paths of an access log, here at twice its pace

EXAMPLES:
  tidegate load http://127.0.0.1:8080/ -a poisson:200/s -d 30s -w 5s
  tidegate load http://127.0.0.1:8080/ -a closed:64 -d 10s --json
  tidegate load http://127.0.0.1:8080/ -d 30s \\
      --class 'critical;poisson:20/s;header=x-class: critical' \\
      --class 'regular;poisson:100/s;path=/list'
  tidegate load https://127.0.0.1:8443/ -k -a poisson:2/s -d 10m \\
      --sessions examples/load/auction-bidding.toml
  tidegate load http://127.0.0.1:8080/ -a poisson:600/s -d 30s \\
      --follow -H 'Accept: text/html' --report run.html
  tidegate load --plan plan.toml
  tidegate load origin --listen 127.0.0.1:9000 --cost 16ms --for 60s"
)]
pub struct Arguments {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    /// Server and path, such as http://127.0.0.1:8080/search
    #[arg(required_unless_present = "plan")]
    url: Option<String>,
    /// Read everything from a TOML plan; beside it only --seed, --json and --report may stand
    #[arg(long, value_name = "FILE", conflicts_with_all = IN_A_PLAN)]
    plan: Option<PathBuf>,
    /// When requests start (see below) [default: poisson:10/s unless --class is given]
    #[arg(short, long, value_name = "ARRIVALS", conflicts_with = "class")]
    arrivals: Option<Arrivals>,
    /// A class of its own: NAME;ARRIVALS and any of ;path=… ;method=… ;header=Name: value ;body=BYTES
    /// ;timeout=… ;retries=N ;sessions=FILE ;follow=yes|no, else as the options say. Repeatable
    #[arg(short, long, value_name = "CLASS")]
    class: Vec<String>,
    /// Sessions instead of single requests: a TOML file of pages, where they lead and think times.
    /// Arrivals then are those of sessions, or a closed loop's clients
    #[arg(long, value_name = "FILE")]
    sessions: Option<PathBuf>,
    /// The page sessions begin with, instead of the file's
    #[arg(long, value_name = "PAGE", requires = "sessions")]
    entry: Option<String>,
    /// Mean think time of sessions, instead of the file's
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "sessions")]
    think: Option<Duration>,
    /// How long requests start [default: the length of the schedule or trace, or 10s]
    #[arg(short, long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Time at the start that is left out of the figures
    #[arg(short, long, value_parser = parse_duration, default_value = "0s")]
    warmup: Duration,
    /// Time at the end, of the duration, that is left out of the figures: load goes on while what was
    /// asked before has its reply
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    cooldown: Duration,
    /// How long at most what is under way at the end is waited for [default: as long as it can take, up
    /// to 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    drain: Option<Duration>,
    /// Stop each class after so many requests, or sessions
    #[arg(short = 'n', long, value_name = "N")]
    requests: Option<u64>,
    /// How long a client waits for a reply before it leaves
    #[arg(short, long, value_parser = parse_duration, default_value = "10s")]
    timeout: Duration,
    /// Tries after one that failed or was refused
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// Pause before the first retry; doubles each time [default: 100ms]
    #[arg(long, value_parser = parse_duration)]
    backoff: Option<Duration>,
    /// Wait as a refusal's Retry-After says, up to this
    #[arg(long, value_name = "MOST", value_parser = parse_duration)]
    retry_after: Option<Duration>,
    /// Follow redirects and `Refresh`: go where the reply says, at the time it says. Who waits holds no
    /// connection
    #[arg(long)]
    follow: bool,
    /// The longest wait a client agrees to; told to wait longer, it leaves [default: 1h]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait_max: Option<Duration>,
    /// Share of those told to wait who come back, 0 to 1 [default: 1]
    #[arg(long, value_name = "SHARE")]
    returning: Option<f64>,
    /// Clients come back as a page's script does: to the millisecond of `Retry-After-Ms`, not to the whole second of
    /// `Refresh`
    #[arg(long)]
    scripts: bool,
    /// Request method
    #[arg(short = 'X', long, default_value = "GET")]
    method: String,
    /// A header, `Name: value`. Repeatable
    #[arg(short = 'H', long, value_name = "HEADER")]
    header: Vec<String>,
    /// Request body size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    body: usize,
    /// Different clients the requests come from: the report says how evenly they were served
    #[arg(long, value_name = "N")]
    clients: Option<u32>,
    /// Header that tells the server the client's number
    #[arg(long, value_name = "NAME", requires = "clients")]
    client_header: Option<String>,
    /// HTTP version: 1, 2 (ALPN over TLS, prior knowledge without), or what ALPN chooses
    #[arg(long, value_enum, default_value_t = Http::One)]
    http: Http,
    /// HTTP/2 connections a thread
    #[arg(long, value_name = "N", default_value_t = 1)]
    h2_connections: usize,
    /// A new connection for each request
    #[arg(long)]
    new_connections: bool,
    /// A new connection after so many requests
    #[arg(long, value_name = "N", conflicts_with = "new_connections")]
    reconnect: Option<u32>,
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
    /// Share of new TLS connections that resume, 0 to 1; the others make a full handshake
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, conflicts_with = "no_resume")]
    resume_share: f64,
    /// Signatures accepted of the server, so which kind of its certificates is used
    #[arg(long, value_enum, default_value_t = Signed::Any)]
    signatures: Signed,
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
    /// Most clients who wait or think at once
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    waiting: usize,
    /// Seed of the arrival times [default: 1, or the plan's]
    #[arg(long)]
    seed: Option<u64>,
    /// Print the result as JSON (schema tidegate-load/1)
    #[arg(long)]
    pub(super) json: bool,
    /// Write a page with tables and plots; it needs nothing else to be shown
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Signed {
    Any,
    Rsa,
    Ecdsa,
}

/// The plan that the command line describes.
pub(super) fn plan(arguments: Arguments) -> Result<Plan, CommandError> {
    if let Some(path) = arguments.plan {
        let fault = |fault: String| LoadError::File { path: path.clone(), fault };
        let text = std::fs::read_to_string(&path).map_err(|cause| fault(cause.to_string()))?;
        let mut plan = Plan::from_toml(&text).map_err(fault)?;
        plan.seed = arguments.seed.unwrap_or(plan.seed);
        return Ok(plan);
    }
    let mut base = ClassPlan::poisson("all", 10.0).method(&arguments.method).timeout(arguments.timeout);
    base.body_bytes = arguments.body;
    base.requests_max = arguments.requests;
    base.clients = arguments.clients;
    base.client_header = arguments.client_header;
    if let Some(file) = &arguments.sessions {
        base.sessions = Some(sessions(file, arguments.entry.as_deref(), arguments.think)?);
    }
    // Also of classes that follow or retry by themselves.
    let usual = FollowPlan::default();
    let follow = FollowPlan {
        wait_max: arguments.wait_max.unwrap_or(usual.wait_max),
        returning: arguments.returning.unwrap_or(usual.returning),
        scripts: arguments.scripts,
        ..usual
    };
    let usual = RetryPlan::new(arguments.retries);
    let retry = RetryPlan {
        backoff: arguments.backoff.unwrap_or(usual.backoff),
        retry_after_max: arguments.retry_after,
        ..usual
    };
    base.follow = arguments.follow.then(|| follow.clone());
    base.retry = (arguments.retries > 0).then(|| retry.clone());
    for line in &arguments.header {
        add_header(&mut base, line)?;
    }
    if let Some(arrivals) = arguments.arrivals {
        base.arrivals = arrivals;
    }
    let mut plan = Plan::new(arguments.url.unwrap_or_default());
    if arguments.class.is_empty() {
        plan.classes.push(base);
    } else {
        for text in &arguments.class {
            plan.classes.push(class(&base, &follow, &retry, text)?);
        }
    }
    if !plan.classes.iter().any(|class| class.retry.is_some()) {
        let given =
            [("--backoff", arguments.backoff.is_some()), ("--retry-after", arguments.retry_after.is_some())];
        in_vain(&given, "no class retries: add --retries N, or retries=N to a --class")?;
    }
    if !plan.classes.iter().any(|class| class.follow.is_some()) {
        let given = [
            ("--wait-max", arguments.wait_max.is_some()),
            ("--returning", arguments.returning.is_some()),
            ("--scripts", arguments.scripts),
        ];
        in_vain(&given, "no class follows: add --follow, or follow=yes to a --class")?;
    }
    plan.duration = arguments.duration;
    if !plan.has_trace() {
        plan.duration = plan.length().or(Some(Duration::from_secs(10)));
    }
    plan.drain = arguments.drain;
    plan.warmup = arguments.warmup;
    plan.cooldown = arguments.cooldown;
    plan.seed = arguments.seed.unwrap_or(plan.seed);
    plan.threads = arguments.threads;
    plan.cpus = arguments.cpu;
    plan.in_flight_max = arguments.in_flight;
    plan.waiting_max = arguments.waiting;
    plan.keep_alive = !arguments.new_connections;
    plan.requests_per_connection = arguments.reconnect;
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
        resume_share: arguments.resume_share,
        signatures: match arguments.signatures {
            Signed::Any => Signatures::Any,
            Signed::Rsa => Signatures::Rsa,
            Signed::Ecdsa => Signatures::Ecdsa,
        },
        server_name: arguments.server_name,
    };
    Ok(plan)
}

/// What was given and changes nothing is a mistake.
fn in_vain(options: &[(&str, bool)], why: &str) -> Result<(), CommandError> {
    let given: Vec<_> = options.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    if given.is_empty() {
        return Ok(());
    }
    Err(CommandError::Usage(format!("{}: without effect, since {why}", given.join(", "))))
}

/// `NAME;ARRIVALS[;key=value…]`, the rest as in `base`.
fn class(
    base: &ClassPlan,
    follow: &FollowPlan,
    retry: &RetryPlan,
    text: &str,
) -> Result<ClassPlan, CommandError> {
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
            "sessions" => class.sessions = Some(Sessions::File(value.into())),
            "follow" => {
                class.follow = match value {
                    "yes" => Some(follow.clone()),
                    "no" => None,
                    _ => return Err(fault(format!("follow: `{value}` is neither yes nor no"))),
                }
            }
            "timeout" => class.timeout = parse_duration(value).map_err(|cause| fault(cause.to_string()))?,
            "retries" => {
                let retries = value.parse().map_err(|_| fault(format!("retries: `{value}` is no number")))?;
                class.retry = (retries > 0).then(|| RetryPlan { retries, ..retry.clone() });
            }
            _ => {
                return Err(fault(format!(
                    "`{key}` is not known; use path, method, header, body, timeout, retries, sessions or follow"
                )));
            }
        }
    }
    Ok(class)
}

/// The session file with what the command line changes of it.
fn sessions(file: &Path, entry: Option<&str>, think: Option<Duration>) -> Result<Sessions, CommandError> {
    let sessions = Sessions::File(file.to_owned());
    if entry.is_none() && think.is_none() {
        return Ok(sessions);
    }
    let fault = |fault| LoadError::Plan(vec![format!("sessions: {fault}")]);
    let mut model = sessions.read().map_err(fault)?;
    if let Some(entry) = entry {
        entry.clone_into(&mut model.entry);
    }
    model.think = think.unwrap_or(model.think);
    Ok(model.into())
}

fn add_header(class: &mut ClassPlan, line: &str) -> Result<(), CommandError> {
    let (name, value) = line
        .split_once(':')
        .ok_or_else(|| CommandError::Usage(format!("header `{line}` has no colon; write `Name: value`")))?;
    class.headers.insert(name.trim().to_owned(), value.trim().to_owned());
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
    fn beside_a_plan_nothing_is_lost() {
        use clap::CommandFactory as _;
        let command = Program::command();
        let named = |id: &str| command.get_arguments().find(|argument| argument.get_id() == id);
        let refused = command.get_arg_conflicts_with(named("plan").expect("--plan"));
        let counts: Vec<_> = command
            .get_arguments()
            .filter(|argument| !refused.contains(argument))
            .map(|argument| argument.get_id().as_str())
            .collect();
        assert_eq!(counts, ["plan", "seed", "json", "report"]);

        let directory = tempfile::tempdir().expect("a directory for the test");
        let file = directory.path().join("plan.toml");
        let text = "url = \"http://x/\"\nseed = 7\n[[class]]\nname = \"a\"\narrivals = \"1/s\"\n";
        std::fs::write(&file, text).expect("write a plan");
        let seed = |more: &[&str]| {
            plan_of(&[&["--plan", file.to_str().expect("UTF-8")], more].concat()).expect("a plan").seed
        };
        assert_eq!((seed(&[]), seed(&["--seed", "1"]), seed(&["--seed", "5"])), (7, 1, 5));
    }

    #[test]
    fn an_option_without_effect_is_a_mistake() {
        let said = |more: &[&str]| {
            let line = [&["http://x/", "-d", "1s"], more].concat();
            plan_of(&line).err().map(|fault| fault.to_string()).unwrap_or_default()
        };
        for (alone, named) in [
            (&["--backoff", "1s"][..], "--backoff:"),
            (&["--backoff", "100ms", "--retry-after", "1s"], "--backoff, --retry-after:"),
            (&["--wait-max", "1h", "--returning", "1", "--scripts"], "--wait-max, --returning, --scripts:"),
        ] {
            assert!(said(alone).contains(named), "{alone:?}: {}", said(alone));
            let several = ["--class", "a;1/s", "--class", "b;1/s"];
            assert!(said(&[alone, &several].concat()).contains(named), "{alone:?} with {several:?}");
            for with in [
                &["--retries", "1", "--follow"][..],
                &["--class", "a;1/s", "--class", "b;1/s;retries=1;follow=yes"],
            ] {
                assert_eq!(said(&[alone, with].concat()), "", "{alone:?} with {with:?}");
            }
        }
    }

    #[test]
    fn every_option_is_documented() {
        use clap::CommandFactory as _;
        let page = include_str!("../../../../docs/load.md");
        let command = Program::command();
        let undocumented: Vec<_> = command
            .get_arguments()
            .filter_map(|argument| argument.get_long())
            .filter(|name| *name != "help" && !page.contains(&format!("`--{name}")))
            .collect();
        assert!(undocumented.is_empty(), "docs/load.md does not name {undocumented:?}");
    }

    /// A line that the help breaks is two commands to whoever copies it.
    #[test]
    fn the_examples_of_the_help_fit_a_terminal() {
        use clap::CommandFactory as _;
        let help = Program::command().get_after_help().expect("a text below the options").to_string();
        let (_, examples) = help.split_once("EXAMPLES:\n").expect("examples");
        let wide: Vec<_> = examples.lines().filter(|line| line.len() >= 80).collect();
        assert!(wide.is_empty(), "{wide:?}");
    }

    #[test]
    fn the_documented_plan_and_sessions_are_right() {
        let page = include_str!("../../../../docs/load.md");
        let block = |kind: &str| {
            let (_, rest) = page.split_once(&format!("```toml {kind}\n")).expect("a block");
            rest.split_once("```").expect("its end").0
        };
        Plan::from_toml(block("plan")).expect("a plan").check().expect("no fault");
        let model = crate::session::SessionModel::from_toml(block("session")).expect("a model");
        let class = ClassPlan::poisson("a", 1.0).sessions(model);
        Plan::new("http://x/").duration(Duration::from_secs(1)).class(class).check().expect("no fault");
    }

    #[test]
    fn sessions_and_waits_come_from_options() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/load/auction-bidding.toml");
        let line = ["http://x/", "-a", "closed:5", "--sessions", file, "--entry", "Browse", "--think", "1s"];
        let plan = plan_of(&[&line[..], &["--follow", "--wait-max", "5m", "--drain", "1m"]].concat())
            .expect("a plan");
        plan.check().expect("no fault");
        let Some(Sessions::Model(model)) = &plan.classes[0].sessions else { panic!("a model") };
        assert_eq!((model.entry.as_str(), model.think), ("Browse", Duration::from_secs(1)));
        assert_eq!(
            plan.classes[0].follow.as_ref().map(|follow| follow.wait_max),
            Some(Duration::from_secs(300))
        );
        for (more, said) in [
            (&["--entry", "Nowhere"][..], "there is no page `Nowhere`; there are AboutMe"),
            (&["--entry", "Home", "--returning", "2"], "follow.returning: must be from 0 to 1"),
            (&["--entry", "Home", "-X", "POST"], "have path, method and body of their own"),
            (&["--entry", "Home", "--reconnect", "0"], "requests_per_connection: must be at least 1"),
            (&["--entry", "Home", "--resume-share", "1.5"], "tls.resume_share: must be from 0 to 1"),
            (&["--entry", "Home", "--clients", "5"], "each session"),
        ] {
            let line = ["http://x/", "-a", "1/s", "--follow", "--sessions", file];
            let fault =
                plan_of(&[&line[..], more].concat()).expect("a plan").check().expect_err(said).to_string();
            assert!(fault.contains(said), "{said}: {fault}");
        }
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
    fn a_class_that_retries_or_follows_by_itself_does_so_as_the_options_say() {
        let line = "http://x/ -d 5s --backoff 1s --retry-after 30s --wait-max 5m --returning 0.5 --scripts";
        let mut line: Vec<_> = line.split(' ').collect();
        line.extend(["--class", "a;1/s;retries=3;follow=yes", "--class", "b;1/s"]);
        let plan = plan_of(&line).expect("a plan");
        let [a, b] = &plan.classes[..] else { panic!("two classes") };
        let retry = a.retry.as_ref().expect("retries");
        assert_eq!(
            (retry.retries, retry.backoff, retry.retry_after_max),
            (3, Duration::from_secs(1), Some(Duration::from_secs(30)))
        );
        let follow = a.follow.as_ref().expect("follows");
        assert_eq!(
            (follow.wait_max, follow.returning, follow.scripts),
            (Duration::from_secs(300), 0.5, true)
        );
        assert!(b.retry.is_none() && b.follow.is_none());
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

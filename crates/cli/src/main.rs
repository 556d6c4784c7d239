//! The one binary: parse, wire, print, exit code.

mod asking;
mod auction;
mod check;
mod client;
mod completions;
mod demo;
mod events;
mod failure;
mod journal;
mod knobs;
mod logging;
mod open_files;
mod output;
mod process;
mod processors;
mod stderr;
mod token;
mod top;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use tidegate_config::{ProtectOptions, Settings};

use crate::{failure::Failure, journal::Priority, logging::LogFormat};

/// Parking and freeing connections by the ten thousand: jemalloc gives their memory back, where the
/// system's allocator keeps it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Memory that is free goes back to the system after a second instead of ten, and by threads of the
/// allocator's own: by itself it would wait for the next allocations, which an idle gateway never
/// makes, and a connection would be as large as it was in its busiest moment. A thread's cache is looked through
/// after each MiB allocated instead of each 64 KiB, which is a few requests.
#[expect(unsafe_code, reason = "jemalloc reads its options from a symbol of this name")]
#[unsafe(export_name = "_rjem_malloc_conf")]
static ALLOCATOR_OPTIONS: &[u8; 72] =
    b"background_thread:true,dirty_decay_ms:1000,tcache_gc_incr_bytes:1048576\0";

/// An overload-control gateway: stands in front of a web application and keeps it at its peak
/// goodput whatever load arrives.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Format of Tidegate's own log on standard error; its level is set by TIDEGATE_LOG (info).
    #[arg(long, global = true, value_enum, default_value_t)]
    log: LogFormat,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Protects the application at URL, with no configuration.
    Protect(Protect),
    /// Runs from a configuration file; reloads when the file changes or on SIGHUP, drains on SIGTERM.
    Run(Run),
    /// Checks a configuration file and says every fault at once.
    Check(Check),
    /// Shows knobs of a running gateway.
    Get(knobs::Get),
    /// Changes knobs of a running gateway: several as one, with its record.
    Set(knobs::Set),
    /// Makes a token by which programs of partners pass a waiting room by.
    Token(token::Make),
    /// Shows a running gateway live: rates, queues, waits and refusals of each application.
    Top(top::Top),
    /// Tells what happens to a running gateway, as it happens.
    Events(events::Follow),
    /// Divides the processors of this host among its applications, by need and priority.
    Processors(processors::Processors),
    /// An auction site, a load beyond its capacity and the gateway between them, on this machine.
    Demo(demo::Demo),
    /// The demo's auction site alone, to set anything before it and load it with sessions.
    Auction(auction::Auction),
    /// Loads a web server without coordinated omission, or is the server to be loaded.
    Load(Box<tidegate_load::cli::Arguments>),
    /// Experiments on overload control, simulated or live, with report and plots.
    Lab(Box<tidegate_lab::cli::Arguments>),
    /// Prints what a shell needs to complete this command line.
    Completions(completions::Completions),
}

#[derive(Debug, Args)]
struct Protect {
    /// The application: http://host:port, https://host:port or unix:/path.
    url: String,
    /// Where to listen.
    #[arg(long, default_value = "[::]:8080", value_name = "ADDRESS")]
    listen: String,
    /// Certificate chain, PEM; with it the listener speaks TLS.
    #[arg(long, requires = "key", value_name = "FILE")]
    cert: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[arg(long, requires = "cert", value_name = "FILE")]
    key: Option<PathBuf>,
    /// Where metrics, health and the API answer, or "none".
    #[arg(long, default_value = "127.0.0.1:9900", value_name = "ADDRESS")]
    admin: String,
    /// Accept any certificate of the application.
    #[arg(long)]
    insecure: bool,
}

#[derive(Debug, Args)]
struct Run {
    /// The configuration file, TOML.
    config: PathBuf,
}

#[derive(Debug, Args)]
struct Check {
    /// The configuration file, TOML.
    config: PathBuf,
    /// Print the effective settings, defaults included.
    #[arg(long)]
    print: bool,
}

fn main() -> ExitCode {
    let done = match Arguments::try_parse() {
        Ok(arguments) => {
            logging::start(arguments.log);
            arguments.command.run()
        }
        Err(answer) => output::answer(&answer),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            // Who has closed standard error still has the code.
            let _ = writeln!(io::stderr(), "{}", journal::lines(Priority::Error, &failure));
            failure.exit_code()
        }
    }
}

impl Command {
    fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Protect(protect) => {
                let protects = protect.url.clone();
                let settings = Settings::protect(&protect.into_options()).map_err(Failure::input)?;
                process::protect(settings, protects)?;
            }
            Self::Run(run) => process::run(run.config)?,
            Self::Get(get) => knobs::get(&get)?,
            Self::Set(set) => knobs::set(&set)?,
            Self::Token(make) => token::make(&make)?,
            Self::Top(top) => top::run(&top)?,
            Self::Events(follow) => events::follow(&follow)?,
            Self::Check(check) => check::run(&check.config, check.print)?,
            Self::Processors(asked) => processors::run(&asked)?,
            Self::Demo(demo) => demo::run(&demo)?,
            Self::Auction(auction) => auction::run(auction)?,
            Self::Completions(asked) => completions::print(&asked, Arguments::command())?,
            Self::Load(load) => return Ok(tidegate_load::cli::run(*load)),
            Self::Lab(lab) => {
                let tidegate = std::env::current_exe().map_err(Failure::work)?;
                return Ok(tidegate_lab::cli::run(&lab, &tidegate));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Protect {
    fn into_options(self) -> ProtectOptions {
        ProtectOptions {
            listen: self.listen,
            tls: self.cert.zip(self.key),
            admin: self.admin,
            insecure: self.insecure,
            ..ProtectOptions::new(self.url)
        }
    }
}

//! `tidegate processors`: the CPU manager of this host, and what is asked of it.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use clap::{Args, Subcommand};
use serde_json::json;
use tidegate_control::knobs::{Kind, Value};
use tidegate_gateway::notify;
use tidegate_processors::{Holding, Settings, Status, account, socket};

use crate::{
    failure::Failure,
    output::{say, warn},
};

const SOCKET: &str = "/run/tidegate/processors.sock";

/// Divides the processors of this host among its applications.
#[derive(Debug, Args)]
pub(crate) struct Processors {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Divides them as a file says until SIGTERM; reads the file anew on SIGHUP.
    Run {
        /// The manager's file, TOML.
        config: PathBuf,
    },
    /// Checks a manager's file and says every fault at once.
    Check {
        /// The manager's file, TOML.
        config: PathBuf,
    },
    /// Shows what each application needs and has.
    Status {
        #[command(flatten)]
        asked: Asked,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Asks for processors for an application, until the request expires (request_holds).
    Request {
        /// Its name in the manager's file.
        application: String,
        /// How many it needs, such as 2.5.
        processors: f64,
        #[command(flatten)]
        asked: Asked,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Adds up what each application needed, was given and used.
    Account {
        /// The file of [account].
        file: PathBuf,
        /// Only the last while, such as 24h; all of it without this.
        #[arg(long, value_name = "SPAN", value_parser = span)]
        last: Option<Duration>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
struct Asked {
    /// Where the manager answers.
    #[arg(long, default_value = SOCKET, value_name = "SOCKET")]
    socket: PathBuf,
}

pub(crate) fn run(processors: &Processors) -> Result<(), Failure> {
    match &processors.command {
        Command::Run { config } => tidegate_processors::run(config, |settings| {
            tracing::info!("ready: divides {}", summary(settings));
            notify("READY=1");
        })
        .map_err(failure),
        Command::Check { config } => {
            let settings = tidegate_processors::check(config).map_err(failure)?;
            say(format!("{} is in order: divides {}", config.display(), summary(&settings))).map(drop)
        }
        Command::Status { asked, json } => {
            let status = socket::status(&asked.socket).map_err(failure)?;
            if *json { say(json!(status)) } else { say(table(&status)) }.map(drop)
        }
        Command::Request { application, processors, asked, json } => {
            let holding = socket::request(&asked.socket, application, *processors).map_err(failure)?;
            if *json { say(json!(holding)) } else { say(has(&holding)) }.map(drop)
        }
        Command::Account { file, last, json } => print_account(file, *last, *json),
    }
}

fn print_account(file: &std::path::Path, last: Option<Duration>, json: bool) -> Result<(), Failure> {
    let since = last.and_then(|last| SystemTime::now().checked_sub(last));
    let (sums, unread) = account::sums(file, since).map_err(failure)?;
    if unread > 0 {
        warn(format!("{}: {unread} lines are none of an account and were left out", file.display()));
    }
    if json {
        return say(json!(sums)).map(drop);
    }
    let mut lines = vec![format!(
        "{:<24} {:>12} {:>14} {:>14} {:>14}",
        "application", "hours", "needed CPU·h", "given CPU·h", "used CPU·h"
    )];
    lines.extend(sums.iter().map(|(name, sum)| {
        let [hours, needed, given, used] =
            [sum.seconds, sum.needed_s, sum.given_s, sum.used_s].map(|seconds| seconds / 3600.0);
        format!("{name:<24} {hours:>12.2} {needed:>14.3} {given:>14.3} {used:>14.3}")
    }));
    say(lines.join("\n")).map(drop)
}

fn summary(settings: &Settings) -> String {
    let count = settings.applications.len();
    let names: Vec<&str> = settings.applications.iter().map(|it| it.name.as_str()).collect();
    format!(
        "processors {} among {count} application{}: {}",
        settings.processors,
        if count == 1 { "" } else { "s" },
        names.join(", ")
    )
}

fn table(status: &Status) -> String {
    let mut lines = vec![format!(
        "{:<24} {:>8} {:>7} {:>7} {:>7} {:>7}  {}",
        "application", "priority", "need", "asked", "given", "used", "processors"
    )];
    for holding in &status.applications {
        let asked = holding.asked.map_or_else(|| "-".to_owned(), |asked| format!("{asked:.2}"));
        lines.push(format!(
            "{:<24} {:>8} {:>7.2} {asked:>7} {:>7.1} {:>7.2}  {}",
            holding.application,
            holding.priority,
            holding.need,
            holding.given,
            holding.used,
            holding.fault.as_deref().unwrap_or(&holding.processors),
        ));
    }
    let spare = if status.spare.is_empty() { "none" } else { &status.spare };
    lines.push(format!("of {}; nobody has {spare}", status.processors));
    lines.join("\n")
}

fn has(holding: &Holding) -> String {
    match &holding.fault {
        Some(fault) => format!("{}: {fault}", holding.application),
        None => format!("{} has {} ({})", holding.application, holding.given, holding.processors),
    }
}

fn span(text: &str) -> Result<Duration, String> {
    let kind = Kind::Span { min: Duration::from_secs(1), max: Duration::from_secs(10 * 366 * 24 * 3600) };
    match kind.parse(text) {
        Ok(Value::Span(span)) => Ok(span),
        _ => Err(format!("expected {}", kind.expected())),
    }
}

fn failure(error: tidegate_processors::Error) -> Failure {
    use tidegate_processors::Error;
    match error {
        Error::Settings(_) | Error::Refused(_) => Failure::input(error),
        _ => Failure::work(error),
    }
}

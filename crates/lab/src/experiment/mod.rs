//! An experiment: what runs, under which load, what is compared, and what must hold.
//!
//! [`Experiment::parse`] reads one from TOML (docs/lab.md lists the keys); [`builtin`] holds those that
//! come with the program.

pub mod builtin;
mod host;
mod read;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, time::Duration};

use tidegate_control::knobs::Knob;
use tidegate_sim::StandardServer;

pub use self::host::{Application, Division, Manager, Zone};

/// An experiment as read from its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The file's name without its ending.
    pub name: String,
    /// One line.
    pub title: String,
    /// What is asked and how, in a few sentences.
    pub about: String,
    /// Publications it rests on.
    pub sources: Vec<String>,
    /// What is run.
    pub subject: Subject,
    /// Values along the x axis of the simulated runs: load in multiples of capacity, or capacity in requests a
    /// second. Never empty.
    pub loads: Vec<f64>,
    /// What these are.
    pub axis: Axis,
    /// Standard servers of the simulator that each arm stands before, in place of the one described.
    pub servers: Vec<StandardServer>,
    /// Length and number of simulated runs.
    pub run: RunLength,
    /// Live runs; `None`: the experiment is simulated only.
    pub live: Option<Live>,
    /// What is compared.
    pub arms: Vec<Arm>,
    /// What must hold.
    pub checks: Vec<Check>,
    /// What is drawn.
    pub plots: Vec<Plot>,
    /// The text it was read from, for the report.
    pub text: String,
}

/// What the x axis of an experiment is.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// Load in multiples of capacity.
    Load,
    /// Load in new sessions a second.
    Sessions,
    /// Capacity of the server, with runs of their own at each.
    Capacity(Vec<RunLength>),
}

impl Axis {
    /// As tables have it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Sessions => "new sessions /s",
            Self::Capacity(_) => "capacity /s",
        }
    }
}

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// Queues whose means theory knows; arms and loads are the simulator's own.
    Truth {
        /// Requests in each run of each queue.
        requests: u32,
    },
    /// Clients, a front and a server.
    Web(Box<Web>),
}

/// Clients, classes and a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Web {
    /// The server behind the front.
    pub server: Server,
    /// What the simulator has in its place, but for the changes of its speed; the only class costs what it says.
    pub stand_in: Option<StandardServer>,
    /// Classes of requests; the first is the default class. Never empty.
    pub classes: Vec<Class>,
    /// What TLS costs the server; `None`: clients come without.
    pub tls: Option<Tls>,
    /// The clients.
    pub load: Load,
    /// Applications on one host, each with this server, these classes and a load of its own; empty: one alone.
    pub applications: Vec<Application>,
    /// Times of a run of which there are figures of their own.
    pub zones: Vec<Zone>,
}

/// What TLS costs the server, a connection, and how long connections live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Processor time of a full handshake, with which a visit begins.
    pub full: Duration,
    /// Processor time of one that resumes, after a pause in which the connection was closed.
    pub resumed: Duration,
    /// How long an idle connection is kept.
    pub keep_alive: Duration,
}

/// The server of simulated runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Worker threads; `None`: one for each request (processor sharing).
    pub threads: Option<u32>,
    /// Processors they run on.
    pub processors: u16,
    /// Requests that may wait for a thread; `None`: without bound.
    pub backlog: Option<u32>,
    /// What switching between many threads costs.
    pub switching: Option<Switching>,
    /// From when on it has how many times its speed.
    pub speed: Vec<(Duration, f64)>,
}

/// Costs of many threads on few processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switching {
    /// Time slice of a thread.
    pub quantum: Duration,
    /// Cost of each switch.
    pub switch: Duration,
    /// Cost of filling the caches again, in full once far more threads run than fit.
    pub refill: Duration,
    /// Threads whose working sets fit.
    pub warm: u32,
}

/// A class of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its share of the load, relative to the others'; for sessions the site decides instead.
    pub share: f64,
    /// Processor time of a request.
    pub work: Work,
    /// A reply later than this after the first try was sent is not good.
    pub within: Duration,
    /// Priority, 0 to 7.
    pub priority: u8,
    /// Weight in the in-flight limit.
    pub weight: u32,
    /// The class whose doors, draws and share of the waiting room it has; `None`: its own.
    pub group: Option<String>,
    /// The path it has in live runs.
    pub path: String,
}

/// Processor time of a request, as a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Mean.
    pub mean: Duration,
    /// Form.
    pub shape: Shape,
}

/// Forms of distributions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Always the mean.
    Constant,
    /// Exponential.
    Exponential,
    /// Lognormal with this coefficient of variation.
    Lognormal(f64),
}

/// The clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Who comes.
    pub population: Population,
    /// What loads are counted in.
    pub unit: Unit,
    /// How long a client waits for the reply to one try.
    pub timeout: Duration,
    /// What it does when a try failed; `None`: gives up.
    pub retry: Option<Retry>,
    /// What it does when it is told to come later.
    pub returns: tidegate_sim::Returns,
}

impl Load {
    /// The longest a client may wait for a reply, from its first try to the end of its last.
    pub(crate) fn longest_wait(&self) -> Duration {
        let Some(retry) = self.retry else { return self.timeout };
        let pauses: Duration = (0..retry.attempts).map(|done| retry.pause(done)).sum();
        self.timeout * (retry.attempts + 1) + pauses
    }
}

/// What a load of 1 is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// As much as the server can do.
    #[default]
    Capacity,
    /// A new session a second.
    Sessions,
}

/// Who comes.
#[derive(Clone, Debug, PartialEq)]
pub enum Population {
    /// Requests that arrive whatever became of those before.
    Open {
        /// Poisson, or else evenly spaced.
        poisson: bool,
        /// Loads, each for a time; empty: the x value throughout.
        phases: Vec<Phase>,
        /// Whether phases begin anew after the last.
        repeat: bool,
        /// Distinct clients the requests come from, drawn evenly.
        clients: u32,
        /// What each of those who come goes on to do; `None`: nothing more.
        visit: Option<Visit>,
    },
    /// A closed loop of browsers; the x value is their number over the number that the idle
    /// server keeps up with, capacity · think.
    Browsers {
        /// Mean of the exponential pause between a reply and the next request.
        think: Duration,
        /// The pages, the first being where they enter.
        pages: Vec<Page>,
    },
}

/// A visit: from page to page, whatever becomes of other visits.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Mean of the exponential pause between a reply and the next request.
    pub think: Duration,
    /// The pages, the first being where it begins.
    pub pages: Vec<Page>,
    /// How many of them at most; `None`: no bound.
    pub pages_max: Option<u32>,
}

/// A load for a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// How long.
    pub length: Duration,
    /// In multiples of the capacity for the mix of that time.
    pub load: f64,
    /// Share of each class, relative to the others'; `None`: the classes' own.
    pub shares: Option<Vec<f64>>,
}

/// Lengths and loads alone.
#[must_use]
pub(crate) fn pairs(phases: &[Phase]) -> Vec<(Duration, f64)> {
    phases.iter().map(|phase| (phase.length, phase.load)).collect()
}

/// A page of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Its name.
    pub name: String,
    /// Position of its class.
    pub class: usize,
    /// Requests for what it shows, all at once when it is there.
    pub embedded: u32,
    /// Position of the class of those.
    pub embedded_class: usize,
    /// Where its visitor goes next, by position, with probabilities; what is missing to 1 ends the session.
    pub next: Vec<(usize, f64)>,
}

/// Retries of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// Tries after the first.
    pub attempts: u32,
    /// Pause before the first of them.
    pub first: Duration,
    /// Each further pause is so many times the one before.
    pub factor: f64,
    /// Longest pause.
    pub max: Duration,
    /// Whether pauses are drawn evenly from nothing to their length.
    pub jitter: bool,
    /// Whether a refusal is retried.
    pub after_refusal: bool,
}

impl Retry {
    /// The longest pause before the retry that comes after so many.
    fn pause(&self, done: u32) -> Duration {
        let factor = self.factor.powi(i32::try_from(done).unwrap_or(i32::MAX));
        Duration::try_from_secs_f64(self.first.as_secs_f64() * factor).unwrap_or(self.max).min(self.max)
    }
}

/// Length and number of simulated runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunLength {
    /// Left out of the figures.
    pub warm_up: Duration,
    /// What is measured.
    pub measured: Duration,
    /// Runs of each cell, each with a seed of its own.
    pub seeds: u32,
}

/// Live runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// Values along the x axis.
    pub loads: Vec<f64>,
    /// Left out of the figures.
    pub warm_up: Duration,
    /// What is measured.
    pub measured: Duration,
    /// Rounds over all cells.
    pub repetitions: u32,
    /// The phases of the load, where they are others than the simulator's; else empty.
    pub phases: Vec<Phase>,
    /// A server that runs already; `None`: an origin of the lab's own, whose requests cost the work
    /// of their class.
    pub server: Option<String>,
    /// Whether that origin's workers, as many as the simulated server has threads, wait for so long instead of computing.
    pub waits: bool,
    /// Whether each cell is also simulated, with the capacity found, and the ratios reported.
    pub simulated_too: bool,
}

/// One of the things compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Its name in tables and plots.
    pub name: String,
    /// What stands before the server.
    pub front: Front,
    /// Settings of a gateway, or constants of a law from the literature: path or name, and value, as
    /// written.
    pub settings: Vec<(String, String)>,
    /// A script that controls a gateway while it runs.
    pub controller: Option<Script>,
    /// Configuration of a proxy that is not ours, with `{listen}` and `{origin}` to be filled in.
    pub configuration: Option<Template>,
    /// How the host's processors are divided among applications.
    pub processors: Division,
}

impl Arm {
    /// Its name where it stands before several servers.
    #[must_use]
    pub fn name_before(&self, server: &str) -> String {
        format!("{}{BEFORE}{server}", self.name)
    }

    /// Whether it begins with a waiting room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let method = self.settings.iter().find(|(path, _)| path == Knob::ROOM_METHOD.name());
        method.is_some_and(|(_, method)| method != "off")
    }
}

/// Between the name of an arm and that of the server it stands before.
pub(crate) const BEFORE: &str = " before ";

/// A controller's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Where it came from.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Script {
    /// A name of letters, digits and hyphens, as the configuration wants one.
    #[must_use]
    pub fn short_name(&self) -> String {
        let stem = self.name.rsplit('/').next().unwrap_or(&self.name);
        let stem = stem.split('.').next().unwrap_or(stem);
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = stem.chars().map(plain).take(60).collect();
        if name.is_empty() { "controller".to_owned() } else { name }
    }
}

/// A configuration with blanks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Where it came from.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// What stands before the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Nothing.
    Direct,
    /// Tidegate: its `control` when simulated, the program itself when live.
    Gateway,
    /// A law of the literature; simulated only.
    Law(crate::baselines::Law),
    /// Another proxy; live only.
    Peer(crate::live::Peer),
}

impl Front {
    /// Whether the simulator has it.
    #[must_use]
    pub const fn is_simulated(self) -> bool {
        !matches!(self, Self::Peer(_))
    }

    /// Whether it can be run live.
    #[must_use]
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Law(_))
    }
}

/// A figure that is stated.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What is claimed, in words.
    pub name: String,
    /// Name of the metric, with its class: `goodput_share`, `home:goodput_per_s`.
    pub metric: String,
    /// The arm it is of; `None`: every arm, the worst of them counting.
    pub arm: Option<String>,
    /// Loads it is taken at.
    pub at: Span,
    /// What is made of the values at those loads.
    pub take: Take,
    /// What is made of a cell's simulated runs first.
    pub over_runs: OverRuns,
    /// What the value is divided by first.
    pub relative_to: Relative,
    /// The claim's direction.
    pub op: Op,
    /// Its bound.
    pub bar: f64,
    /// What the paper says, if one does.
    pub paper: Option<String>,
    /// In which mode it is judged; `None`: in both.
    pub mode: Option<Mode>,
}

/// Loads a check looks at, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Lowest.
    pub from: f64,
    /// Highest.
    pub to: f64,
}

/// What is made of several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The mean.
    Mean,
}

/// What is made of the simulated runs of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverRuns {
    /// Their mean.
    #[default]
    Mean,
    /// Their median, as published figures that are medians ask for.
    Median,
}

/// What a value is divided by.
#[derive(Clone, Debug, PartialEq)]
pub enum Relative {
    /// Nothing.
    Absolute,
    /// The arm's own largest value over all loads.
    Peak,
    /// The value of another arm at the same load.
    Arm(String),
}

/// The direction of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// At least.
    AtLeast,
    /// At most.
    AtMost,
}

impl Op {
    /// As written.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
        }
    }

    /// Whether the claim holds; never for NaN.
    #[must_use]
    pub fn holds(self, value: f64, bar: f64) -> bool {
        match self {
            Self::AtLeast => value >= bar,
            Self::AtMost => value <= bar,
        }
    }
}

/// How an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In virtual time.
    Simulated,
    /// With real servers and load on this machine.
    Live,
}

impl Mode {
    /// As in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Live => "live",
        }
    }
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// Name of the metric; of a picture over time, of the series.
    pub metric: String,
    /// A line for comparison, such as what is offered or what theory says.
    pub against: Option<String>,
    /// What runs along the x axis.
    pub over: Over,
    /// Whether the y axis is logarithmic.
    pub log_y: bool,
    /// Lower end of the y axis; `None`: 0, or what the data need.
    pub y_min: Option<f64>,
    /// Upper end of the y axis; `None`: what the data need.
    pub y_max: Option<f64>,
    /// Arms left out.
    pub without: Vec<String>,
}

/// What runs along the x axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Over {
    /// Load.
    Load,
    /// Time, at one load.
    Time {
        /// The load.
        load: f64,
    },
}

impl Experiment {
    /// The experiment of this name, or in this file.
    ///
    /// # Errors
    ///
    /// No such name or file, or faults in the file.
    pub fn find(name: &str) -> Result<Self, crate::LabError> {
        if let Some(builtin) = builtin::find(name) {
            return Ok(builtin.experiment()?);
        }
        let path = PathBuf::from(name);
        let text = std::fs::read_to_string(&path);
        if let Err(error) = &text
            && path.exists()
        {
            return Err(crate::LabError::input(
                format!("{name}: cannot be read: {error}"),
                "name a text file in TOML, or the name of an experiment that is built in",
            ));
        }
        let Ok(text) = text else {
            let names: Vec<&str> = builtin::ALL.iter().map(|builtin| builtin.name).collect();
            let meant = tidegate_config::closest(name, names.iter().copied());
            let mend = meant.map_or_else(
                || format!("write one of {} or the path of a TOML file", names.join(", ")),
                |meant| format!("did you mean {meant}?"),
            );
            return Err(crate::LabError::NoSuchExperiment { name: name.to_owned(), mend });
        };
        let stem =
            path.file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
        let folder = path.parent().map(std::path::Path::to_path_buf).unwrap_or_default();
        let files = read::Files::Folder(folder);
        Ok(read::parse(&stem, name, &text, &files)?)
    }

    /// Reads an experiment from TOML; files it names are looked for in the present directory.
    ///
    /// # Errors
    ///
    /// Every fault, with place and mend.
    pub fn parse(name: &str, text: &str) -> Result<Self, tidegate_config::Faults> {
        read::parse(name, &format!("{name}.toml"), text, &read::Files::Folder(PathBuf::new()))
    }

    /// Whether it has anything to run in this mode.
    #[must_use]
    pub fn has(&self, mode: Mode) -> bool {
        match mode {
            Mode::Simulated => {
                matches!(self.subject, Subject::Truth { .. })
                    || self.arms.iter().any(|arm| arm.front.is_simulated()) && !self.is_live_only()
            }
            Mode::Live => self.live.is_some(),
        }
    }

    /// Experiments that compare with proxies not ours, or with the simulator itself, are live.
    #[must_use]
    pub fn is_live_only(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.simulated_too)
            || self.arms.iter().any(|arm| matches!(arm.front, Front::Peer(_)))
    }
}

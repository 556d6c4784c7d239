//! Runs the turns of a control law when they are due, and stops a law that fails again and again.

use std::time::Duration;

use super::{Controller, Host, HostError, Level, Memory, Turn, turn::one_line};
use crate::{Timestamp, knobs::ChoiceSet};

/// What becomes of a stopped controller's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// They stay as they are, but those set for a time run out.
    #[default]
    Keep,
    /// Each knob goes back to the value it had before.
    Revert,
}

impl ChoiceSet for OnFailure {
    const NAMES: &'static [&'static str] = &["keep", "revert"];

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "keep" => Some(Self::Keep),
            "revert" => Some(Self::Revert),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Revert => "revert",
        }
    }
}

/// Whether a controller runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It runs.
    Running,
    /// It does nothing any more.
    Stopped {
        /// Why, with the line of its last fault.
        why: String,
    },
}

/// The jobs of a controller: what runs how often, and what has come of it.
#[derive(Debug)]
pub struct Schedule {
    name: String,
    strikes: u32,
    on_failure: OnFailure,
    jobs: Vec<Job>,
    memory: Memory,
    standing: Standing,
    turns: u64,
    failures: u64,
}

#[derive(Debug)]
struct Job {
    period: Duration,
    due: Timestamp,
    failures_in_a_row: u32,
}

impl Schedule {
    /// No jobs yet. `strikes`: after this many failures of one job in a row everything stops.
    #[must_use]
    pub fn new(name: impl Into<String>, strikes: u32, on_failure: OnFailure) -> Self {
        Self {
            name: name.into(),
            strikes: strikes.max(1),
            on_failure,
            jobs: Vec::new(),
            memory: Memory::default(),
            standing: Standing::Running,
            turns: 0,
            failures: 0,
        }
    }

    /// Goes on with what an earlier controller of the same purpose has set.
    #[must_use]
    pub fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// A job that runs each `period`, first one period from now. Jobs are numbered from 0.
    pub fn every(&mut self, now: Timestamp, period: Duration) {
        self.jobs.push(Job { period, due: now + period, failures_in_a_row: 0 });
    }

    /// Runs a turn by itself, such as a script's first; if it fails, everything stops.
    pub fn begin(&mut self, host: &mut dyn Host, work: impl FnOnce(&mut Turn<'_>) -> Result<(), String>) {
        if let Err(why) = self.turn(host, work) {
            self.stop(host, why);
        }
    }

    /// Runs the jobs that are due, in their order; gives settings back whose time has run out.
    /// `work` does a job by its number.
    pub fn run(
        &mut self,
        host: &mut dyn Host,
        mut work: impl FnMut(usize, &mut Turn<'_>) -> Result<(), String>,
    ) {
        let now = host.now();
        if self.memory.next_expiry().is_some_and(|expiry| expiry <= now) {
            self.give_back(host, |turn| turn.clear_expired());
        }
        for number in 0..self.jobs.len() {
            if self.jobs.get(number).is_none_or(|job| job.due > now) {
                continue;
            }
            let failure = self.turn(host, |turn| work(number, turn)).err();
            let Some(job) = self.jobs.get_mut(number) else { return };
            // Runs that were missed are not made up for.
            job.due = if job.due + job.period > now { job.due + job.period } else { now + job.period };
            match failure {
                None => job.failures_in_a_row = 0,
                Some(why) => {
                    job.failures_in_a_row += 1;
                    let count = job.failures_in_a_row;
                    let text = format!("{why} (failure {count} of {} in a row)", self.strikes);
                    host.log(Level::Error, &text);
                    if count >= self.strikes {
                        self.stop(host, why);
                    }
                }
            }
        }
    }

    /// Ends everything; settings stay or go back as configured.
    pub fn stop(&mut self, host: &mut dyn Host, why: impl Into<String>) {
        let why = why.into();
        let after = match self.on_failure {
            OnFailure::Keep => "its settings stay",
            OnFailure::Revert => "its settings are taken back",
        };
        host.log(Level::Error, &format!("{}: stopped, {after}; its last fault: {why}", self.name));
        self.jobs.clear();
        self.standing = Standing::Stopped { why };
        if self.on_failure == OnFailure::Revert {
            self.give_back(host, |turn| turn.clear_all());
        }
    }

    /// Ends everything because it is wanted no more: what it has set goes back.
    pub fn retire(&mut self, host: &mut dyn Host) {
        self.jobs.clear();
        self.standing = Standing::Stopped { why: "wanted no more".to_owned() };
        self.give_back(host, |turn| turn.clear_all());
    }

    /// When something is due next.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        self.jobs.iter().map(|job| job.due).chain(self.memory.next_expiry()).min()
    }

    /// Whether it runs.
    #[must_use]
    pub const fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Turns done, and how many of them failed.
    #[must_use]
    pub const fn turns(&self) -> (u64, u64) {
        (self.turns, self.failures)
    }

    /// What it has set.
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// What it has set, for whoever goes on in its place.
    #[must_use]
    pub fn into_memory(self) -> Memory {
        self.memory
    }

    fn turn(
        &mut self,
        host: &mut dyn Host,
        work: impl FnOnce(&mut Turn<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        self.turns += 1;
        let mut turn = Turn::new(host, &mut self.memory, self.name.as_str());
        let done = match work(&mut turn) {
            Ok(()) => turn.commit().map_err(|error| error.to_string()),
            Err(why) => {
                turn.abandon();
                Err(why)
            }
        };
        done.map_err(|why| {
            self.failures += 1;
            let why = one_line(&why);
            // A script's own messages begin with its name and line.
            if why.starts_with(&self.name) { why } else { format!("{}: {why}", self.name) }
        })
    }

    fn give_back(&mut self, host: &mut dyn Host, what: impl FnOnce(&mut Turn<'_>)) {
        let mut turn = Turn::new(host, &mut self.memory, self.name.as_str());
        what(&mut turn);
        if let Err(error) = turn.commit() {
            host.log(Level::Error, &format!("{}: settings could not be taken back: {error}", self.name));
            // Tried once: what the host refuses now it would refuse at every tick.
            self.memory.forget_expiries();
        }
    }
}

/// A control law compiled in: a function that runs each period.
///
/// ```
/// use std::time::Duration;
/// use tidegate_control::{
///     archive::Stat,
///     controller::{Overload, Periodic},
///     knobs::Value,
/// };
///
/// let day = Duration::from_secs(86_400);
/// let law = Periodic::new("home-limit", Duration::from_secs(5), move |turn| {
///     if turn.overloaded("", &Overload::default())? {
///         let peak = turn.measure("shop/home", "goodput", day, Stat::Max)?.unwrap_or(0.0);
///         turn.set("shop/home/ingress.rate", Value::Rate(0.6 * peak), None)?;
///     } else {
///         turn.clear("shop/home/ingress.rate")?;
///     }
///     Ok(())
/// });
/// # let _: Box<dyn tidegate_control::controller::Controller> = Box::new(law);
/// ```
pub struct Periodic<F> {
    schedule: Schedule,
    period: Duration,
    law: F,
    started: bool,
}

/// Failures in a row after which a compiled law is stopped.
const STRIKES: u32 = 3;

impl<F> Periodic<F>
where
    F: FnMut(&mut Turn<'_>) -> Result<(), HostError>,
{
    /// Runs `law` each `period`, first one period after the first tick. Three failures in a row
    /// stop it, and its settings stay.
    pub fn new(name: impl Into<String>, period: Duration, law: F) -> Self {
        Self { schedule: Schedule::new(name, STRIKES, OnFailure::Keep), period, law, started: false }
    }

    /// Its schedule.
    pub const fn schedule(&self) -> &Schedule {
        &self.schedule
    }
}

impl<F> Controller for Periodic<F>
where
    F: FnMut(&mut Turn<'_>) -> Result<(), HostError>,
{
    fn tick(&mut self, host: &mut dyn Host) {
        if !self.started {
            self.started = true;
            self.schedule.every(host.now(), self.period);
        }
        let Self { schedule, law, .. } = self;
        schedule.run(host, |_, turn| law(turn).map_err(|error| error.to_string()));
    }

    fn next_tick(&self) -> Option<Timestamp> {
        if self.started { self.schedule.next() } else { Some(Timestamp::EPOCH) }
    }

    fn standing(&self) -> &Standing {
        self.schedule.standing()
    }
}

//! An engine: one script, its state, and the turns it runs.

use std::{cell::RefCell, fmt, rc::Rc, time::Duration};

use mlua::{Function, Value as LuaValue};
use tidegate_control::{
    Timestamp,
    controller::{Controller, Host, Memory, OnFailure, Schedule, Standing, Turn},
};

use crate::{
    budget::Budget,
    desk::{Desk, Job},
    sandbox::Sandbox,
};

/// What Luau says of a call of what is not there, without its name.
const NIL_CALLED: &str = "attempt to call a nil value";
/// Characters of a line that a message shows.
const SHOWN_MAX: usize = 80;

/// Bytes of a script.
const SOURCE_BYTES_MAX: usize = 256 * 1024;

/// What a script may cost, and what happens when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps of a turn: calls, returns, turns of loops, attempts to match a pattern. 1,000 to
    /// 1,000,000,000; a question to the gateway counts for 100.
    pub steps: u64,
    /// Bytes in use at most, the language's own included (about half a MiB); at least 1 MiB.
    pub memory: usize,
    /// Failures of one function in a row that stop the script.
    pub strikes: u32,
    /// Shortest period of `every`.
    pub every_min: Duration,
    /// What becomes of its settings when it is stopped.
    pub on_failure: OnFailure,
    /// From which its random numbers follow.
    pub seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 200_000,
            memory: 8 * 1024 * 1024,
            strikes: 3,
            every_min: Duration::from_millis(100),
            on_failure: OnFailure::Keep,
            seed: 0,
        }
    }
}

/// A script that cannot be run at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It is not written in the language; the message begins with the script's name and line.
    #[error("{0}")]
    Syntax(String),
    /// It is too long.
    #[error("{name}: {bytes} bytes: a script has at most {SOURCE_BYTES_MAX}")]
    TooLong {
        /// The script's name.
        name: String,
        /// Its length.
        bytes: usize,
    },
    /// The sandbox could not be made, for want of memory.
    #[error("{name}: the sandbox could not be made: {what}")]
    Sandbox {
        /// The script's name.
        name: String,
        /// What went wrong.
        what: String,
    },
}

/// How an engine stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Whether it runs.
    pub standing: Standing,
    /// Turns done.
    pub turns: u64,
    /// How many of them failed.
    pub failures: u64,
    /// Steps of the last turn.
    pub steps: u64,
    /// Bytes in use.
    pub memory: usize,
    /// Knobs it holds.
    pub held: usize,
}

/// A script as a controller. It belongs to the thread it was made in.
pub struct Engine {
    name: String,
    source: String,
    limits: Limits,
    sandbox: Sandbox,
    budget: Rc<Budget>,
    schedule: Schedule,
    /// The script itself, until it has been run once.
    script: Option<Function>,
    /// What it has registered, by the schedule's numbers.
    work: Vec<Function>,
}

impl Engine {
    /// Compiles a script; nothing of it runs before the first tick. `name` stands in messages.
    ///
    /// # Errors
    ///
    /// [`LoadError`] with the line.
    pub fn new(name: &str, source: &str, limits: Limits) -> Result<Self, LoadError> {
        Self::with_budget(name, source, limits, Budget::new(limits.steps))
    }

    /// As [`Engine::new`]; `guard` is asked with the number of the turn when it begins and now and
    /// then during it, and ends it by `true`. The gateway watches the time with it; without one a
    /// script's turns depend on nothing but what it reads.
    ///
    /// # Errors
    ///
    /// [`LoadError`] with the line.
    pub fn guarded(
        name: &str,
        source: &str,
        limits: Limits,
        guard: impl Fn(u64) -> bool + 'static,
    ) -> Result<Self, LoadError> {
        let mut budget = Budget::new(limits.steps);
        budget.set_guard(Box::new(guard));
        Self::with_budget(name, source, limits, budget)
    }

    fn with_budget(name: &str, source: &str, limits: Limits, budget: Budget) -> Result<Self, LoadError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(LoadError::TooLong { name: name.to_owned(), bytes: source.len() });
        }
        let budget = Rc::new(budget);
        let sandbox = Sandbox::new(limits.memory, limits.seed, &budget)
            .map_err(|error| LoadError::Sandbox { name: name.to_owned(), what: error.to_string() })?;
        let script = sandbox.compile(name, source).map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => LoadError::Syntax(message),
            other => LoadError::Sandbox { name: name.to_owned(), what: other.to_string() },
        })?;
        Ok(Self {
            name: name.to_owned(),
            source: source.to_owned(),
            limits,
            sandbox,
            budget,
            schedule: Schedule::new(name, limits.strikes, limits.on_failure),
            script: Some(script),
            work: Vec::new(),
        })
    }

    /// Goes on with what an earlier script of the same purpose has set.
    #[must_use]
    pub fn with_memory(mut self, memory: Memory) -> Self {
        self.schedule = self.schedule.with_memory(memory);
        self
    }

    /// What it has set, for the script that takes its place.
    #[must_use]
    pub fn into_memory(self) -> Memory {
        self.schedule.into_memory()
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        let (turns, failures) = self.schedule.turns();
        Status {
            standing: self.schedule.standing().clone(),
            turns,
            failures,
            steps: self.budget.spent(),
            memory: self.sandbox.lua.used_memory(),
            held: self.schedule.memory().held().count(),
        }
    }

    /// Gives back everything it has set, since it is wanted no more.
    pub fn retire(&mut self, host: &mut dyn Host) {
        self.script = None;
        self.schedule.retire(host);
    }

    /// Runs the script itself, which registers what is to run.
    fn begin(&mut self, host: &mut dyn Host, script: &Function) {
        let jobs = RefCell::new(Vec::new());
        let Self { name, source, limits, sandbox, budget, schedule, .. } = self;
        let run = Run { name, source, limits, sandbox, budget };
        schedule.begin(host, |turn| {
            run.turn(turn, script, Some(&jobs))?;
            if jobs.borrow().is_empty() {
                return Err(format!("{name}: nothing to run: call every(period, function)"));
            }
            Ok(())
        });
        if self.schedule.standing() == &Standing::Running {
            for Job { period, work } in jobs.into_inner() {
                self.schedule.every(host.now(), period);
                self.work.push(work);
            }
        }
    }
}

impl Controller for Engine {
    fn tick(&mut self, host: &mut dyn Host) {
        if let Some(script) = self.script.take() {
            self.begin(host, &script);
        }
        let Self { name, source, limits, sandbox, budget, schedule, work, .. } = self;
        let run = Run { name, source, limits, sandbox, budget };
        schedule.run(host, |number, turn| match work.get(number) {
            Some(work) => run.turn(turn, work, None),
            None => Err(format!("{name}: job {number} is not there")),
        });
        if schedule.standing() != &Standing::Running {
            work.clear();
        }
    }

    fn next_tick(&self) -> Option<Timestamp> {
        if self.script.is_some() { Some(Timestamp::EPOCH) } else { self.schedule.next() }
    }

    fn standing(&self) -> &Standing {
        self.schedule.standing()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("name", &self.name).field("status", &self.status()).finish()
    }
}

/// What a turn needs of its engine.
struct Run<'e> {
    name: &'e str,
    source: &'e str,
    limits: &'e Limits,
    sandbox: &'e Sandbox,
    budget: &'e Budget,
}

impl Run<'_> {
    fn turn(
        &self,
        turn: &mut Turn<'_>,
        work: &Function,
        jobs: Option<&RefCell<Vec<Job>>>,
    ) -> Result<(), String> {
        let Sandbox { lua, bridge } = self.sandbox;
        self.budget.refill();
        let desk = Desk::new(turn, jobs, self.budget, self.name, self.limits.every_min);
        let done = lua.scope(|scope| {
            let call = scope.create_function(|lua, arguments| desk.call(lua, arguments))?;
            bridge.raw_set("call", call)?;
            work.call::<()>(())
        });
        // What was called is gone with the scope; the name goes too, if there is memory to say so.
        let _ = bridge.raw_set("call", LuaValue::Nil);
        // Garbage is collected as it arises; what a turn leaves behind is not held against the next.
        if lua.used_memory() > self.limits.memory / 2 {
            let _ = lua.gc_collect();
        }
        // Also where the script has caught the error and gone on to its end.
        if let Some(overrun) = self.budget.overrun() {
            let line = self.budget.line().map_or_else(String::new, |line| format!(":{line}"));
            return Err(format!("{}{line}: {}", self.name, self.budget.describe(overrun)));
        }
        done.map_err(|error| self.message(&error, work))
    }

    /// What went wrong and where: without traceback, with the function's first line if there is no
    /// better one.
    fn message(&self, error: &mlua::Error, work: &Function) -> String {
        let text = match error {
            mlua::Error::RuntimeError(text) => text.clone(),
            mlua::Error::MemoryError(_) => {
                format!("needs more than its {} bytes of memory", self.limits.memory)
            }
            other => other.to_string(),
        };
        let text = text.split("\nstack traceback:").next().unwrap_or_default();
        if let Some(rest) = text.strip_prefix(self.name).and_then(|rest| rest.strip_prefix(':')) {
            let called =
                rest.strip_suffix(NIL_CALLED).and_then(|line| line.trim_end_matches([':', ' ']).parse().ok());
            return match called.and_then(|line| self.line(line)) {
                Some(line) => format!("{text}: {line}"),
                None => text.to_owned(),
            };
        }
        // A line of the prelude tells nobody anything.
        let text = match text.strip_prefix("tidegate:").and_then(|rest| rest.split_once(": ")) {
            Some((_, text)) => text,
            None => text,
        };
        let line = work.info().line_defined.unwrap_or(1).max(1);
        format!("{}:{line}: in the function of this line: {text}", self.name)
    }

    /// What is written in a line, the first being 1.
    fn line(&self, number: usize) -> Option<String> {
        let line = self.source.lines().nth(number.checked_sub(1)?)?.trim();
        Some(match line.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        })
    }
}

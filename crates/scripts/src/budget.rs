//! What a turn may cost: steps that are counted, and time that the caller watches.

use std::cell::Cell;

/// The guard is asked once in this many steps.
const GUARD_EVERY: u64 = 64;

/// The steps left to a turn.
///
/// A step is a call, a return, a turn of a loop or an attempt to match a pattern. Counting them is
/// deterministic; the guard is not, and is there for what takes long between two steps.
pub(crate) struct Budget {
    steps_max: u64,
    left: Cell<u64>,
    overrun: Cell<Option<Overrun>>,
    /// Where the turn ran over.
    line: Cell<Option<usize>>,
    turn: Cell<u64>,
    guard: Option<Guard>,
}

/// Asked with the number of the turn; `true` ends it.
pub(crate) type Guard = Box<dyn Fn(u64) -> bool>;

/// How a turn ran over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overrun {
    /// It has used up its steps.
    Steps,
    /// The guard said so.
    Time,
}

impl Budget {
    pub(crate) const fn new(steps_max: u64) -> Self {
        Self {
            steps_max,
            left: Cell::new(steps_max),
            overrun: Cell::new(None),
            line: Cell::new(None),
            turn: Cell::new(0),
            guard: None,
        }
    }

    pub(crate) fn set_guard(&mut self, guard: Guard) {
        self.guard = Some(guard);
    }

    /// A new turn begins.
    pub(crate) fn refill(&self) {
        self.left.set(self.steps_max);
        self.overrun.set(None);
        self.line.set(None);
        self.turn.set(self.turn.get() + 1);
        if let Some(guard) = &self.guard {
            // So that it knows when the turn began.
            let _ = guard(self.turn.get());
        }
    }

    /// Takes steps. Once a turn has run over it stays so: whoever catches the error meets it again
    /// at the next step.
    pub(crate) fn take(&self, steps: u64) -> Result<(), Overrun> {
        if let Some(overrun) = self.overrun.get() {
            return Err(overrun);
        }
        let left = self.left.get();
        let now_left = left.saturating_sub(steps);
        self.left.set(now_left);
        if left < steps {
            self.overrun.set(Some(Overrun::Steps));
            return Err(Overrun::Steps);
        }
        if left / GUARD_EVERY != now_left / GUARD_EVERY
            && self.guard.as_ref().is_some_and(|guard| guard(self.turn.get()))
        {
            self.overrun.set(Some(Overrun::Time));
            return Err(Overrun::Time);
        }
        Ok(())
    }

    /// Notes where the turn ran over, the first time.
    pub(crate) fn note_line(&self, line: Option<usize>) {
        if self.line.get().is_none() {
            self.line.set(line);
        }
    }

    pub(crate) const fn line(&self) -> Option<usize> {
        self.line.get()
    }

    pub(crate) const fn overrun(&self) -> Option<Overrun> {
        self.overrun.get()
    }

    pub(crate) const fn spent(&self) -> u64 {
        self.steps_max - self.left.get()
    }

    /// What is said of an overrun.
    pub(crate) fn describe(&self, overrun: Overrun) -> String {
        match overrun {
            Overrun::Steps => format!("ran over its {} steps", self.steps_max),
            Overrun::Time => "ran over its time".to_owned(),
        }
    }
}

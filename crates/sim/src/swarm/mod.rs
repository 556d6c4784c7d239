//! The swarm: admission beside its reference, in random worlds, one a seed.
//!
//! A seed decides everything: settings, classes, clients and their patience, the server and what goes wrong with
//! it, when knobs change, whose permits come back late, when the clock stands still. What happens in that
//! world is done to `control`'s admission by a correct caller ([`Driver`]) and to a slow and obvious [`Reference`]; after each
//! step both must look the same from outside and admission must be consistent in itself: permits
//! conserved, nobody lost, nobody served twice or late, bounds held, nothing waiting that might start.
//! At the end of the world everybody goes home, and nothing may be left.
//!
//! [`Driver`]: tidegate_control::admission::grammar::Driver
//! [`Reference`]: tidegate_control::admission::reference::Reference

mod chaos;
mod shadowed;
#[cfg(test)]
mod tests;

use std::{
    cell::RefCell,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use shadowed::Shadowed;

use crate::run;

/// Operations that are told of a failure.
const TRAIL: usize = 20;

/// A seed under which something was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed: [`one`] does it all again.
    pub seed: u64,
    /// At which step.
    pub step: u64,
    /// What was wrong.
    pub message: String,
    /// The last operations, the one that failed at the end.
    pub trail: Vec<String>,
}

/// What came of a swarm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Seeds run.
    pub seeds: u64,
    /// Steps over all seeds: operations done and compared.
    pub steps: u64,
    /// What was wrong.
    pub failures: Vec<Failure>,
}

/// Runs one seed; answers its steps.
///
/// # Errors
///
/// What was wrong. A panic inside `control` is caught and told as well; the panic hook runs.
pub fn one(seed: u64) -> Result<u64, Box<Failure>> {
    let trail = Rc::new(RefCell::new(Trail::default()));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let (scenario, settings) = chaos::world(seed);
        let mut front = Shadowed::new(seed, &settings, Rc::clone(&trail));
        let _ = run(&scenario, &mut front);
        front.finish();
    }));
    let trail = trail.borrow();
    match outcome {
        Ok(()) => Ok(trail.steps),
        Err(panic) => Err(Box::new(Failure {
            seed,
            step: trail.steps,
            message: message(panic.as_ref()),
            trail: trail.last.iter().cloned().collect(),
        })),
    }
}

/// Runs so many seeds from `first` on; `progress` is told of each seed that is done.
pub fn swarm(first: u64, seeds: u64, mut progress: impl FnMut(u64)) -> Report {
    let mut report = Report::default();
    for seed in (0..seeds).map(|offset| first.wrapping_add(offset)) {
        match one(seed) {
            Ok(steps) => report.steps += steps,
            Err(failure) => {
                report.steps += failure.step;
                report.failures.push(*failure);
            }
        }
        report.seeds += 1;
        progress(seed);
    }
    report
}

/// What was done, for whoever reads of a failure.
#[derive(Debug, Default)]
struct Trail {
    steps: u64,
    last: VecDeque<String>,
}

impl Trail {
    fn note(&mut self, what: String) {
        self.steps += 1;
        if self.last.len() == TRAIL {
            self.last.pop_front();
        }
        self.last.push_back(what);
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        panic
            .downcast_ref::<&str>()
            .map_or_else(|| "a panic that says nothing".to_owned(), ToString::to_string)
    }
}

//! A gateway that serves nobody yet, as a controller's host: what a script does there shows before it is started.

use std::collections::BTreeSet;

use tidegate_config::KnobPath;
use tidegate_control::{
    Timestamp,
    controller::{Change, Controller as _, Host, HostError, Level, Measure, Standing},
    knobs::{Knob, Value},
};
use tidegate_runtime::{Origin, Override, Shared};
use tidegate_scripts::{Engine, PERIOD_MAX};

use super::host;

/// What a script did when it was tried.
#[derive(Default)]
pub(super) struct Tried {
    /// What failed.
    pub(super) faults: Vec<String>,
    /// The knobs that it set.
    pub(super) knobs: BTreeSet<KnobPath>,
}

/// Runs a script, and each of its functions once, where nothing has been measured, and changes nothing.
pub(super) fn tried(shared: &Shared, name: &str, engine: &mut Engine) -> Tried {
    let mut gateway = Idle { shared, now: shared.clock().now(), name, tried: Tried::default() };
    engine.tick(&mut gateway);
    if let Standing::Stopped { why } = engine.status().standing {
        gateway.tried.faults = vec![why];
        return gateway.tried;
    }
    gateway.now = gateway.now + PERIOD_MAX;
    engine.tick(&mut gateway);
    gateway.tried
}

struct Idle<'i> {
    shared: &'i Shared,
    now: Timestamp,
    name: &'i str,
    tried: Tried,
}

impl Host for Idle<'_> {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn applications(&self) -> Vec<String> {
        host::applications(self.shared)
    }

    fn classes(&self, application: &str) -> Result<Vec<String>, HostError> {
        host::classes(self.shared, application)
    }

    fn measure(&self, asked: &Measure<'_>) -> Result<Option<f64>, HostError> {
        host::measured(self.shared, self.now, asked)
    }

    fn knob(&self, path: &str) -> Result<(Knob, Value), HostError> {
        host::knob(self.shared, path)
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), HostError> {
        let who = format!("controller {}", self.name);
        let origin = Origin { who, why: String::new(), at: self.now, lasting: false };
        let mut wanted = Vec::with_capacity(changes.len());
        for change in changes {
            let path = KnobPath::parse(&change.path).map_err(host::knob_fault)?;
            wanted.push((path, Some(Override { value: change.value, origin: origin.clone() })));
        }
        self.shared.change_knobs(&wanted, true).map_err(|error| host::change_fault(&error))?;
        self.tried.knobs.extend(wanted.into_iter().map(|(path, _)| path));
        Ok(())
    }

    fn log(&mut self, level: Level, text: &str) {
        // Each failure of a function is told with how many in a row that makes; that it is stopped is told besides.
        if level == Level::Error
            && let Some((fault, _)) = text.rsplit_once(" (failure ")
        {
            self.tried.faults.push(fault.to_owned());
        }
    }
}

//! The gateway as a controller's host: its settings, its archives, its clock and its log.

use serde_json::json;
use tidegate_config::{KnobFault, KnobPath};
use tidegate_control::{
    Timestamp,
    controller::{Before, Beneath, Change, Host, HostError, Level, Measure, measure},
    knobs::{Knob, Value},
};
use tidegate_runtime::{Origin, Shared, Snapshot};

use crate::{
    events::{Events, Kind},
    knobs::Knobs,
};

/// What one controller of this process sees and changes.
pub(super) struct GatewayHost<'h> {
    shared: &'h Shared,
    knobs: &'h Knobs,
    events: &'h Events,
    beneath: &'h mut Beneath,
    /// The controller, for record, log and events.
    name: &'h str,
}

impl<'h> GatewayHost<'h> {
    pub(super) const fn new(
        shared: &'h Shared,
        knobs: &'h Knobs,
        events: &'h Events,
        beneath: &'h mut Beneath,
        name: &'h str,
    ) -> Self {
        Self { shared, knobs, events, beneath, name }
    }
}

impl Host for GatewayHost<'_> {
    fn now(&self) -> Timestamp {
        self.shared.clock().now()
    }

    fn applications(&self) -> Vec<String> {
        let snapshot = self.shared.snapshot();
        snapshot.applications.iter().map(|application| application.settings.name.clone()).collect()
    }

    fn classes(&self, application: &str) -> Result<Vec<String>, HostError> {
        classes(&self.shared.snapshot(), application).ok_or_else(|| {
            HostError::Knob(format!("there is no application \"{}\"", application.escape_debug()))
        })
    }

    fn measure(&self, asked: &Measure<'_>) -> Result<Option<f64>, HostError> {
        let snapshot = self.shared.snapshot();
        measure(&self.shared.measured(), |application| classes(&snapshot, application), self.now(), asked)
    }

    fn knob(&self, path: &str) -> Result<(Knob, Value), HostError> {
        let path = KnobPath::parse(path).map_err(knob_fault)?;
        let value = self.shared.snapshot().settings.get(&path).map_err(knob_fault)?;
        Ok((path.knob, value))
    }

    fn beneath(&self, path: &str) -> Option<Value> {
        match self.beneath.before(path, self.knob(path).ok()?.1)? {
            Before::Configured => self.shared.configured().get(&KnobPath::parse(path).ok()?).ok(),
            Before::Changed(value) => Some(value),
        }
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), HostError> {
        let (configured, changed) = (self.shared.configured(), self.shared.overrides());
        let (mut wanted, mut presents) =
            (Vec::with_capacity(changes.len()), Vec::with_capacity(changes.len()));
        for change in changes {
            let path = KnobPath::parse(&change.path).map_err(knob_fault)?;
            presents.push(self.shared.snapshot().settings.get(&path).map_err(knob_fault)?);
            // What is given back as it is configured is no override any more.
            let is_configured = configured.get(&path) == Ok(change.value);
            wanted.push((path, (!is_configured).then_some(change.value)));
        }
        let origin = Origin {
            who: format!("controller {}", self.name),
            why: reasons(changes),
            at: self.now(),
            lasting: false,
        };
        let done = self.knobs.change_by(&wanted, origin);
        done.map_err(|error| HostError::Knob(error.to_string().replace('\n', "; ")))?;
        for ((change, present), (path, value)) in changes.iter().zip(presents).zip(wanted) {
            let before = changed.get(&path).map_or(Before::Configured, |old| Before::Changed(old.value));
            match value {
                Some(to) => self.beneath.changed(&change.path, present, before, to),
                None => self.beneath.given_back(&change.path),
            }
        }
        Ok(())
    }

    fn log(&mut self, level: Level, text: &str) {
        let controller = self.name;
        match level {
            Level::Debug => tracing::debug!(controller, "{text}"),
            Level::Info => tracing::info!(controller, "{text}"),
            Level::Warn => tracing::warn!(controller, "{text}"),
            Level::Error => tracing::error!(controller, "{text}"),
        }
        if level > Level::Debug {
            let data = json!({ "name": controller, "what": "log", "level": level.name(), "text": text });
            self.events.publish(self.now(), Kind::Controller, data);
        }
    }
}

/// Each reason once.
fn reasons(changes: &[Change]) -> String {
    let mut reasons: Vec<&str> = changes.iter().map(|change| change.why.as_str()).collect();
    reasons.dedup();
    reasons.join(", ")
}

fn knob_fault(fault: KnobFault) -> HostError {
    HostError::Knob(fault.to_string())
}

fn classes(snapshot: &Snapshot, application: &str) -> Option<Vec<String>> {
    let application = snapshot.applications.get(snapshot.application_named(application)?)?;
    Some(application.settings.classes.iter().map(|class| class.name.clone()).collect())
}

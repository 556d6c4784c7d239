//! The gateway as a controller's host: its settings, its archives, its clock and its log.

use serde_json::json;
use tidegate_config::{KnobFault, KnobPath};
use tidegate_control::{
    Timestamp,
    controller::{Beneath, Change, Host, HostError, Level, Measure, measure},
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
        self.beneath.value(path, self.knob(path).ok()?.1)
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), HostError> {
        let configured = self.shared.configured();
        let wanted: Vec<(KnobPath, Option<Value>)> = changes
            .iter()
            .map(|change| {
                let path = KnobPath::parse(&change.path)?;
                // What is given back as it is configured is no override any more.
                let is_configured = configured.get(&path) == Ok(change.value);
                Ok((path, (!is_configured).then_some(change.value)))
            })
            .collect::<Result<_, KnobFault>>()
            .map_err(knob_fault)?;
        let origin = Origin {
            who: format!("controller {}", self.name),
            why: reasons(changes),
            at: self.now(),
            lasting: false,
        };
        let presents: Vec<Value> =
            changes.iter().map(|change| Ok(self.knob(&change.path)?.1)).collect::<Result<_, HostError>>()?;
        let done = self.knobs.change_by(&wanted, origin);
        done.map_err(|error| HostError::Knob(error.to_string().replace('\n', "; ")))?;
        for (change, present) in changes.iter().zip(presents) {
            self.beneath.changed(&change.path, present, change.value);
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

//! The simulated gateway as the host of a control law: the same words, answered in virtual time.

use tidegate_control::{
    Timestamp,
    controller::{self, Change, Controller, Host, HostError, Level, Measure, Parts, Standing},
    knobs::{Knob, Value},
};

use super::{Gateway, KnobError};

/// Lines that are kept of what a control law says.
const LINES_MAX: usize = 10_000;

/// A line that a control law has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When.
    pub at: Timestamp,
    /// How much it matters.
    pub level: Level,
    /// What.
    pub text: String,
}

/// The control law of a gateway, and what it said.
#[derive(Default)]
pub(super) struct Law {
    pub(super) controller: Option<Box<dyn Controller>>,
    pub(super) said: Vec<Line>,
}

impl std::fmt::Debug for Law {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Law").field("said", &self.said).finish_non_exhaustive()
    }
}

impl Law {
    /// When it wants its turn.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.controller.as_ref()?.next_tick()
    }
}

impl Gateway {
    /// Puts a control law in charge of its knobs.
    #[must_use]
    pub fn with_controller(mut self, controller: Box<dyn Controller>) -> Self {
        self.law.controller = Some(controller);
        self
    }

    /// What its control law has said, at most the first 10,000 lines.
    #[must_use]
    pub fn said(&self) -> &[Line] {
        &self.law.said
    }

    /// Whether it has a control law that does nothing any more, since it failed too often.
    #[must_use]
    pub fn has_stopped_law(&self) -> bool {
        self.law.controller.as_ref().is_some_and(|law| *law.standing() != Standing::Running)
    }

    /// Gives the control law its turn if it is due.
    pub(super) fn control(&mut self) {
        if self.law.next().is_none_or(|moment| moment > self.now) {
            return;
        }
        if let Some(mut controller) = self.law.controller.take() {
            controller.tick(self);
            self.law.controller = Some(controller);
        }
    }
}

impl Host for Gateway {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn applications(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn classes(&self, application: &str) -> Result<Vec<String>, HostError> {
        if application != self.name {
            return Err(HostError::Knob(format!(
                "\"{application}\" is no application: there is {}",
                self.name
            )));
        }
        Ok(self.classes.iter().map(|class| class.name.clone()).collect())
    }

    fn measure(&self, measure: &Measure<'_>) -> Result<Option<f64>, HostError> {
        let parts =
            |application: &str| Some(Parts { classes: self.classes(application).ok()?, servers: None });
        controller::measure(self.archives(), parts, self.now, measure)
    }

    fn knob(&self, path: &str) -> Result<(Knob, Value), HostError> {
        Ok(Self::knob(self, path)?)
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), HostError> {
        let changes: Vec<(&str, Value)> =
            changes.iter().map(|change| (change.path.as_str(), change.value)).collect();
        Ok(Self::apply(self, &changes)?)
    }

    fn log(&mut self, level: Level, text: &str) {
        if self.law.said.len() < LINES_MAX {
            self.law.said.push(Line { at: self.now, level, text: text.to_owned() });
        }
    }
}

impl From<KnobError> for HostError {
    fn from(error: KnobError) -> Self {
        match error {
            KnobError::Unknown { .. } | KnobError::Disagrees { .. } => Self::Knob(error.to_string()),
            KnobError::Value { path, fault } => Self::Value { path, fault },
        }
    }
}

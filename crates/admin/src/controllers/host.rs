//! The gateway as a controller's host: its settings, its archives, its clock and its log.

use std::{collections::BTreeSet, fmt::Display};

use serde_json::json;
use tidegate_config::{KnobFault, KnobPath};
use tidegate_control::{
    Timestamp,
    controller::{Before, Beneath, Change, Host, HostError, Level, Measure, Parts, measure},
    knobs::{Knob, Value},
};
use tidegate_runtime::{ChangeError, Origin, Override, Recorder, Shared, Snapshot};

use crate::{
    events::{Events, Kind},
    knobs::Knobs,
};

/// What one controller of this process sees and changes.
pub(super) struct GatewayHost<'h> {
    shared: &'h Shared,
    knobs: &'h Knobs,
    events: &'h Events,
    beneath: &'h mut Beneath<Override>,
    /// Of which knob and controller it was said that another one sets it, too.
    contested: &'h mut BTreeSet<(String, String)>,
    /// The controller, for record, log and events.
    name: &'h str,
}

impl<'h> GatewayHost<'h> {
    pub(super) const fn new(
        shared: &'h Shared,
        knobs: &'h Knobs,
        events: &'h Events,
        (beneath, contested): (&'h mut Beneath<Override>, &'h mut BTreeSet<(String, String)>),
        name: &'h str,
    ) -> Self {
        Self { shared, knobs, events, beneath, contested, name }
    }

    /// Where a change of this controller comes from.
    fn origin(&self, why: String) -> Origin {
        Origin {
            who: format!("controller {}", self.name),
            why,
            at: self.shared.clock().now(),
            lasting: false,
        }
    }

    /// Says, once for each knob, that another controller has set what this one sets now: of two laws for one knob the last
    /// one counts each time.
    fn tell_contested(&mut self, path: &str, other: &str) {
        if self.contested.insert((path.to_owned(), self.name.to_owned())) {
            let text = format!("{}: {}", self.name, contested(&path, other));
            self.log(Level::Warn, &text);
        }
    }
}

/// What is said of a knob that somebody else sets, too.
pub(super) fn contested(knob: &impl Display, other: &str) -> String {
    format!("{knob} is set by {other} as well: the last one to set it counts; leave it to one of them")
}

impl Host for GatewayHost<'_> {
    fn now(&self) -> Timestamp {
        self.shared.clock().now()
    }

    fn applications(&self) -> Vec<String> {
        applications(self.shared)
    }

    fn classes(&self, application: &str) -> Result<Vec<String>, HostError> {
        classes(self.shared, application)
    }

    fn measure(&self, asked: &Measure<'_>) -> Result<Option<f64>, HostError> {
        measured(self.shared, self.now(), asked)
    }

    fn knob(&self, path: &str) -> Result<(Knob, Value), HostError> {
        knob(self.shared, path)
    }

    fn beneath(&self, path: &str) -> Option<Value> {
        let knob = KnobPath::parse(path).ok()?;
        match self.beneath.before(path, self.shared.overrides().get(&knob)?)? {
            Before::Configured => self.shared.configured().get(&knob).ok(),
            Before::Changed(changed) => Some(changed.value),
        }
    }

    fn is_of_controller(&self, path: &str) -> bool {
        let Ok(knob) = KnobPath::parse(path) else { return false };
        self.shared.overrides().get(&knob).is_some_and(|present| self.beneath.before(path, present).is_some())
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), HostError> {
        let (configured, changed) = (self.shared.configured(), self.shared.overrides());
        let origin = self.origin(reasons(changes));
        let (mut wanted, mut befores) =
            (Vec::with_capacity(changes.len()), Vec::with_capacity(changes.len()));
        for change in changes {
            let path = KnobPath::parse(&change.path).map_err(knob_fault)?;
            let before = changed.get(&path).map_or(Before::Configured, |present| {
                let before = self.beneath.before(&change.path, present);
                before.cloned().unwrap_or_else(|| Before::Changed(present.clone()))
            });
            let ours = Override { value: change.value, origin: origin.clone() };
            let to = match &before {
                // What is given back as it is configured is no override any more.
                Before::Configured => (configured.get(&path) != Ok(change.value)).then_some(ours),
                // What somebody has set is theirs again, and lasts if it did.
                Before::Changed(theirs) if theirs.value == change.value => Some(theirs.clone()),
                Before::Changed(_) => Some(ours),
            };
            wanted.push((path, to));
            befores.push(before);
        }
        self.knobs.change_by(&wanted, &origin).map_err(|error| change_fault(&error))?;
        for ((change, before), (path, to)) in changes.iter().zip(befores).zip(wanted) {
            if let (Some(was), Some(is)) = (changed.get(&path), &to)
                && is.origin.who == origin.who
                && was.origin.who != origin.who
                && self.beneath.before(&change.path, was).is_some()
            {
                self.tell_contested(&change.path, &was.origin.who);
            }
            match to {
                Some(to) if before != Before::Changed(to.clone()) => {
                    self.beneath.changed(&change.path, before, to);
                }
                Some(_) | None => self.beneath.given_back(&change.path),
            }
        }
        Ok(())
    }

    fn give_back_waiting(&mut self, path: &str, why: &str) -> Result<(), HostError> {
        let knob = KnobPath::parse(path).map_err(knob_fault)?;
        let origin = self.origin(why.to_owned());
        let changed = self.shared.overrides();
        let Some(ours) = changed.get(&knob).filter(|present| present.origin.who == origin.who) else {
            return Ok(());
        };
        let beneath = match self.beneath.before(path, ours).cloned() {
            None => return Ok(()),
            Some(Before::Configured) => None,
            Some(Before::Changed(theirs)) => Some(theirs),
        };
        self.knobs.give_back_waiting(knob, beneath, &origin).map_err(|error| change_fault(&error))?;
        self.beneath.given_back(path);
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

pub(super) fn knob_fault(fault: KnobFault) -> HostError {
    HostError::Knob(fault.to_string())
}

pub(super) fn change_fault(error: &ChangeError) -> HostError {
    HostError::Knob(error.to_string().replace('\n', "; "))
}

pub(super) fn applications(shared: &Shared) -> Vec<String> {
    let snapshot = shared.snapshot();
    snapshot.applications.iter().map(|application| application.settings.name.clone()).collect()
}

pub(super) fn classes(shared: &Shared, application: &str) -> Result<Vec<String>, HostError> {
    parts(&shared.snapshot(), application)
        .map(|parts| parts.classes)
        .ok_or_else(|| HostError::Knob(format!("there is no application \"{}\"", application.escape_debug())))
}

fn parts(snapshot: &Snapshot, application: &str) -> Option<Parts> {
    let settings = &snapshot.applications.get(snapshot.application_named(application)?)?.settings;
    Some(Parts {
        classes: settings.classes.iter().map(|class| class.name.clone()).collect(),
        servers: Some(settings.servers.iter().map(|server| server.name.clone()).collect()),
    })
}

pub(super) fn knob(shared: &Shared, path: &str) -> Result<(Knob, Value), HostError> {
    let path = KnobPath::parse(path).map_err(knob_fault)?;
    let value = shared.snapshot().settings.get(&path).map_err(knob_fault)?;
    Ok((path.knob, value))
}

/// What is asked, at `now`: of what is in the archives by then, since a second is recorded a moment after it has ended.
pub(super) fn measured(
    shared: &Shared,
    now: Timestamp,
    asked: &Measure<'_>,
) -> Result<Option<f64>, HostError> {
    let snapshot = shared.snapshot();
    let until = Recorder::recorded(now);
    measure(&shared.measured(), |application| parts(&snapshot, application), until, asked)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_config::{ProtectOptions, Settings};
    use tidegate_control::{
        archive::{Reading, Stat},
        knobs::Scope,
        meters::Meter,
    };

    use super::*;

    /// Whenever in a second a script runs, the last second is one that was measured.
    #[test]
    fn a_window_ends_with_what_is_recorded() {
        let shared =
            Shared::new(Settings::protect(&ProtectOptions::new("http://127.0.0.1:1")).unwrap()).unwrap();
        let second = |n: u64| Timestamp::EPOCH + Duration::from_secs(n);
        let record = |n: u64| {
            let mut reading = Reading::new(Scope::Application);
            reading.level(Meter::IN_FLIGHT, n);
            shared.change_measured(|archives| archives.record("app", second(n), second(n + 1), &reading));
        };
        record(99);
        let window = Duration::from_secs(1);
        let asked = Measure { scope: "app", meter: "in_flight", window, stat: Stat::Mean, of: None };
        for (ms, last) in [(20, 99.0), (140, 99.0), (160, 100.0), (990, 100.0)] {
            if last > 99.0 {
                record(100);
            }
            let now = second(101) + Duration::from_millis(ms);
            assert_eq!(measured(&shared, now, &asked), Ok(Some(last)), "{ms} ms after the second");
        }
    }

    /// Of a name that is wrong nothing would be measured for ever.
    #[test]
    fn a_class_or_server_that_is_not_there_is_told_with_those_there_are() {
        let shared =
            Shared::new(Settings::protect(&ProtectOptions::new("http://127.0.0.1:1")).unwrap()).unwrap();
        let now = Timestamp::EPOCH + Duration::from_secs(100);
        let ask = |scope, meter| {
            let window = Duration::from_secs(1);
            measured(&shared, now, &Measure { scope, meter, window, stat: Stat::Mean, of: None })
        };
        assert_eq!(ask("app/default", "queued"), Ok(None));
        assert_eq!(ask("app/servers/127.0.0.1:1", "in_flight"), Ok(None));
        for (scope, told) in [
            ("app/home", r#"app/home: there is no class "home", but "default""#),
            ("app/servers/1", r#"app/servers/1: there is no server "1", but "127.0.0.1:1""#),
        ] {
            assert_eq!(ask(scope, "in_flight"), Err(HostError::Meter(told.to_owned())));
        }
    }
}

//! Laws of the literature, each from its publication in a file of its own, as fronts of the simulator.
//!
//! To add one: write its file, give it a row in [`Law`], and name it as `front` in an experiment.

mod breakwater;
mod dagor;
mod eac;
mod pie;
mod seda;

use std::{cell::Cell, collections::BTreeMap, rc::Rc, time::Duration};

pub use breakwater::Breakwater;
pub use dagor::Dagor;
pub use eac::Eac;
pub use pie::Pie;
pub use seda::Seda;
use tidegate_config::closest;
use tidegate_control::knobs::{Kind, Value};
use tidegate_sim::Front;

use crate::site::ConnectionCosts;

/// A law, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Priority thresholds of WeChat.
    Dagor,
    /// Credits handed out to clients.
    Breakwater,
    /// The stage controller of SEDA.
    Seda,
    /// A proportional-integral controller of the queueing delay.
    Pie,
    /// New TLS sessions while processors are left, of a self-managed application server.
    Eac,
}

/// Processors an application has: told by the CPU manager, read by its admission control.
#[derive(Clone, Debug, PartialEq)]
pub struct Assigned(Rc<Cell<f64>>);

impl Assigned {
    /// So many, until others are told.
    #[must_use]
    pub fn new(processors: f64) -> Self {
        Self(Rc::new(Cell::new(processors)))
    }

    /// So many from now on.
    pub fn set(&self, processors: f64) {
        self.0.set(processors);
    }

    /// How many.
    #[must_use]
    pub fn get(&self) -> f64 {
        self.0.get()
    }
}

/// What a law is told of the system it stands in front of.
#[derive(Clone, Debug, PartialEq)]
pub struct Surroundings {
    /// Seed of its own chance.
    pub seed: u64,
    /// Mean processor time of a request: published constants in microseconds are scaled by it.
    pub work: Duration,
    /// Threads of the server.
    pub threads: u32,
    /// What connections cost, as a profile of the application would tell; `None` without TLS.
    pub connections: Option<ConnectionCosts>,
    /// Processors the application has.
    pub processors: Assigned,
}

/// A constant of a law that an experiment may set.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Its name.
    pub name: &'static str,
    /// Its unit and range.
    pub kind: Kind,
    /// What it is, with its published value.
    pub doc: &'static str,
}

/// Why a constant was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingFault {
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub mend: String,
}

/// The constants an experiment has set.
#[derive(Clone, Debug, Default)]
pub struct Constants(BTreeMap<String, Value>);

impl Law {
    /// Every law.
    pub const ALL: &'static [Self] = &[Self::Dagor, Self::Breakwater, Self::Seda, Self::Pie, Self::Eac];

    /// Its name in experiments.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dagor => "dagor",
            Self::Breakwater => "breakwater",
            Self::Seda => "seda",
            Self::Pie => "pie",
            Self::Eac => "eac",
        }
    }

    /// Its constants.
    #[must_use]
    pub const fn constants(self) -> &'static [Constant] {
        match self {
            Self::Dagor => dagor::CONSTANTS,
            Self::Breakwater => breakwater::CONSTANTS,
            Self::Seda => seda::CONSTANTS,
            Self::Pie => pie::CONSTANTS,
            Self::Eac => eac::CONSTANTS,
        }
    }

    /// The law at work.
    #[must_use]
    pub fn front(self, constants: &Constants, surroundings: Surroundings) -> Box<dyn Front> {
        match self {
            Self::Dagor => Box::new(Dagor::new(constants)),
            Self::Breakwater => Box::new(Breakwater::new(constants, &surroundings)),
            Self::Seda => Box::new(Seda::new(constants)),
            Self::Pie => Box::new(Pie::new(constants, &surroundings)),
            Self::Eac => Box::new(Eac::new(constants, &surroundings)),
        }
    }

    /// Reads settings as written in an experiment.
    ///
    /// # Errors
    ///
    /// A constant the law does not have, or a value out of its range.
    pub fn read(self, settings: &[(String, String)]) -> Result<Constants, SettingFault> {
        let read = |(name, text): &(String, String)| Ok((name.clone(), self.setting(name, text)?));
        Ok(Constants(settings.iter().map(read).collect::<Result<_, SettingFault>>()?))
    }

    pub(crate) fn check_setting(self, name: &str, text: &str) -> Result<(), SettingFault> {
        self.setting(name, text).map(|_| ())
    }

    fn setting(self, name: &str, text: &str) -> Result<Value, SettingFault> {
        let Some(constant) = self.constants().iter().find(|constant| constant.name == name) else {
            let names: Vec<&str> = self.constants().iter().map(|constant| constant.name).collect();
            let mend = closest(name, names.iter().copied()).map_or_else(
                || format!("{} has {}", self.name(), names.join(", ")),
                |meant| format!("did you mean {meant}?"),
            );
            return Err(SettingFault { what: format!("{} has no such constant", self.name()), mend });
        };
        constant.kind.parse(text).ok().filter(|value| constant.kind.admits(*value)).ok_or_else(|| {
            SettingFault {
                what: format!("\"{text}\" is not allowed here"),
                mend: format!("expected {}", constant.kind.expected()),
            }
        })
    }
}

impl Constants {
    fn span(&self, name: &str, published: Duration) -> Duration {
        match self.0.get(name) {
            Some(Value::Span(span)) => *span,
            _ => published,
        }
    }

    fn ratio(&self, name: &str, published: f64) -> f64 {
        match self.0.get(name) {
            Some(Value::Ratio(ratio)) => *ratio,
            _ => published,
        }
    }

    fn count(&self, name: &str, published: u64) -> u64 {
        match self.0.get(name) {
            Some(Value::Count(count)) => *count,
            _ => published,
        }
    }
}

/// Any span up to an hour.
const SPAN: Kind = Kind::Span { min: Duration::from_micros(1), max: Duration::from_secs(3600) };

const fn ratio(min: f64, max: f64) -> Kind {
    Kind::Ratio { min, max }
}

#[cfg(test)]
mod testing {
    use tidegate_control::{ApplicationId, ClassId, Timestamp};
    use tidegate_sim::{Hello, Request};

    use super::{Assigned, Duration, Surroundings};

    pub(super) fn request(client: u32, sent: Timestamp) -> Request {
        Request {
            id: u64::from(client),
            application: ApplicationId(0),
            class: ClassId(0),
            priority: 3,
            weight: 1,
            client,
            session: None,
            attempt: 0,
            first_sent: sent,
            sent,
            deadline: None,
            promise: None,
            forged: false,
            hello: Hello::Open,
        }
    }

    pub(super) fn surroundings() -> Surroundings {
        Surroundings {
            seed: 1,
            work: Duration::from_millis(10),
            threads: 1,
            connections: None,
            processors: Assigned::new(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_against_the_law() {
        assert!(Law::Dagor.check_setting("threshold", "30ms").is_ok());
        assert!(Law::Dagor.check_setting("treshold", "30ms").unwrap_err().mend.contains("threshold"));
        assert!(Law::Dagor.check_setting("threshold", "fast").unwrap_err().mend.contains("span"));
        assert!(Law::Seda.check_setting("decrease", "0.5").is_err(), "a divisor below 1 would increase");
        for law in Law::ALL {
            for constant in law.constants() {
                assert!(constant.doc.ends_with('.'), "{}.{}", law.name(), constant.name);
            }
        }
    }
}

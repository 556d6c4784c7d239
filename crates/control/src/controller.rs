//! Control laws: what one sees, what it may change, and when it runs.
//!
//! A [`Controller`] turns measurements into settings of knobs, now and then: a script, or a law
//! compiled in. It knows its surroundings as a [`Host`], which the gateway and the simulator
//! implement, and reaches them through a [`Turn`], so that every word means the same in a script
//! and in Rust.
//!
//! A turn is a transaction. What it sets is gathered and takes effect at its end as one change;
//! a turn that fails changes nothing.

mod beneath;
mod measure;
mod overload;
mod schedule;
mod turn;

pub use beneath::{Before, Beneath};
pub use measure::{Parts, measure};
pub use overload::Overload;
pub use schedule::{OnFailure, Periodic, Schedule, Standing};
pub use turn::{Memory, Turn};

use std::time::Duration;

use crate::{
    Timestamp,
    archive::Stat,
    knobs::{Fault, Knob, Value},
};

/// What a control law sees and may change.
pub trait Host {
    /// The present time.
    fn now(&self) -> Timestamp;

    /// Names of the applications.
    fn applications(&self) -> Vec<String>;

    /// Names of an application's classes, the default class first.
    ///
    /// # Errors
    ///
    /// [`HostError`] if there is no such application.
    fn classes(&self, application: &str) -> Result<Vec<String>, HostError>;

    /// Reads a meter; `None` if nothing was measured in that window.
    ///
    /// # Errors
    ///
    /// [`HostError`] if there is no such scope or meter, or the meter has no such statistic.
    fn measure(&self, measure: &Measure<'_>) -> Result<Option<f64>, HostError>;

    /// A knob's row and its present value.
    ///
    /// # Errors
    ///
    /// [`HostError`] if there is no such knob.
    fn knob(&self, path: &str) -> Result<(Knob, Value), HostError>;

    /// What a knob would be now if no controller had set it; `None` if its present value is of none of them. A host of
    /// one controller, whose configuration does not change, has nothing to say.
    fn beneath(&self, _path: &str) -> Option<Value> {
        None
    }

    /// Whether a controller has set what a knob is now: of the value that one gave it, it may be by somebody else. A host
    /// whose knobs nobody else changes has nothing to say.
    fn is_of_controller(&self, _path: &str) -> bool {
        true
    }

    /// Makes all of these changes, as one, or none.
    ///
    /// # Errors
    ///
    /// [`HostError`]; nothing has changed.
    fn apply(&mut self, changes: &[Change]) -> Result<(), HostError>;

    /// Gives back what this controller has set and is not in force, since its application, class or server is configured
    /// no more, or it does not fit: it would be in force again once it fits, and nobody would hold it. Leaves alone what
    /// somebody else has set. A host whose configuration does not change has nothing to give back.
    ///
    /// # Errors
    ///
    /// [`HostError`]; nothing has changed.
    fn give_back_waiting(&mut self, _path: &str, _why: &str) -> Result<(), HostError> {
        Ok(())
    }

    /// Says something in the gateway's log. `text` is one line.
    fn log(&mut self, level: Level, text: &str);
}

/// A control law.
pub trait Controller {
    /// Runs what is due; does nothing if nothing is.
    fn tick(&mut self, host: &mut dyn Host);

    /// When it wants [`Controller::tick`] next: [`Timestamp::EPOCH`] before the first time, that is
    /// at once; `None`: never again.
    fn next_tick(&self) -> Option<Timestamp>;

    /// Whether it runs.
    fn standing(&self) -> &Standing;
}

/// What of a meter is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure<'m> {
    /// Of what: `""` the gateway, `"shop"` an application, `"shop/home"` a class,
    /// `"shop/servers/10.0.0.2:8000"` a server. A meter of its parts asked of an application or the
    /// gateway is that of all of them as one.
    pub scope: &'m str,
    /// The meter's name; of a meter that is split, `"refused.queue_full"` is one label's part.
    pub meter: &'m str,
    /// The time up to now that it is asked of.
    pub window: Duration,
    /// What is told of it.
    pub stat: Stat,
    /// Of [`Stat::Max`] and [`Stat::Min`]: extremes of means over spans of this length, for the
    /// largest of single seconds is noise. `None`: of single seconds.
    pub of: Option<Duration>,
}

/// A change of a knob.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The knob's path, such as `shop/home/ingress.rate`.
    pub path: String,
    /// Its new value.
    pub value: Value,
    /// Who changes it and why, such as `home-limit.lua:3`.
    pub why: String,
}

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// For whoever looks for a mistake.
    Debug,
    /// Worth knowing.
    Info,
    /// Something is not as it should be.
    Warn,
    /// Something has failed.
    Error,
}

impl Level {
    /// Every level, the least first.
    pub const ALL: &'static [Self] = &[Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Why something could not be read or changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// There is no such knob, application, class or server; or several changes contradict one another.
    #[error("{0}")]
    Knob(String),
    /// The knob's row does not allow the value.
    #[error("{path}: {fault}")]
    Value {
        /// The knob.
        path: String,
        /// What is allowed.
        fault: Fault,
    },
    /// There is no such meter or scope, or the meter has no such statistic.
    #[error("{0}")]
    Meter(String),
    /// More is asked than a controller may.
    #[error("{what}: a controller may have at most {max}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        max: usize,
    },
}

#[cfg(test)]
mod tests;

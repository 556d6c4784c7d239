//! Several applications on one host, and how its processors are divided among them.

use std::time::Duration;

use tidegate_control::processors::{Policy, Sharing};

use super::{Phase, Population, Web};
use crate::simulated::APPLICATION;

/// One of several applications on a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Its name.
    pub name: String,
    /// Its loads, each for a time.
    pub phases: Vec<Phase>,
}

/// A time of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// Its beginning, from that of the run.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
}

impl Web {
    /// Each application with its name and what is its own.
    #[must_use]
    pub fn each(&self) -> Vec<(String, Self)> {
        if self.applications.is_empty() {
            return vec![(APPLICATION.to_owned(), self.clone())];
        }
        let own = |application: &Application| {
            let mut web = Self { applications: Vec::new(), ..self.clone() };
            if let Population::Open { phases, .. } = &mut web.load.population {
                phases.clone_from(&application.phases);
            }
            (application.name.clone(), web)
        };
        self.applications.iter().map(own).collect()
    }
}

/// How processors are divided among applications.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Division {
    /// All may use all of them, and the operating system goes by threads.
    #[default]
    Shared,
    /// Each has as many of its own as any other, for good.
    Equal,
    /// By the CPU manager.
    Managed(Manager),
}

/// The CPU manager of an arm.
#[derive(Clone, Debug, PartialEq)]
pub struct Manager {
    /// From one division to the next.
    pub interval: Duration,
    /// How to divide processors that do not suffice.
    pub policy: Policy,
    /// Whether two applications may share one.
    pub sharing: Sharing,
    /// Of each application, in their order.
    pub priorities: Vec<f64>,
}

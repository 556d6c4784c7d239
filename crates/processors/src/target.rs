//! Where the threads of an application are, what they have used, and how they are kept on their processors.

mod cgroup;
mod tree;
mod unit;

use std::{fmt, path::PathBuf, time::Duration};

use self::{cgroup::Cgroup, tree::Tree, unit::Unit};
use crate::{error::Error, list::List};

/// What names an application to the system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A unit of systemd, by `AllowedCPUs`; with cgroup v2.
    Unit(String),
    /// A control group's directory, by its `cpuset.cpus`; v2, or the hierarchy `cpuset` of v1.
    Cgroup(PathBuf),
    /// The process whose number is in this file and all below it, by the affinity of each thread.
    PidFile(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit(unit) => write!(f, "the unit {unit}"),
            Self::Cgroup(path) => write!(f, "the control group {}", path.display()),
            Self::PidFile(path) => write!(f, "the process of {}", path.display()),
        }
    }
}

/// An application's threads, in hand.
#[derive(Debug)]
pub(crate) enum Threads {
    Unit(Unit),
    Cgroup(Cgroup),
    Tree(Tree),
}

impl Threads {
    pub(crate) fn of(target: &Target) -> Self {
        match target {
            Target::Unit(unit) => Self::Unit(Unit::new(unit.clone())),
            Target::Cgroup(path) => Self::Cgroup(Cgroup::new(path.clone())),
            Target::PidFile(path) => Self::Tree(Tree::new(path.clone())),
        }
    }

    /// What they have done since this was asked last; nothing when it is asked first, and of what runs anew.
    ///
    /// # Errors
    ///
    /// The application does not run, or cannot be read.
    pub(crate) async fn times(&mut self) -> Result<Times, Error> {
        match self {
            Self::Unit(unit) => unit.times().await,
            Self::Cgroup(cgroup) => cgroup.times(),
            Self::Tree(tree) => tree.times(),
        }
    }

    /// Keeps them on these processors. What begins among them later begins there, or is moved when this is called again
    /// with the same.
    ///
    /// # Errors
    ///
    /// The application does not run, or may not be moved.
    pub(crate) async fn confine(&mut self, processors: &List) -> Result<(), Error> {
        match self {
            Self::Unit(unit) => unit.confine(processors).await,
            Self::Cgroup(cgroup) => cgroup.confine(processors),
            Self::Tree(tree) => tree.confine(processors),
        }
    }

    /// Lets them run where they might without us: `all` are the processors this process may run on.
    ///
    /// # Errors
    ///
    /// As of [`Self::confine()`].
    pub(crate) async fn release(&mut self, all: &List) -> Result<(), Error> {
        match self {
            Self::Unit(unit) => unit.release().await,
            Self::Cgroup(cgroup) => cgroup.release(),
            Self::Tree(tree) => tree.confine(all),
        }
    }
}

/// What the threads of an application have done in a while, summed over them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Times {
    /// Time on a processor.
    pub(crate) ran: Duration,
    /// Time they could have run and had none; 0 where the kernel does not count it.
    pub(crate) waited: Duration,
}

/// A counter that only rises, read now and then.
#[derive(Clone, Copy, Debug, Default)]
struct Counter(Option<Duration>);

impl Counter {
    /// How much it has risen since it was read last. One that has fallen begins anew.
    fn risen(&mut self, to: Duration) -> Duration {
        let before = self.0.replace(to);
        before.and_then(|before| to.checked_sub(before)).unwrap_or_default()
    }

    fn forget(&mut self) {
        self.0 = None;
    }
}

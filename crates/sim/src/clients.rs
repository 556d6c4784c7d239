//! Who asks: open arrivals, sessions, closed-loop browsers; and how patient they are. Plain data.

use std::time::Duration;

use tidegate_control::ClassId;

use crate::Draw;

/// Clients of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Clients {
    /// Their name in faults of a scenario.
    pub name: String,
    /// How many and what they do.
    pub population: Population,
    /// How long they wait and whether they try again.
    pub behaviour: Behaviour,
}

/// How requests come about.
#[derive(Clone, Debug, PartialEq)]
pub enum Population {
    /// Requests arrive whatever becomes of the others.
    Open {
        /// When.
        arrivals: Arrivals,
        /// Classes with their shares of the requests; the shares are relative. A trace brings its own classes.
        mix: Vec<(ClassId, f64)>,
        /// Different clients they come from, at least 1, each as likely.
        clients: u32,
    },
    /// Partly open: sessions arrive whatever becomes of the others, and go from page to page, each after the
    /// last. A session whose page failed ends.
    Sessions {
        /// When.
        arrivals: Arrivals,
        /// The pages.
        site: Site,
        /// Seconds between a page and the next.
        think: Draw,
    },
    /// Closed: so many browsers, each from page to page for ever. One whose page failed, or whose session
    /// ended, thinks and begins anew.
    Browsers {
        /// From when on how many, in order. A browser that is too many stops at its next thought.
        count: Vec<(Duration, u32)>,
        /// The pages.
        site: Site,
        /// Seconds between a page and the next, and before the first.
        think: Draw,
    },
}

/// When something arrives. Rates a second, 0 to 10⁹.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// At even distances, the first one distance after the beginning.
    Constant {
        /// Arrivals a second.
        per_s: f64,
    },
    /// A Poisson process.
    Poisson {
        /// Arrivals a second.
        per_s: f64,
    },
    /// A Poisson process that is switched on and off, on first.
    OnOff {
        /// Length of a spell that is on, seconds.
        on: Draw,
        /// Length of a spell that is off, seconds.
        off: Draw,
        /// Arrivals a second in spells that are on.
        per_s: f64,
        /// Arrivals a second in the others.
        idle_per_s: f64,
    },
    /// Phases, each of a length and a rate.
    Schedule {
        /// Length, arrivals a second.
        phases: Vec<(Duration, f64)>,
        /// Whether they begin anew after the last; else nothing arrives then.
        repeat: bool,
        /// Poisson within a phase; else at even distances.
        poisson: bool,
    },
    /// As recorded: moments in order, with classes.
    Trace(Vec<(Duration, ClassId)>),
}

/// Pages and the ways between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The page at which one enters.
    pub entry: usize,
    /// The pages.
    pub pages: Vec<Page>,
    /// Pages of a session, at most.
    pub pages_max: u32,
}

/// A page: a request, and more for what it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Its name.
    pub name: String,
    /// Class of the request for it.
    pub class: ClassId,
    /// Requests for what is embedded, all at once when the page is there.
    pub embedded: u32,
    /// Class of those.
    pub embedded_class: ClassId,
    /// The next pages and their probabilities. What is missing to 1: the session ends.
    pub next: Vec<(usize, f64)>,
}

/// How long clients wait and whether they try again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behaviour {
    /// After this long without a reply they give up and close; the server does not notice once it has begun.
    pub timeout: Option<Duration>,
    /// Whether they try again.
    pub retry: Option<Retry>,
}

/// What clients do who are told to come later. Who does none of it comes at his time, within a twentieth of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Returns {
    /// Share of them who do not come.
    pub no_show: f64,
    /// Share who come after half the time, and once more at their time.
    pub early: f64,
    /// Share who make a promise up and come at once with it, and once more at their time.
    pub cheat: f64,
    /// Share, of those who come at their time, whose browser asks meanwhile how things stand: when a quarter of what is left has
    /// passed, at least a second and at most twenty.
    pub polls: f64,
}

/// Trying again.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Times, after the first.
    pub attempts: u32,
    /// When refused, or answered with an error.
    pub after_refusal: bool,
    /// When they gave up.
    pub after_timeout: bool,
    /// How long they wait before.
    pub backoff: Backoff,
}

/// How long a client waits before it tries again.
#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// Always this long.
    Constant(Duration),
    /// Longer each time: `first · factorⁿ`, at most `max`.
    Exponential {
        /// Before the first retry.
        first: Duration,
        /// Factor from one to the next, at least 1.
        factor: f64,
        /// The longest.
        max: Duration,
        /// Uniform between nothing and that ("full jitter") instead of that.
        jitter: bool,
    },
}

//! What is simulated: a host, the applications on it, their classes, servers and networks. Plain data.
//!
//! Goodput is nowhere among it: what a server achieves follows from threads, processors, costs and from who
//! still waits for the reply.

use std::time::Duration;

use tidegate_control::{ClassId, Timestamp};

use crate::{
    Draw,
    clients::{Clients, Returns},
};

/// When every run begins.
pub const START: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

/// A run: what there is, for how long, and the seed of all chance in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The seed: the same gives the same run, to the last event.
    pub seed: u64,
    /// How long it lasts, 1 ms to 10 years.
    pub duration: Duration,
    /// What is sent before this is in no total, but in the series.
    pub warm_up: Duration,
    /// A row of the series, and a call of [`Front::tick`](crate::Front::tick), each of these. 1 ms to 1 day.
    pub tick: Duration,
    /// The machine under all applications.
    pub host: Host,
    /// What runs on it.
    pub applications: Vec<Application>,
}

/// The machine: processors that applications share.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Processors, 1 to 1,024.
    pub processors: u16,
    /// By what applications share them.
    pub sharing: Sharing,
    /// How fast the processors are, a database's too, from a moment on: 1 at the beginning, 0 is a machine that stands still.
    pub speed: Vec<Change>,
}

/// Who gets how much of processors that several applications may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Each thread that can run as much as any other, as an operating system does by itself.
    #[default]
    Threads,
    /// Each application by its [`Server::share`], as control groups do.
    Applications,
}

/// A speed from a moment on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// From when.
    pub at: Duration,
    /// What it is then: 1 as at the beginning.
    pub to: f64,
}

/// An application: what is asked of it and by whom, and what serves it.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Its name in knobs and meters.
    pub name: String,
    /// Its classes of requests, dense by id; the first is the default class.
    pub classes: Vec<Class>,
    /// What serves it.
    pub server: Server,
    /// Whether clients come by TLS, and what that costs.
    pub tls: Option<Tls>,
    /// What lies between clients and front.
    pub network: Network,
    /// Who asks.
    pub clients: Vec<Clients>,
    /// What they do when they are told to come later.
    pub returns: Returns,
}

/// A class of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name in knobs and meters.
    pub name: String,
    /// 0 (least) to 7, as admission sees it.
    pub priority: u8,
    /// Weight units of the in-flight limit.
    pub weight: u32,
    /// The class whose doors, draws and share of the waiting room it has; `None`: its own.
    pub group: Option<ClassId>,
    /// The client's deadline for the start, from when a request is sent.
    pub deadline: Option<Duration>,
    /// A reply without error this long after the first attempt at the latest is goodput.
    pub good_within: Duration,
    /// Processor seconds of a request at the server.
    pub work: Draw,
    /// Seconds of work of a database connection, after the first half of the processor's.
    pub database: Option<Draw>,
    /// Share of requests that end as an error of the server.
    pub errors: f64,
    /// Priority of its threads with the operating system, 0 (lowest) to 7: a higher one preempts.
    pub level: u8,
}

/// What serves an application: threads, the processors they run on, and what they wait for.
///
/// `threads: Some(k)` on at least k processors is the queueing theory's k servers, first come, first
/// served; `threads: None` is processor sharing.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Worker threads; `None`: one for each request.
    pub threads: Option<u32>,
    /// Requests that wait at the server for a thread; more are refused by it. `None`: no bound.
    pub backlog: Option<u32>,
    /// Whether the server looks, when it takes a request from its backlog, if its client is still there.
    pub drops_abandoned: bool,
    /// The processors it may use, by number; `None`: all.
    pub processors: Option<Vec<u16>>,
    /// Its weight under [`Sharing::Applications`].
    pub share: u32,
    /// What it costs that more threads can run than there are processors.
    pub switching: Option<Switching>,
    /// The second tier.
    pub database: Option<Database>,
    /// Memory that is collected.
    pub collector: Option<Collector>,
    /// What goes wrong and when.
    pub faults: Vec<Fault>,
}

/// What switching between threads costs: each quantum of work costs `switch`, and `refill` for the part of
/// the working sets that the caches do not hold, `1 - warm / threads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switching {
    /// Work between two switches.
    pub quantum: Duration,
    /// The switch itself.
    pub switch: Duration,
    /// Filling the caches again when nothing of the working set is left in them.
    pub refill: Duration,
    /// Threads whose working sets fit the caches together, at least 1.
    pub warm: u32,
}

/// The second tier: a pool of connections to a database, waited for first come, first served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Database {
    /// Connections: requests at the database at once, at least 1.
    pub connections: u32,
    /// What they share at the database, at least 1; as many as connections if it is not to matter.
    pub processors: u16,
    /// What it costs that more connections work than there are processors: locks, caches.
    pub switching: Option<Switching>,
}

/// Memory that is collected with the application stopped: a request makes garbage, and holds memory while it
/// is in progress, which leaves less room for garbage and makes each pause longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Bytes for all.
    pub heap: u64,
    /// Bytes always live.
    pub live: u64,
    /// Bytes a request in progress (or in the backlog) holds.
    pub held: u64,
    /// Bytes of garbage a request makes when its thread takes it.
    pub garbage: u64,
    /// Bytes a second a collection gets through: a pause is what is live by this.
    pub rate: u64,
    /// The least a collection frees for, bytes: with less room it collects all the same.
    pub room_min: u64,
}

/// Something that goes wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// When it begins.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// What it is.
    pub what: Trouble,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// The server does nothing.
    Stall,
    /// The server works at this share of its speed.
    Slow(f64),
    /// This share of what the server takes up in that time ends as an error, at once and without work.
    Errors(f64),
}

/// What TLS costs the application's processors, a connection, and how long connections live. A handshake has a thread
/// of the server, which goes on with the request behind it, unless the front makes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tls {
    /// Processor time of a full handshake.
    pub full: Duration,
    /// Processor time of a resumed one.
    pub resumed: Duration,
    /// How long an idle connection of a session is kept.
    pub keep_alive: Duration,
    /// Requests on one connection of a session; `None`: no bound.
    pub requests_max: Option<u32>,
    /// Share of open arrivals that come with nothing to resume.
    pub new_share: f64,
}

/// What lies between clients and front.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Seconds one way.
    pub latency: Draw,
    /// Share of requests whose client is gone once it has sent, without anybody being told.
    pub lost: f64,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 1,
            duration: Duration::from_secs(60),
            warm_up: Duration::ZERO,
            tick: Duration::from_secs(1),
            host: Host::default(),
            applications: vec![Application::default()],
        }
    }
}

impl Default for Host {
    fn default() -> Self {
        Self { processors: 1, sharing: Sharing::Threads, speed: Vec::new() }
    }
}

impl Default for Application {
    fn default() -> Self {
        Self {
            name: "shop".to_owned(),
            classes: vec![Class::default()],
            server: Server::default(),
            tls: None,
            network: Network::default(),
            clients: Vec::new(),
            returns: Returns::default(),
        }
    }
}

impl Default for Class {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            priority: 3,
            weight: 1,
            group: None,
            deadline: None,
            good_within: Duration::from_secs(10),
            work: Draw::Exponential { mean: 0.01 },
            database: None,
            errors: 0.0,
            level: 0,
        }
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            threads: None,
            backlog: None,
            drops_abandoned: false,
            processors: None,
            share: 1,
            switching: None,
            database: None,
            collector: None,
            faults: Vec::new(),
        }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self { latency: Draw::ZERO, lost: 0.0 }
    }
}

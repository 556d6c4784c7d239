//! A deterministic discrete-event simulator of overload: clients, a front, a server, in virtual time.
//!
//! A [`Scenario`] says who asks what of whom; a [`Front`] decides what goes on to the server; [`run()`] lets it
//! happen and tells what came of it ([`RunResult`]). [`Gateway`] is the front that drives Tidegate's
//! own admission, the very types the gateway drives. The same seed gives the same run, to the last event.
//!
//! # Architecture invariant
//!
//! No goodput curve and no collapse is an input. Both follow: work for clients who have left,
//! handshakes that are repeated, threads that switch, memory that is collected, retries that meet
//! retries. Deliberately absent: a clock, threads, async, and sources of chance other than the seed.
//!
//! # Reading order
//!
//! [`Scenario`] and [`Clients`], [`Front`], [`run()`], then the engine. [`theory`] and [`queueing_truth`] hold the
//! simulator against formulas; [`swarm`] holds `control` against its reference under chance and faults.

mod check;
mod clients;
mod draw;
mod engine;
mod front;
mod gateway;
mod random;
mod result;
mod run;
mod scenario;
mod standard_servers;
pub mod swarm;
pub mod theory;
mod times;
mod trace;
mod truth;

pub use check::ScenarioFault;
pub use clients::{Arrivals, Backoff, Behaviour, Clients, Page, Population, Retry, Returns, Site};
pub use draw::Draw;
pub use front::{Direct, Done, End, Front, Hello, Levels, Request, ServerView, Verdict};
pub use gateway::{Gateway, KnobError, Line, RESPONSE_TIMEOUT};
pub use random::Random;
pub use result::{ClientCounts, Counts, Row, RunResult, Sessions, Tick};
pub use run::{ProcessorManager, run, run_all};
pub use scenario::{
    Application, Change, Class, Collector, Database, Fault, Host, Network, START, Scenario, Server, Sharing,
    Switching, Tls, Trouble,
};
pub use standard_servers::{Followed, Score, StandardServer};
pub use times::Times;
pub use truth::{Truth, queueing_truth};

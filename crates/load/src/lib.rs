//! The load generator: open load without coordinated omission, and people's sessions.
//!
//! An instrument that judges servers, so its own faults come first: latency counts from the
//! intended start of a request whatever delayed it, arrivals are the same for the same seed
//! whatever the server does, and the report says when the generator itself was the bottleneck.
//!
//! ```no_run
//! use std::time::Duration;
//! use tidegate_load::{ClassPlan, Plan, run_blocking};
//!
//! let plan = Plan::new("http://127.0.0.1:8080/")
//!     .class(ClassPlan::poisson("regular", 90.0).path("/?cost_ms=10"))
//!     .class(ClassPlan::poisson("critical", 20.0).path("/?cost_ms=10").header("x-class", "critical"))
//!     .warmup(Duration::from_secs(2))
//!     .duration(Duration::from_secs(20));
//! let report = run_blocking(plan)?;
//! println!("{} good/s, p95 {} ms", report.total.goodput_per_s, report.percentile(95.0));
//! # Ok::<(), tidegate_load::LoadError>(())
//! ```
//!
//! # Reading order
//!
//! [`plan`] says what a run can do, [`arrivals`] when requests start, [`report`] what comes out.
//! [`origin`] is the server for tests and benchmarks whose capacity is known.

pub mod arrivals;
pub mod cli;

mod client;
mod cookies;
mod engine;
mod error;
mod html;
mod live;
mod onward;
pub mod origin;
mod outcome;
mod pacer;
pub mod plan;
pub mod random;
pub mod report;
mod request;
mod retry;
pub mod session;
pub mod signals;
mod table;
mod tally;
mod tls;
mod trace;
pub mod units;
mod worker;

pub use arrivals::Arrivals;
pub use engine::{run, run_blocking, run_blocking_with, run_with};
pub use error::LoadError;
pub use html::page as html_page;
pub use live::{Live, LiveCounts};
pub use outcome::{ErrorKind, Phase};
pub use plan::{ClassPlan, FollowPlan, Plan, Protocol, RetryPlan, Signatures, TlsPlan, TlsVersions};
pub use report::{ClassReport, Report, Summary};
pub use session::{SessionModel, Sessions};
pub use units::Rate;

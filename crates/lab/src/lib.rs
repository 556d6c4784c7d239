//! The lab: experiments that compare ways of controlling overload, simulated or live, and what they show.
//!
//! An [`Experiment`] is a TOML file: a server, a load, the arms that are compared, what must hold, what is
//! drawn. [`simulated::run`] and [`live::run`] make an [`Outcome`] of it, [`verdict::judge`] holds
//! that against what was stated, and [`report::write`] leaves a page, pictures and the raw figures.
//!
//! ```
//! use tidegate_lab::{Experiment, simulated, verdict};
//!
//! let experiment = Experiment::parse("mine", r#"
//!     title = "A fixed limit under twice the load"
//!     run = { warm_up = "1s", measured = "4s", seeds = 3 }
//!     vary = { load = [0.5, 2] }
//!     load = { arrivals = "poisson", timeout = "1s" }
//!     [[class]]
//!     name = "default"
//!     work = "10ms"
//!     within = "1s"
//!     [[arm]]
//!     name = "fixed limit"
//!     front = "gateway"
//!     settings = { "in_flight.algorithm" = "fixed", "in_flight.limit" = 2 }
//!     [[check]]
//!     name = "goodput holds"
//!     metric = "goodput_share"
//!     arm = "fixed limit"
//!     op = ">="
//!     bar = 0.9
//! "#)?;
//! let quiet = &|_, _| {};
//! let outcome = simulated::run(&experiment, simulated::Options { seed: 1, seeds: None, progress: quiet })?;
//! assert!(verdict::judge(&experiment, &outcome)[0].pass);
//! # Ok::<(), tidegate_lab::LabError>(())
//! ```

pub mod baselines;
pub mod cli;
mod error;
pub mod experiment;
pub mod live;
pub mod metrics;
pub mod outcome;
pub mod plot;
pub mod report;
mod shape;
pub mod simulated;
pub mod site;
pub mod statistics;
mod table;
pub mod verdict;

pub use error::LabError;
pub use experiment::Experiment;
pub use outcome::Outcome;

//! A small auction site after RUBiS, the demo application.
//!
//! Twenty-six interactions (browse, search, view, bid, buy, sell, comment, register), server-rendered, on embedded
//! SQLite with at least 30,000 items, each page with its own queries. On top of what a page costs by itself stands
//! a processor cost that can be set a page, so that the site's capacity is known.
//!
//! It behaves under overload as application servers do: a fixed pool of worker threads, a long queue before it,
//! and a request that was begun is worked to its end whether or not its client is still there. It has no
//! protection of its own, on purpose.
//!
//! ```no_run
//! use std::time::Duration;
//! use tidegate_auction::{Auction, Options};
//!
//! let site = Auction::start(Options { page_cost: Duration::from_millis(10), ..Options::default() })?;
//! println!("http://{}", site.address());
//! site.stop();
//! # Ok::<(), tidegate_auction::Error>(())
//! ```
//!
//! The interactions and what they ask of the database follow RUBiS (Cecchet, Marguerite, Zwaenepoel: Performance and
//! Scalability of EJB Applications, OOPSLA 2002, section 3). Passwords are kept under a deliberately cheap hash.

mod cost;
mod fault;
mod images;
mod interactions;
mod options;
mod pages;
mod parameters;
mod queue;
mod server;
mod sessions;
mod site;
mod store;
mod words;

pub use cost::Costs;
pub use interactions::{Filled, Interaction, Kind, Method, SPECS, Spec, Values};
pub use options::{Error, Options};
pub use server::{Auction, Figures, Running, run};

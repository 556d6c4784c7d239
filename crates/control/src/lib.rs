//! Every decision Tidegate takes, as plain state machines.
//!
//! A machine here receives facts and the present time and answers with a decision that carries
//! its reason. Same inputs, same outputs, on every computer.
//!
//! # Architecture invariant
//!
//! Deliberately absent from this crate: I/O, clocks, threads, locks, async, sources of
//! randomness, and serde. Time ([`Timestamp`]) and random numbers are arguments. The gateway
//! holds the sockets and the locks; the simulator drives the very same types through virtual
//! time.
//!
//! # Reading order
//!
//! [`classify`] says what a request is, [`admission`] whether and when it starts, [`balance`]
//! where it goes. [`knobs`] and [`meters`] are the two tables from which configuration, API,
//! command line and documentation grow. [`processors`] divides a host's among its applications.

pub mod admission;
pub mod archive;
pub mod balance;
pub mod capacity;
pub mod classify;
pub mod client_rate;
pub mod connections;
pub mod controller;
pub mod health;
pub mod ids;
pub mod in_flight;
pub mod keep_alive;
pub mod knobs;
pub mod limit;
pub mod meters;
pub mod priority_header;
pub mod processors;
pub mod queue;
pub mod refusal;
pub mod retry_budget;
pub mod rewrite;
pub mod scheduler;
pub mod share;
pub mod time;
pub mod tls_sessions;
pub mod token_bucket;
pub mod waiting_room;

mod key_table;
mod roster;

pub use ids::{ApplicationId, ClassId, ServerId, Ticket};
pub use refusal::Refusal;
pub use time::Timestamp;

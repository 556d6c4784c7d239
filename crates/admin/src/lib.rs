//! The HTTP API, metrics and health of a running gateway, on an address of its own.

mod history;
mod metrics;
mod page;
mod problem;
mod server;
mod servers;

pub use server::{Admin, BindError};

//! The HTTP API, metrics and health of a running gateway, on an address of its own.

mod metrics;
mod problem;
mod server;
mod servers;

pub use server::{Admin, BindError};

//! The HTTP API, metrics and health of a running gateway, on an address of its own.

mod history;
mod knobs;
mod measurements;
mod metrics;
mod page;
mod parameters;
mod problem;
mod recording;
mod server;
mod servers;

pub use recording::Recording;
pub use server::{Admin, BindError};

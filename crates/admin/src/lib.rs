//! The HTTP API, metrics and health of a running gateway, on an address of its own.

mod capacity;
mod controllers;
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

pub use controllers::{ControllerError, Controllers, check_controllers};
pub use recording::Recording;
pub use server::{Admin, BindError};

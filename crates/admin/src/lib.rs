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
mod rooms;
mod server;
mod servers;
mod waiting_rooms;

pub use controllers::{ControllerError, Controllers, check_controllers};
pub use recording::Recording;
pub use rooms::room_secrets;
pub use server::{Admin, BindError};

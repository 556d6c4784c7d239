//! The HTTP API, metrics and health of a running gateway, on an address of its own.

mod access;
mod body;
mod bypasses;
mod capacity;
mod client;
mod controllers;
mod door;
mod events;
mod found_capacity;
#[cfg(test)]
mod fuzz;
mod knobs;
mod measurements;
mod metrics;
mod openapi;
mod overview;
mod page;
mod parameters;
mod patience;
mod problem;
mod questions;
mod record;
mod recording;
mod reporter;
mod reports;
mod rooms;
mod server;
mod servers;
mod stream;
mod tls;
mod waiting_rooms;
mod watch;

pub use access::TokenError;
pub use client::{Client, ClientError};
pub use controllers::{ControllerError, Controllers, check_controllers, controller_doubts};
pub use openapi::openapi;
pub use recording::Recording;
pub use reporter::Reporter;
pub use rooms::room_secrets;
pub use server::{Admin, AdminError, check_access};
pub use tls::AdminTlsError;

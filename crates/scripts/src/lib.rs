//! The script engine for controllers: a control law in a few lines of Luau, in a sandbox.
//!
//! An [`Engine`] is a [`tidegate_control::controller::Controller`]: the gateway runs it beside its
//! workers, the simulator in virtual time. docs/controllers.md describes what a script sees.
//!
//! # Architecture invariant
//!
//! A script reaches its [`tidegate_control::controller::Host`] and nothing else: no files, no
//! network, no clock. Everything it does is bounded, in steps, memory and lines of log; what it
//! does wrong ends its turn and nothing else.

mod budget;
mod desk;
mod engine;
mod sandbox;
mod values;

pub use desk::PERIOD_MAX;
pub use engine::{Engine, Limits, LoadError, Status};

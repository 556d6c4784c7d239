//! The CPU manager of a host: each application gets the processors it needs, as its priority weighs, and nobody else's.
//!
//! [`run()`] divides the processors once an interval: reads what each application has used ([`Target`]), asks
//! `control::processors` how many each gets and which, has their threads run there, and keeps the account
//! ([`account`]). Applications may ask for processors, and see what they have, on a socket ([`socket`]).

pub mod account;
mod error;
mod host;
mod list;
mod run;
mod serve;
mod settings;
pub mod socket;
mod target;

pub use error::Error;
pub use host::{Holding, Status};
pub use list::List;
pub use run::{check, run};
pub use settings::{Application, Settings, Spare};
pub use target::Target;

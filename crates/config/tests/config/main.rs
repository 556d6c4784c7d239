//! The configuration from outside: files in, settings or faults out.

mod examples;
mod faults;
mod generated;
mod load;
mod schema;

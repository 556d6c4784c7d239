//! The script engine from outside: what a script sees, what it cannot do, and that laws in Rust do the same.

mod examples;
mod hostile;
mod interface;
mod parity;
mod shop;

//! The file and the command line in, validated settings out.

mod settings;

pub use settings::*;

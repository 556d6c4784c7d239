//! The file and the command line in, validated settings out.
//!
//! [`load()`] reads a configuration file, [`Settings::protect`] makes settings of a URL alone. Both
//! answer with [`Settings`] in which every value is in range and every name refers to something,
//! or with [`Faults`]: everything that is wrong, each with place and mend. [`section`] reads files of other kinds.

mod choices;
mod document;
mod doubts;
mod entry;
mod faults;
mod files;
mod load;
mod names;
mod path;
mod print;
mod protect;
mod read;
mod reference;
mod rows;
mod schema;
pub mod section;
mod settings;
mod shape;

pub use faults::{FAULTS_MAX, Fault, Faults, Lines, Place, closest};
pub use files::{open_file, read_file, read_pem};
pub use load::{FILE_BYTES_MAX, load, parse};
pub use names::{ServerUrl, UrlFault, is_address_name, is_class_name};
pub use path::{KnobFault, KnobPath, Target};
pub use print::print;
pub use protect::ProtectOptions;
pub use reference::{knobs_markdown, meters_markdown, reference_markdown};
pub use schema::schema;
pub use settings::*;

//! The experiments that come with the program, as files of the folder `experiments`.

use tidegate_config::Faults;

use super::{
    Experiment,
    read::{self, Files},
};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// What `lab run` knows it by.
    pub name: &'static str,
    text: &'static str,
}

macro_rules! experiments {
    ($($name:literal),+ $(,)?) => {
        /// Every experiment, in the order of docs/lab.md.
        pub const ALL: &[Builtin] = &[
            $(Builtin { name: $name, text: include_str!(concat!("../../../../experiments/", $name, ".toml")) },)+
        ];
    };
}

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        /// Other files of that folder, which experiments name.
        const FILES: &[(&str, &str)] = &[$(($path, include_str!(concat!("../../../../experiments/", $path)))),*];
    };
}

experiments![
    "queueing-truth",
    "overload-knee",
    "retry-storm",
    "masth-home-limit",
    "eac-sessions",
    "ecm-two-servers",
    "webq-burst",
    "webq-again",
    "webq-people",
    "webq-visits",
    "webq-order",
    "waiting-million",
    "webq-discovery",
    "webq-rise",
    "webq-fall",
    "webq-mix",
    "webq-discovery-servers",
    "webq-rise-servers",
    "webq-fall-servers",
    "webq-steady-servers",
    "peers",
    "parity",
];

files![
    "../examples/controllers/home-limit.lua",
    "../examples/controllers/home-hold.lua",
    "peers/nginx.conf",
    "peers/haproxy.conf",
    "peers/envoy.yaml",
];

/// The experiment of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|builtin| builtin.name == name)
}

/// A file of the folder, by the path experiments name it by.
pub(super) fn file(path: &str) -> Option<&'static str> {
    FILES.iter().find(|(name, _)| *name == path).map(|(_, text)| *text)
}

impl Builtin {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// Faults in the file; a test holds that there are none.
    pub fn experiment(&self) -> Result<Experiment, Faults> {
        read::parse(self.name, &format!("experiments/{}.toml", self.name), self.text, &Files::Builtin)
    }
}

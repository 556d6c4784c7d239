//! Proxies that are not ours: how each is started.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::program;

/// A proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// Envoy.
    Envoy,
}

impl Peer {
    /// Every one.
    pub const ALL: &'static [Self] = &[Self::Nginx, Self::Haproxy, Self::Envoy];

    /// Its name in experiments, and its program's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
        }
    }

    /// Its program, if it is there.
    #[must_use]
    pub fn program(self) -> Option<PathBuf> {
        program(self.name())
    }

    /// What it says of its version, in one line.
    pub(super) fn version(self) -> String {
        let argument = if self == Self::Envoy { "--version" } else { "-v" };
        let said = self.program().and_then(|program| Command::new(program).arg(argument).output().ok());
        let lines = said.map(|said| [said.stdout, said.stderr].concat()).unwrap_or_default();
        let lines = String::from_utf8_lossy(&lines).into_owned();
        // HAProxy's first line ends with its address, Envoy's begins empty.
        lines.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown").to_owned()
    }

    /// Its arguments for a configuration file, in the foreground and with one worker.
    pub(super) fn arguments(self, configuration: &Path, folder: &Path) -> Vec<String> {
        let (configuration, folder) = (configuration.display().to_string(), folder.display().to_string());
        match self {
            Self::Nginx => vec!["-p".to_owned(), folder, "-c".to_owned(), configuration],
            Self::Haproxy => vec!["-db".to_owned(), "-f".to_owned(), configuration],
            Self::Envoy => {
                let fixed = ["--concurrency", "1", "--disable-hot-restart", "--log-level", "error", "-c"];
                fixed.into_iter().map(str::to_owned).chain([configuration]).collect()
            }
        }
    }

    /// The ending its configuration file must have.
    pub(super) const fn ending(self) -> &'static str {
        match self {
            Self::Nginx | Self::Haproxy => "conf",
            Self::Envoy => "yaml",
        }
    }
}

//! Why a run could not be made: every fault names the thing, the place and the mend.

use std::{io, path::PathBuf};

/// A run that did not take place. Faults of the server under load are no errors but results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The plan contradicts itself or leaves the ranges; all faults at once.
    #[error("the plan has {} fault(s):\n  {}", .0.len(), .0.join("\n  "))]
    Plan(Vec<String>),
    /// The plan's file cannot be read or is no TOML of the right form.
    #[error("{path}: {fault}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with the line where known.
        fault: String,
    },
    /// The target's name has no address.
    #[error("cannot resolve `{host}`: {source}; correct the host in the URL or its DNS entry")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// Nothing listens at the target.
    #[error("cannot connect to {target}: {source}; start the server or correct the URL")]
    Unreachable {
        /// Host and port.
        target: String,
        /// What connecting said.
        source: io::Error,
    },
    /// Certificates or TLS settings do not work.
    #[error("TLS: {fault}; {mend}")]
    Tls {
        /// What does not work.
        fault: String,
        /// What to do about it.
        mend: &'static str,
    },
    /// The system refused a thread, a timer or a processor.
    #[error("cannot {attempt}: {source}")]
    System {
        /// What was tried.
        attempt: String,
        /// What the system said.
        source: io::Error,
    },
    /// A thread of the generator panicked; its figures are lost, so there is no report.
    #[error("a generator thread panicked: this is a defect of the load generator, please report it")]
    Panicked,
}

impl LoadError {
    /// Whether the fault lies in what was asked for (exit code 2), a server that is not there among it,
    /// and not in the machine or the program (1).
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        match self {
            Self::Plan(_)
            | Self::File { .. }
            | Self::Resolve { .. }
            | Self::Unreachable { .. }
            | Self::Tls { .. } => true,
            Self::System { .. } | Self::Panicked => false,
        }
    }
}

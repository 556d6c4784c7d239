//! What goes wrong in the lab, and whose fault it is.

use std::{io, path::PathBuf, process::ExitCode};

use tidegate_config::Faults;

/// Why an experiment was not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The experiment's file is at fault: every fault with its place and mend.
    #[error("{0}")]
    Experiment(#[from] Faults),
    /// There is no built-in experiment or file of that name.
    #[error("{name}: there is no such experiment: {mend}")]
    NoSuchExperiment {
        /// As asked for.
        name: String,
        /// What there is.
        mend: String,
    },
    /// Something that was asked for does not fit together or is not there.
    #[error("{what}: {mend}")]
    Input {
        /// Thing and place.
        what: String,
        /// What to do about it.
        mend: String,
    },
    /// A file could not be read or written.
    #[error("{path}: cannot {attempt}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        attempt: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The result could not be written.
    #[error("standard output: {0}")]
    Output(io::Error),
    /// A run failed.
    #[error("{0}")]
    Run(String),
    /// A signal ended it.
    #[error("ended by a signal: nothing of it is kept; run it again")]
    Interrupted,
}

impl LabError {
    /// An input that does not fit.
    pub(crate) fn input(what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self::Input { what: what.into(), mend: mend.into() }
    }

    /// 2 for bad input, 1 for work that failed.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Experiment(_) | Self::NoSuchExperiment { .. } | Self::Input { .. } => ExitCode::from(2),
            Self::File { .. } | Self::Output(_) | Self::Run(_) | Self::Interrupted => ExitCode::FAILURE,
        }
    }
}

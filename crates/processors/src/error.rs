//! What can go wrong.

use std::{io, path::PathBuf};

/// Why something was not done, with its place and its mend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file says what cannot be.
    #[error(transparent)]
    Settings(#[from] tidegate_config::Faults),
    /// A file cannot be read or written.
    #[error("{}: {source}; {mend}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// What to do.
        mend: &'static str,
    },
    /// The application does not run, or not where it is looked for.
    #[error("{what}; {mend}")]
    Absent {
        /// What is not there.
        what: String,
        /// What to do.
        mend: &'static str,
    },
    /// The threads of a process cannot be moved.
    #[error(
        "process {process}: its threads cannot be given processors ({source}); run this with CAP_SYS_NICE"
    )]
    Affinity {
        /// Its number.
        process: i32,
        /// Why.
        source: io::Error,
    },
    /// systemd did not do what it was asked.
    #[error("systemctl {asked}: {answer}")]
    Systemd {
        /// Its arguments.
        asked: String,
        /// What it said.
        answer: String,
    },
    /// Nobody answers at the socket, or not what was asked.
    #[error("{}: {what}; see that \"tidegate processors run\" runs and listens there", socket.display())]
    Socket {
        /// Which.
        socket: PathBuf,
        /// What happened.
        what: String,
    },
    /// The manager refuses what was asked.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error, mend: &'static str) -> Self {
        Self::File { path: path.into(), source, mend }
    }
}

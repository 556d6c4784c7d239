//! Durability: archives, lasting changes of knobs, the record of changes, waiting rooms and the capacity found survive restart
//! and kill.
//!
//! All but waiting rooms and capacities lies in one SQLite database (`tidegate.sqlite` in the state directory) in WAL mode.
//! A process that is killed loses what its [`Writer`] had not been given; a machine that loses
//! power can lose some seconds of archives more, but no change of a knob that was confirmed, and
//! never the database.
//!
//! # Architecture invariant
//!
//! Nothing here decides anything, and nobody waits for the disk but who asks for a confirmation.
//! When the disk fails, that is said, and everything else goes on in memory.

mod capacities;
mod changes;
mod database;
mod files;
mod points;
mod rooms;
mod writer;

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
};

pub use capacities::{capacity_file, read_capacity, write_capacity};
pub use changes::{Change, ChangeRecord, Override};
pub use database::Database;
pub use points::{Batch, Loaded};
pub use rooms::{
    RoomKey, StoredSecrets, has_room_secrets, read_room, read_room_secrets, write_room, write_room_secrets,
};
pub use writer::{Status, Writer};

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory cannot be made or written.
    #[error("state directory {path}: {source}: {}", mend(source))]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The file of waiting rooms' keys holds none.
    #[error(
        "{path}: is no file of waiting rooms' keys: put the right one back, or move it away and new keys are made"
    )]
    NoKeys {
        /// The file.
        path: PathBuf,
    },
    /// It could not be opened yet.
    #[error("state directory {path} is not open: {reason}")]
    NotOpen {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Another process has it.
    #[error("state directory {path}: another Tidegate process has it; it is taken over when that one ends")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The database is of a later version of Tidegate.
    #[error(
        "{path}: written by a later version of Tidegate (format {found}, known {known}): run that version, or move the file away"
    )]
    Version {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The format this version writes.
        known: i64,
    },
    /// The disk, or the space the archives may take, is full.
    #[error("{path}: no room: {source}: free some, or raise state_bytes_max")]
    Full {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The database cannot be read as one.
    #[error(
        "{path}: {source}: it is damaged: move it away, with {path}-wal and {path}-shm if they are there, and a new one is made, also while Tidegate runs"
    )]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The database, or its directory, is not to be written, or not to be read.
    #[error("{path}: {source}: let Tidegate's user read and write that file, and its directory")]
    Denied {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The database was removed or replaced while it was open.
    #[error(
        "{path}: it was taken away while in use, and what lasted with it: the one that is there, or a new one, is used from now on; make lasting changes again"
    )]
    Gone {
        /// The database.
        path: PathBuf,
    },
    /// Anything else that SQLite says.
    #[error("{path}: {source}")]
    Database {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The writer has ended.
    #[error("the state directory is closed: Tidegate is ending")]
    Closed,
}

/// What helps against an error of a file or its directory.
fn mend(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some room",
        ErrorKind::AlreadyExists
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::InvalidData => "move away what is there",
        ErrorKind::ReadOnlyFilesystem => {
            "name one elsewhere, or let systemd's unit write there (StateDirectory=, ReadWritePaths=)"
        }
        _ => "make it, and let Tidegate's user write there",
    }
}

#[cfg(test)]
mod tests;

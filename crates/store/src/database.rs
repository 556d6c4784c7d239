//! The database: opened, locked, versioned, copied.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::{Error, files};

/// The format that this version writes, and the only one so far.
const FORMAT: i64 = 1;
const FILE: &str = "tidegate.sqlite";
const LOCK: &str = "tidegate.lock";
const PAGE_BYTES: u32 = 4096;

const SCHEMA: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE subjects (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, scope TEXT NOT NULL);
-- The points of one resolution and time, of every subject: id, length, bytes, one after the other.
CREATE TABLE points (step_ms INTEGER NOT NULL, slot INTEGER NOT NULL, data BLOB NOT NULL);
CREATE UNIQUE INDEX points_by_time ON points (step_ms, slot);
CREATE TABLE overrides (path TEXT PRIMARY KEY, value TEXT NOT NULL, who TEXT NOT NULL, why TEXT NOT NULL,
    at_nanos INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE changes (id INTEGER PRIMARY KEY AUTOINCREMENT, at_nanos INTEGER NOT NULL, who TEXT NOT NULL,
    why TEXT NOT NULL, lasting INTEGER NOT NULL, knobs TEXT NOT NULL);
";

/// The database of a state directory, held by this process alone.
#[derive(Debug)]
pub struct Database {
    pub(crate) connection: Connection,
    pub(crate) file: PathBuf,
    /// Rows of each resolution, by its step in milliseconds; the newest slot.
    pub(crate) kept: Vec<crate::points::Kept>,
    /// Which file it is: device and inode.
    identity: (u64, u64),
    _lock: File,
}

impl Database {
    /// Opens the database in `directory`, making both if they are not there. It takes at most
    /// `bytes_max` on disk, and up to 32 MiB more in its log.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn open(directory: &Path, bytes_max: u64) -> Result<Self, Error> {
        let lock = lock(directory)?;
        let file = directory.join(FILE);
        let fail = |source| describe(&file, source);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&file, flags).map_err(fail)?;
        prepare(&connection, bytes_max).map_err(fail)?;
        let found = format_of(&connection).map_err(fail)?;
        match found {
            FORMAT => {}
            0 => {
                let transaction = connection.transaction().map_err(fail)?;
                transaction.execute_batch(SCHEMA).map_err(fail)?;
                transaction.pragma_update(None, "user_version", FORMAT).map_err(fail)?;
                transaction.commit().map_err(fail)?;
            }
            found => return Err(Error::Version { path: file, found, known: FORMAT }),
        }
        let identity = identity(&file).map_err(|source| Error::Directory { path: file.clone(), source })?;
        Ok(Self { connection, file, kept: Vec::new(), identity, _lock: lock })
    }

    /// Whether its file is still where it was opened: what is written to one that was removed is kept by nobody.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        match identity(&self.file) {
            Ok(identity) => identity == self.identity,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Opens the database to read what lasts, beside a process that may be writing; `None` if there
    /// is none yet.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub(crate) fn read(directory: &Path) -> Result<Option<(Connection, PathBuf)>, Error> {
        let file = directory.join(FILE);
        if !file.exists() {
            return Ok(None);
        }
        let fail = |source| describe(&file, source);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&file, flags).map_err(fail)?;
        connection.busy_timeout(Duration::from_secs(5)).map_err(fail)?;
        match format_of(&connection).map_err(fail)? {
            0 => Ok(None),
            FORMAT => Ok(Some((connection, file))),
            found => Err(Error::Version { path: file, found, known: FORMAT }),
        }
    }

    /// Writes a copy of the database, as it is at this moment, to a file that is not there yet. A
    /// directory with that file as `tidegate.sqlite` is a state directory.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn copy_to(&self, file: &Path) -> Result<(), Error> {
        let name = file.to_string_lossy();
        self.connection
            .execute("VACUUM INTO ?1", [name.as_ref()])
            .map(drop)
            .map_err(|source| describe(file, source))
    }

    /// Bytes the database takes on disk, without its log.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn bytes(&self) -> Result<u64, Error> {
        let number = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let bytes = number("page_count").and_then(|count| Ok(count * number("page_size")?));
        bytes.map(|bytes| u64::try_from(bytes).unwrap_or(0)).map_err(|source| self.fail(source))
    }

    pub(crate) fn fail(&self, source: rusqlite::Error) -> Error {
        describe(&self.file, source)
    }
}

fn identity(file: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(file).map(|file| (file.dev(), file.ino()))
}

/// The lock that keeps a second process out; it goes with the file.
fn lock(directory: &Path) -> Result<File, Error> {
    let fail = |source| Error::Directory { path: directory.to_owned(), source };
    files::make(directory).map_err(fail)?;
    let file =
        File::options().create(true).truncate(false).write(true).open(directory.join(LOCK)).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: directory.to_owned() }),
        Err(TryLockError::Error(source)) => Err(fail(source)),
    }
}

fn prepare(connection: &Connection, bytes_max: u64) -> rusqlite::Result<()> {
    // Only readers of ours are beside us, and they are quick.
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    // What is committed is in the kernel's hands and survives a kill; the disk is waited for at
    // checkpoints, and where a change of a knob is confirmed.
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "wal_autocheckpoint", 1000)?;
    connection.pragma_update(None, "journal_size_limit", 16 * 1024 * 1024)?;
    let pages = i64::try_from(bytes_max / u64::from(PAGE_BYTES)).unwrap_or(i64::MAX).clamp(64, 4_294_967_294);
    connection.pragma_update(None, "max_page_count", pages)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

fn format_of(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

pub(crate) fn describe(file: &Path, source: rusqlite::Error) -> Error {
    let path = file.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::Full { path, source },
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Error::Damaged { path, source },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            Error::Denied { path, source }
        }
        _ => Error::Database { path, source },
    }
}

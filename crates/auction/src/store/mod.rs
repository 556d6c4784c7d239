//! The database: one file, generated at the first start, a connection of its own for each worker.

mod password;
mod seed;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::{Error, Options};

pub(crate) use password::{hash, matches};

/// Where the content lies, and what its connections share.
#[derive(Debug)]
pub(crate) struct Store {
    file: PathBuf,
    opened_unix_s: i64,
    durable: bool,
    /// SQLite lets one writer in at a time, and the others sleep and try again. Here they wait in line.
    writing: Mutex<()>,
    _temporary: Option<TempDir>,
}

impl Store {
    /// Opens the database of `options`, generating it first where there is none.
    pub(crate) fn open(options: &Options) -> Result<Self, Error> {
        for (option, value) in [("items", options.items), ("users", options.users)] {
            if !(1..=1_000_000).contains(&value) {
                return Err(Error::OutOfRange { option, value });
            }
        }
        let (folder, temporary) = match &options.directory {
            Some(folder) => (folder.clone(), None),
            None => {
                let folder = tempfile::Builder::new().prefix("tidegate-auction-").tempdir();
                let folder =
                    folder.map_err(|source| Error::Directory { path: std::env::temp_dir(), source })?;
                (folder.path().to_owned(), Some(folder))
            }
        };
        std::fs::create_dir_all(&folder)
            .map_err(|source| Error::Directory { path: folder.clone(), source })?;
        let file = folder.join("auction.sqlite");
        if !file.exists() {
            generate(&file, options)?;
        }
        let mut store = Self {
            file,
            opened_unix_s: 0,
            durable: temporary.is_none(),
            writing: Mutex::new(()),
            _temporary: temporary,
        };
        store.read_site(options)?;
        Ok(store)
    }

    /// A connection for one worker.
    pub(crate) fn connect(&self) -> Result<Connection, Error> {
        let connect = || -> rusqlite::Result<Connection> {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&self.file, flags)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            // In WAL mode readers and the writer do not wait for each other.
            connection.pragma_update(None, "journal_mode", "wal")?;
            connection.pragma_update(None, "synchronous", if self.durable { "normal" } else { "off" })?;
            connection.pragma_update(None, "foreign_keys", true)?;
            connection.pragma_update(None, "mmap_size", 256 * 1024 * 1024)?;
            connection.set_prepared_statement_cache_capacity(64);
            Ok(connection)
        };
        connect().map_err(|source| Error::Database { path: self.file.clone(), source })
    }

    /// Seconds since the site opened, by the system's clock.
    pub(crate) fn now_s(&self) -> i64 {
        unix_s() - self.opened_unix_s
    }

    /// The turn to write; held for one transaction.
    pub(crate) fn turn_to_write(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_site(&mut self, options: &Options) -> Result<(), Error> {
        let row =
            self.connect()?.query_row("SELECT opened_unix_s, items, users, seed FROM site", [], |row| {
                Ok((
                    row.get(0)?,
                    (row.get::<_, u32>(1)?, row.get::<_, u32>(2)?, row.get::<_, i64>(3)?.cast_unsigned()),
                ))
            });
        let (opened, found) = row.map_err(|source| Error::Database { path: self.file.clone(), source })?;
        let wanted = (options.items, options.users, options.seed);
        if found != wanted {
            let say = |(items, users, seed)| format!("{items} items, {users} users, seed {seed}");
            return Err(Error::OtherSite { path: self.file.clone(), found: say(found), wanted: say(wanted) });
        }
        self.opened_unix_s = opened;
        Ok(())
    }
}

/// Writes the content into a file beside its place, then puts it there, so that no half is ever opened.
fn generate(file: &Path, options: &Options) -> Result<(), Error> {
    let unfinished = file.with_extension(format!("unfinished-{}", std::process::id()));
    let database = |source| Error::Database { path: unfinished.clone(), source };
    let directory = |source| Error::Directory { path: unfinished.clone(), source };
    if unfinished.exists() {
        std::fs::remove_file(&unfinished).map_err(directory)?;
    }
    let mut connection = Connection::open(&unfinished).map_err(database)?;
    // A crash leaves an unfinished file, never a broken site: no journal is needed.
    connection.execute_batch("PRAGMA journal_mode = off; PRAGMA synchronous = off;").map_err(database)?;
    seed::fill(&mut connection, options, unix_s()).map_err(database)?;
    connection.close().map_err(|(_, source)| database(source))?;
    std::fs::rename(&unfinished, file).map_err(directory)
}

fn unix_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

//! Changes of knobs: which last, and the record of who changed what, when and why.

use rusqlite::params;
use tidegate_control::Timestamp;

use crate::{Database, Error};

/// Changes remembered; the oldest go.
const CHANGES_MAX: i64 = 10_000;

/// A change of knobs, to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub who: String,
    /// Why.
    pub why: String,
    /// Whether it outlasts the process.
    pub lasting: bool,
    /// What was changed from what to what, in the words of whoever records it.
    pub knobs: String,
    /// Paths that last from now on with their value, and those that last no more.
    pub overrides: Vec<(String, Option<String>)>,
}

/// A recorded change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRecord {
    /// Its number; later ones are larger.
    pub id: i64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub who: String,
    /// Why.
    pub why: String,
    /// Whether it outlasts the process.
    pub lasting: bool,
    /// What was changed, as recorded.
    pub knobs: String,
}

/// A value that outlasts the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The knob's path.
    pub path: String,
    /// Its value as people write it.
    pub value: String,
    /// Who set it.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Timestamp,
}

impl Database {
    /// The values that last, read beside a process that may be writing. Empty if there is no
    /// database yet.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn overrides(directory: &std::path::Path) -> Result<Vec<Override>, Error> {
        let Some((connection, file)) = Self::read(directory)? else { return Ok(Vec::new()) };
        let read = || {
            let mut statement =
                connection.prepare("SELECT path, value, who, why, at_nanos FROM overrides ORDER BY path")?;
            let rows = statement.query_map((), |row| {
                Ok(Override {
                    path: row.get(0)?,
                    value: row.get(1)?,
                    who: row.get(2)?,
                    why: row.get(3)?,
                    at: timestamp(row.get(4)?),
                })
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|source| crate::database::describe(&file, source))
    }

    /// Records a change and what lasts of it; gives its number. A change that lasts is on the disk
    /// when this returns.
    ///
    /// # Errors
    ///
    /// [`Error`]; nothing is recorded.
    pub fn record(&mut self, change: &Change) -> Result<i64, Error> {
        let synchronous = if change.overrides.is_empty() { "normal" } else { "full" };
        let recorded = self
            .connection
            .pragma_update(None, "synchronous", synchronous)
            .and_then(|()| self.try_record(change));
        // It only fails inside a transaction, and there is none.
        let _ = self.connection.pragma_update(None, "synchronous", "normal");
        recorded.map_err(|source| self.fail(source))
    }

    fn try_record(&mut self, change: &Change) -> rusqlite::Result<i64> {
        let transaction = self.connection.transaction()?;
        transaction
            .prepare_cached(
                "INSERT INTO changes (at_nanos, who, why, lasting, knobs) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![nanos(change.at), change.who, change.why, change.lasting, change.knobs])?;
        let id = transaction.last_insert_rowid();
        for (path, value) in &change.overrides {
            match value {
                Some(value) => transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO overrides (path, value, who, why, at_nanos) VALUES (?1, ?2, ?3, ?4, ?5)",
                    )?
                    .execute(params![path, value, change.who, change.why, nanos(change.at)])?,
                None => transaction.prepare_cached("DELETE FROM overrides WHERE path = ?1")?.execute([path])?,
            };
        }
        transaction.prepare_cached("DELETE FROM changes WHERE id <= ?1")?.execute([id - CHANGES_MAX])?;
        transaction.commit()?;
        Ok(id)
    }

    /// Recorded changes older than `before`, the latest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn changes(&self, before: Option<i64>, limit: usize) -> Result<Vec<ChangeRecord>, Error> {
        let read = || {
            let mut statement = self.connection.prepare_cached(
                "SELECT id, at_nanos, who, why, lasting, knobs FROM changes WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
            )?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = statement.query_map(params![before.unwrap_or(i64::MAX), limit], |row| {
                Ok(ChangeRecord {
                    id: row.get(0)?,
                    at: timestamp(row.get(1)?),
                    who: row.get(2)?,
                    why: row.get(3)?,
                    lasting: row.get(4)?,
                    knobs: row.get(5)?,
                })
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|source| self.fail(source))
    }
}

fn nanos(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)
}

fn timestamp(nanos: i64) -> Timestamp {
    Timestamp::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

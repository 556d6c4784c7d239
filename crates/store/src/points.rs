//! Points of archives: written a batch at a time, read back at the start, bounded in number.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rusqlite::{Connection, params};
use tidegate_control::{
    archive::{Archives, Closed, Layout},
    knobs::Scope,
    meters::Meter,
};

use crate::{Database, Error};

/// Points that closed at the same time, of every subject, as they are written.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    points: Vec<BatchPoint>,
}

/// One of them.
#[derive(Clone, Debug)]
struct BatchPoint {
    path: String,
    scope: Scope,
    resolution: usize,
    slot: u64,
    bytes: Box<[u8]>,
}

/// What is kept of one resolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    step_ms: i64,
    rows: i64,
    rows_max: i64,
    newest: i64,
}

/// Rows are deleted this many at a time, once so many are too many.
const SPARE_ROWS: i64 = 60;
/// The finest resolution may go back by this many points before what is later is forgotten, as in
/// the archives.
const HELD_POINTS: i64 = 60;

impl Batch {
    /// Adds a point of the subject at `path`.
    pub fn add(&mut self, path: &str, scope: Scope, point: Closed<'_>) {
        self.points.push(BatchPoint {
            path: path.to_owned(),
            scope,
            resolution: point.resolution,
            slot: point.slot,
            bytes: point.bytes.into(),
        });
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Adds its points to archives that go on where others ended, and gives those that closed there.
    /// Only those of the finest resolution: the coarser ones are made of them anew, together with what
    /// is there already of the same time.
    #[must_use]
    pub fn append_to(&self, archives: &mut Archives) -> Self {
        let mut closed = Self::default();
        for BatchPoint { path, scope, slot, bytes, .. } in self.points.iter().filter(|p| p.resolution == 0) {
            // Its bytes are sound; there may be too many subjects, as when it was measured.
            let _ = archives.append(path, *scope, *slot, bytes, |point| closed.add(path, *scope, point));
        }
        closed
    }
}

impl Database {
    /// Makes the database fit a layout and the present table of meters: points of resolutions that
    /// are no more go. If the finest resolution has another step, or the table other rows, the
    /// points cannot be read and all go.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn fit(&mut self, layout: &Layout) -> Result<(), Error> {
        let steps: Vec<i64> = layout.resolutions().iter().map(|r| millis(r.step)).collect();
        let finest = steps.first().copied().unwrap_or(0);
        let kept = (|| {
            let transaction = self.connection.transaction()?;
            let columns = columns();
            let same = meta(&transaction, "columns")?.is_none_or(|before| before == columns)
                && meta(&transaction, "finest_ms")?.is_none_or(|before| before == finest.to_string());
            if !same {
                tracing::warn!("the kept archives are of another format and begin anew");
                transaction.execute("DELETE FROM points", ())?;
            }
            set_meta(&transaction, "columns", &columns)?;
            set_meta(&transaction, "finest_ms", &finest.to_string())?;
            let mut kept = Vec::new();
            for (step_ms, resolution) in steps.iter().zip(layout.resolutions()) {
                let (rows, newest): (i64, Option<i64>) = transaction.query_row(
                    "SELECT count(*), max(slot) FROM points WHERE step_ms = ?1",
                    [step_ms],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )?;
                kept.push(Kept {
                    step_ms: *step_ms,
                    rows,
                    rows_max: i64::try_from(resolution.keep.as_nanos().div_ceil(resolution.step.as_nanos()))
                        .unwrap_or(i64::MAX),
                    newest: newest.unwrap_or(-1),
                });
            }
            let list = steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            transaction.execute(&format!("DELETE FROM points WHERE step_ms NOT IN ({list})"), ())?;
            transaction.commit()?;
            Ok(kept)
        })()
        .map_err(|source| self.fail(source))?;
        self.kept = kept;
        Ok(())
    }

    /// Every point kept, put into archives of the layout given to [`Database::fit`]. What is broken
    /// is left out and counted.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn load(&mut self, archives: &mut Archives) -> Result<Loaded, Error> {
        self.load_points(archives).map_err(|source| self.fail(source))
    }

    fn load_points(&self, archives: &mut Archives) -> rusqlite::Result<Loaded> {
        let mut subjects = BTreeMap::new();
        let mut statement = self.connection.prepare("SELECT id, path, scope FROM subjects")?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let (id, path, scope): (u32, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if let Some(scope) = Scope::ALL.iter().find(|known| known.name() == scope) {
                subjects.insert(id, (path, *scope));
            }
        }
        let (mut loaded, mut seen) = (Loaded::default(), BTreeSet::new());
        let mut statement =
            self.connection.prepare("SELECT slot, data FROM points WHERE step_ms = ?1 ORDER BY slot")?;
        for (resolution, kept) in self.kept.iter().enumerate() {
            let mut rows = statement.query([kept.step_ms])?;
            while let Some(row) = rows.next()? {
                let slot = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
                // Text, too: an earlier version left it where a row was added to.
                let mut data = row.get_ref(1)?.as_bytes()?;
                while let Some((id, bytes)) = take(&mut data) {
                    let restored = subjects.get(&id).is_some_and(|(path, scope)| {
                        archives.restore(path, *scope, resolution, slot, bytes).is_ok()
                    });
                    seen.insert(id);
                    if restored {
                        loaded.points += 1;
                    } else {
                        loaded.broken += 1;
                    }
                }
            }
        }
        archives.resume();
        // Nothing is known any more of those that have no point.
        let mut forget = self.connection.prepare("DELETE FROM subjects WHERE id = ?1")?;
        for id in subjects.keys().filter(|id| !seen.contains(id)) {
            forget.execute([id])?;
        }
        Ok(loaded)
    }

    /// Writes a batch; all of it or nothing. The oldest points go when there are more than the
    /// layout says, or when there is no more room.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn append(&mut self, batch: &Batch) -> Result<(), Error> {
        let mut result = self.try_append(batch);
        if result
            .as_ref()
            .is_err_and(|source| source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull))
        {
            // Room is made within the file, which a full disk does not grow.
            result = self.make_room().and_then(|()| self.try_append(batch));
        }
        result.map_err(|source| self.fail(source))
    }

    fn try_append(&mut self, batch: &Batch) -> rusqlite::Result<()> {
        let mut kept = self.kept.clone();
        let mut rows: BTreeMap<(usize, u64), Vec<u8>> = BTreeMap::new();
        let transaction = self.connection.transaction()?;
        {
            let mut subject = transaction.prepare_cached(
                "INSERT INTO subjects (path, scope) VALUES (?1, ?2) ON CONFLICT (path) DO UPDATE SET scope = excluded.scope
                 WHERE scope != excluded.scope",
            )?;
            let mut find = transaction.prepare_cached("SELECT id FROM subjects WHERE path = ?1")?;
            for BatchPoint { path, scope, resolution, slot, bytes } in &batch.points {
                subject.execute(params![path, scope.name()])?;
                let id: u32 = find.query_row([path], |row| row.get(0))?;
                put(rows.entry((*resolution, *slot)).or_default(), id, bytes);
            }
            forget_future(&transaction, &mut kept, &rows)?;
            // What is joined is text to SQLite.
            let mut write = transaction.prepare_cached(
                "INSERT INTO points (step_ms, slot, data) VALUES (?1, ?2, ?3)
                 ON CONFLICT (step_ms, slot) DO UPDATE SET data = CAST(data || excluded.data AS BLOB)",
            )?;
            let mut delete = transaction.prepare_cached(
                "DELETE FROM points WHERE rowid IN
                 (SELECT rowid FROM points WHERE step_ms = ?1 ORDER BY slot LIMIT ?2)",
            )?;
            for ((resolution, slot), data) in &rows {
                let Some(kept) = kept.get_mut(*resolution) else { continue };
                let slot = i64::try_from(*slot).unwrap_or(i64::MAX);
                write.execute(params![kept.step_ms, slot, data])?;
                if slot > kept.newest {
                    kept.newest = slot;
                    kept.rows += 1;
                }
                if kept.rows >= kept.rows_max + SPARE_ROWS {
                    let gone = delete.execute(params![kept.step_ms, kept.rows - kept.rows_max])?;
                    kept.rows -= counted(gone);
                }
            }
        }
        transaction.commit()?;
        self.kept = kept;
        Ok(())
    }

    /// Forgets the oldest eighth of each resolution.
    fn make_room(&mut self) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let mut kept = self.kept.clone();
        for kept in &mut kept {
            let rows = transaction.execute(
                "DELETE FROM points WHERE rowid IN (SELECT rowid FROM points WHERE step_ms = ?1 ORDER BY slot LIMIT ?2)",
                params![kept.step_ms, kept.rows / 8 + 1],
            )?;
            kept.rows -= counted(rows);
        }
        transaction.commit()?;
        self.kept = kept;
        Ok(())
    }
}

/// What [`Database::load`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Points put into archives.
    pub points: usize,
    /// Points that could not be.
    pub broken: usize,
}

/// Where the clock was set back further than is held, the archives forget what is later, and so
/// does the database.
fn forget_future(
    connection: &Connection,
    kept: &mut [Kept],
    rows: &BTreeMap<(usize, u64), Vec<u8>>,
) -> rusqlite::Result<()> {
    let Some(finest) = kept.first().copied() else { return Ok(()) };
    let Some(((_, slot), _)) = rows.range((0, 0)..(1, 0)).next() else { return Ok(()) };
    let slot = i64::try_from(*slot).unwrap_or(i64::MAX);
    if slot + HELD_POINTS >= finest.newest {
        return Ok(());
    }
    for kept in kept {
        let from = slot * finest.step_ms / kept.step_ms;
        let gone = connection
            .execute("DELETE FROM points WHERE step_ms = ?1 AND slot >= ?2", params![kept.step_ms, from])?;
        kept.rows -= counted(gone);
        kept.newest = kept.newest.min(from - 1);
    }
    Ok(())
}

/// The rows of the table of meters in the order in which points hold them.
fn columns() -> String {
    let columns: Vec<String> = Meter::ALL
        .iter()
        .map(|meter| {
            format!(
                "{}.{}:{:?}:{}",
                meter.scope().name(),
                meter.name(),
                meter.kind(),
                meter.labels().join("/")
            )
        })
        .collect();
    columns.join(" ")
}

fn meta(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
    let mut rows = statement.query([name])?;
    rows.next()?.map(|row| row.get(0)).transpose()
}

fn set_meta(connection: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    connection.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)", [name, value]).map(drop)
}

fn put(data: &mut Vec<u8>, id: u32, bytes: &[u8]) {
    data.extend_from_slice(&id.to_le_bytes());
    data.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    data.extend_from_slice(bytes);
}

fn take<'a>(data: &mut &'a [u8]) -> Option<(u32, &'a [u8])> {
    let (id, rest) = data.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *data = rest;
    Some((u32::from_le_bytes(*id), bytes))
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn counted(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

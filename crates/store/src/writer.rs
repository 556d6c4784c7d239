//! The thread that writes: nobody else waits for the disk.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tidegate_control::archive::{Archives, Layout};

use crate::{Batch, Change, ChangeRecord, Database, Error};

/// Orders that wait for the writer; batches beyond are not kept.
const ORDERS_MAX: usize = 64;
/// Batches kept while the disk fails, one a second.
const UNWRITTEN_MAX: usize = 600;
/// Changes kept while the disk fails.
const UNRECORDED_MAX: usize = 1000;
/// Time between two tries to open the database.
const RETRY: Duration = Duration::from_secs(2);

/// Writes to a state directory on a thread of its own.
#[derive(Debug)]
pub struct Writer {
    orders: SyncSender<Order>,
    status: Arc<Mutex<Status>>,
    thread: Option<JoinHandle<()>>,
}

/// How the state directory does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is being opened and read.
    Opening,
    /// What comes is written.
    Open,
    /// It cannot be used; everything goes on in memory.
    Failing(String),
}

/// Receives the answer to an order.
type Reply<T> = SyncSender<Result<T, Error>>;

enum Order {
    Append(Batch),
    Record(Box<Change>, Reply<i64>),
    Note(Box<Change>),
    Changes { before: Option<i64>, limit: usize, reply: Reply<Vec<ChangeRecord>> },
    Copy(PathBuf, Reply<()>),
}

impl Writer {
    /// Opens `directory`, reads its archives and gives them to `opened`, which gives back what has
    /// been measured meanwhile and shall be written. If it cannot be opened, that is said and tried
    /// again until it can. One that takes the place of another process (`succeeds`) waits for it to end.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn start(
        directory: &Path,
        bytes_max: u64,
        layout: Layout,
        succeeds: bool,
        opened: impl FnOnce(Archives) -> Vec<Batch> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (orders, received) = mpsc::sync_channel(ORDERS_MAX);
        let status = Arc::new(Mutex::new(Status::Opening));
        let work = Work {
            directory: directory.to_owned(),
            bytes_max,
            layout,
            succeeds,
            opened: Some(opened),
            orders: received,
            status: Arc::clone(&status),
            unwritten: VecDeque::new(),
            unrecorded: VecDeque::new(),
        };
        let thread =
            std::thread::Builder::new().name("tidegate-store".to_owned()).spawn(move || work.run())?;
        Ok(Self { orders, status, thread: Some(thread) })
    }

    /// How the state directory does.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has a batch written soon; false if so many wait already that this one will not be.
    #[must_use]
    pub fn append(&self, batch: Batch) -> bool {
        !matches!(self.orders.try_send(Order::Append(batch)), Err(TrySendError::Full(_)))
    }

    /// Records a change, and waits until that is done; gives its number.
    ///
    /// # Errors
    ///
    /// [`Error`]; nothing is recorded.
    pub fn record(&self, change: Change) -> Result<i64, Error> {
        self.ask(|reply| Order::Record(Box::new(change), reply))
    }

    /// Has a change recorded soon, or once the disk can be written again; false if so much waits
    /// already that this one will not be.
    #[must_use]
    pub fn note(&self, change: Change) -> bool {
        self.orders.try_send(Order::Note(Box::new(change))).is_ok()
    }

    /// Recorded changes older than `before`, the latest first, at most `limit`. Those that were noted
    /// and wait for the disk have no number yet, but one below zero.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn changes(&self, before: Option<i64>, limit: usize) -> Result<Vec<ChangeRecord>, Error> {
        self.ask(|reply| Order::Changes { before, limit, reply })
    }

    /// Writes a copy of the database to a file that is not there yet.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub fn copy_to(&self, file: &Path) -> Result<(), Error> {
        self.ask(|reply| Order::Copy(file.to_owned(), reply))
    }

    fn ask<T>(&self, order: impl FnOnce(Reply<T>) -> Order) -> Result<T, Error> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.orders.send(order(reply)).map_err(|_| Error::Closed)?;
        answer.recv().unwrap_or(Err(Error::Closed))
    }
}

impl Drop for Writer {
    /// Waits until everything ordered is written.
    fn drop(&mut self) {
        let (none, _) = mpsc::sync_channel(0);
        self.orders = none;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work<F> {
    directory: PathBuf,
    bytes_max: u64,
    layout: Layout,
    succeeds: bool,
    opened: Option<F>,
    orders: Receiver<Order>,
    status: Arc<Mutex<Status>>,
    unwritten: VecDeque<Batch>,
    unrecorded: VecDeque<Change>,
}

impl<F: FnOnce(Archives) -> Vec<Batch>> Work<F> {
    fn run(mut self) {
        let Some(mut database) = self.open() else { return };
        while let Ok(order) = self.orders.recv() {
            if database.is_in_place() {
                self.follow(order, &mut database);
                continue;
            }
            self.fails(&Error::Gone { path: database.file.clone() });
            drop(database);
            self.hold(order);
            let Some(another) = self.open() else { return };
            database = another;
        }
        self.write(&mut database);
        let _ = self.record_noted(&mut database);
    }

    fn follow(&mut self, order: Order, database: &mut Database) {
        match order {
            Order::Append(batch) => {
                self.unwritten.push_back(batch);
                self.write(database);
            }
            Order::Record(change, reply) => {
                // What took effect before may be of the same knob.
                let recorded = self.record_noted(database).and_then(|()| database.record(&change));
                drop(reply.send(recorded));
            }
            Order::Note(change) => {
                self.keep_for_later(*change);
                let _ = self.record_noted(database);
            }
            Order::Changes { before, limit, reply } => {
                drop(reply.send(self.changes(database, before, limit)))
            }
            Order::Copy(file, reply) => drop(reply.send(database.copy_to(&file))),
        }
    }

    /// An order while there is no database.
    fn hold(&mut self, order: Order) {
        match order {
            // Before the first it is with those that `opened` will give.
            Order::Append(_) if self.opened.is_some() => {}
            Order::Append(batch) => {
                self.unwritten.push_back(batch);
                self.forget_beyond();
            }
            Order::Record(_, reply) => drop(reply.send(Err(self.not_open()))),
            Order::Note(change) => self.keep_for_later(*change),
            Order::Changes { before, limit, reply } => drop(reply.send(Ok(self.noted(before, limit)))),
            Order::Copy(_, reply) => drop(reply.send(Err(self.not_open()))),
        }
    }

    /// Tries until the database is open and read; `None` if it is over before.
    fn open(&mut self) -> Option<Database> {
        loop {
            match self.try_open() {
                Ok(database) => return Some(database),
                Err(error) => self.fails(&error),
            }
            let next = Instant::now() + RETRY;
            loop {
                match self.orders.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(order) => self.hold(order),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return None,
                }
            }
        }
    }

    fn try_open(&mut self) -> Result<Database, Error> {
        let mut database = Database::open(&self.directory, self.bytes_max)?;
        database.fit(&self.layout)?;
        let mut archives = Archives::new(self.layout.clone());
        let loaded = database.load(&mut archives)?;
        self.set(Status::Open);
        if let Some(opened) = self.opened.take() {
            self.unwritten.extend(opened(archives));
            self.write(&mut database);
        }
        tracing::info!(
            directory = %self.directory.display(), points = loaded.points, broken = loaded.broken, "state directory open"
        );
        Ok(database)
    }

    fn write(&mut self, database: &mut Database) {
        while let Some(batch) = self.unwritten.front() {
            if let Err(error) = database.append(batch) {
                self.fails(&error);
                return self.forget_beyond();
            }
            self.unwritten.pop_front();
        }
        if self.record_noted(database).is_err() {
            return;
        }
        if *self.status.lock().unwrap_or_else(PoisonError::into_inner) != Status::Open {
            tracing::info!(directory = %self.directory.display(), "state directory can be written again");
            self.set(Status::Open);
        }
    }

    fn forget_beyond(&mut self) {
        while self.unwritten.len() > UNWRITTEN_MAX {
            self.unwritten.pop_front();
        }
    }

    fn keep_for_later(&mut self, change: Change) {
        if self.unrecorded.len() == UNRECORDED_MAX {
            self.unrecorded.pop_front();
        }
        self.unrecorded.push_back(change);
    }

    /// Records what was only noted, in the order in which it came.
    fn record_noted(&mut self, database: &mut Database) -> Result<(), Error> {
        while let Some(change) = self.unrecorded.front() {
            database.record(change).inspect_err(|error| self.fails(error))?;
            self.unrecorded.pop_front();
        }
        Ok(())
    }

    /// Recorded changes; those that are only noted have numbers below zero and come first.
    fn changes(
        &self,
        database: &Database,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<ChangeRecord>, Error> {
        let mut records = self.noted(before, limit);
        records.extend(database.changes(before.filter(|before| *before > 0), limit)?);
        records.truncate(limit);
        Ok(records)
    }

    /// Changes that are not written yet. They are later than all others, and have negative numbers, the latest -1.
    fn noted(&self, before: Option<i64>, limit: usize) -> Vec<ChangeRecord> {
        let before = before.unwrap_or(0);
        let latest_first = (1..).map(|n: i64| -n).zip(self.unrecorded.iter().rev());
        let latest_first = latest_first.filter(|(id, _)| before <= 0 && *id < before).take(limit);
        let record = |(id, change): (i64, &Change)| {
            let Change { at, who, why, lasting, knobs, .. } = change.clone();
            ChangeRecord { id, at, who, why, lasting, knobs }
        };
        latest_first.map(record).collect()
    }

    /// Says what is new.
    fn fails(&self, error: &Error) {
        let status = Status::Failing(error.to_string());
        let is_new = *self.status.lock().unwrap_or_else(PoisonError::into_inner) != status;
        if !is_new {
            return;
        }
        // What it has taken the place of ends when the last of its connections has.
        if self.succeeds && self.opened.is_some() && matches!(error, Error::Locked { .. }) {
            let directory = self.directory.display();
            tracing::info!(%directory, "archives and changes are kept in memory until the process before ends");
        } else {
            tracing::error!(%error, "archives and changes are kept in memory only");
        }
        self.set(status);
    }

    fn not_open(&self) -> Error {
        let reason = match &*self.status.lock().unwrap_or_else(PoisonError::into_inner) {
            Status::Failing(reason) => reason.clone(),
            Status::Opening | Status::Open => "it is being read".to_owned(),
        };
        Error::NotOpen { path: self.directory.clone(), reason }
    }

    fn set(&self, status: Status) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

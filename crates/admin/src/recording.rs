//! Recording: every second into the archives, and from there to the state directory if there is one; what
//! is changed and what happens besides.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        mpsc::{self, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::Instant,
};

use serde_json::json;
use tidegate_control::archive::Archives;
use tidegate_runtime::{Recorder, Shared};
use tidegate_store::{Batch, Database, Status, Writer};

use crate::{
    events::{Events, Kind},
    found_capacity,
    knobs::{self, Knobs},
    record::Record,
    rooms::{self, Rotation},
};

/// Batches held until the state directory is open, one a second.
const PENDING_MAX: usize = 3600;

/// Records until dropped; then what is open is closed and everything is written.
#[derive(Debug)]
pub struct Recording {
    state: Arc<State>,
    knobs: Knobs,
    record: Arc<Record>,
    events: Arc<Events>,
    stop: Option<mpsc::SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Where what is recorded goes, as the API sees it.
#[derive(Debug)]
pub(crate) struct State {
    /// What is to be written once the state directory is open; `None` when it is.
    pending: Mutex<Option<VecDeque<Batch>>>,
    writer: RwLock<Option<Writer>>,
    /// What is kept in files of their own.
    files: Option<Files>,
    room_keys: Rotation,
}

/// What is kept in the state directory beside the database.
#[derive(Debug)]
struct Files {
    directory: PathBuf,
    /// Promises of waiting rooms.
    rooms: rooms::Keeper,
    capacities: found_capacity::Keeper,
}

impl Recording {
    /// Puts lasting changes of knobs in force, takes over what is kept, and starts to record what `shared` counts and to keep it
    /// in `state_directory` within `state_bytes_max`. A directory that cannot be used is said and tried again; where this
    /// process takes the place of another (`succeeds`), that one has it until it ends.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    pub fn start(
        shared: &Arc<Shared>,
        state_directory: Option<&Path>,
        state_bytes_max: u64,
        succeeds: bool,
    ) -> io::Result<Self> {
        let state = Arc::new(State {
            pending: Mutex::new(state_directory.map(|_| VecDeque::new())),
            writer: RwLock::new(None),
            files: state_directory.map(Files::new),
            room_keys: Rotation::default(),
        });
        let mut lasting = BTreeMap::new();
        let mut unread = false;
        if let Some(directory) = state_directory {
            match Database::overrides(directory) {
                Ok(kept) => {
                    lasting.extend(kept.iter().map(|kept| (kept.path.clone(), kept.value.clone())));
                    knobs::restore(shared, kept, shared.clock().now());
                }
                Err(error) => {
                    unread = true;
                    tracing::error!(%error, "lasting changes of knobs are not in force until they can be read");
                }
            }
            rooms::restore(shared, directory);
            found_capacity::restore(shared, directory);
            let layout = shared.measured().layout().clone();
            let (shared, opened) = (Arc::clone(shared), Arc::clone(&state));
            let writer = Writer::start(directory, state_bytes_max, layout, succeeds, move |archives| {
                opened.take_up(&shared, archives)
            })?;
            *state.writer.write().unwrap_or_else(PoisonError::into_inner) = Some(writer);
        }
        let events = Arc::new(Events::new(shared.clock().now()));
        let record = Arc::new(Record::new(Arc::clone(&state), Arc::clone(&events), lasting));
        let knobs = Knobs::new(Arc::clone(shared), Arc::clone(&state), Arc::clone(&record));
        let (stop, stopped) = mpsc::sync_channel(0);
        let (shared, recorded, told) = (Arc::clone(shared), Arc::clone(&state), Arc::clone(&record));
        let thread = std::thread::Builder::new()
            .name("tidegate-record".to_owned())
            .spawn(move || recorded.record(&shared, unread.then_some(&told), &stopped))?;
        Ok(Self { state, knobs, record, events, stop: Some(stop), thread: Some(thread) })
    }

    /// Another process has taken this one's place.
    pub fn hand_over(&self) {
        self.state.hand_over();
    }

    /// Tells that files were read again and what is wrong with them, so that what was read before stays in force.
    pub fn tell_fault(&self, shared: &Shared, fault: &str) {
        let data = json!({ "version": shared.version(), "fault": fault });
        self.events.publish(shared.clock().now(), Kind::Configuration, data);
    }

    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state)
    }

    /// Through which knobs are changed, so that it is recorded.
    pub(crate) fn knobs(&self) -> Knobs {
        self.knobs.clone()
    }

    /// Where it is written who did what.
    pub(crate) fn record(&self) -> Arc<Record> {
        Arc::clone(&self.record)
    }

    /// Where it is told what happens.
    pub(crate) fn events(&self) -> Arc<Events> {
        Arc::clone(&self.events)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Dropping it waits until everything is written.
        drop(self.state.writer.write().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Files {
    fn new(directory: &Path) -> Self {
        let (rooms, capacities) = Default::default();
        Self { directory: directory.to_owned(), rooms, capacities }
    }

    /// Writes what has changed; `is_last`: nothing changes any more.
    fn keep(&self, shared: &Shared, is_last: bool) {
        self.rooms.keep(shared, &self.directory, is_last);
        self.capacities.keep(shared, &self.directory, is_last);
    }
}

impl State {
    /// Runs `f` on the writer, if there is a state directory.
    pub(crate) fn with_writer<R>(&self, f: impl FnOnce(&Writer) -> R) -> Option<R> {
        self.writer.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(f)
    }

    /// How the state directory does; `None` without one.
    pub(crate) fn status(&self) -> Option<Status> {
        self.with_writer(Writer::status)
    }

    /// Puts what was read from the state directory in place of the archives, followed by what has been
    /// measured since the start, which it gives to be written.
    fn take_up(&self, shared: &Shared, mut archives: Archives) -> Vec<Batch> {
        let mut pending = lock(&self.pending);
        let mut last = Batch::default();
        shared.change_measured(|archives| {
            archives.finish(|path, scope, point| last.add(path, scope, point));
        });
        let measured = pending.take().into_iter().flatten().chain([last]);
        let mut batches: Vec<Batch> = measured.map(|batch| batch.append_to(&mut archives)).collect();
        let mut end = Batch::default();
        archives.finish(|path, scope, point| end.add(path, scope, point));
        batches.push(end);
        shared.change_measured(|measured| *measured = archives);
        batches
    }

    /// Records each second. `unread`: lasting changes could not be read at the start, and are to be noted there once they are.
    fn record(&self, shared: &Shared, mut unread: Option<&Record>, stopped: &mpsc::Receiver<()>) {
        let mut recorder = Recorder::new(shared);
        loop {
            let next = shared.clock().instant(Recorder::next(shared));
            match stopped.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Timeout) => self.tick(shared, &mut recorder),
                _ => break,
            }
            if let Some(record) = unread
                && self.status() == Some(Status::Open)
                && self.take_up_lasting(shared, record)
            {
                unread = None;
            }
        }
        self.tick(shared, &mut recorder);
        if let Some(files) = &self.files {
            files.keep(shared, true);
        }
        let mut batch = Batch::default();
        let mut pending = lock(&self.pending);
        shared.change_measured(|archives| {
            archives.finish(|path, scope, point| batch.add(path, scope, point));
        });
        self.keep(&mut pending, batch);
    }

    /// Puts lasting changes in force that could not be read before, but of knobs that were changed meanwhile; whether that is
    /// done.
    fn take_up_lasting(&self, shared: &Shared, record: &Record) -> bool {
        let Some(Ok(kept)) = self.directory().map(Database::overrides) else { return false };
        record.take_up(&kept, |kept| {
            let changed: BTreeSet<String> = shared.overrides().keys().map(ToString::to_string).collect();
            let kept = kept.iter().filter(|kept| !changed.contains(&kept.path)).cloned().collect();
            knobs::restore(shared, kept, shared.clock().now());
        })
    }

    fn tick(&self, shared: &Shared, recorder: &mut Recorder) {
        let mut batch = Batch::default();
        // Held meanwhile, so that the archives cannot be replaced between the two.
        let mut pending = lock(&self.pending);
        recorder.tick(shared, |path, scope, point| batch.add(path, scope, point));
        self.keep(&mut pending, batch);
        drop(pending);
        if let Some(files) = &self.files {
            files.keep(shared, false);
        }
        self.room_keys.look(shared, self.directory());
    }

    /// The state directory, if there is one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.files.as_ref().map(|files| files.directory.as_path())
    }

    /// Another process has taken this one's place, and keeps what lasts from now on.
    pub(crate) fn hand_over(&self) {
        if let Some(files) = &self.files {
            files.rooms.stop();
            files.capacities.stop();
        }
        self.room_keys.stop();
    }

    fn keep(&self, pending: &mut Option<VecDeque<Batch>>, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        match pending {
            Some(pending) => {
                if pending.len() == PENDING_MAX {
                    pending.pop_front();
                }
                pending.push_back(batch);
            }
            None => {
                let _ = self.with_writer(|writer| writer.append(batch));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The access log: a line a request, written by a thread of its own, never waited for.
//!
//! Cores hand over entries through a bounded channel; what does not fit is lost and counted
//! (`events_lost`), for a slow disk must not slow a request. The thread turns entries into lines,
//! writes them in batches, and opens its file again when told to. A write that fails is reported
//! once and its lines are lost; the log goes on by itself, on a line of its own, when writing works again.
//! What it writes to may be a pipe whose reader has stopped: then nothing waits for it longer than [`PATIENCE`].

mod line;

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
};
use tidegate_config::{AccessLog as Settings, LogFormat, LogTarget};

pub(super) use self::line::{Entry, Rfc3339};

/// Entries under way at most.
const ENTRIES_MAX: usize = 16 * 1024;

/// After the first entry of a batch the thread lets more come, so that cores do not wake it each time.
const BATCH_TIME: Duration = Duration::from_millis(10);

/// A batch is written when it is this long.
const BATCH_BYTES: usize = 256 * 1024;

/// How long after a file could not be opened again it is tried again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// How long the thread is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often room for a message is looked for meanwhile.
const LOOK: Duration = Duration::from_millis(1);

/// A handle on the access log; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AccessLog {
    sender: SyncSender<Message>,
    on: Arc<AtomicBool>,
    /// Lines that could not be written and that no core has counted yet.
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Entry(Box<Entry>),
    Configure(Option<Settings>, SyncSender<io::Result<()>>),
    Reopen,
    Flush(SyncSender<()>),
}

impl AccessLog {
    /// Starts the thread that writes; it ends with the last handle.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened or no thread be started.
    pub(crate) fn start(settings: Option<&Settings>) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(ENTRIES_MAX);
        let log = Self { sender, on: Arc::new(AtomicBool::new(false)), lost: Arc::default() };
        let writer = Writer { lost: Arc::clone(&log.lost), ..Writer::default() };
        thread::Builder::new().name("access-log".into()).spawn(move || writer.run(&receiver))?;
        log.configure(settings)?;
        Ok(log)
    }

    /// Whether anything is logged at all.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Takes up changed settings.
    ///
    /// # Errors
    ///
    /// When the new file cannot be opened, or the old one not be written; the old one stays.
    pub(crate) fn configure(&self, settings: Option<&Settings>) -> io::Result<()> {
        self.ask(|answer| Message::Configure(settings.cloned(), answer))??;
        self.on.store(settings.is_some(), Ordering::Relaxed);
        Ok(())
    }

    /// Opens the file again, for it has been moved away.
    pub(crate) fn reopen(&self) {
        if let Err(error) = self.send(Message::Reopen, Instant::now() + PATIENCE) {
            tracing::error!(%error, "the access log is not opened again: send SIGUSR1 once more when it takes lines");
        }
    }

    /// Waits until everything handed over has been written.
    pub(crate) fn flush(&self) {
        if let Err(error) = self.ask(Message::Flush) {
            tracing::error!(%error, "the last lines of the access log may be lost");
        }
    }

    /// Hands over an entry; whether there was room for it.
    #[must_use]
    pub(super) fn write(&self, entry: Entry) -> bool {
        self.sender.try_send(Message::Entry(Box::new(entry))).is_ok()
    }

    /// How many lines could not be written since the last call.
    pub(super) fn take_unwritten(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    fn ask<T>(&self, message: impl FnOnce(SyncSender<T>) -> Message) -> io::Result<T> {
        let (answer, answered) = sync_channel(1);
        let until = Instant::now() + PATIENCE;
        self.send(message(answer), until)?;
        answered.recv_timeout(until.saturating_duration_since(Instant::now())).map_err(|error| match error {
            RecvTimeoutError::Timeout => stuck(),
            RecvTimeoutError::Disconnected => ended(),
        })
    }

    fn send(&self, mut message: Message, until: Instant) -> io::Result<()> {
        loop {
            message = match self.sender.try_send(message) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) if Instant::now() >= until => return Err(stuck()),
                Err(TrySendError::Full(message)) => message,
                Err(TrySendError::Disconnected(_)) => return Err(ended()),
            };
            thread::sleep(LOOK);
        }
    }
}

fn stuck() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "what it is written to takes nothing: its disk, or the reader of its pipe",
    )
}

fn ended() -> io::Error {
    io::Error::other("the access log's thread has ended")
}

/// The thread's state.
#[derive(Default)]
struct Writer {
    output: Option<Output>,
    batch: Vec<u8>,
    lost: Arc<AtomicU64>,
    /// Whether the last write failed, and was reported.
    failing: bool,
    /// When the file is to be opened again, which did not work.
    reopen_at: Option<Instant>,
}

struct Output {
    settings: Settings,
    sink: Sink,
    /// Whether what was written there last, also by a process before, ended in the middle of a line.
    torn: bool,
}

enum Sink {
    Stdout,
    File(File),
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(first) = messages.recv() {
            self.take(first);
            loop {
                match messages.recv_timeout(BATCH_TIME) {
                    Ok(message) => self.take(message),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                }
                if self.batch.len() >= BATCH_BYTES {
                    self.write();
                }
            }
            self.write();
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Entry(entry) => {
                if let Some(output) = &self.output {
                    match output.settings.format {
                        LogFormat::Json => entry.write_json(&mut self.batch),
                        LogFormat::Common => entry.write_combined(&mut self.batch),
                        LogFormat::CommonTimed => entry.write_combined_with_times(&mut self.batch),
                    }
                }
            }
            Message::Configure(settings, answer) => {
                self.write();
                let opened = settings.map(Output::open).transpose();
                let _ = answer.send(opened.map(|output| {
                    self.output = output;
                    self.reopen_at = None;
                }));
            }
            Message::Reopen => {
                self.write();
                self.reopen();
            }
            Message::Flush(answer) => {
                self.write();
                let _ = answer.send(());
            }
        }
    }

    fn reopen(&mut self) {
        let Some(output) = &mut self.output else { return };
        match Output::open(output.settings.clone()) {
            Ok(opened) => {
                *output = opened;
                if self.reopen_at.take().is_some() {
                    tracing::info!("the access log is open again");
                }
            }
            // The old file is still better than none.
            Err(error) => {
                if self.reopen_at.replace(Instant::now() + REOPEN_PAUSE).is_none() {
                    tracing::error!(
                        %error, "the access log could not be opened again: its lines go on into the file that was open; it is tried again each second: let the file be made there"
                    );
                }
            }
        }
    }

    fn write(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if self.reopen_at.is_some_and(|at| at <= Instant::now()) {
            self.reopen();
        }
        if let Some(output) = &mut self.output {
            let (written, result) = output.sink.write(&self.batch, output.torn);
            if let Some(last) = self.batch[..written].last() {
                output.torn = *last != b'\n';
            }
            match result {
                Ok(()) if self.failing => {
                    self.failing = false;
                    tracing::info!("the access log can be written again");
                }
                Ok(()) => {}
                Err(error) => {
                    let lost = self.batch[written..].iter().filter(|byte| **byte == b'\n').count();
                    self.lost.fetch_add(lost as u64, Ordering::Relaxed);
                    if !self.failing {
                        self.failing = true;
                        tracing::error!(to = output.target(), %error, "the access log cannot be written; its lines are lost");
                    }
                }
            }
        }
        self.batch.clear();
    }
}

impl Output {
    fn open(settings: Settings) -> io::Result<Self> {
        let sink = Sink::open(&settings.target)?;
        let torn = match (&sink, &settings.target) {
            (Sink::File(file), LogTarget::File(path)) => is_torn(file, path),
            _ => false,
        };
        Ok(Self { settings, sink, torn })
    }

    fn target(&self) -> String {
        match &self.settings.target {
            LogTarget::Stdout => "standard output".to_owned(),
            LogTarget::File(path) => path.display().to_string(),
        }
    }
}

impl Sink {
    fn open(target: &LogTarget) -> io::Result<Self> {
        Ok(match target {
            LogTarget::Stdout => Self::Stdout,
            LogTarget::File(path) => Self::File(open(path).map_err(|error| {
                let at = path.display();
                match Errno::from_io_error(&error) {
                    Some(Errno::NXIO) => {
                        io::Error::new(error.kind(), format!("{at}: a pipe that nobody reads, or a socket"))
                    }
                    _ => io::Error::new(error.kind(), format!("{at}: {error}")),
                }
            })?),
        })
    }

    /// Gives how many of the bytes were written, also where it fails. `torn`: they begin on a new line.
    fn write(&mut self, bytes: &[u8], torn: bool) -> (usize, io::Result<()>) {
        match self {
            Self::Stdout => put(&mut io::stdout().lock(), bytes, torn),
            Self::File(file) => put(file, bytes, torn),
        }
    }
}

/// Opens what lines are added to; a pipe too, but without waiting for somebody to read it.
fn open(path: &Path) -> io::Result<File> {
    let at_once = OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).custom_flags(at_once.bits().cast_signed()).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - at_once)?;
    Ok(file)
}

/// Whether a file that lines are added to ends in the middle of one. What cannot be read is taken to be whole, and so is what
/// is no regular file.
fn is_torn(file: &File, path: &Path) -> bool {
    let Ok(about) = file.metadata() else { return false };
    let Some(end) = about.len().checked_sub(1).filter(|_| about.is_file()) else { return false };
    let mut last = [b'\n'];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut last, end));
    read.is_ok() && last != [b'\n']
}

fn put(out: &mut impl Write, bytes: &[u8], torn: bool) -> (usize, io::Result<()>) {
    let mut written = 0;
    let mut all = || {
        if torn {
            out.write_all(b"\n")?;
        }
        while written < bytes.len() {
            match out.write(&bytes[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        out.flush()
    };
    let result = all();
    (written, result)
}

#[cfg(test)]
mod tests;

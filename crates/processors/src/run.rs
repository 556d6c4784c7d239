//! The manager's life: intervals, questions, reload, end.

use std::{
    cell::RefCell,
    path::Path,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use rustix::thread::{CpuSet, sched_getaffinity};
use tidegate_control::Timestamp;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use crate::{
    account::Account,
    error::Error,
    host::Host,
    list::List,
    serve::{Board, Serving},
    settings::Settings,
};

/// Reads a manager's file as [`run()`] would.
///
/// # Errors
///
/// The file cannot be read, or every fault in it at once.
pub fn check(file: &Path) -> Result<Settings, Error> {
    Settings::load(file, &here(file)?)
}

/// Divides the host's processors as the file says, until SIGTERM or SIGINT; then everyone may run where it might
/// before. Reads the file anew on SIGHUP, and takes it up within two intervals; one with faults leaves all as it is. `ready` is called once everything was
/// divided for the first time.
///
/// # Errors
///
/// The file has faults, the socket cannot be had, or this process has no signals.
pub fn run(file: &Path, ready: impl FnOnce(&Settings)) -> Result<(), Error> {
    let here = here(file)?;
    let settings = Settings::load(file, &here)?;
    // Its own work is little, and late where the host is full. Who may not raise it is late.
    let _ = rustix::process::setpriority_process(None, -20);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|source| Error::file(file, source, "see that this process may make threads"))?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, live(file, settings, &here, ready))
}

/// The processors this process may run on.
fn here(file: &Path) -> Result<List, Error> {
    let set = sched_getaffinity(None)
        .map_err(|error| Error::file(file, error.into(), "run this on a kernel that has affinities"))?;
    let numbers = (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number));
    Ok(List::new(numbers.filter_map(|number| u32::try_from(number).ok())))
}

async fn live(
    file: &Path,
    settings: Settings,
    here: &List,
    ready: impl FnOnce(&Settings),
) -> Result<(), Error> {
    let signal = |kind| {
        signal(kind).map_err(|source| Error::file(file, source, "see that this process may handle signals"))
    };
    let (mut hangup, mut terminate, mut interrupt) =
        (signal(SignalKind::hangup())?, signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let board = Rc::new(RefCell::new(Board::default()));
    let _serving = settings.socket.clone().map(|path| Serving::open(path, &board)).transpose()?;
    let mut life = Life {
        host: Host::new(settings),
        board,
        account: Account::new(SystemTime::now()),
        began: Instant::now(),
        last: Instant::now(),
    };
    life.end_interval().await;
    ready(life.host.settings());
    let mut ticks = ticks(life.host.settings().interval);
    let mut changed: Option<Settings> = None;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                life.end_interval().await;
                // With the interval, since a part of one says little of what is needed.
                if let Some(settings) = changed.take() {
                    ticks = self::ticks(settings.interval);
                    life.host.change(settings, here).await;
                    tracing::info!("{}: taken up", file.display());
                }
            }
            _ = hangup.recv() => match Settings::load(file, here) {
                Ok(settings) => {
                    if settings.socket != life.host.settings().socket {
                        tracing::warn!("{}: another socket is taken up at the next start", file.display());
                    }
                    changed = Some(settings);
                }
                Err(error) => tracing::error!("{error}; what was read before goes on"),
            },
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    life.end_interval().await;
    life.write_account();
    life.host.release(here).await;
    Ok(())
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    ticks
}

struct Life {
    host: Host,
    board: Rc<RefCell<Board>>,
    account: Account,
    began: Instant,
    last: Instant,
}

impl Life {
    /// Ends an interval: the account of it, and what each has in the next.
    async fn end_interval(&mut self) {
        let now = Instant::now();
        let interval = now - std::mem::replace(&mut self.last, now);
        let time = self.now();
        for (application, processors) in self.board.borrow_mut().take_asked() {
            self.host.ask(&application, processors, time);
        }
        self.host.divide(time, interval).await;
        for spent in self.host.spent(time) {
            self.account.add(spent, interval);
        }
        self.board.borrow_mut().publish(self.host.status(time));
        if self.account.is_due(SystemTime::now(), self.host.settings().account_every) {
            self.write_account();
        }
    }

    fn write_account(&mut self) {
        if let Some(file) = &self.host.settings().account {
            self.account.write(file, SystemTime::now());
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

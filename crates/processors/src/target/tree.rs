//! A process and all below it, by /proc and the affinity of each thread.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::PathBuf,
    time::Duration,
};

use procfs::process::{Process, Stat, all_processes};
use rustix::{
    io::Errno,
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use super::Times;
use crate::{error::Error, list::List};

/// Passes over a tree that goes on making threads.
const PASSES_MAX: usize = 10;

/// The process of a file, and its children.
#[derive(Debug)]
pub(crate) struct Tree {
    pid_file: PathBuf,
    seen: Seen,
}

/// What processes and threads had done when they were seen last.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Time on a processor, by the process's number and the time it began.
    ran: BTreeMap<(i32, u64), Duration>,
    /// Time waited for one, by the thread's number.
    waited: BTreeMap<i32, Duration>,
}

impl Tree {
    pub(crate) fn new(pid_file: PathBuf) -> Self {
        Self { pid_file, seen: Seen::default() }
    }

    pub(crate) fn times(&mut self) -> Result<Times, Error> {
        let processes = self.processes()?;
        Ok(Times { ran: self.seen.ran(&processes), waited: self.seen.waited(&processes) })
    }

    /// Walks the tree until a pass finds nobody elsewhere: threads are made while it is walked.
    pub(crate) fn confine(&self, processors: &List) -> Result<(), Error> {
        let mut set = CpuSet::new();
        for number in processors.numbers() {
            set.set(*number as usize);
        }
        for _ in 0..PASSES_MAX {
            let mut has_moved = false;
            for process in self.processes()? {
                has_moved |= confine_process(process, &set)
                    .map_err(|source| Error::Affinity { process, source: source.into() })?;
            }
            if !has_moved {
                break;
            }
        }
        Ok(())
    }

    fn processes(&self) -> Result<Vec<i32>, Error> {
        let text = fs::read_to_string(&self.pid_file).map_err(|source| self.absent(&source))?;
        let root: i32 = text
            .trim()
            .parse()
            .map_err(|_| self.absent(&io::Error::other("it does not begin with a process's number")))?;
        Process::new(root)
            .map_err(|_| self.absent(&io::Error::other(format!("process {root} has ended"))))?;
        Ok(below(root))
    }

    fn absent(&self, why: &io::Error) -> Error {
        Error::Absent {
            what: format!("{}: {why}", self.pid_file.display()),
            mend: "start the application, or write the pid_file of one that runs",
        }
    }
}

impl Seen {
    /// How long these have run since they were seen last. What one runs after that and before it ends is not counted.
    pub(super) fn ran(&mut self, processes: &[i32]) -> Duration {
        let stats = processes.iter().filter_map(|process| stat(*process));
        let times = stats.map(|stat| ((stat.pid, stat.starttime), ticks(stat.utime + stat.stime)));
        rise(&mut self.ran, times.collect())
    }

    /// How long their threads have waited for a processor since they were seen last.
    pub(super) fn waited(&mut self, processes: &[i32]) -> Duration {
        let threads = processes.iter().filter_map(|process| Process::new(*process).ok()?.tasks().ok());
        let times = threads.flatten().flatten().filter_map(|thread| {
            Some((thread.tid, Duration::from_nanos(thread.schedstat().ok()?.run_delay)))
        });
        rise(&mut self.waited, times.collect())
    }
}

/// How much counters have risen since they were seen last. One that is new has risen from nothing, but when all are.
fn rise<K: Ord>(seen: &mut BTreeMap<K, Duration>, now: BTreeMap<K, Duration>) -> Duration {
    let all_are_new = seen.is_empty();
    let risen = now.iter().map(|(key, time)| match seen.get(key) {
        Some(before) => time.saturating_sub(*before),
        None if all_are_new => Duration::ZERO,
        None => *time,
    });
    let risen = risen.sum();
    *seen = now;
    risen
}

/// The process and all below it.
fn below(root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    // A process that ends while they are listed is left out.
    for stat in all_processes().into_iter().flatten().flatten().filter_map(|process| process.stat().ok()) {
        children.entry(stat.ppid).or_default().push(stat.pid);
    }
    let mut found = BTreeSet::new();
    let mut open = vec![root];
    while let Some(process) = open.pop() {
        if found.insert(process) {
            open.extend(children.remove(&process).unwrap_or_default());
        }
    }
    found.into_iter().collect()
}

fn stat(process: i32) -> Option<Stat> {
    Process::new(process).ok()?.stat().ok()
}

fn ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
}

/// Whether one of its threads was moved.
fn confine_process(process: i32, set: &CpuSet) -> Result<bool, Errno> {
    let mut has_moved = false;
    let threads = Process::new(process).and_then(|process| process.tasks());
    for thread in threads.into_iter().flatten().flatten() {
        let Some(pid) = Pid::from_raw(thread.tid) else { continue };
        let moved = match sched_getaffinity(Some(pid)) {
            Ok(present) if present == *set => Ok(false),
            Ok(_) => sched_setaffinity(Some(pid), set).map(|()| true),
            Err(error) => Err(error),
        };
        match moved {
            Ok(moved) => has_moved |= moved,
            // It has ended meanwhile.
            Err(Errno::SRCH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(has_moved)
}

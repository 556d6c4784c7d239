//! The worker threads that run: which they are and how much of a processor each has used.

use std::{
    fs,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

/// The worker threads of a process.
#[derive(Debug, Default)]
pub struct Workers {
    all: Mutex<Vec<Weak<WorkerThread>>>,
}

/// One worker thread, listed until dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerThread {
    /// Its number, from 0.
    pub index: usize,
    /// The group it belongs to.
    pub group: String,
    /// The kernel's id of the thread; `None` where there is no `/proc`.
    pub thread_id: Option<u32>,
}

impl Workers {
    /// Lists the calling thread as worker `index` of `group` for as long as the result lives.
    #[must_use]
    pub fn register(&self, index: usize, group: &str) -> Arc<WorkerThread> {
        let worker = Arc::new(WorkerThread { index, group: group.to_owned(), thread_id: thread_id() });
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|worker| worker.strong_count() > 0);
        all.push(Arc::downgrade(&worker));
        worker
    }

    /// The threads that run, by number.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<WorkerThread>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
        drop(all);
        list.sort_by_key(|worker| worker.index);
        list
    }
}

impl WorkerThread {
    /// Processor time the thread has used since it began; `None` where the kernel does not say.
    #[must_use]
    pub fn cpu_time(&self) -> Option<Duration> {
        let statistics = fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.thread_id?)).ok()?;
        statistics.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    }
}

/// The calling thread: the link reads `<process>/task/<thread>`.
fn thread_id() -> Option<u32> {
    fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_listed_while_it_runs_and_says_what_it_used() {
        let workers = Workers::default();
        let second = workers.register(1, "default");
        let first = workers.register(0, "default");
        assert_eq!(workers.list(), [first.clone(), second.clone()]);
        assert!(first.cpu_time().is_some());
        drop(first);
        assert_eq!(workers.list(), [second]);
    }
}

//! Work that costs a known amount of CPU time, or of waiting, done by a pool of threads in order of arrival.
//!
//! This is how a thread-pool server collapses under overload: a request that a worker has taken
//! is carried out to its end though its client has left, and one that waits is taken though its
//! client has left. Nothing here knows of goodput; the collapse follows.

use std::{
    collections::VecDeque,
    hint::black_box,
    io,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use aws_lc_rs::digest::{SHA256, digest};
use rustix::{
    io::Errno,
    thread::{CpuSet, sched_setaffinity},
    time::{ClockId, clock_gettime},
};
use tokio::sync::oneshot;

use crate::tally::Latencies;

/// Worker threads before one FIFO queue.
#[derive(Debug)]
pub(crate) struct CpuPool {
    queue: Arc<Queue>,
    workers: Vec<JoinHandle<()>>,
    count: usize,
}

/// What became of the jobs.
#[derive(Debug, Default)]
pub(crate) struct CpuCounts {
    pub(crate) started: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) completed_for_nobody: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) cpu_ns: AtomicU64,
}

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    bound: usize,
    spend: Spend,
    counts: CpuCounts,
    /// From arrival to the end of the work.
    times: Mutex<Latencies>,
}

/// What a worker does for as long as a request costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spend {
    /// It computes.
    Computing,
    /// It waits, as for a database.
    Waiting,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

#[derive(Debug)]
struct Job {
    arrived: Instant,
    cost: Duration,
    counted: bool,
    done: oneshot::Sender<()>,
}

impl CpuPool {
    pub(crate) fn start(workers: usize, bound: usize, cpus: &[usize], spend: Spend) -> io::Result<Self> {
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            filled: Condvar::new(),
            bound,
            spend,
            counts: CpuCounts::default(),
            times: Mutex::default(),
        });
        let mut pool = Self { queue: Arc::clone(&queue), workers: Vec::new(), count: workers };
        for index in 0..workers {
            let queue = Arc::clone(&queue);
            let cpu = if cpus.is_empty() { None } else { cpus.get(index % cpus.len()).copied() };
            let (ready, is_ready) = std::sync::mpsc::channel();
            let worker = thread::Builder::new().name(format!("origin-cpu-{index}")).spawn(move || {
                let pinned = pin(cpu);
                let go_on = pinned.is_ok();
                let told = ready.send(pinned).is_ok();
                if go_on && told {
                    queue.work();
                }
            })?;
            pool.workers.push(worker);
            is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("worker ended")))?;
        }
        Ok(pool)
    }

    /// Queues a job; the receiver hears when it is done. `None` if the queue is full.
    pub(crate) fn submit(&self, cost: Duration) -> Option<oneshot::Receiver<()>> {
        let submitted = self.push(cost, true);
        if submitted.is_none() {
            self.queue.counts.refused.fetch_add(1, Relaxed);
        }
        submitted
    }

    fn push(&self, cost: Duration, counted: bool) -> Option<oneshot::Receiver<()>> {
        let (done, is_done) = oneshot::channel();
        let mut state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.jobs.len() >= self.queue.bound || state.closed {
            return None;
        }
        state.jobs.push_back(Job { arrived: Instant::now(), cost, counted, done });
        drop(state);
        self.queue.filled.notify_one();
        Some(is_done)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.state.lock().unwrap_or_else(PoisonError::into_inner).jobs.len()
    }

    /// Half of the jobs took no longer from their arrival to their end, in microseconds; 0 of none.
    pub(crate) fn median_us(&self) -> u64 {
        self.queue.times.lock().unwrap_or_else(PoisonError::into_inner).0.value_at_quantile(0.5)
    }

    pub(crate) fn counts(&self) -> &CpuCounts {
        &self.queue.counts
    }

    pub(crate) fn workers(&self) -> usize {
        self.count
    }

    /// Jobs of `cost` the pool does a second when it has nothing else to do, measured by letting
    /// every worker run flat out for about `span`. Not in [`CpuPool::counts`].
    pub(crate) fn calibrate(&self, cost: Duration, span: Duration) -> f64 {
        let per_worker = (span.as_secs_f64() / cost.as_secs_f64().max(1e-6)).ceil().max(2.0) as usize;
        let jobs = per_worker.saturating_mul(self.count);
        let begin = Instant::now();
        let receivers: Vec<_> = (0..jobs).filter_map(|_| self.push(cost, false)).collect();
        let accepted = receivers.len();
        for receiver in receivers {
            // A job dropped by a closing pool shortens the measurement; the origin is going anyway.
            let _ = receiver.blocking_recv();
        }
        accepted as f64 / begin.elapsed().as_secs_f64()
    }
}

impl Drop for CpuPool {
    fn drop(&mut self) {
        {
            let mut state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.closed = true;
            state.jobs.clear();
        }
        self.queue.filled.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has nothing left to give back.
            let _ = worker.join();
        }
    }
}

impl Queue {
    fn work(&self) {
        while let Some(job) = self.next() {
            if !job.counted {
                self.spend.spend(job.cost);
                // Whoever calibrates waits for it.
                let _ = job.done.send(());
                continue;
            }
            self.counts.started.fetch_add(1, Relaxed);
            let spent = self.spend.spend(job.cost);
            self.counts.cpu_ns.fetch_add(u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX), Relaxed);
            self.counts.completed.fetch_add(1, Relaxed);
            self.times.lock().unwrap_or_else(PoisonError::into_inner).record(job.arrived.elapsed());
            if job.done.send(()).is_err() {
                self.counts.completed_for_nobody.fetch_add(1, Relaxed);
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Spend {
    /// Returns the CPU time that was really used.
    fn spend(self, cost: Duration) -> Duration {
        match self {
            Self::Computing => compute(cost),
            Self::Waiting => {
                thread::sleep(cost);
                Duration::ZERO
            }
        }
    }
}

/// Hashes until this thread has used `cost` of CPU time, as its own CPU clock says: being
/// descheduled does not count, so the capacity is that of the processor and not of the wall
/// clock. Resolution about 3 microseconds. Returns what was really used.
fn compute(cost: Duration) -> Duration {
    let begin = cpu_clock();
    let mut block = [0u8; 2048];
    loop {
        let spent = cpu_clock().saturating_sub(begin);
        if spent >= cost {
            return spent;
        }
        let hash = digest(&SHA256, black_box(&block));
        for (to, from) in block.iter_mut().zip(hash.as_ref()) {
            *to ^= from;
        }
    }
}

fn cpu_clock() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Pins the calling thread; a processor that it cannot have is `InvalidInput`.
pub(crate) fn pin(cpu: Option<usize>) -> io::Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    let absent = || {
        let fault =
            format!("there is no processor {cpu} for this process; `taskset -cp $$` lists those there are");
        io::Error::new(io::ErrorKind::InvalidInput, fault)
    };
    if cpu >= CpuSet::MAX_CPU {
        return Err(absent());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|fault| if fault == Errno::INVAL { absent() } else { fault.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_costs_its_cpu_time_and_no_less() {
        let spent = compute(Duration::from_millis(5));
        assert!(spent >= Duration::from_millis(5), "{spent:?}");
        // One block more is 3 microseconds; the rest is for interrupts charged to the thread.
        assert!(spent < Duration::from_millis(50), "{spent:?}");
    }

    #[test]
    fn who_waits_needs_no_processor_and_the_median_holds_the_queue_too() {
        let pool = CpuPool::start(3, 10, &[], Spend::Waiting).expect("threads");
        assert_eq!(pool.median_us(), 0);
        let jobs: Vec<_> = (0..6).map(|_| pool.submit(Duration::from_millis(60)).expect("room")).collect();
        jobs.into_iter().for_each(|job| job.blocking_recv().expect("done"));
        assert_eq!(pool.counts().cpu_ns.load(Relaxed), 0);
        // Three took 60 ms and the others had to wait as long before.
        assert!(pool.median_us() >= 59_000, "{}", pool.median_us());
    }

    #[test]
    fn jobs_for_nobody_are_done_all_the_same() {
        let pool = CpuPool::start(1, 10, &[], Spend::Computing).expect("a thread");
        // The one thread is at work while the client of the next job leaves.
        let first = pool.submit(Duration::from_millis(200)).expect("room");
        drop(pool.submit(Duration::from_millis(1)).expect("room"));
        let kept = pool.submit(Duration::from_millis(1)).expect("room");
        first.blocking_recv().expect("done");
        kept.blocking_recv().expect("done");
        assert_eq!(pool.counts().completed.load(Relaxed), 3);
        assert_eq!(pool.counts().completed_for_nobody.load(Relaxed), 1);
    }

    #[test]
    fn the_queue_is_bounded() {
        let pool = CpuPool::start(1, 2, &[], Spend::Computing).expect("a thread");
        let all: Vec<_> = (0..10).map(|_| pool.submit(Duration::from_millis(500))).collect();
        assert!(all.iter().flatten().count() <= 3, "two wait and one is at work");
        assert!(pool.counts().refused.load(Relaxed) >= 7);
    }
}

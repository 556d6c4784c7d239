//! Full TLS handshakes, on threads of their own: a signature blocks its thread, with RSA for 0.4 ms.
//!
//! On a worker a flood of new sessions would hold up every request of that core. Here a bounded
//! number is computed at once, beside the workers, as fair as the system's scheduler is; further ones
//! wait for their turn ([`Turns`]), until their client has left or `hello.timeout` has passed. What comes back goes on where it
//! came from.

use std::{
    io,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tidegate_control::{Timestamp, queue::Turns};
use tidegate_runtime::Clock;
use tokio::sync::oneshot;

/// A thread that has had nothing to do for this long ends.
const IDLE: Duration = Duration::from_secs(10);

/// The handshakes of a process that wait to be computed, and the threads that do so. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Handshakes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    state: Mutex<State>,
    wanted: Condvar,
}

struct State {
    /// In the order in which they came. Bounded by the connections there may be.
    jobs: Turns<Job>,
    /// Jobs that ever came.
    submitted: u64,
    threads: usize,
    idle: usize,
    /// Threads there may be, as was said last.
    threads_max: usize,
    started: u64,
}

type Job = Box<dyn FnOnce() + Send>;

/// A job's place among those that wait, which is given up when this is dropped.
struct Waiting {
    shared: Arc<Shared>,
    number: u64,
}

/// Why a computation came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undone {
    /// No thread could be started.
    #[error("no thread for handshakes can be started: {0}")]
    Thread(#[from] io::Error),
    /// It panicked.
    #[error("the handshake could not be computed")]
    Panicked,
}

impl Handshakes {
    /// None, and no thread.
    pub(crate) fn new(clock: Clock) -> Self {
        let state = Mutex::new(State::new(clock.now()));
        Self { shared: Arc::new(Shared { clock, state, wanted: Condvar::new() }) }
    }

    /// Computes `work` on one of at most `threads_max` threads. Dropped before its turn has come, it
    /// is never begun.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        threads_max: usize,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Undone> {
        let (sender, result) = oneshot::channel();
        let job = move || {
            // Whoever waited may leave meanwhile.
            let _ = sender.send(work());
        };
        let _waiting = self.submit(threads_max.max(1), Box::new(job))?;
        result.await.map_err(|_| Undone::Panicked)
    }

    fn submit(&self, threads_max: usize, job: Job) -> io::Result<Waiting> {
        let mut state = self.shared.lock();
        state.threads_max = threads_max;
        let number = state.add(self.shared.clock.now(), job);
        let waiting = Waiting { shared: Arc::clone(&self.shared), number };
        if state.jobs.len() > state.idle && state.threads < threads_max {
            let shared = Arc::clone(&self.shared);
            let name = format!("tidegate-tls-{}", state.started);
            let thread = std::thread::Builder::new().name(name).spawn(move || shared.work());
            match thread {
                Ok(_) => {
                    state.threads += 1;
                    state.started += 1;
                }
                // Those that run come to it.
                Err(error) if state.threads > 0 => tracing::warn!(%error, "no further thread for handshakes"),
                Err(error) => {
                    drop(state);
                    return Err(error);
                }
            }
        }
        drop(state);
        self.shared.wanted.notify_one();
        Ok(waiting)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does, until it is not needed any more.
    fn work(&self) {
        while let Some(job) = self.next() {
            // A panic ends its job only; whoever waits learns it from the channel that is dropped.
            let _ = panic::catch_unwind(AssertUnwindSafe(job));
        }
    }

    /// The next job; `None` when the thread is to end. It counts no more then: a job that is submitted from now on
    /// finds another.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.threads > state.threads_max {
                state.threads -= 1;
                // It may be this one that was woken for a job.
                self.wanted.notify_one();
                return None;
            }
            if let Some((_, job)) = state.jobs.next(self.clock.now()) {
                return Some(job);
            }
            state.idle += 1;
            let (woken, timeout) =
                self.wanted.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }
}

impl State {
    fn new(now: Timestamp) -> Self {
        Self { jobs: Turns::new(now), submitted: 0, threads: 0, idle: 0, threads_max: 1, started: 0 }
    }

    /// One more job that waits; answers its number.
    fn add(&mut self, now: Timestamp, job: Job) -> u64 {
        let number = self.submitted;
        self.submitted += 1;
        self.jobs.add(now, number, job);
        number
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let job = state.jobs.leave(self.shared.clock.now(), self.number);
        drop(state);
        // Outside of the lock: it holds a connection.
        drop(job);
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("jobs", &self.jobs.len()).field("threads", &self.threads).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use tidegate_control::queue::STANDS_AFTER;

    use super::*;

    fn run<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(20), future).await.expect("in time") })
    }

    #[test]
    fn no_more_run_at_once_than_may() {
        let handshakes = Handshakes::new(Clock::start());
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let job = |n: usize| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            handshakes.run(3, move || {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
                n
            })
        };
        run(async {
            let (a, b, c, d) = tokio::join!(job(0), job(1), job(2), job(3));
            assert_eq!([a, b, c, d].map(Result::unwrap), [0, 1, 2, 3]);
            for n in 0..100 {
                assert_eq!(job(n).await.unwrap(), n);
            }
        });
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
        assert!(handshakes.shared.lock().threads <= 3);
    }

    #[test]
    fn who_has_left_before_its_turn_costs_nothing_and_a_panic_ends_its_job_only() {
        let handshakes = Handshakes::new(Clock::start());
        let (go, wait) = mpsc::channel::<()>();
        run(async {
            let mut first = Box::pin(handshakes.run(1, move || wait.recv().is_ok()));
            let mut second = Box::pin(handshakes.run(1, || panic!("nobody waits for this")));
            assert!(futures_poll(&mut first).is_pending() && futures_poll(&mut second).is_pending());
            drop(second);
            go.send(()).unwrap();
            assert!(first.await.unwrap());
            assert_eq!(handshakes.run(1, || 5).await.unwrap(), 5);
            let fails = handshakes.run(1, || -> () { panic!("as this test wants it") }).await;
            assert!(matches!(fails, Err(Undone::Panicked)));
            assert_eq!(handshakes.run(1, || 6).await.unwrap(), 6);
            assert_eq!(handshakes.shared.lock().started, 1);
        });
    }

    /// What a job that keeps its thread busy does, and what ends it.
    fn busy() -> (impl FnOnce() -> bool + Send + 'static, oneshot::Receiver<()>, mpsc::Sender<()>) {
        let (begin, begun) = oneshot::channel();
        let (go, wait) = mpsc::channel::<()>();
        let work = move || {
            let _ = begin.send(());
            wait.recv().is_ok()
        };
        (work, begun, go)
    }

    /// In order of arrival each would be computed about when its client gives up, and nobody would be served.
    #[test]
    fn the_newest_goes_first_once_they_wait_for_long_and_the_oldest_before() {
        let came = Timestamp::from_nanos(1_000_000_000);
        for (wait, expected) in [(STANDS_AFTER / 2, [1, 2, 3]), (STANDS_AFTER, [3, 2, 1])] {
            let (done, order) = mpsc::channel();
            let mut state = State::new(came);
            for n in [1, 2, 3] {
                let done = done.clone();
                state.add(came, Box::new(move || done.send(n).unwrap()));
            }
            while let Some((_, job)) = state.jobs.next(came + wait) {
                job();
            }
            assert_eq!(order.try_iter().collect::<Vec<_>>(), expected);
        }
    }

    /// It held its connection until its turn would have come.
    #[test]
    fn who_leaves_while_others_wait_leaves_nothing_behind() {
        let handshakes = Handshakes::new(Clock::start());
        run(async {
            let (work, begun, go) = busy();
            let mut first = Box::pin(handshakes.run(1, work));
            assert!(futures_poll(&mut first).is_pending());
            begun.await.unwrap();
            let connection = Arc::new(());
            let held = Arc::clone(&connection);
            let mut second = Box::pin(handshakes.run(1, move || drop(held)));
            assert!(futures_poll(&mut second).is_pending());
            drop(second);
            assert_eq!(Arc::strong_count(&connection), 1);
            assert!(handshakes.shared.lock().jobs.is_empty());
            go.send(()).unwrap();
            assert!(first.await.unwrap());
        });
    }

    /// Before, the thread that was woken for the job ended without it, and the job waited for the other one's idleness to end.
    #[test]
    fn a_job_is_not_lost_to_a_thread_that_is_one_too_many() {
        let handshakes = Handshakes::new(Clock::start());
        run(async {
            let (one, one_begun, one_goes) = busy();
            let (two, two_begun, two_goes) = busy();
            let mut first = Box::pin(handshakes.run(2, one));
            let mut second = Box::pin(handshakes.run(2, two));
            assert!(futures_poll(&mut first).is_pending() && futures_poll(&mut second).is_pending());
            one_begun.await.unwrap();
            two_begun.await.unwrap();
            one_goes.send(()).unwrap();
            two_goes.send(()).unwrap();
            assert!(first.await.unwrap() && second.await.unwrap());
            while handshakes.shared.lock().idle < 2 {
                tokio::task::yield_now().await;
            }
            let computed = tokio::time::timeout(IDLE / 2, handshakes.run(1, || 5)).await;
            assert_eq!(computed.expect("before the threads end for want of work").unwrap(), 5);
        });
    }

    fn futures_poll<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> std::task::Poll<F::Output> {
        future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}

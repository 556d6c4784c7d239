//! One thread at work: arrivals, tries and retries.
//!
//! Each thread generates every class's whole arrival sequence and takes each n-th arrival of it,
//! so that the intended start times do not depend on the number of threads.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

use crate::{
    arrivals::{Arrivals, Schedule},
    client::Client,
    engine::Setup,
    error::LoadError,
    live::{Live, LiveClass},
    outcome::{Outcome, Phase},
    pacer::Pacer,
    plan::{ClassPlan, ClassTemplate},
    random::SplitMix64,
    retry::{self, DRAIN_MAX},
    tally::{ClassTally, ThreadTally},
};

/// Arrivals started in one go before replies get their turn, when the generator is behind.
const BATCH: usize = 32;
/// How often a sleeping arrival process looks whether the run was stopped.
const STOP_CHECK: Duration = Duration::from_millis(100);
/// A closed-loop client whose try failed at once waits so long, so that a dead server is not hammered.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);

/// One thread at work.
pub(crate) struct Worker {
    begin: Instant,
    end: Instant,
    measured_from: Instant,
    share: Share,
    seed: u64,
    client: Client,
    classes: Vec<Class>,
    in_flight: Cell<usize>,
    emptied: Notify,
    panicked: Cell<bool>,
    live: Arc<Live>,
}

/// Which of `threads` equal parts this thread has.
#[derive(Clone, Copy)]
struct Share {
    index: usize,
    threads: usize,
    in_flight_max: usize,
}

/// A class on one thread.
struct Class {
    index: usize,
    plan: ClassPlan,
    template: ClassTemplate,
    body: Bytes,
    tally: RefCell<ClassTally>,
    backoff_random: RefCell<SplitMix64>,
}

impl Worker {
    pub(crate) fn new(setup: Setup) -> Self {
        let Setup { index, begin, plan, length, templates, destination, live } = setup;
        let classes = plan.classes.into_iter().zip(templates).enumerate();
        Self {
            begin,
            end: begin + length,
            measured_from: begin + plan.warmup,
            share: Share {
                index,
                threads: plan.threads,
                in_flight_max: plan.in_flight_max.div_ceil(plan.threads),
            },
            seed: plan.seed,
            client: Client::new(destination),
            classes: classes
                .map(|(class_index, (plan_of_class, template))| Class {
                    index: class_index,
                    body: Bytes::from(vec![b'x'; plan_of_class.body_bytes]),
                    plan: plan_of_class,
                    template,
                    tally: RefCell::default(),
                    backoff_random: RefCell::new(SplitMix64::stream(
                        plan.seed,
                        purpose(Purpose::Backoff, class_index, index),
                    )),
                })
                .collect(),
            in_flight: Cell::new(0),
            emptied: Notify::new(),
            panicked: Cell::new(false),
            live,
        }
    }

    pub(crate) async fn run(self, pacers: Vec<Pacer>) -> Result<ThreadTally, LoadError> {
        let worker = Rc::new(self);
        let mut sources = Vec::new();
        for (index, pacer) in pacers.into_iter().enumerate() {
            let worker = Rc::clone(&worker);
            sources.push(tokio::task::spawn_local(async move {
                let Some(class) = worker.classes.get(index) else { return };
                match &class.plan.arrivals {
                    Arrivals::Open(schedule) => worker.offer(class, schedule, &pacer).await,
                    Arrivals::Closed { connections, think } => {
                        worker.loop_clients(class, *connections, *think, &pacer).await;
                    }
                }
            }));
        }
        for source in sources {
            if source.await.is_err() {
                worker.panicked.set(true);
            }
        }
        worker.drain().await;
        if worker.panicked.get() { Err(LoadError::Panicked) } else { Ok(worker.tally()) }
    }

    /// Open arrivals: each starts at its time, whatever became of those before.
    async fn offer(self: &Rc<Self>, class: &Class, schedule: &Schedule, pacer: &Pacer) {
        let arrivals = schedule
            .offsets(self.seed, purpose(Purpose::Arrivals, class.index, 0))
            .take(usize::try_from(class.plan.requests_max.unwrap_or(u64::MAX)).unwrap_or(usize::MAX))
            .skip(self.share.index)
            .step_by(self.share.threads);
        let mut batch = 0;
        for offset in arrivals {
            let intended = self.begin + offset;
            if intended >= self.end {
                return;
            }
            while Instant::now() < intended {
                if self.live.is_stopped() {
                    return;
                }
                batch = 0;
                let wake = intended.min(Instant::now() + STOP_CHECK);
                if pacer.wait_until(wake).await.is_err() {
                    // Cannot happen on a working system; ending the class shows in its offered count.
                    return;
                }
            }
            batch += 1;
            if batch == BATCH {
                batch = 0;
                tokio::task::yield_now().await;
                if self.live.is_stopped() {
                    return;
                }
            }
            self.start(class.index, intended);
        }
    }

    /// One arrival of an open class. Beyond the bound it is counted and not sent.
    fn start(self: &Rc<Self>, class: usize, intended: Instant) {
        let Some(class_ref) = self.classes.get(class) else { return };
        if let Some(live) = self.live.class(class) {
            live.offered.fetch_add(1, Relaxed);
        }
        self.tally_offered(class_ref, intended);
        if self.in_flight.get() >= self.share.in_flight_max {
            if self.is_measured(intended) {
                class_ref.tally.borrow_mut().overruns += 1;
            }
            return;
        }
        let flight = Flight::begin(Rc::clone(self), class);
        tokio::task::spawn_local(async move {
            if let Some(class) = flight.worker.classes.get(class) {
                flight.worker.request(class, intended).await;
            }
        });
    }

    /// Closed loop: this thread's share of the clients, each with its next request after its last.
    async fn loop_clients(
        self: &Rc<Self>,
        class: &Class,
        connections: usize,
        think: Duration,
        pacer: &Pacer,
    ) {
        if pacer.wait_until(self.begin).await.is_err() {
            return;
        }
        let mut clients = Vec::new();
        for client in (self.share.index..connections).step_by(self.share.threads) {
            let flight = Flight::begin(Rc::clone(self), class.index);
            clients.push(tokio::task::spawn_local(async move {
                let Some(class) = flight.worker.classes.get(flight.class) else { return };
                let mut random =
                    SplitMix64::stream(flight.worker.seed, purpose(Purpose::Think, flight.class, client));
                flight.worker.loop_client(class, think, &mut random).await;
            }));
        }
        for client in clients {
            if client.await.is_err() {
                self.panicked.set(true);
            }
        }
    }

    async fn loop_client(&self, class: &Class, think: Duration, random: &mut SplitMix64) {
        loop {
            let now = Instant::now();
            if now >= self.end || self.live.is_stopped() {
                return;
            }
            if !self.live.class(class.index).is_some_and(|live| live.offer(class.plan.requests_max)) {
                return;
            }
            self.tally_offered(class, now);
            let answered = self.request(class, now).await;
            let mut pause = if answered { Duration::ZERO } else { FAILURE_PAUSE };
            if !think.is_zero() {
                pause += think.mul_f64(random.exponential());
            }
            if !pause.is_zero() {
                let wake = (Instant::now() + pause).min(self.end);
                while Instant::now() < wake && !self.live.is_stopped() {
                    tokio::time::sleep_until(wake.min(Instant::now() + STOP_CHECK).into()).await;
                }
            }
        }
    }

    /// One request with its retries; whether the last try got any reply.
    async fn request(&self, class: &Class, intended: Instant) -> bool {
        let measured = self.is_measured(intended);
        if measured {
            class.tally.borrow_mut().send_lag.record(intended.elapsed());
        }
        let mut try_intended = intended;
        let mut retries = 0;
        loop {
            let outcome = self.attempt(class, try_intended, measured).await;
            let now = Instant::now();
            self.record(class, intended, try_intended, now, &outcome, measured);
            let answered = matches!(outcome, Outcome::Reply { .. });
            let pause = class.plan.retry.as_ref().filter(|_| !self.live.is_stopped()).and_then(|retry| {
                retry.pause_before_retry(retries, &outcome, class.backoff_random.borrow_mut().unit())
            });
            let Some(pause) = pause else {
                class.tally.borrow_mut().ended += u64::from(measured);
                return answered;
            };
            retries += 1;
            try_intended = now + pause;
            tokio::time::sleep_until(try_intended.into()).await;
            if measured {
                class.tally.borrow_mut().retries += 1;
            }
        }
    }

    async fn attempt(&self, class: &Class, intended: Instant, measured: bool) -> Outcome {
        let deadline = intended + class.plan.timeout;
        let now = Instant::now();
        if now >= deadline {
            return Outcome::Timeout(Phase::Unsent);
        }
        {
            let mut tally = class.tally.borrow_mut();
            tally.series.sent.count(now.saturating_duration_since(self.begin));
            tally.sent += u64::from(measured);
        }
        if let Some(live) = self.live.class(class.index) {
            live.sent.fetch_add(1, Relaxed);
        }
        let phase = Cell::new(Phase::Head);
        let exchange = self.client.exchange(&class.template, &class.body, &phase);
        match tokio::time::timeout_at(deadline.into(), exchange).await {
            // A busy generator can see a reply late that came in time, and cannot tell: the
            // client it stands for saw nothing in time either.
            Ok(Ok(_)) if Instant::now() > deadline => Outcome::Timeout(Phase::Body),
            Ok(Ok(reply)) => Outcome::Reply {
                status: reply.status,
                body_bytes: reply.body_bytes,
                retry_after: reply.retry_after,
            },
            Ok(Err(kind)) => Outcome::Failed(kind),
            Err(_) => Outcome::Timeout(phase.get()),
        }
    }

    fn record(
        &self,
        class: &Class,
        intended: Instant,
        try_intended: Instant,
        now: Instant,
        outcome: &Outcome,
        measured: bool,
    ) {
        let since_begin = now.saturating_duration_since(self.begin);
        let latency = now.saturating_duration_since(intended);
        let tally = &mut *class.tally.borrow_mut();
        let series = &mut tally.series;
        let live = self.live.class(class.index);
        let count = |counter: fn(&LiveClass) -> &AtomicU64| {
            if let Some(live) = live {
                counter(live).fetch_add(1, Relaxed);
            }
        };
        match outcome {
            _ if outcome.is_good() => {
                series.good.count(since_begin);
                series.good_by_start.count(intended.saturating_duration_since(self.begin));
                if let Some(live) = live {
                    live.count_good(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
                }
            }
            _ if outcome.is_refused() => {
                series.refused.count(since_begin);
                count(|live| &live.refused);
            }
            Outcome::Timeout(_) => {
                series.timeouts.count(since_begin);
                count(|live| &live.timeouts);
            }
            Outcome::Reply { .. } | Outcome::Failed(_) => {
                series.failed.count(since_begin);
                count(|live| &live.failed);
            }
        }
        if !measured {
            return;
        }
        match outcome {
            Outcome::Reply { status, body_bytes, .. } => {
                *tally.statuses.entry(*status).or_default() += 1;
                tally.body_bytes += body_bytes;
                if outcome.is_good() {
                    tally.good += 1;
                    tally.good_latency.record(latency);
                } else if outcome.is_refused() {
                    tally.refused += 1;
                    tally.refused_latency.record(now.saturating_duration_since(try_intended));
                }
            }
            Outcome::Timeout(phase) => *tally.timeouts.entry(*phase).or_default() += 1,
            Outcome::Failed(kind) => *tally.errors.entry(*kind).or_default() += 1,
        }
    }

    /// Waits for what is in flight: no longer than all its tries and pauses can take.
    async fn drain(&self) {
        let longest =
            self.classes.iter().map(|class| retry::longest_request(&class.plan)).max().unwrap_or_default();
        let deadline = Instant::now() + longest.min(DRAIN_MAX);
        let emptied = async {
            while self.in_flight.get() > 0 {
                self.emptied.notified().await;
            }
        };
        // Those not done by then are counted as unfinished in `tally`.
        let _ = tokio::time::timeout_at(deadline.into(), emptied).await;
    }

    fn tally(&self) -> ThreadTally {
        let classes = self.classes.iter().map(|class| class.tally.take());
        ThreadTally {
            classes: classes.collect(),
            connections: self.client.take_tally(),
            cpu: thread_cpu_time(),
        }
    }

    fn tally_offered(&self, class: &Class, intended: Instant) {
        let mut tally = class.tally.borrow_mut();
        tally.series.offered.count(intended.saturating_duration_since(self.begin));
        tally.offered += u64::from(self.is_measured(intended));
    }

    fn is_measured(&self, intended: Instant) -> bool {
        intended >= self.measured_from
    }
}

/// A request (or a closed loop's client) under way; ends when dropped, on every path.
struct Flight {
    worker: Rc<Worker>,
    class: usize,
}

impl Flight {
    fn begin(worker: Rc<Worker>, class: usize) -> Self {
        worker.in_flight.set(worker.in_flight.get() + 1);
        if let Some(live) = worker.live.class(class) {
            live.in_flight.fetch_add(1, Relaxed);
        }
        Self { worker, class }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let worker = &self.worker;
        worker.in_flight.set(worker.in_flight.get().saturating_sub(1));
        if let Some(live) = worker.live.class(self.class) {
            live.in_flight.fetch_sub(1, Relaxed);
        }
        if thread::panicking() {
            worker.panicked.set(true);
        }
        if worker.in_flight.get() == 0 {
            worker.emptied.notify_one();
        }
    }
}

/// What a random stream is for; part of its seed.
#[derive(Clone, Copy)]
enum Purpose {
    Arrivals,
    Think,
    Backoff,
}

fn purpose(kind: Purpose, class: usize, index: usize) -> u64 {
    // Classes are at most 64 and indices at most 100,000 by the plan's bounds.
    ((kind as u64) << 56) | ((class as u64) << 40) | index as u64
}

fn thread_cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), u32::try_from(spent.tv_nsec).unwrap_or_default())
}

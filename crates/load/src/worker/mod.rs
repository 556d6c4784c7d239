//! One thread at work: arrivals, and visitors from one reply to the next.
//!
//! Each thread generates every class's whole arrival sequence and takes each n-th arrival of it,
//! so that the intended start times do not depend on the number of threads.

mod parked;
mod record;
mod visitor;

use std::{
    cell::{Cell, RefCell},
    ops::Range,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

use self::{
    parked::{Parked, Why},
    visitor::{Errand, Kind, Visitor},
};
use crate::{
    arrivals::{Arrivals, CONNECTIONS_MAX},
    client::{Client, Exchange, Pool},
    engine::Setup,
    error::LoadError,
    live::Live,
    onward::{Onward, Place},
    outcome::{ErrorKind, Outcome, Phase},
    pacer::Pacer,
    plan::{ClassPlan, ClassTemplate, DRAIN_MAX},
    random::SplitMix64,
    retry,
    session::{Session, Step},
    tally::{ClassTally, ThreadTally},
};

/// Arrivals started in one go before replies get their turn, when the generator is behind.
const BATCH: usize = 32;
/// How often a sleeping arrival process looks whether the run was stopped.
const STOP_CHECK: Duration = Duration::from_millis(100);
/// A closed-loop client whose try failed at once waits so long, so that a dead server is not hammered.
const FAILURE_PAUSE: Duration = Duration::from_millis(10);
/// Redirects followed without a pause, one after another; browsers give up at 20, too.
const REDIRECTS_MAX: u32 = 20;

/// One thread at work.
pub(crate) struct Worker {
    begin: Instant,
    end: Instant,
    /// When requests that are measured are meant to start.
    measured: Range<Instant>,
    drain_max: Duration,
    share: Share,
    seed: u64,
    client: Client,
    pool: Pool,
    classes: Vec<Class>,
    in_flight: Cell<usize>,
    parked: Parked,
    /// A flight has ended.
    landed: Notify,
    panicked: Cell<bool>,
    live: Arc<Live>,
}

/// Which of `threads` equal parts this thread has.
#[derive(Clone, Copy)]
struct Share {
    index: usize,
    threads: usize,
    in_flight_max: usize,
    waiting_max: usize,
}

/// A class on one thread.
struct Class {
    index: usize,
    plan: ClassPlan,
    template: ClassTemplate,
    body: Bytes,
    tally: RefCell<ClassTally>,
    random: RefCell<SplitMix64>,
}

/// What a visitor does after a try.
enum Next {
    /// Another try or request at once.
    Now,
    /// It waits until then.
    Park(Instant, Why),
    /// Nothing more.
    Leave,
}

impl Worker {
    pub(crate) fn new(setup: Setup) -> Self {
        let Setup { index, begin, plan, length, templates, destination, live } = setup;
        let classes = plan.classes.into_iter().zip(templates).enumerate();
        let pool = Pool::shared(&destination);
        let random = |kind, class_index| SplitMix64::stream(plan.seed, purpose(kind, class_index, index));
        Self {
            begin,
            end: begin + length,
            measured: begin + plan.warmup..begin + length.saturating_sub(plan.cooldown),
            drain_max: plan.drain.unwrap_or(DRAIN_MAX),
            share: Share {
                index,
                threads: plan.threads,
                in_flight_max: plan.in_flight_max.div_ceil(plan.threads),
                waiting_max: plan.waiting_max.div_ceil(plan.threads),
            },
            seed: plan.seed,
            client: Client::new(destination, random(Purpose::Tls, 0)),
            pool,
            classes: classes
                .map(|(class_index, (plan_of_class, template))| Class {
                    index: class_index,
                    body: Bytes::from(vec![b'x'; plan_of_class.body_bytes]),
                    tally: RefCell::new(ClassTally::for_class(&template, &plan_of_class)),
                    plan: plan_of_class,
                    template,
                    random: RefCell::new(random(Purpose::Backoff, class_index)),
                })
                .collect(),
            in_flight: Cell::new(0),
            parked: Parked::new(begin),
            landed: Notify::new(),
            panicked: Cell::new(false),
            live,
        }
    }

    /// Runs with a timer for each class and one for those who wait.
    pub(crate) async fn run(self, pacers: Vec<Pacer>, waking: Pacer) -> Result<ThreadTally, LoadError> {
        let worker = Rc::new(self);
        let keeper = tokio::task::spawn_local({
            let worker = Rc::clone(&worker);
            async move { worker.wake_parked(&waking).await }
        });
        let mut sources = Vec::new();
        for (index, pacer) in pacers.into_iter().enumerate() {
            let worker = Rc::clone(&worker);
            sources.push(tokio::task::spawn_local(async move {
                let Some(class) = worker.classes.get(index) else { return };
                match &class.plan.arrivals {
                    Arrivals::Open(schedule) => {
                        let offsets = schedule.offsets(worker.seed, purpose(Purpose::Arrivals, index, 0));
                        worker.offer(class, offsets, &pacer).await;
                    }
                    Arrivals::Trace { .. } => {
                        if let Some(trace) = &class.template.trace {
                            worker.offer(class, trace.offsets(), &pacer).await;
                        }
                    }
                    Arrivals::Closed { connections, .. } => {
                        worker.start_clients(class, *connections, &pacer).await;
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
        keeper.abort();
        if keeper.await.is_err_and(|fault| fault.is_panic()) {
            worker.panicked.set(true);
        }
        if worker.panicked.get() { Err(LoadError::Panicked) } else { Ok(worker.tally()) }
    }

    /// Open arrivals: each starts at its time, whatever became of those before.
    async fn offer(self: &Rc<Self>, class: &Class, offsets: impl Iterator<Item = Duration>, pacer: &Pacer) {
        let arrivals = offsets
            .take(usize::try_from(class.plan.requests_max.unwrap_or(u64::MAX)).unwrap_or(usize::MAX))
            .enumerate()
            .skip(self.share.index)
            .step_by(self.share.threads);
        let mut batch = 0;
        for (number, offset) in arrivals {
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
            self.arrive(class, number, intended);
        }
    }

    /// One arrival of an open class. Beyond the bounds it is counted and not sent.
    fn arrive(self: &Rc<Self>, class: &Class, number: usize, intended: Instant) {
        let kind = match &class.template.chain {
            Some(_) => {
                let Some(session) = self.begin_session(class, number, intended, None) else { return };
                session
            }
            None => {
                let line = class.template.trace.is_some().then_some(number);
                Kind::Once { line, client: self.client_of(class, number) }
            }
        };
        self.note_offered(class, intended);
        if let Kind::Once { client, .. } = kind {
            self.note_client(class, client, intended);
        }
        let is_full =
            self.in_flight.get() >= self.share.in_flight_max || self.parked.len() >= self.share.waiting_max;
        if is_full {
            self.note_overrun(class, intended);
            return;
        }
        self.go(Visitor::new(class.index, kind, intended));
    }

    /// Which of the class's clients an arrival is of, whatever thread it falls to.
    fn client_of(&self, class: &Class, number: usize) -> u32 {
        let Some(clients) = class.plan.clients else { return 0 };
        let mut random = SplitMix64::stream(self.seed, purpose(Purpose::Client, class.index, number));
        u32::try_from(random.between(1, clients.into()) - 1).unwrap_or_default()
    }

    fn begin_session(
        &self,
        class: &Class,
        number: usize,
        intended: Instant,
        client: Option<usize>,
    ) -> Option<Kind> {
        let chain = class.template.chain.as_ref()?;
        let random = SplitMix64::stream(self.seed, purpose(Purpose::Session, class.index, number));
        let pool = Pool::of_its_own(self.client.destination());
        self.note_session_started(class, intended);
        Some(Kind::Session(Box::new(Session::begin(chain, random, intended, number, client, pool))))
    }

    /// Closed loop: this thread's share of the clients, each with its first request, or session, after a pause as
    /// between two, and its next after its last.
    async fn start_clients(self: &Rc<Self>, class: &Class, connections: usize, pacer: &Pacer) {
        if pacer.wait_until(self.begin).await.is_err() {
            return;
        }
        for client in (self.share.index..connections).step_by(self.share.threads) {
            let mut random = SplitMix64::stream(self.seed, purpose(Purpose::Think, class.index, client));
            let think = match (&class.template.chain, &class.plan.arrivals) {
                (Some(chain), _) => chain.think,
                (None, Arrivals::Closed { think, .. }) => *think,
                (None, _) => Duration::ZERO,
            };
            let pause = think.mul_f64(random.exponential());
            let kind = match &class.template.chain {
                Some(_) => Kind::Between { number: client, client },
                None => Kind::Loop { random: Box::new(random) },
            };
            let now = Instant::now();
            let mut visitor = Visitor::new(class.index, kind, now);
            if !pause.is_zero() {
                self.parked.push(self.begin + pause, Why::Think, visitor);
            } else if self.begin_request(class, &mut visitor, now) {
                self.go(visitor);
            } else {
                return;
            }
        }
    }

    /// Whether a closed loop may begin one more request, or session.
    fn admit(&self, class: &Class) -> bool {
        self.live.class(class.index).is_some_and(|live| live.admit(class.plan.requests_max))
    }

    /// Sends a visitor on its way, in a task that lasts until it waits or leaves.
    fn go(self: &Rc<Self>, mut visitor: Box<Visitor>) {
        let flight = Flight::begin(Rc::clone(self), visitor.class);
        tokio::task::spawn_local(async move {
            let worker = &flight.worker;
            let Some(class) = worker.classes.get(visitor.class) else { return };
            loop {
                match worker.visit(class, &mut visitor).await {
                    Next::Now => {}
                    Next::Park(due, why) => {
                        worker.note_parked(class, why);
                        worker.parked.push(due, why, visitor);
                        return;
                    }
                    Next::Leave => return,
                }
            }
        });
    }

    /// One try, and what follows from it.
    async fn visit(&self, class: &Class, visitor: &mut Visitor) -> Next {
        let measured = self.is_measured(visitor.errand.intended);
        let is_first = visitor.errand.due == visitor.errand.intended;
        if measured && is_first {
            class.tally.borrow_mut().send_lag.record(visitor.errand.intended.elapsed());
        }
        let outcome = self.attempt(class, visitor, measured).await;
        let now = Instant::now();
        self.record(class, &mut visitor.errand, &outcome, now, measured);
        if let Outcome::Onward { onward, .. } = &outcome {
            return self.follow(class, visitor, &outcome, onward, now);
        }
        let errand = &mut visitor.errand;
        let pause = class.plan.retry.as_ref().filter(|_| !self.live.is_stopped()).and_then(|retry| {
            retry.pause_before_retry(errand.retries, &outcome, class.random.borrow_mut().unit())
        });
        if let Some(pause) = pause {
            errand.retries += 1;
            errand.due = now + pause;
            return Next::Park(errand.due, Why::Retry);
        }
        self.over(class, visitor, &outcome, now)
    }

    /// Goes where the reply said, when it said.
    fn follow(
        &self,
        class: &Class,
        visitor: &mut Visitor,
        outcome: &Outcome,
        onward: &Onward,
        now: Instant,
    ) -> Next {
        let errand = &mut visitor.errand;
        errand.turn(onward);
        if onward.after.is_zero() {
            errand.redirects += 1;
            errand.due = now;
            return Next::Now;
        }
        if self.live.is_stopped() {
            return Next::Leave;
        }
        let is_first = errand.promised.is_none();
        let runs_scripts = class.plan.follow.as_ref().is_some_and(|follow| follow.scripts);
        let after = onward.exactly.filter(|_| runs_scripts).unwrap_or(onward.after);
        let wanted = class.plan.follow.as_ref().is_some_and(|follow| {
            after <= follow.wait_max
                && errand.returns < follow.returns_max
                // Whether somebody comes back is decided once.
                && (!is_first || follow.returning >= 1.0 || class.random.borrow_mut().unit() <= follow.returning)
        });
        if !wanted {
            self.note_left(class, visitor);
            return self.over(class, visitor, outcome, now);
        }
        errand.redirects = 0;
        errand.due = now + after;
        errand.promised.get_or_insert(errand.due);
        if let Kind::Session(session) = &visitor.kind {
            session.pool.close();
        }
        Next::Park(errand.due, Why::Promise)
    }

    /// The request is over; what its visitor does next.
    fn over(&self, class: &Class, visitor: &mut Visitor, outcome: &Outcome, now: Instant) -> Next {
        self.note_ended(class, visitor, outcome, now);
        let answered = matches!(outcome, Outcome::Reply { .. });
        let failure_pause = if answered { Duration::ZERO } else { FAILURE_PAUSE };
        let mut is_image = false;
        let mut between = None;
        let pause = match &mut visitor.kind {
            Kind::Once { .. } | Kind::Between { .. } => return Next::Leave,
            Kind::Loop { random } => match &class.plan.arrivals {
                Arrivals::Closed { think, .. } if !think.is_zero() => {
                    failure_pause + think.mul_f64(random.exponential())
                }
                _ => failure_pause,
            },
            Kind::Session(session) => {
                let Some(chain) = &class.template.chain else { return Next::Leave };
                match if outcome.is_answer() { session.step(chain) } else { Step::Done } {
                    Step::Image => {
                        is_image = true;
                        Duration::ZERO
                    }
                    Step::Page(pause) => pause,
                    Step::Done => {
                        self.note_session_over(class, session, outcome, now);
                        let Some(client) = session.client else { return Next::Leave };
                        // Numbers of a client's sessions are those of no other client.
                        let number = session.number.saturating_add(CONNECTIONS_MAX);
                        between = Some(Kind::Between { number, client });
                        failure_pause + session.think(chain)
                    }
                }
            }
        };
        if let Some(between) = between {
            visitor.kind = between;
        }
        // What belongs to a page is fetched even after the end of the run.
        if self.live.is_stopped() || (now >= self.end && !is_image) {
            return Next::Leave;
        }
        if !pause.is_zero() {
            visitor.errand = Errand::new(now + pause);
            return Next::Park(visitor.errand.due, Why::Think);
        }
        if self.begin_request(class, visitor, now) { Next::Now } else { Next::Leave }
    }

    /// The next request of a visitor who has more than one; `false` if the class has had all it may.
    fn begin_request(&self, class: &Class, visitor: &mut Visitor, intended: Instant) -> bool {
        let begins = match &visitor.kind {
            Kind::Once { .. } => return false,
            Kind::Loop { .. } => None,
            Kind::Between { number, client } => Some((*number, *client)),
            Kind::Session(_) => {
                visitor.errand = Errand::new(intended);
                self.note_offered(class, intended);
                return true;
            }
        };
        if !self.admit(class) {
            return false;
        }
        let mut next = Visitor::new(class.index, Kind::Once { line: None, client: 0 }, intended);
        match begins {
            Some((number, client)) => {
                let Some(session) = self.begin_session(class, number, intended, Some(client)) else {
                    return false;
                };
                next.kind = session;
            }
            None => std::mem::swap(&mut next.kind, &mut visitor.kind),
        }
        *visitor = *next;
        self.note_offered(class, intended);
        true
    }

    async fn attempt(&self, class: &Class, visitor: &mut Visitor, measured: bool) -> Outcome {
        let deadline = visitor.errand.due + class.plan.timeout;
        let now = Instant::now();
        if now >= deadline {
            return Outcome::Timeout(Phase::Unsent);
        }
        self.note_sent(class, now, measured);
        let (template, body) = visitor.request(class, now);
        let phase = Cell::new(Phase::Head);
        let follows = class.plan.follow.is_some();
        let reads_on = follows || class.template.chain.is_some();
        let exchange = Exchange { template: &template, body: &body, phase: &phase, reads_on };
        let pool = match &visitor.kind {
            Kind::Session(session) => &session.pool,
            Kind::Once { .. } | Kind::Loop { .. } | Kind::Between { .. } => &self.pool,
        };
        let exchanged = self.client.exchange(pool, &exchange);
        let reply = match tokio::time::timeout_at(deadline.into(), exchanged).await {
            // A busy generator can see a reply late that came in time, and cannot tell: the
            // client it stands for saw nothing in time either.
            Ok(Ok(_)) if Instant::now() > deadline => return Outcome::Timeout(Phase::Body),
            Ok(Ok(reply)) => reply,
            Ok(Err(kind)) => return Outcome::Failed(kind),
            Err(_) => return Outcome::Timeout(phase.get()),
        };
        let secure = self.client.destination().tls.is_some();
        for cookie in &reply.cookies {
            visitor.jar.take_in(cookie, template.target.path(), secure, now);
        }
        let Some(onward) = reply.onward.filter(|_| follows) else {
            return Outcome::Reply {
                status: reply.status,
                body_bytes: reply.body_bytes,
                retry_after: reply.retry_after,
            };
        };
        if onward.place == Place::Elsewhere {
            Outcome::Failed(ErrorKind::Elsewhere)
        } else if onward.after.is_zero() && visitor.errand.redirects >= REDIRECTS_MAX {
            Outcome::Failed(ErrorKind::Redirects)
        } else {
            Outcome::Onward { status: reply.status, body_bytes: reply.body_bytes, onward }
        }
    }

    /// Wakes those who wait, as long as the thread runs.
    async fn wake_parked(self: &Rc<Self>, waking: &Pacer) {
        let mut thinkers_left = false;
        loop {
            let mut now = Instant::now();
            if self.live.is_stopped() {
                self.dismiss(true);
            } else if now >= self.end && !thinkers_left {
                thinkers_left = true;
                self.dismiss(false);
            }
            let mut batch = 0;
            while self.in_flight.get() < self.share.in_flight_max
                && let Some((due, why, visitor)) = self.parked.pop_due(now)
            {
                self.go_on(due, why, visitor);
                batch += 1;
                if batch == BATCH {
                    batch = 0;
                    tokio::task::yield_now().await;
                    now = Instant::now();
                }
            }
            if self.in_flight.get() == 0 {
                // Dismissing may have left nobody to wait for.
                self.landed.notify_one();
            }
            let is_full = self.in_flight.get() >= self.share.in_flight_max;
            let mut wake = now + STOP_CHECK;
            if now < self.end {
                wake = wake.min(self.end);
            }
            if !is_full && let Some(due) = self.parked.next_due() {
                wake = wake.min(due);
            }
            let woken = async {
                // Only then are the first to go on held back by those in flight.
                if is_full { self.landed.notified().await } else { self.parked.earlier.notified().await }
            };
            tokio::select! {
                paced = waking.wait_until(wake) => if paced.is_err() { return },
                () = woken => {}
            }
        }
    }

    /// One who has waited to the end.
    fn go_on(self: &Rc<Self>, due: Instant, why: Why, mut visitor: Box<Visitor>) {
        let Some(class) = self.classes.get(visitor.class) else { return };
        self.note_unparked(class, &mut visitor, due, why);
        if why == Why::Think && !self.begin_request(class, &mut visitor, due) {
            return;
        }
        self.go(visitor);
    }

    /// Sends those away who think, or everybody who waits.
    fn dismiss(&self, everyone: bool) {
        for (why, visitor) in self.parked.take(everyone) {
            if let Some(class) = self.classes.get(visitor.class) {
                self.note_dismissed(class, why);
            }
        }
    }

    /// Waits for the end of the run, and then for what is in flight: no longer than all its tries and
    /// pauses can take.
    async fn drain(&self) {
        let nobody_left = async {
            while self.in_flight.get() > 0 || self.parked.len() > 0 {
                // The run may be stopped while the last ones wait.
                let _ = tokio::time::timeout(STOP_CHECK, self.landed.notified()).await;
            }
        };
        let longest =
            self.classes.iter().map(|class| retry::longest_request(&class.plan)).max().unwrap_or_default();
        let deadline = self.end.max(Instant::now()) + longest.min(self.drain_max);
        let stopped = async {
            while !self.live.is_stopped() {
                tokio::time::sleep(STOP_CHECK).await;
            }
            // As long as a reply may take.
            tokio::time::sleep(longest.min(self.drain_max)).await;
        };
        // Those not done by then are counted as unfinished in the report.
        tokio::select! {
            () = nobody_left => {}
            () = tokio::time::sleep_until(deadline.into()) => {}
            () = stopped => {}
        }
    }

    fn tally(&self) -> ThreadTally {
        self.dismiss(true);
        let classes = self.classes.iter().map(|class| class.tally.take());
        let cpu = thread_cpu_time();
        ThreadTally { classes: classes.collect(), connections: self.client.take_tally(), cpu, cpu_max: cpu }
    }

    fn is_measured(&self, intended: Instant) -> bool {
        self.measured.contains(&intended)
    }
}

/// A visitor under way; ends when dropped, on every path.
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
        worker.landed.notify_waiters();
        if worker.in_flight.get() == 0 {
            worker.landed.notify_one();
        }
    }
}

/// What a random stream is for; part of its seed.
#[derive(Clone, Copy)]
enum Purpose {
    Arrivals,
    Think,
    Backoff,
    Session,
    Tls,
    Client,
}

fn purpose(kind: Purpose, class: usize, index: usize) -> u64 {
    // Classes are at most 64 by the plan's bounds, indices are numbers of clients and sessions.
    ((kind as u64) << 56) | ((class as u64) << 48) | index as u64
}

fn thread_cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec.unsigned_abs(), u32::try_from(spent.tv_nsec).unwrap_or_default())
}

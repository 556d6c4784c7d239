//! The gate: how a worker asks an application's admission, and what it holds afterwards.
//!
//! Workers never see the lock. What they get gives itself back when dropped: a [`Held`] permit on
//! every path of a request's life, a [`Waiting`] place when its client leaves.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use tidegate_control::{
    ClassId, Refusal, Ticket, Timestamp,
    admission::{
        Admission, AdmissionSettings, Arrival, Departure, Exchange, Greeting, Outcome, Permit, Shadow,
        StreamPermit,
    },
    capacity::{Capacity, CapacityEvent, CapacityState, Found},
    tls_sessions::Session,
};
use tokio::sync::Notify;

use crate::Clock;

/// Classes an application has at most.
const CLASSES_MAX: usize = 256;

/// One application's admission, as workers see it. Cheap to clone; one a core, so that leased
/// permits can come behind it unseen.
#[derive(Clone, Debug)]
pub struct Gate {
    shared: Arc<GateState>,
}

/// The answer to an arrival.
#[must_use]
#[derive(Debug)]
pub enum Entry {
    /// It starts now and holds its permit.
    Start(Held),
    /// It waits; await the place.
    Wait(Waiting),
    /// It is refused.
    Refuse(Refusal),
}

/// Levels of one application's admission at one moment, for meters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateLevels {
    /// Weight in flight.
    pub in_flight: u64,
    /// The in-flight limit, weight units.
    pub limit: u64,
    /// Weight in flight that is dormant.
    pub dormant: u64,
    /// Capacity as found or given, thousandths of work units a second; `None`: not known.
    pub capacity: Option<u64>,
    /// Upgraded connections and long streams open.
    pub long_streams: u64,
    /// TLS sessions; `None` while nothing looks at them.
    pub tls_sessions: Option<TlsSessionLevels>,
    /// Requests waiting, dense by class.
    pub queued: Vec<u64>,
    /// Requests that would be waiting, had what only watches acted, dense by class; empty while nothing watches.
    pub would_wait: Vec<u64>,
    /// What a request costs, thousandths of one of the default class, dense by class; `None`: not known.
    pub costs: Vec<Option<u64>>,
}

/// What is known of an application's TLS sessions at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsSessionLevels {
    /// New ones that are let in, thousandths a second; `None`: as many as come.
    pub new_rate: Option<u64>,
    /// What a connection with a new one asks for, thousandths of work units; `None` before any came.
    pub new_cost: Option<u64>,
    /// The same of one that resumes.
    pub resumed_cost: Option<u64>,
    /// What all that were refused would have asked for, thousandths of work units since the beginning.
    pub refused_work: u64,
}

/// What came of an exchange when it gave its permit back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// What would have refused the request, if something that only watches would have.
    pub would_refuse: Option<Refusal>,
}

/// A permit that gives itself back: with the outcome told to [`Held::finish`], else as
/// [`Outcome::Ignore`].
#[must_use = "dropping it gives the permit back"]
#[derive(Debug)]
pub struct Held {
    gate: Gate,
    permit: Option<Permit>,
}

/// An upgraded connection or long stream: it holds no weight, but counts until dropped.
#[must_use = "dropping it ends the stream's count"]
#[derive(Debug)]
pub struct HeldStream {
    gate: Gate,
    permit: Option<StreamPermit>,
}

/// A place in the queue: resolves to a permit or a refusal; dropping it leaves the queue at once
/// and its work never starts.
#[must_use = "dropping it leaves the queue"]
#[derive(Debug)]
pub struct Waiting {
    gate: Gate,
    ticket: Option<Ticket>,
}

impl Gate {
    /// A gate before a fresh admission.
    #[must_use]
    pub fn new(clock: Clock, settings: &AdmissionSettings) -> Self {
        let admission = Admission::new(settings, clock.now());
        Self {
            shared: Arc::new(GateState {
                clock,
                locked: Mutex::new(Locked {
                    admission,
                    wakers: Vec::new(),
                    decided: Vec::new(),
                    armed: None,
                }),
                timer: Notify::new(),
                held: AtomicU64::new(0),
            }),
        }
    }

    /// Asks whether a request starts, waits or is refused.
    pub fn arrive(&self, exchange: Exchange) -> Entry {
        let arrival = self.with(|admission, now| admission.arrive(now, exchange));
        self.entry(arrival)
    }

    /// Asks again for a request that was admitted before and whose permit went back unused: it takes no
    /// ingress token again.
    pub fn arrive_again(&self, exchange: Exchange) -> Entry {
        let arrival = self.with(|admission, now| admission.arrive_again(now, exchange));
        self.entry(arrival)
    }

    /// The client of an exchange that goes on has left, whose shadow is this one. What has refused that, if anything has.
    pub fn abandon(&self, shadow: Shadow) -> Option<Refusal> {
        self.with(|admission, now| admission.abandon(now, shadow))
    }

    fn entry(&self, arrival: Arrival) -> Entry {
        match arrival {
            Arrival::Start(permit) => Entry::Start(self.hold(permit)),
            Arrival::Wait(ticket) => Entry::Wait(Waiting { gate: self.clone(), ticket: Some(ticket) }),
            Arrival::Refuse(refusal) => Entry::Refuse(refusal),
        }
    }

    /// A TLS session comes, before its handshake. See [`Admission::greet`](tidegate_control::admission::Admission::greet).
    pub fn greet(&self, session: Session) -> Greeting {
        self.with(|admission, now| admission.greet(now, session))
    }

    /// A session that was let in has done its handshake.
    pub fn begin_session(&self, session: Session) {
        self.shared.lock().admission.begin_session(session);
    }

    /// A request of that class comes. See [`Admission::note_session_work`](tidegate_control::admission::Admission::note_session_work).
    pub fn note_session_work(&self, session: Option<Session>, class: ClassId) {
        self.shared.lock().admission.note_session_work(session, class);
    }

    /// Applies new settings; nothing that waits or runs is lost.
    pub fn configure(&self, settings: &AdmissionSettings) {
        self.with(|admission, now| admission.configure(now, settings));
    }

    /// What the meters show of this moment.
    #[must_use]
    pub fn levels(&self) -> GateLevels {
        // Room for every class there can be, so that nothing is allocated inside the lock.
        let mut queued = Vec::with_capacity(CLASSES_MAX);
        let mut would_wait = Vec::with_capacity(CLASSES_MAX);
        let mut costs = Vec::with_capacity(CLASSES_MAX);
        let locked = self.shared.lock();
        let levels = locked.admission.levels();
        queued.extend(levels.queued().map(|(_, n)| n as u64));
        would_wait.extend(levels.would_wait().map(|(_, n)| n as u64));
        costs.extend(levels.costs().map(|(_, cost)| cost.map(thousandths)));
        GateLevels {
            in_flight: levels.in_flight,
            limit: u64::from(levels.limit),
            dormant: levels.dormant,
            capacity: levels.capacity.map(thousandths),
            long_streams: levels.long_streams,
            tls_sessions: levels.tls_sessions.map(|sessions| TlsSessionLevels {
                new_rate: sessions.rate().map(thousandths),
                new_cost: sessions.cost(Session::New).map(thousandths),
                resumed_cost: sessions.cost(Session::Resumed).map(thousandths),
                refused_work: thousandths(sessions.refused_work()),
            }),
            queued,
            would_wait,
            costs,
        }
    }

    /// Somebody tells the capacity, requests a second, for `valid_for` from now or until told otherwise; `None` takes
    /// it back. While it is in force it goes before what is found and before the knobs.
    pub fn tell_capacity(&self, per_s: Option<f64>, valid_for: Option<Duration>) {
        self.with(|admission, now| admission.tell_capacity(now, per_s, valid_for));
    }

    /// Forgets the capacity found and searches again.
    pub fn rediscover(&self) {
        self.with(|admission, now| admission.rediscover(now));
    }

    /// What has been found of the servers.
    pub(crate) fn found(&self) -> Option<Found> {
        self.with(|admission, _| admission.found())
    }

    /// Begins with what another process has found.
    pub(crate) fn restore_found(&self, found: &Found) {
        self.with(|admission, now| admission.restore_found(now, found));
    }

    /// Servers were lost or added: the capacity is `factor` times what it was.
    pub(crate) fn resize(&self, factor: f64) {
        self.with(|admission, now| admission.resize(now, factor));
    }

    /// How often a capacity was given. See [`Admission::givings`](tidegate_control::admission::Admission::givings).
    pub(crate) fn givings(&self) -> [u64; 2] {
        self.with(|admission, _| admission.givings())
    }

    /// What of it is in service. See [`Admission::serve_parts`](tidegate_control::admission::Admission::serve_parts).
    pub(crate) fn serve_parts(&self, numbers: [u64; 2], parts: [f64; 2]) {
        self.with(|admission, now| admission.serve_parts(now, numbers, parts));
    }

    /// What the waiting room goes by. See [`Admission::supply`](tidegate_control::admission::Admission::supply).
    #[must_use]
    pub(crate) fn supply(&self, held_back: bool) -> Capacity {
        self.with(|admission, now| admission.supply(now, held_back))
    }

    /// What is held of the capacity.
    #[must_use]
    pub fn capacity(&self) -> CapacityState {
        self.with(|admission, now| {
            admission.advance(now);
            admission.capacity()
        })
    }

    /// Hands out and clears what has happened to the capacity, with reasons.
    pub(crate) fn drain_capacity_events(&self, out: &mut Vec<CapacityEvent>) {
        self.with(|admission, _| admission.drain_capacity_events(out));
    }

    /// Hands out and clears what would have been refused, had what only watches acted.
    pub fn drain_would_refuse(&self, f: impl FnMut(ClassId, Refusal, u64)) {
        self.with(|admission, _| admission.drain_would_refuse(f));
    }

    /// Permits out, in number; zero once everything has been given back.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.shared.held.load(Ordering::Relaxed)
    }

    /// Fires the admission's timers as they fall due, for ever. One task a application runs this
    /// on its home core.
    pub async fn drive_timers(self) {
        loop {
            self.with(|admission, now| admission.advance(now));
            let due = self.shared.lock().arm();
            // A notice given since is kept for `notified`, so none is lost in between.
            let changed = self.shared.timer.notified();
            match due {
                Some(at) => {
                    let at = tokio::time::Instant::from_std(self.shared.clock.instant(at));
                    tokio::select! {
                        () = tokio::time::sleep_until(at) => {}
                        () = changed => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    fn hold(&self, permit: Permit) -> Held {
        self.shared.held.fetch_add(1, Ordering::Relaxed);
        Held { gate: self.clone(), permit: Some(permit) }
    }

    /// Runs `f` under the lock at the present time, then wakes whoever was decided and tells the
    /// timer task if an earlier timeout came up. Nothing is woken inside the lock.
    fn with<R>(&self, f: impl FnOnce(&mut Admission, Timestamp) -> R) -> R {
        let mut locked = self.shared.lock();
        let now = self.shared.clock.now();
        let result = f(&mut locked.admission, now);
        let decided = locked.wakers_of_decided();
        let earlier = locked.has_earlier_timeout();
        drop(locked);
        if let Some(mut wakers) = decided {
            for waker in wakers.drain(..) {
                waker.wake();
            }
            DECIDED.set(wakers);
        }
        if earlier {
            self.shared.timer.notify_one();
        }
        result
    }
}

impl Held {
    /// Gives the permit back with what came of the exchange.
    pub fn finish(mut self, outcome: Outcome) -> Ended {
        self.give_back(outcome)
            .unwrap_or_else(|| Ended { at: self.gate.shared.clock.now(), would_refuse: None })
    }

    /// Gives the weight back with what has come of the exchange so far, and goes on as a long stream.
    ///
    /// # Errors
    ///
    /// The permit itself when as many streams are open as `long_streams.max` allows.
    pub fn into_stream(mut self, outcome: Outcome) -> Result<HeldStream, Self> {
        let Some(permit) = self.permit.take() else { return Err(self) };
        match self.gate.with(|admission, now| admission.begin_stream(now, permit, outcome)) {
            Ok(stream) => {
                self.gate.shared.held.fetch_sub(1, Ordering::Relaxed);
                Ok(HeldStream { gate: self.gate.clone(), permit: Some(stream) })
            }
            Err(permit) => {
                self.permit = Some(permit);
                Err(self)
            }
        }
    }

    /// When it was granted.
    #[must_use]
    pub fn started(&self) -> Timestamp {
        self.permit.as_ref().map_or(Timestamp::EPOCH, Permit::started)
    }

    /// What would have refused the request, if something that only watches would have, as far as is known by now.
    #[must_use]
    pub fn would_refuse(&self) -> Option<Refusal> {
        self.permit.as_ref().and_then(Permit::would_refuse)
    }

    /// Its shadow, if that waited when it was granted: to be told of when its client leaves.
    #[must_use]
    pub fn shadow(&self) -> Option<Shadow> {
        self.permit.as_ref().and_then(Permit::shadow)
    }

    fn give_back(&mut self, outcome: Outcome) -> Option<Ended> {
        let permit = self.permit.take()?;
        self.gate.shared.held.fetch_sub(1, Ordering::Relaxed);
        Some(
            self.gate.with(|admission, now| Ended {
                at: now,
                would_refuse: admission.depart(now, permit, outcome),
            }),
        )
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back(Outcome::Ignore);
    }
}

impl HeldStream {
    /// What would have refused the request, if something that only watches would have.
    #[must_use]
    pub fn would_refuse(&self) -> Option<Refusal> {
        self.permit.as_ref().and_then(StreamPermit::would_refuse)
    }
}

impl Drop for HeldStream {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.gate.with(|admission, _| admission.end_stream(permit));
        }
    }
}

impl Future for Waiting {
    type Output = Result<Held, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(ticket) = self.ticket else {
            // Polled again after it was ready: there is nothing left to wait for.
            return Poll::Pending;
        };
        // Cloned before the lock, since a waker's clone may allocate.
        let mut waker = Some(context.waker().clone());
        let verdict = {
            let mut locked = self.gate.shared.lock();
            let now = self.gate.shared.clock.now();
            let verdict = locked.admission.collect(now, ticket);
            if verdict.is_none() {
                // The replaced waker is dropped after the lock.
                waker = locked.register(ticket, waker.take());
            }
            verdict
        };
        drop(waker);
        match verdict {
            None => Poll::Pending,
            Some(verdict) => {
                self.ticket = None;
                Poll::Ready(verdict.map(|permit| self.gate.hold(permit)))
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let waker = self.gate.shared.lock().forget(ticket);
        drop(waker);
        self.gate.with(|admission, now| {
            if let Departure::AlreadyGranted(permit) = admission.leave(now, ticket) {
                admission.depart(now, permit, Outcome::Ignore);
            }
        });
    }
}

#[derive(Debug)]
struct GateState {
    clock: Clock,
    locked: Mutex<Locked>,
    /// Tells the timer task that an earlier timeout came up.
    timer: Notify,
    held: AtomicU64,
}

#[derive(Debug)]
struct Locked {
    admission: Admission,
    /// The ticket table: who to wake, dense by a ticket's index.
    wakers: Vec<Option<Waker>>,
    /// Who was decided; empty but for a moment, kept for its memory.
    decided: Vec<Ticket>,
    /// The timeout the timer task last heard of.
    armed: Option<Timestamp>,
}

/// A number of any size as whole thousandths.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub(crate) fn thousandths(number: f64) -> u64 {
    (number * 1000.0).round() as u64
}

thread_local! {
    /// A thread's buffer for who was decided inside a lock and is woken outside.
    static DECIDED: RefCell<Vec<Waker>> = RefCell::default();
}

impl GateState {
    fn lock(&self) -> MutexGuard<'_, Locked> {
        // A panic inside admission is a bug; its state is still the best there is, and refusing
        // every later request would make one panic an outage.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Locked {
    /// Takes the wakers of who was decided; `None`, as most often, if nobody was.
    fn wakers_of_decided(&mut self) -> Option<Vec<Waker>> {
        self.admission.drain_decided(&mut self.decided);
        if self.decided.is_empty() {
            return None;
        }
        // Taken out while in use: a waker may drop what it wakes, and that may come back to the gate.
        let mut decided = DECIDED.take();
        for ticket in self.decided.drain(..) {
            decided.extend(self.wakers.get_mut(ticket.index as usize).and_then(Option::take));
        }
        Some(decided)
    }

    /// Whether the timer task must hear of an earlier timeout; it is taken for told.
    fn has_earlier_timeout(&mut self) -> bool {
        let next = self.admission.next_timeout();
        let earlier = match (next, self.armed) {
            (Some(next), Some(armed)) => next < armed,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if earlier {
            self.armed = next;
        }
        earlier
    }

    /// What the timer task sleeps until.
    fn arm(&mut self) -> Option<Timestamp> {
        self.armed = self.admission.next_timeout();
        self.armed
    }

    /// Takes the waker of a ticket whose client leaves.
    fn forget(&mut self, ticket: Ticket) -> Option<Waker> {
        self.wakers.get_mut(ticket.index as usize).and_then(Option::take)
    }

    /// Remembers who to wake for a ticket; returns the waker it replaces.
    fn register(&mut self, ticket: Ticket, waker: Option<Waker>) -> Option<Waker> {
        let index = ticket.index as usize;
        if index >= self.wakers.len() {
            self.wakers.resize(index + 1, None);
        }
        std::mem::replace(&mut self.wakers[index], waker)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_control::knobs::{Knob, Scope, Value, Values};

    use super::*;

    fn gate(limit: u64) -> Gate {
        gate_with(limit, std::time::Duration::from_secs(3600))
    }

    fn gate_with(limit: u64, wait_max: std::time::Duration) -> Gate {
        let mut application = Values::defaults(Scope::Application);
        application.set(Knob::IN_FLIGHT_ALGORITHM, Value::Choice("fixed")).unwrap();
        application.set(Knob::IN_FLIGHT_LIMIT, Value::Count(limit)).unwrap();
        let mut class = Values::defaults(Scope::Class);
        class.set(Knob::QUEUE_WAIT_MAX, Value::Span(wait_max)).unwrap();
        Gate::new(Clock::start(), &AdmissionSettings::from_values(&application, &[&class]))
    }

    fn exchange() -> Exchange {
        Exchange { class: ClassId(0), priority: 3, weight: 1, deadline: None, bytes: 100 }
    }

    fn started(entry: Entry) -> Held {
        match entry {
            Entry::Start(held) => held,
            other => panic!("expected a start, found {other:?}"),
        }
    }

    fn waiting(entry: Entry) -> Waiting {
        match entry {
            Entry::Wait(waiting) => waiting,
            other => panic!("expected a wait, found {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_permit_given_back_wakes_who_waits_on_another_thread() {
        let gate = gate(1);
        let first = started(gate.arrive(exchange()));
        let second = waiting(gate.arrive(exchange()));
        let thread = std::thread::spawn(move || first.finish(Outcome::Success));
        let held = second.await.expect("granted");
        thread.join().unwrap();
        assert_eq!((gate.held(), gate.levels().in_flight), (1, 1));
        drop(held);
        assert_eq!((gate.held(), gate.levels().in_flight), (0, 0));
    }

    #[tokio::test]
    async fn who_leaves_after_the_grant_gives_it_on() {
        let gate = gate(1);
        let first = started(gate.arrive(exchange()));
        let mut second = waiting(gate.arrive(exchange()));
        let third = waiting(gate.arrive(exchange()));
        assert!(futures_poll(&mut second).is_pending());
        drop(first); // grants the second, which has not looked yet
        drop(second);
        drop(third.await.expect("granted in turn"));
        assert_eq!(
            gate.levels(),
            GateLevels { limit: 1, queued: vec![0], costs: vec![None], ..GateLevels::default() }
        );
    }

    #[tokio::test]
    async fn the_timer_task_refuses_who_waited_too_long() {
        let gate = gate_with(1, std::time::Duration::from_millis(100));
        let timers = tokio::spawn(gate.clone().drive_timers());
        let first = started(gate.arrive(exchange()));
        let second = waiting(gate.arrive(exchange()));
        assert_eq!(second.await.err(), Some(Refusal::WaitTooLong));
        drop(first);
        timers.abort();
        assert_eq!(gate.held(), 0);
    }

    fn futures_poll(waiting: &mut Waiting) -> Poll<Result<Held, Refusal>> {
        Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop()))
    }
}

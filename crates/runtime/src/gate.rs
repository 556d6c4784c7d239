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
};

use tidegate_control::{
    ClassId, Refusal, Ticket, Timestamp,
    admission::{Admission, AdmissionSettings, Arrival, Departure, Exchange, Levels, Outcome, Permit},
};
use tokio::sync::Notify;

use crate::Clock;

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

/// A permit that gives itself back: with the outcome told to [`Held::finish`], else as
/// [`Outcome::Ignore`].
#[must_use = "dropping it gives the permit back"]
#[derive(Debug)]
pub struct Held {
    gate: Gate,
    permit: Option<Permit>,
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
                locked: Mutex::new(Locked { admission, wakers: Vec::new(), armed: None }),
                timer: Notify::new(),
                held: AtomicU64::new(0),
            }),
        }
    }

    /// Asks whether a request starts, waits or is refused.
    pub fn arrive(&self, exchange: Exchange) -> Entry {
        match self.with(|admission, now| admission.arrive(now, exchange)) {
            Arrival::Start(permit) => Entry::Start(self.hold(permit)),
            Arrival::Wait(ticket) => Entry::Wait(Waiting { gate: self.clone(), ticket: Some(ticket) }),
            Arrival::Refuse(refusal) => Entry::Refuse(refusal),
        }
    }

    /// Applies new settings; nothing that waits or runs is lost.
    pub fn configure(&self, settings: &AdmissionSettings) {
        self.with(|admission, now| admission.configure(now, settings));
    }

    /// What the meters show of this moment.
    #[must_use]
    pub fn levels(&self) -> Levels {
        self.with(|admission, _| admission.levels())
    }

    /// Hands out and clears what mode `watch` would have refused.
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
        // Taken out while in use: a waker may drop what it wakes, and that may come back here.
        let mut decided = DECIDED.take();
        let mut locked = self.shared.lock();
        let now = self.shared.clock.now();
        let result = f(&mut locked.admission, now);
        let earlier = locked.settle(&mut decided);
        drop(locked);
        for waker in decided.wakers.drain(..) {
            waker.wake();
        }
        if earlier {
            self.shared.timer.notify_one();
        }
        DECIDED.set(decided);
        result
    }
}

impl Held {
    /// Gives the permit back with what came of the exchange.
    pub fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    /// When it was granted.
    #[must_use]
    pub fn started(&self) -> Timestamp {
        self.permit.as_ref().map_or(Timestamp::EPOCH, Permit::started)
    }

    fn give_back(&mut self, outcome: Outcome) {
        if let Some(permit) = self.permit.take() {
            self.gate.shared.held.fetch_sub(1, Ordering::Relaxed);
            self.gate.with(|admission, now| admission.depart(now, permit, outcome));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back(Outcome::Ignore);
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
    /// The timeout the timer task last heard of.
    armed: Option<Timestamp>,
}

/// Buffers of a thread for what was decided inside a lock and is woken outside.
#[derive(Default)]
struct Decided {
    tickets: Vec<Ticket>,
    wakers: Vec<Waker>,
}

thread_local! {
    static DECIDED: RefCell<Decided> = RefCell::default();
}

impl GateState {
    fn lock(&self) -> MutexGuard<'_, Locked> {
        // A panic inside admission is a bug; its state is still the best there is, and refusing
        // every later request would make one panic an outage.
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Locked {
    /// Takes the wakers of who was decided; true if the timer task must hear of an earlier timeout.
    fn settle(&mut self, decided: &mut Decided) -> bool {
        self.admission.drain_decided(&mut decided.tickets);
        for ticket in decided.tickets.drain(..) {
            if let Some(waker) = self.wakers.get_mut(ticket.index as usize).and_then(Option::take) {
                decided.wakers.push(waker);
            }
        }
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

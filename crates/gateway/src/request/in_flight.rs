//! An exchange with a server: it holds its permit from dispatch until the server's end of message, but while it rests.
//!
//! One that waits for its client, not for its server, *rests*: it gives its permit back and counts as a long stream. Before the
//! server gets more to do it asks again, ahead of newcomers, since it has been let in. Whose turn it is, [`Waits`](super::waits::Waits)
//! says.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    pin::Pin,
    rc::{Rc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::StatusCode;
use tidegate_control::{
    Refusal, Timestamp,
    admission::{Exchange, Outcome},
    knobs::{Key, keys},
    meters::Meter,
};
use tidegate_runtime::{CoreApplication, Entry, Held, HeldStream, Inside};

use super::{
    Service, error,
    record::{Record, Tried},
};

/// Of those that wait for their turn, newcomers included, who goes on goes first; only the top priority passes the limit.
const PRIORITY: u8 = 6;

/// Who is refused asks again after this.
pub(super) const AGAIN: Duration = Duration::from_secs(1);

/// What is held for an exchange while a server works on it. Dropped, it gives back what it holds
/// and nothing is learnt from it.
pub(super) struct InFlight(Rc<UnderWay>);

/// An exchange as its request's body knows it, which may outlive it.
#[derive(Clone)]
pub(super) struct Upstreaming(Weak<UnderWay>);

struct UnderWay {
    service: Rc<Service>,
    application: Rc<CoreApplication>,
    exchange: Exchange,
    began: Timestamp,
    /// When its permit was granted.
    started: Cell<Timestamp>,
    /// Where to note what only watches and would have refused it, if anybody wants to know.
    noted: Option<Rc<Tried>>,
    lease: Cell<Lease>,
    /// Whether it has been a sample of response times.
    is_learnt: Cell<bool>,
    /// Whether the server waits for the rest of its request.
    is_owed: Cell<bool>,
    /// The rest of its request waits for a permit.
    resuming: RefCell<Option<Resuming>>,
}

/// A request's body that waits for a permit.
struct Resuming {
    future: Pin<Box<dyn Future<Output = ()>>>,
    /// Wakes who sends the body on.
    sender: Waker,
}

/// The right to be under way.
#[derive(Debug, Default)]
enum Lease {
    /// Weight of the in-flight limit.
    Permit(Held),
    /// A place among the long streams, until its client goes on.
    Resting(HeldStream),
    /// A place among the long streams.
    Stream(#[expect(dead_code, reason = "held for what its drop does")] HeldStream),
    /// Nothing, at its end and for the moment of changing from one to the other.
    #[default]
    Neither,
}

/// In the middle of what an exchange rests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rest {
    /// The request: the server has everything still to do.
    Request,
    /// The response: the server has done its work, but for what there was no room for. Its client was waited for so long.
    Response(StatusCode, Duration),
}

/// What an exchange holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// A permit.
    Counts,
    /// Nothing, for now.
    Rests,
    /// Nothing any more.
    Streams,
}

impl InFlight {
    /// The exchange of `record` begins.
    pub(super) fn begin(service: &Rc<Service>, record: &mut Record, held: Held, exchange: Exchange) -> Self {
        let started = held.started();
        record.start(started, held.shadow());
        record.note_would_refuse(held.would_refuse());
        Self(Rc::new(UnderWay {
            service: Rc::clone(service),
            application: Rc::clone(record.application()),
            exchange,
            began: started,
            started: Cell::new(started),
            noted: record.tried(),
            lease: Cell::new(Lease::Permit(held)),
            is_learnt: Cell::new(false),
            is_owed: Cell::new(false),
            resuming: RefCell::default(),
        }))
    }

    /// The server's message has ended; gives the time.
    pub(super) fn finish(self, status: StatusCode) -> Timestamp {
        let this = &*self.0;
        let Lease::Permit(held) = this.lease.take() else { return this.service.now() };
        if this.is_learnt.get() {
            let ended = held.finish(Outcome::Ignore);
            this.note(ended.would_refuse);
            return ended.at;
        }
        let ended = held.finish(error::outcome(status));
        this.note(ended.would_refuse);
        this.learn(ended.at.since(this.started.get()));
        ended.at
    }

    /// The exchange failed.
    pub(super) fn fail(self, outcome: Outcome) {
        if let Lease::Permit(held) = self.0.lease.take() {
            self.0.note(held.finish(outcome).would_refuse);
        }
    }

    /// Its client has left, and it takes longer than nearly all do: nobody waits for its server any more.
    pub(super) fn outlast(self) {
        let this = &*self.0;
        if !this.is_learnt.get() {
            let longest = this.knob(keys::RESPONSE_TIMEOUT);
            let (application, class) = (this.application.application.id, this.exchange.class);
            this.service.local(application, |local| local.service_time(class).exceed(longest));
        }
        self.fail(Outcome::Ignore);
    }

    /// Moves to the bound on long streams for good and gives the permit back; it is no sample of response times.
    ///
    /// # Errors
    ///
    /// [`Refusal::LongStreams`] when as many are open as may be; the permit stays.
    pub(super) fn become_stream(&self) -> Result<(), Refusal> {
        self.0.become_stream()
    }

    /// Gives the permit back while its client is waited for, if it has one. What the response has taken so far is a sample.
    ///
    /// # Errors
    ///
    /// [`Refusal::LongStreams`] when as many are open as may be; the permit stays.
    pub(super) fn rest(&self, rest: Rest) -> Result<(), Refusal> {
        self.0.rest(rest)
    }

    /// Waits until one that rests has a permit again. What it asks for has been let in, so that it is not refused; who does
    /// not wait any longer drops it.
    pub(super) fn resume(&self) -> impl Future<Output = ()> + use<> {
        self.upstreaming().resume()
    }

    /// Ready once it has the permit that the rest of its request waits for. Whoever sends that on may not be asked while
    /// the response has to wait for its client: granted and not taken, it would be of use to nobody.
    pub(super) fn poll_resumed(&self, context: &mut Context<'_>) -> Poll<()> {
        let Some(Resuming { future, sender }) = self.0.resuming.take() else { return Poll::Pending };
        let polled = self.0.poll_resuming(Resuming { future, sender: sender.clone() }, context);
        if polled.is_ready() {
            sender.wake();
        }
        polled
    }

    /// For the request's body.
    pub(super) fn upstreaming(&self) -> Upstreaming {
        Upstreaming(Rc::downgrade(&self.0))
    }

    pub(super) fn standing(&self) -> Standing {
        self.0.standing()
    }

    /// Whether the server waits for the rest of its request.
    pub(super) fn is_owed(&self) -> bool {
        self.0.is_owed.get()
    }

    /// When its permit was granted.
    pub(super) fn started(&self) -> Timestamp {
        self.0.started.get()
    }

    /// When it counts as a long stream.
    pub(super) fn long_stream_at(&self) -> Timestamp {
        self.0.long_stream_at()
    }

    /// Until when it lingers once its client has left; `None` for a stream, which ends at once.
    pub(super) fn linger_until(&self) -> Option<Timestamp> {
        let this = &*self.0;
        let longest = this.knob(keys::RESPONSE_TIMEOUT);
        let (application, class) = (this.application.application.id, this.exchange.class);
        let time = this.service.local(application, |local| local.service_time(class).linger(longest));
        (self.standing() == Standing::Counts).then(|| self.started() + time)
    }

    /// Counts a permit whose client has left.
    pub(super) fn lingering(&self) -> Inside {
        self.0.application.application.state.lingering().enter()
    }

    pub(super) fn service(&self) -> &Rc<Service> {
        &self.0.service
    }
}

impl Upstreaming {
    /// As [`InFlight::become_stream`]; nothing once the exchange is over.
    pub(super) fn become_stream(&self) -> Result<(), Refusal> {
        self.0.upgrade().map_or(Ok(()), |this| this.become_stream())
    }

    /// As [`InFlight::rest`]; nothing once the exchange is over.
    pub(super) fn rest(&self) -> Result<(), Refusal> {
        self.0.upgrade().map_or(Ok(()), |this| this.rest(Rest::Request))
    }

    /// As [`InFlight::resume`]; ready once the exchange is over.
    pub(super) fn resume(&self) -> impl Future<Output = ()> + use<> {
        let this = self.0.clone();
        async move {
            loop {
                let resting = this.upgrade().filter(|this| this.standing() == Standing::Rests);
                let Some(entry) = resting.map(|this| this.ask()) else { return };
                let held = match entry {
                    Entry::Start(held) => Some(held),
                    Entry::Wait(waiting) => waiting.await.ok(),
                    Entry::Refuse(_) => None,
                };
                match (held, this.upgrade()) {
                    (Some(held), Some(this)) => return this.take(held),
                    (_, None) => return,
                    (None, Some(_)) => tokio::time::sleep(AGAIN).await,
                }
            }
        }
    }

    /// The same, for as long as it is asked for, until it is ready or [withdrawn](Self::withdraw).
    pub(super) fn poll_resume(&self, context: &mut Context<'_>) -> Poll<()> {
        let Some(this) = self.0.upgrade() else { return Poll::Ready(()) };
        let resuming = this.resuming.take().map(|resuming| resuming.future);
        let future = resuming.unwrap_or_else(|| Box::pin(self.resume()));
        this.poll_resuming(Resuming { future, sender: context.waker().clone() }, context)
    }

    /// The request's body does not wait for a permit any more.
    pub(super) fn withdraw(&self) {
        if let Some(this) = self.0.upgrade() {
            drop(this.resuming.take());
        }
    }

    /// What it holds; `None` once it is over.
    pub(super) fn standing(&self) -> Option<Standing> {
        self.0.upgrade().map(|this| this.standing())
    }

    /// Notes whether the server waits for the rest of the request.
    pub(super) fn owe(&self, is_owed: bool) {
        if let Some(this) = self.0.upgrade() {
            this.is_owed.set(is_owed);
        }
    }
}

impl UnderWay {
    fn standing(&self) -> Standing {
        let lease = self.lease.take();
        let standing = match &lease {
            Lease::Permit(_) => Standing::Counts,
            Lease::Resting(_) => Standing::Rests,
            Lease::Stream(_) | Lease::Neither => Standing::Streams,
        };
        self.lease.set(lease);
        standing
    }

    fn become_stream(&self) -> Result<(), Refusal> {
        let lease = match self.lease.take() {
            Lease::Permit(held) => Lease::Stream(self.leave(held, Outcome::Ignore)?),
            Lease::Resting(stream) => Lease::Stream(stream),
            lease => lease,
        };
        self.lease.set(lease);
        Ok(())
    }

    fn rest(&self, rest: Rest) -> Result<(), Refusal> {
        let lease = match self.lease.take() {
            Lease::Permit(held) => {
                let outcome = match rest {
                    Rest::Response(status, _) if !self.is_learnt.get() => error::outcome(status),
                    Rest::Request | Rest::Response(..) => Outcome::Ignore,
                };
                let stream = self.leave(held, outcome)?;
                if let Rest::Response(_, waited) = rest
                    && !self.is_learnt.replace(true)
                {
                    self.learn(self.service.now().since(self.started.get()).saturating_sub(waited));
                }
                Lease::Resting(stream)
            }
            lease => lease,
        };
        self.lease.set(lease);
        Ok(())
    }

    /// A permit becomes a place among the long streams, or stays.
    fn leave(&self, held: Held, outcome: Outcome) -> Result<HeldStream, Refusal> {
        match held.into_stream(outcome) {
            Ok(stream) => {
                self.note(stream.would_refuse());
                Ok(stream)
            }
            Err(held) => {
                self.lease.set(Lease::Permit(held));
                Err(Refusal::LongStreams)
            }
        }
    }

    fn poll_resuming(&self, mut resuming: Resuming, context: &mut Context<'_>) -> Poll<()> {
        let polled = resuming.future.as_mut().poll(context);
        if polled.is_pending() {
            self.resuming.replace(Some(resuming));
        }
        polled
    }

    fn ask(&self) -> Entry {
        let priority = self.exchange.priority.max(PRIORITY);
        self.application.gate.arrive_again(Exchange { priority, deadline: None, bytes: 0, ..self.exchange })
    }

    /// It has a permit again, if it rests still.
    fn take(&self, held: Held) {
        if self.standing() == Standing::Rests {
            self.started.set(held.started());
            self.note(held.would_refuse());
            self.lease.set(Lease::Permit(held));
        }
    }

    /// So long it was served.
    fn learn(&self, time: Duration) {
        let class = self.exchange.class;
        self.application.class(class).record(Meter::SERVICE_TIME, time);
        self.service.local(self.application.application.id, |local| {
            local.service_time(class).record(time);
        });
    }

    fn long_stream_at(&self) -> Timestamp {
        self.began + self.knob(keys::LONG_STREAM_AFTER)
    }

    fn knob(&self, key: Key<Duration>) -> Duration {
        self.application.application.settings.values.get(key)
    }

    fn note(&self, would_refuse: Option<Refusal>) {
        if let Some(noted) = &self.noted {
            noted.note_would_refuse(would_refuse);
        }
    }
}

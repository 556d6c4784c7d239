//! How long a client lets us wait: what each connection waits for, looked after by one sweep a core.
//!
//! A connection only notes what happens (a few plain stores, no clock, no timer). The sweep, a few
//! times a second, sees since when nothing has happened and tells the connection what to do about
//! it. A timeout so fires up to one sweep late and never early.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use slab::Slab;
use tokio::sync::Notify;

/// The preface of HTTP/2 and the head of the frame that has to follow it (RFC 9113, section 3.4).
const HTTP2_OPENING_BYTES: usize = 24 + 9;
/// Of so many bytes read over HTTP/2, one is to carry something of a request or its response, …
const BYTES_PER_CARRIED: u64 = 8;
/// … but for so many (nginx's bounds).
const CARRIED_SPARE: u64 = 1 << 20;

/// What a connection waits for from its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// That a client of HTTP/2 begins to speak it.
    Opening,
    /// The next request, held by a codec with its buffers.
    Idle,
    /// The next request, with nothing but its socket.
    Parked,
    /// The rest of a request's head.
    Head,
    /// One or more requests are being served.
    Exchange,
    /// The verdict on a request: the client need do nothing.
    Waiting,
    /// It has been upgraded: the client need send nothing.
    Upgraded,
}

/// What a connection is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Idle for a while: give up the buffers.
    Park,
    /// Idle for too long: close.
    Close,
    /// The head of a request takes too long.
    HeadLate,
    /// The client has sent nothing of a body it owes, or taken nothing it is owed, for too long.
    Stalled,
    /// Too many streams were reset before they were answered (HTTP/2 rapid reset), or too much came that carries nothing.
    Flood,
    /// A response goes on for a while: read ahead of the client.
    ReadAhead,
    /// The gateway is going away: end as soon as nothing is under way.
    Drain,
}

/// How long a client may keep us waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Until a client of HTTP/2 has begun to speak it.
    pub(crate) opening: Duration,
    /// Idle until parked.
    pub(crate) park_after: Duration,
    /// Idle until closed.
    pub(crate) keep_alive: Duration,
    /// From a request's first byte until its head is complete.
    pub(crate) head: Duration,
    /// Nothing sent of a body owed, nothing taken of a response.
    pub(crate) body_idle: Duration,
    /// Streams reset before they were answered, at once.
    pub(crate) resets_max: u32,
}

/// The signs of life of one connection.
#[derive(Debug)]
pub(crate) struct Pulse {
    phase: Cell<Phase>,
    /// Changes with everything after which waiting starts anew.
    beat: Cell<u32>,
    /// Requests under way.
    exchanges: Cell<u32>,
    /// Streams reset before they were answered, less those answered since.
    resets: Cell<u32>,
    read_blocked: Cell<bool>,
    write_blocked: Cell<bool>,
    flush_blocked: Cell<bool>,
    ended: Cell<bool>,
    multiplexed: Cell<bool>,
    /// Bytes read over HTTP/2.
    read_bytes: Cell<u64>,
    /// Bytes of heads and bodies of requests and of bodies of responses over HTTP/2.
    carried: Cell<u64>,
    /// Bytes read in [`Phase::Opening`].
    opened: Cell<usize>,
    in_step: Cell<Step>,
    order: Cell<Option<Order>>,
    waker: RefCell<Option<Waker>>,
    /// The sweep's: the beat it saw last, and when it first saw it.
    seen: Cell<(u32, Instant)>,
}

/// Whether a response is read in step with the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    No,
    /// Since the last sweep.
    New,
    /// The last sweep has seen it.
    Seen,
}

/// The connections of a core.
#[derive(Debug, Default)]
pub(crate) struct Pulses {
    all: RefCell<Slab<Rc<Pulse>>>,
    emptied: Notify,
}

/// A connection's place among those of its core, until dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    pulses: Rc<Pulses>,
    key: usize,
    pulse: Rc<Pulse>,
}

/// A request under way, until dropped.
#[derive(Debug)]
pub(crate) struct Exchange {
    pulse: Rc<Pulse>,
    answered: Cell<bool>,
}

impl Pulse {
    fn new(now: Instant) -> Self {
        Self {
            phase: Cell::new(Phase::Idle),
            beat: Cell::new(0),
            exchanges: Cell::new(0),
            resets: Cell::new(0),
            read_blocked: Cell::new(false),
            write_blocked: Cell::new(false),
            flush_blocked: Cell::new(false),
            ended: Cell::new(false),
            multiplexed: Cell::new(false),
            read_bytes: Cell::new(0),
            carried: Cell::new(0),
            opened: Cell::new(0),
            in_step: Cell::new(Step::No),
            order: Cell::new(None),
            waker: RefCell::new(None),
            seen: Cell::new((0, now)),
        }
    }

    /// What is waited for.
    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Waits for something else from now on.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.beat();
    }

    /// Parks: idle all the same, and for as long already.
    pub(crate) fn park(&self) {
        self.phase.set(Phase::Parked);
    }

    /// The connection speaks HTTP/2.
    pub(crate) fn multiplex(&self) {
        self.multiplexed.set(true);
        self.enter(Phase::Opening);
    }

    /// So many bytes of HTTP/2 were of requests or of bodies of responses.
    pub(crate) fn carry(&self, bytes: u64) {
        self.carried.set(self.carried.get() + bytes);
    }

    /// A request begins.
    pub(crate) fn begin(self: &Rc<Self>) -> Exchange {
        self.exchanges.set(self.exchanges.get() + 1);
        self.in_step.set(Step::No);
        // What was waited for until now was its head.
        self.wants_nothing();
        self.enter(Phase::Exchange);
        Exchange { pulse: Rc::clone(self), answered: Cell::new(false) }
    }

    /// A response is read in step with the client.
    pub(super) fn step(&self) {
        self.in_step.set(Step::New);
    }

    /// Whether the client has closed its sending half.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// What came of reading.
    pub(super) fn read(&self, bytes: Option<usize>) {
        self.read_blocked.set(bytes.is_none());
        if self.multiplexed.get() {
            self.read_bytes.set(self.read_bytes.get() + bytes.unwrap_or(0) as u64);
        }
        match (bytes, self.phase.get()) {
            (Some(0), _) => self.ended.set(true),
            (Some(len), Phase::Opening) => {
                self.opened.set(self.opened.get().saturating_add(len));
                if self.opened.get() >= HTTP2_OPENING_BYTES {
                    self.enter(Phase::Idle);
                }
            }
            (Some(_), Phase::Idle | Phase::Parked) if !self.multiplexed.get() => self.enter(Phase::Head),
            (Some(_), Phase::Exchange) => self.beat(),
            _ => {}
        }
    }

    /// Nothing of what the client may send is waited for.
    pub(super) fn wants_nothing(&self) {
        self.read_blocked.set(false);
    }

    /// What came of flushing. It may find no room for what was written, and room again when nothing more is written.
    pub(super) fn flushed(&self, blocked: bool) {
        if self.flush_blocked.replace(blocked) != blocked {
            self.beat();
        }
    }

    /// What came of writing.
    pub(super) fn wrote(&self, blocked: bool) {
        if blocked {
            if !self.write_blocked.replace(true) {
                self.beat();
            }
        } else {
            self.write_blocked.set(false);
            if matches!(self.phase.get(), Phase::Exchange | Phase::Upgraded) {
                self.beat();
            }
        }
    }

    /// The next order, when there is one and it still holds.
    pub(crate) fn poll_order(&self, context: &mut Context<'_>) -> Poll<Order> {
        if let Some(order) = self.order.take() {
            let still = match order {
                Order::Drain | Order::Flood | Order::ReadAhead => true,
                _ => self.seen.get().0 == self.beat.get(),
            };
            if still {
                return Poll::Ready(order);
            }
        }
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    fn beat(&self) {
        self.beat.set(self.beat.get().wrapping_add(1));
    }

    fn give(&self, order: Order) {
        self.order.set(Some(order));
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// What is due after nothing has happened for `waited`.
    fn due(&self, waited: Duration, patience: &Patience) -> Option<Order> {
        if self.resets.get() > patience.resets_max || self.is_idle_talk() {
            return Some(Order::Flood);
        }
        let (limit, order) = match self.phase.get() {
            // The codec would wait for it before it ends in good order.
            Phase::Opening => (patience.opening, Order::Stalled),
            // What it has buffered for streams that nobody takes would keep it open for ever.
            Phase::Idle if self.multiplexed.get() && waited >= patience.keep_alive + patience.body_idle => {
                (patience.keep_alive, Order::Stalled)
            }
            Phase::Idle if self.multiplexed.get() => (patience.keep_alive, Order::Close),
            Phase::Idle if waited < patience.keep_alive => (patience.park_after, Order::Park),
            Phase::Idle | Phase::Parked => (patience.keep_alive, Order::Close),
            Phase::Head => (patience.head, Order::HeadLate),
            Phase::Exchange if self.is_owed() => (patience.body_idle, Order::Stalled),
            Phase::Upgraded if self.is_blocked() => (patience.body_idle, Order::Stalled),
            Phase::Exchange | Phase::Waiting | Phase::Upgraded => return None,
        };
        (waited >= limit).then_some(order)
    }

    /// Whether what was read is frames that carry nothing, by far: SETTINGS and PING are answered, which bounds nothing
    /// where the answers are taken.
    fn is_idle_talk(&self) -> bool {
        self.read_bytes.get() / BYTES_PER_CARRIED > self.carried.get() + CARRIED_SPARE
    }

    /// Whether a response has been read in step for a whole sweep; told once.
    fn lags(&self) -> bool {
        let next = match self.in_step.get() {
            Step::No => return false,
            Step::New => Step::Seen,
            Step::Seen => Step::No,
        };
        self.in_step.replace(next) == Step::Seen
    }

    /// Whether it is the client's turn: to take what was written, or to send on. HTTP/1 reads
    /// during an exchange only if the request has a body; HTTP/2 always reads.
    pub(super) fn is_owed(&self) -> bool {
        self.is_blocked() || (self.read_blocked.get() && !self.multiplexed.get())
    }

    /// Whether the client is to take what was written.
    fn is_blocked(&self) -> bool {
        self.write_blocked.get() || self.flush_blocked.get()
    }
}

impl Exchange {
    /// So many bytes of its response's body were sent.
    pub(crate) fn carry(&self, bytes: u64) {
        self.pulse.carry(bytes);
    }

    /// The response's head is ready.
    pub(crate) fn answer(&self) {
        self.answered.set(true);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let pulse = &self.pulse;
        let left = pulse.exchanges.get().saturating_sub(1);
        pulse.exchanges.set(left);
        if pulse.multiplexed.get() {
            let resets = pulse.resets.get();
            match self.answered.get() {
                true => pulse.resets.set(resets.saturating_sub(1)),
                false => pulse.resets.set(resets.saturating_add(1)),
            }
            if left == 0 && pulse.phase.get() == Phase::Exchange {
                pulse.enter(Phase::Idle);
            }
        }
    }
}

impl Pulses {
    /// A new connection.
    pub(crate) fn register(self: &Rc<Self>) -> Registered {
        let pulse = Rc::new(Pulse::new(Instant::now()));
        let key = self.all.borrow_mut().insert(Rc::clone(&pulse));
        Registered { pulses: Rc::clone(self), key, pulse }
    }

    /// Connections open.
    pub(crate) fn len(&self) -> usize {
        self.all.borrow().len()
    }

    /// Resolves when no connection is left.
    pub(crate) async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.all.borrow().is_empty() {
                return;
            }
            emptied.await;
        }
    }

    /// Gives every connection the order that is due at `now`.
    pub(crate) fn sweep(&self, now: Instant, patience: &Patience) {
        for (_, pulse) in self.all.borrow().iter() {
            let (beat, since) = pulse.seen.get();
            let waited = if beat == pulse.beat.get() {
                now.saturating_duration_since(since)
            } else {
                pulse.seen.set((pulse.beat.get(), now));
                Duration::ZERO
            };
            let lags = pulse.lags().then_some(Order::ReadAhead);
            if let Some(order) = pulse.due(waited, patience).or(lags) {
                pulse.give(order);
            }
        }
    }

    /// Tells every connection that the gateway is going away.
    pub(crate) fn drain(&self) {
        for (_, pulse) in self.all.borrow().iter() {
            pulse.give(Order::Drain);
        }
    }
}

impl Registered {
    /// The connection's signs of life.
    pub(crate) const fn pulse(&self) -> &Rc<Pulse> {
        &self.pulse
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut all = self.pulses.all.borrow_mut();
        all.try_remove(self.key);
        if all.is_empty() {
            self.pulses.emptied.notify_one();
        }
    }
}

impl Patience {
    /// How often to sweep so that no timeout fires late by more than a quarter of itself, at most
    /// four times a second unless a timeout is shorter than that.
    pub(crate) fn interval(&self) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(5);
        const LONGEST: Duration = Duration::from_millis(250);
        let shortest =
            self.opening.min(self.park_after).min(self.keep_alive).min(self.head).min(self.body_idle);
        (shortest / 4).clamp(SHORTEST, LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const PATIENCE: Patience = Patience {
        opening: Duration::from_secs(5),
        park_after: S,
        keep_alive: Duration::from_secs(60),
        head: Duration::from_secs(10),
        body_idle: Duration::from_secs(30),
        resets_max: 2,
    };

    struct Bed {
        pulses: Rc<Pulses>,
        place: Registered,
        now: Instant,
    }

    impl Bed {
        fn new() -> Self {
            let pulses = Rc::new(Pulses::default());
            let place = pulses.register();
            Self { pulses, place, now: Instant::now() }
        }

        /// Sweeps at once, and again after `wait`.
        fn after(&mut self, wait: Duration) -> Option<Order> {
            self.pulses.sweep(self.now, &PATIENCE);
            self.now += wait;
            self.pulses.sweep(self.now, &PATIENCE);
            match self.place.pulse().poll_order(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(order) => Some(order),
                Poll::Pending => None,
            }
        }
    }

    #[test]
    fn an_idle_connection_is_parked_and_in_the_end_closed() {
        let mut bed = Bed::new();
        assert_eq!(bed.after(S / 2), None);
        assert_eq!(bed.after(S / 2), Some(Order::Park));
        bed.place.pulse().park();
        assert_eq!(bed.after(58 * S), None);
        assert_eq!(bed.after(S), Some(Order::Close));
    }

    #[test]
    fn a_head_is_late_however_often_a_byte_of_it_arrives() {
        let mut bed = Bed::new();
        for _ in 0..9 {
            bed.place.pulse().read(Some(1));
            assert_eq!(bed.after(S), None);
        }
        bed.place.pulse().read(Some(1));
        assert_eq!(bed.after(S), Some(Order::HeadLate));
    }

    #[test]
    fn a_slow_server_is_not_the_clients_fault() {
        let mut bed = Bed::new();
        let pulse = Rc::clone(bed.place.pulse());
        pulse.read(Some(100));
        let exchange = pulse.begin();
        assert_eq!(bed.after(1000 * S), None);
        // The request has a body and the client sends none of it.
        pulse.read(None);
        assert_eq!(bed.after(30 * S), Some(Order::Stalled));
        pulse.read(Some(10));
        assert_eq!(bed.after(1000 * S), None);
        pulse.wrote(true);
        assert_eq!(bed.after(29 * S), None);
        assert_eq!(bed.after(S), Some(Order::Stalled));
        pulse.wrote(false);
        drop(exchange);
        pulse.enter(Phase::Idle);
        assert_eq!(bed.after(S), Some(Order::Park));
    }

    #[test]
    fn who_was_upgraded_may_be_silent_but_takes_what_there_is() {
        let mut bed = Bed::new();
        let pulse = Rc::clone(bed.place.pulse());
        pulse.enter(Phase::Upgraded);
        pulse.read(None);
        assert_eq!(bed.after(1000 * S), None);
        for _ in 0..3 {
            pulse.wrote(true);
            assert_eq!(bed.after(29 * S), None);
            pulse.wrote(false);
        }
        pulse.wrote(true);
        assert_eq!(bed.after(30 * S), Some(Order::Stalled));
    }

    #[test]
    fn a_client_that_has_sent_its_request_owes_nothing() {
        let mut bed = Bed::new();
        let pulse = Rc::clone(bed.place.pulse());
        // The next request is waited for, and comes while the connection is parked.
        pulse.read(None);
        pulse.park();
        let exchange = pulse.begin();
        assert_eq!(bed.after(1000 * S), None);
        // Its body is waited for, until nobody wants it any more.
        pulse.read(None);
        pulse.wants_nothing();
        assert_eq!(bed.after(1000 * S), None);
        drop(exchange);
    }

    #[test]
    fn a_response_is_read_in_step_for_a_sweep_and_then_ahead() {
        let mut bed = Bed::new();
        let pulse = Rc::clone(bed.place.pulse());
        for goes_on in [false, true] {
            let exchange = pulse.begin();
            pulse.step();
            bed.pulses.sweep(bed.now, &PATIENCE);
            if goes_on {
                assert_eq!(bed.after(S), Some(Order::ReadAhead));
            }
            drop(exchange);
            let _next = pulse.begin();
            assert_eq!(bed.after(S), None);
        }
    }

    #[test]
    fn an_order_that_came_too_late_is_not_followed() {
        let bed = Bed::new();
        bed.pulses.sweep(bed.now + S, &PATIENCE);
        bed.place.pulse().read(Some(1));
        let mut context = Context::from_waker(Waker::noop());
        assert!(bed.place.pulse().poll_order(&mut context).is_pending());
        bed.pulses.drain();
        bed.place.pulse().enter(Phase::Idle);
        assert_eq!(bed.place.pulse().poll_order(&mut context), Poll::Ready(Order::Drain));
    }

    #[test]
    fn resets_before_an_answer_are_a_flood_unless_answers_make_up_for_them() {
        let mut bed = Bed::new();
        let pulse = Rc::clone(bed.place.pulse());
        pulse.multiplex();
        for _ in 0..10 {
            drop((pulse.begin(), pulse.begin()));
            pulse.begin().answer();
            pulse.begin().answer();
        }
        assert_eq!(bed.after(Duration::ZERO), None);
        drop((pulse.begin(), pulse.begin(), pulse.begin()));
        assert_eq!(bed.after(Duration::ZERO), Some(Order::Flood));
    }

    #[test]
    fn frames_that_carry_nothing_are_a_flood_unless_what_is_carried_makes_up_for_them() {
        const PING_BYTES: usize = 17;
        const TWO_WINDOW_UPDATES_BYTES: usize = 26;
        for (times, read, carried, order) in [
            // One each ten seconds for 46 days.
            (400_000, PING_BYTES, 0, None),
            (600_000, PING_BYTES, 0, Some(Order::Flood)),
            (600_000, PING_BYTES, 1, None),
            (600_000, TWO_WINDOW_UPDATES_BYTES, 16 << 10, None),
        ] {
            let mut bed = Bed::new();
            let pulse = Rc::clone(bed.place.pulse());
            pulse.multiplex();
            for _ in 0..times {
                pulse.read(Some(read));
                pulse.carry(carried);
            }
            assert_eq!(bed.after(Duration::ZERO), order, "{times} times {read}, {carried} carried");
        }
    }

    #[test]
    fn http2_is_to_begin_in_time_however_often_a_byte_of_it_arrives() {
        let mut bed = Bed::new();
        bed.place.pulse().multiplex();
        for _ in 0..4 {
            bed.place.pulse().read(Some(1));
            assert_eq!(bed.after(S), None);
        }
        assert_eq!(bed.after(S), Some(Order::Stalled));
    }

    #[test]
    fn http2_stays_whole_until_it_is_closed() {
        let mut bed = Bed::new();
        bed.place.pulse().multiplex();
        bed.place.pulse().read(Some(HTTP2_OPENING_BYTES));
        assert_eq!(bed.after(59 * S), None);
        assert_eq!(bed.after(S), Some(Order::Close));
        // A graceful end that does not come is cut short.
        assert_eq!(bed.after(29 * S), Some(Order::Close));
        assert_eq!(bed.after(S), Some(Order::Stalled));
        drop(bed.place);
        assert_eq!(bed.pulses.len(), 0);
    }
}

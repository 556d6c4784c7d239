//! The composition: one application's admission.

use std::{collections::VecDeque, time::Duration};

use super::{
    AdmissionSettings, Arrival, Departure, Exchange, Outcome, Permit, Rate, Standing,
    path::{Answer, Charged, Path, whole},
};
use crate::{
    ClassId, Refusal, Ticket, Timestamp,
    capacity::{CapacityBounds, CapacityEvent, CapacityState, Cause, Given},
    in_flight::{InFlight, TOP_PRIORITY},
    knobs::{Algorithm, Mode},
    limit::{Limit, Limiter, Sample},
    queue::Phase,
    share::Share,
};

/// Admission of one application's requests.
///
/// An arrival starts, waits or is refused; what waits is granted or refused later, and its ticket
/// then appears in [`drain_decided`](Self::drain_decided). Whoever starts holds a [`Permit`] and
/// gives it back with [`depart`](Self::depart).
///
/// # Decisions
///
/// - Nothing that may start waits: every call ends with all that may start started.
/// - Among what waits, the top priority goes first, whatever the scheduler. It passes the in-flight limit
///   and its class's bound, and no others: rates hold for it, and it can wait for an egress token.
/// - What the scheduler picks and what does not fit the limit holds the room; nothing of a lower rank
///   passes it. What its class's own bound or rate stops is passed over.
/// - A request that arrives while nothing waits and may start takes no turn of the scheduler's.
/// - A newcomer that could start at once is never refused for a full queue.
/// - Wait and deadline are over at their instant: a request due at `t` does not start at `t`.
/// - CoDel judges what is about to start, after its room is known and before a token is taken.
///
/// # Modes
///
/// - `enforce`: as above.
/// - `watch`: every request starts at once. Its shadow goes the same path, holds its weight from when it
///   would have been granted until the exchange departs, and is counted
///   ([`drain_would_refuse`](Self::drain_would_refuse)) if it would have been refused. Shadows that
///   still wait when their exchange departs count as neither.
/// - `off`: every request starts at once; weights in flight are counted, limits learn nothing.
///
/// Limits, rates of starts and queues decide together and have this one mode. Rates of admission decide before them
/// and alone, so each may have its own (`ingress.mode`): one that watches counts whom it would refuse and lets him
/// go on, one that acts refuses whatever the mode of the rest is.
///
/// # Time
///
/// Every call first fires what is due. A `now` before that of an earlier call counts as that one's. When
/// time jumps ahead, everything due by then is refused first and starts are decided after that.
///
/// # Cost
///
/// With nothing waiting, `arrive` and `depart` are O(1) and allocate nothing. Otherwise every start costs
/// O(c), c being the number of classes of which something waits, and O(log n) if it has a deadline.
/// `leave` unlinks in O(1).
///
/// # Panics
///
/// [`new`](Self::new) and [`configure`](Self::configure) if `settings.classes` is empty: the default
/// class always exists.
///
/// ```
/// use tidegate_control::{
///     ClassId, Timestamp,
///     admission::{Admission, AdmissionSettings, Arrival, Exchange, Outcome},
///     knobs::{Knob, Scope, Value, Values},
/// };
///
/// let mut application = Values::defaults(Scope::Application);
/// application.set(Knob::IN_FLIGHT_ALGORITHM, Value::Choice("fixed")).unwrap();
/// application.set(Knob::IN_FLIGHT_LIMIT, Value::Count(1)).unwrap();
/// let class = Values::defaults(Scope::Class);
/// let settings = AdmissionSettings::from_values(&application, &[&class]);
///
/// let now = Timestamp::from_nanos(1_000_000_000);
/// let mut admission = Admission::new(&settings, now);
/// let request = Exchange { class: ClassId(0), priority: 3, weight: 1, deadline: None, bytes: 400 };
/// let Arrival::Start(first) = admission.arrive(now, request) else { panic!("there is room") };
/// let Arrival::Wait(ticket) = admission.arrive(now, request) else { panic!("there is none") };
/// assert!(admission.collect(now, ticket).is_none());
///
/// admission.depart(now, first, Outcome::Success);
/// let mut decided = Vec::new();
/// admission.drain_decided(&mut decided);
/// assert_eq!(decided, [ticket]);
/// let Some(Ok(second)) = admission.collect(now, ticket) else { panic!("it was granted") };
/// admission.depart(now, second, Outcome::Success);
/// ```
#[derive(Clone, Debug)]
pub struct Admission {
    now: Timestamp,
    mode: Mode,
    path: Path,
    limiter: Limiter,
    /// The capacity's bounds by the knobs, and those in force: what was told goes before the knobs.
    capacity: CapacityBounds,
    bounds: CapacityBounds,
    /// What somebody told of the capacity.
    told: Option<Given>,
    /// What was told of the capacity since somebody asked.
    tellings: VecDeque<CapacityEvent>,
    /// The rate of starts that is set, and the one in force: lower where the limiter says so.
    egress: Option<Rate>,
    egress_in_force: Option<Rate>,
    share: Share,
    /// Whether the share is worth nothing of the limit.
    is_closed: bool,
    /// In mode `watch`: what in truth is in flight; the path counts shadows.
    watched: Option<InFlight>,
    /// Number of the present or last spell of watching.
    spell: u32,
    long_streams: u64,
    long_streams_max: u64,
    /// When [`pace`](Self::pace) was last asked for.
    paced: Timestamp,
}

/// Tellings of the capacity kept until somebody asks.
const TELLINGS_MAX: usize = 64;

/// An upgraded connection or long stream that is open. Not `Clone`, so that it is closed once.
#[must_use = "a stream that is not closed is a place lost for ever"]
#[derive(Debug, PartialEq, Eq)]
pub struct StreamPermit {
    class: ClassId,
}

/// Levels at one moment, for meters.
#[derive(Clone, Copy, Debug)]
pub struct Levels<'a> {
    /// Weight in flight.
    pub in_flight: u64,
    /// The in-flight limit, weight units.
    pub limit: u32,
    /// Capacity as found or given, work units a second; one is what a request of the default class costs.
    pub capacity: Option<f64>,
    /// Long streams open.
    pub long_streams: u64,
    path: &'a Path,
    limiter: &'a Limiter,
}

impl Admission {
    /// Nothing in flight, buckets full, limits at their start.
    #[must_use]
    pub fn new(settings: &AdmissionSettings, now: Timestamp) -> Self {
        assert!(!settings.classes.is_empty(), "the default class always exists");
        let share = settings.share;
        let settings = &*share.of(settings);
        let limiter = Limiter::new(settings.algorithm, settings.limit);
        let path = Path::new(settings, limiter.limit(), now);
        let mut admission = Self {
            now,
            mode: Mode::Enforce,
            path,
            limiter,
            capacity: settings.capacity,
            bounds: CapacityBounds::default(),
            told: None,
            tellings: VecDeque::new(),
            egress: None,
            egress_in_force: None,
            share,
            is_closed: holds_nothing(settings),
            watched: None,
            spell: 0,
            long_streams: 0,
            long_streams_max: settings.long_streams_max,
            paced: now,
        };
        admission.configure_limiter(settings);
        admission.set_mode(settings.mode);
        admission
    }

    /// Applies new knobs while running, atomically, losing nothing that waits.
    ///
    /// Classes are append-only: ids keep their meaning, and a class missing from `settings` keeps its
    /// settings and drains. Another algorithm starts from `in_flight.limit`; the same one keeps what it
    /// has learnt. What waits over a new bound stays. Leaving mode `enforce` lets everything in. A share
    /// of settings is renewed by the same settings with a later end.
    pub fn configure(&mut self, now: Timestamp, settings: &AdmissionSettings) {
        assert!(!settings.classes.is_empty(), "the default class always exists");
        self.advance(now);
        self.share = settings.share;
        let settings = &*settings.share.of(settings);
        self.is_closed = holds_nothing(settings);
        self.path.configure(self.now, settings);
        if self.limiter.algorithm() == settings.algorithm {
            self.limiter.set_bounds(settings.limit);
        } else {
            self.limiter = Limiter::new(settings.algorithm, settings.limit);
        }
        self.configure_limiter(settings);
        self.long_streams_max = settings.long_streams_max;
        if let Some(watched) = &mut self.watched {
            watched.grow(settings.classes.len());
        }
        self.set_mode(settings.mode);
        // What the new constants make overdue, such as the end of an epoch that is shorter now.
        self.advance_limiter();
        self.path.settle(self.now);
    }

    /// A request arrives.
    pub fn arrive(&mut self, now: Timestamp, exchange: Exchange) -> Arrival {
        self.advance(now);
        let exchange = self.known(exchange);
        let charged = self.path.charge(self.now, exchange.class);
        self.enter(exchange, charged)
    }

    /// A request arrives again that has been admitted before and gave its permit back unused, since its
    /// client was not ready to go on. It is judged as a newcomer, but takes no ingress token again.
    pub fn arrive_again(&mut self, now: Timestamp, exchange: Exchange) -> Arrival {
        self.advance(now);
        let exchange = self.known(exchange);
        self.enter(exchange, Charged::Paid)
    }

    /// The same within what there is.
    fn known(&self, exchange: Exchange) -> Exchange {
        Exchange {
            class: self.path.known(exchange.class),
            priority: exchange.priority.min(TOP_PRIORITY),
            weight: exchange.weight.max(1),
            ..exchange
        }
    }

    fn enter(&mut self, exchange: Exchange, charged: Charged) -> Arrival {
        if charged == Charged::Refused {
            return Arrival::Refuse(Refusal::IngressRate);
        }
        if self.mode == Mode::Off {
            let in_flight = self.path.take(exchange.class, exchange.weight);
            return Arrival::Start(self.permit(&exchange, in_flight, Standing::Counted));
        }
        let answer = match charged {
            // The path is that of a world in which everything acts.
            Charged::Watched if self.mode == Mode::Watch => Answer::Refuse(Refusal::IngressRate),
            _ => self.path.arrive(self.now, &exchange),
        };
        let Some(watched) = &mut self.watched else {
            return match answer {
                Answer::Start(in_flight) => {
                    Arrival::Start(self.permit(&exchange, in_flight, Standing::Counted))
                }
                Answer::Wait(ticket) => Arrival::Wait(ticket),
                Answer::Refuse(refusal) => Arrival::Refuse(refusal),
            };
        };
        watched.take(exchange.class, exchange.weight);
        let in_flight = whole(watched.total());
        let spell = self.spell;
        let standing = match answer {
            Answer::Start(_) => Standing::Counted,
            Answer::Wait(ticket) => Standing::Shadow { ticket, spell },
            Answer::Refuse(_) => Standing::Outside { spell },
        };
        Arrival::Start(self.permit(&exchange, in_flight, standing))
    }

    /// The verdict on a request that waits, if there is one; consumes it and frees the ticket. `None`:
    /// it still waits.
    ///
    /// A stale ticket is a mistake of the caller; in a release build it is answered like one that waits.
    #[must_use]
    pub fn collect(&mut self, now: Timestamp, ticket: Ticket) -> Option<Result<Permit, Refusal>> {
        self.advance(now);
        let verdict = self.verdict(ticket)?;
        if verdict.is_some() {
            self.path.forget(self.now, ticket);
        }
        verdict
    }

    /// The client left while its request waited.
    ///
    /// A stale ticket is a mistake of the caller; in a release build it is answered
    /// [`Departure::Left`].
    pub fn leave(&mut self, now: Timestamp, ticket: Ticket) -> Departure {
        self.advance(now);
        let departure = match self.verdict(ticket) {
            None | Some(None) => Departure::Left,
            Some(Some(Ok(permit))) => Departure::AlreadyGranted(permit),
            Some(Some(Err(refusal))) => Departure::AlreadyRefused(refusal),
        };
        self.path.forget(self.now, ticket);
        departure
    }

    /// An exchange is over: its weight is given back, the limit learns, and others may start.
    pub fn depart(&mut self, now: Timestamp, permit: Permit, outcome: Outcome) {
        self.advance(now);
        self.learn(&permit, outcome);
        let Permit { class, weight, standing, .. } = permit;
        let Some(watched) = &mut self.watched else {
            self.path.depart(self.now, class, weight);
            return;
        };
        watched.give_back(class, weight);
        match standing {
            Standing::Shadow { ticket, spell } if spell == self.spell => {
                let granted =
                    self.path.entry(ticket).is_some_and(|entry| matches!(entry.phase, Phase::Granted { .. }));
                self.path.forget(self.now, ticket);
                if granted {
                    self.path.depart(self.now, class, weight);
                } else {
                    self.path.reconsider(self.now);
                }
            }
            Standing::Outside { spell } if spell == self.spell => self.path.reconsider(self.now),
            _ => self.path.depart(self.now, class, weight),
        }
    }

    /// Moves an exchange from the in-flight limit to the limit of long streams: its connection was
    /// upgraded, or its response goes on and on. It is no sample of response times.
    ///
    /// # Errors
    ///
    /// The permit, if as many streams are open as may be; it stays in flight.
    pub fn begin_stream(&mut self, now: Timestamp, permit: Permit) -> Result<StreamPermit, Permit> {
        if self.mode == Mode::Enforce && self.long_streams >= self.long_streams_max {
            return Err(permit);
        }
        let class = permit.class;
        self.long_streams += 1;
        self.depart(now, permit, Outcome::Ignore);
        Ok(StreamPermit { class })
    }

    /// A long stream is over.
    pub fn end_stream(&mut self, stream: StreamPermit) {
        debug_assert!(self.long_streams > 0, "a stream of another application: {stream:?}");
        self.long_streams = self.long_streams.saturating_sub(1);
    }

    /// Fires what is due: waits, deadlines, tokens. Every other call does so first by itself.
    pub fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        if self.told.is_some_and(|told| told.per_s(self.now).is_none()) {
            self.told = None;
            self.bound_capacity();
        }
        if !self.share.is_valid(self.now) {
            // Nothing can start by it, so nothing is settled.
            self.path.in_flight.set_limit(0);
        }
        if self.advance_limiter() {
            self.path.settle(self.now);
        } else {
            self.path.advance(self.now);
        }
    }

    /// When [`advance`](Self::advance) must be called next, if nothing else happens.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Timestamp> {
        // A limit that finds its way by itself wants to move while it keeps something waiting.
        let tick = (self.mode == Mode::Enforce && self.path.is_held())
            .then(|| self.limiter.next_tick().map(|tick| tick.max(self.now)))
            .flatten();
        let told = self.told.map(|told| told.until()).filter(|until| *until < Timestamp::FAR_FUTURE);
        [self.path.next_timeout(), tick, told].into_iter().flatten().min()
    }

    /// Moves the tickets decided since the last call to `out`, in the order decided. A client that has
    /// left meanwhile may be among them; its ticket is stale.
    pub fn drain_decided(&mut self, out: &mut Vec<Ticket>) {
        self.path.drain_decided(out);
    }

    /// Reports what mode `watch` would have refused since the last call.
    pub fn drain_would_refuse(&mut self, f: impl FnMut(ClassId, Refusal, u64)) {
        self.path.drain_would_refuse(f);
    }

    /// Levels for meters.
    #[must_use]
    pub fn levels(&self) -> Levels<'_> {
        Levels {
            in_flight: self.in_flight().total(),
            limit: self.path.in_flight.limit(),
            capacity: self.limiter.work_capacity().or_else(|| self.bounds.given()),
            long_streams: self.long_streams,
            path: &self.path,
            limiter: &self.limiter,
        }
    }

    /// The algorithm that finds the limit, with its state.
    #[must_use]
    pub const fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// What is held of the capacity, for people.
    #[must_use]
    pub fn capacity(&self) -> CapacityState {
        CapacityState {
            per_s: self.capacity_per_s(),
            work_per_s: self.levels().capacity,
            bounds: self.capacity,
            told: self.told,
            limit_holds: self.path.is_held(),
        }
    }

    /// Somebody tells the capacity, requests a second, from now on for `valid_for` or until told otherwise; `None`
    /// takes it back. While it is in force it goes before the knobs.
    pub fn tell_capacity(&mut self, now: Timestamp, per_s: Option<f64>, valid_for: Option<Duration>) {
        self.advance(now);
        self.told = per_s.map(|per_s| Given::new(self.now, per_s, valid_for));
        self.bound_capacity();
        self.settle();
    }

    /// Forgets the capacity found and searches again.
    pub fn rediscover(&mut self, now: Timestamp) {
        self.advance(now);
        self.limiter.rediscover();
        self.settle();
    }

    /// Servers were lost or added: the capacity is `factor` times what it was.
    pub fn resize(&mut self, now: Timestamp, factor: f64) {
        self.advance(now);
        self.limiter.resize(factor);
        self.settle();
    }

    /// Work units a second that may come now so that the short queue neither runs dry nor stands, if the limiter
    /// says so: what the waiting room lets in without a promise. It goes by the time since the last call; to be asked some
    /// ten times a second.
    pub fn pace(&mut self, now: Timestamp) -> Option<f64> {
        self.advance(now);
        let passed = self.now.since(std::mem::replace(&mut self.paced, self.now));
        let queued: usize = self.path.queued().map(|(_, queued)| queued).sum();
        self.limiter.pace(queued, passed)
    }

    /// Moves what has happened to the capacity since the last call to `out`.
    pub fn drain_capacity_events(&mut self, out: &mut Vec<CapacityEvent>) {
        self.limiter.drain_events(out);
        out.extend(self.tellings.drain(..));
    }

    /// Panics if something is inconsistent: permits, queues, lists, deadlines, timers, or something
    /// waits that may start. For tests and simulation; O(everything).
    pub fn check_invariants(&self) {
        self.path.check_invariants(self.now);
        self.in_flight().check_invariants();
        let uncollected = self.path.uncollected(true) + self.path.uncollected(false);
        assert!(uncollected <= self.path.in_flight.total(), "grants hold their weight");
        assert_eq!(self.watched.is_some(), self.mode == Mode::Watch, "only watching has shadows");
    }

    /// Weight of permits that are granted and not collected.
    pub(super) fn uncollected(&self) -> u64 {
        self.path.uncollected(false)
    }

    /// What in truth is in flight.
    fn in_flight(&self) -> &InFlight {
        self.watched.as_ref().unwrap_or(&self.path.in_flight)
    }

    /// `None`: the ticket is stale. `Some(None)`: it waits.
    fn verdict(&self, ticket: Ticket) -> Option<Option<Result<Permit, Refusal>>> {
        let entry = self.path.entry(ticket);
        debug_assert!(entry.is_some(), "ticket {ticket} is stale");
        let entry = entry?;
        Some(match entry.phase {
            Phase::Waiting | Phase::Free => None,
            Phase::Granted { started, in_flight } => Some(Ok(Permit {
                class: entry.class,
                weight: entry.weight,
                started,
                in_flight,
                standing: Standing::Counted,
            })),
            Phase::Refused(refusal) => Some(Err(refusal)),
        })
    }

    const fn permit(&self, exchange: &Exchange, in_flight: u32, standing: Standing) -> Permit {
        Permit { class: exchange.class, weight: exchange.weight, started: self.now, in_flight, standing }
    }

    fn learn(&mut self, permit: &Permit, outcome: Outcome) {
        if self.mode == Mode::Off || outcome == Outcome::Ignore {
            return;
        }
        let limit = self.path.in_flight.limit();
        let held = self.watched.is_none() && self.path.held_since(permit.started);
        self.limiter.sample(&Sample {
            now: self.now,
            class: permit.class,
            response_time: permit.age(self.now),
            in_flight: permit.in_flight,
            limit_utilised: held || permit.in_flight >= limit,
            outcome,
            weight: permit.weight,
        });
        self.apply_limit();
    }

    /// Tells the limiter that time has passed. True if others may start now.
    fn advance_limiter(&mut self) -> bool {
        if self.mode != Mode::Enforce {
            return false;
        }
        let load = self.path.load(self.now);
        self.limiter.advance(self.now, &load);
        self.apply_limit()
    }

    /// Puts the limiter's limit and rate in force. True if one of them has changed: the caller then settles.
    fn apply_limit(&mut self) -> bool {
        let limit = self.limit_in_force();
        let egress = Rate::lower(self.egress, self.limiter.rate());
        let changed = limit != self.path.in_flight.limit() || egress != self.egress_in_force;
        if changed {
            self.path.in_flight.set_limit(limit);
            self.egress_in_force = egress;
            self.path.set_egress(self.now, egress);
        }
        changed
    }

    fn settle(&mut self) {
        if self.apply_limit() {
            self.path.settle(self.now);
        }
    }

    /// A limit that is found by holding requests back is not known before it has: in mode `watch` nothing is held back.
    /// A share that is worth nothing, or has ended, is a limit of 0.
    fn limit_in_force(&self) -> u32 {
        if self.is_closed || !self.share.is_valid(self.now) {
            return 0;
        }
        match &self.limiter {
            Limiter::KneeTrack(knee) if self.mode == Mode::Watch && knee.knee().is_none() => {
                knee.bounds().max
            }
            limiter => limiter.limit(),
        }
    }

    fn configure_limiter(&mut self, settings: &AdmissionSettings) {
        self.limiter.set_power_ratio(settings.power_ratio);
        self.capacity = settings.capacity;
        self.bound_capacity();
        self.egress = settings.egress;
        self.apply_limit();
    }

    fn bound_capacity(&mut self) {
        let before = self.capacity_per_s();
        self.bounds = self.told.map_or(self.capacity, |told| told.bounds(self.now, self.capacity));
        self.limiter.set_capacity_bounds(self.bounds);
        let after = self.capacity_per_s();
        if before != after {
            if self.tellings.len() == TELLINGS_MAX {
                self.tellings.pop_front();
            }
            self.tellings.push_back(CapacityEvent { at: self.now, cause: Cause::Given, before, after });
        }
    }

    /// Requests a second of the present mix, as found or given.
    fn capacity_per_s(&self) -> Option<f64> {
        self.limiter.capacity().or_else(|| self.bounds.given())
    }

    fn set_mode(&mut self, mode: Mode) {
        if mode == self.mode {
            return;
        }
        if let Some(watched) = self.watched.take() {
            self.path.end_shadow(self.now, watched);
        } else if self.mode == Mode::Enforce {
            self.path.let_all_in(self.now);
        }
        if mode == Mode::Watch {
            self.spell = self.spell.wrapping_add(1);
            self.watched = Some(self.path.in_flight.clone());
        }
        self.path.set_shadow(mode == Mode::Watch);
        self.mode = mode;
        self.apply_limit();
    }
}

/// Whether a share of settings is worth nothing of the in-flight limit.
fn holds_nothing(own: &AdmissionSettings) -> bool {
    let units = if own.algorithm == Algorithm::Fixed { own.limit.initial } else { own.limit.max };
    units == 0
}

impl Levels<'_> {
    /// Requests waiting, by class. In mode `watch`, shadows.
    pub fn queued(&self) -> impl Iterator<Item = (ClassId, usize)> + '_ {
        self.path.queued()
    }

    /// What a request of each class costs, where one of the default class costs 1; `None`: not known.
    pub fn costs(&self) -> impl Iterator<Item = (ClassId, Option<f64>)> + '_ {
        self.path.queued().map(|(class, _)| (class, self.limiter.cost(class)))
    }
}

impl StreamPermit {
    /// The class of the exchange it began as.
    #[must_use]
    pub const fn class(&self) -> ClassId {
        self.class
    }
}

//! The composition: one application's admission.

mod capacity;
mod tls;

use std::{collections::VecDeque, time::Duration};

use self::capacity::Giving;
use super::{
    AdmissionSettings, Arrival, Departure, Exchange, Outcome, Permit, Shadow, Standing, StreamPermit,
    dormant::Dormant,
    ingress::{Charged, IngressRates},
    levels::Levels,
    path::{Answer, Path, Started},
    settings::Modes,
    shadow::Begun,
    streams::{LongStreams, Opened},
};
use crate::{
    ClassId, Refusal, Ticket, Timestamp,
    capacity::{CapacityBounds, CapacityEvent, Cause, Given},
    in_flight::TOP_PRIORITY,
    knobs::{Algorithm, Mode},
    limit::{Limit, Limiter, Load, Sample},
    queue::Phase,
    roster::Place,
    share::Share,
    tls_sessions::TlsSessions,
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
/// - A class's bound may be passed by one request shortly before there is room under it (`lead.rs`), the application's limit never is.
/// - A request that arrives while nothing waits and may start takes no turn of the scheduler's.
/// - A newcomer that could start at once is never refused for a full queue.
/// - Wait and deadline are over at their instant: a request due at `t` does not start at `t`.
/// - CoDel judges what is about to start, after its room is known and before a token is taken.
///
/// # Modes
///
/// Each control has a mode ([`OwnModes`](super::OwnModes), else [`AdmissionSettings::mode`]): the rates of admission, the limit
/// in flight, the bounds of queues, the rates of starts.
///
/// - `enforce`: it acts.
/// - `watch`: it holds for shadows only. While anything watches, each request that is not refused has a shadow on a second
///   path, on which what acts and what watches holds (`shadow.rs`). A request that starts though its shadow is
///   refused is counted ([`drain_would_refuse`](Self::drain_would_refuse)) and told when it departs, or when its client leaves
///   before that ([`abandon`](Self::abandon)). Shadows that still wait then count as neither.
/// - `off`: it holds for nobody. A limit that is off learns nothing.
///
/// Rates of admission decide before all else, and nobody pays twice: one that watches counts whom it would refuse and
/// lets him go on, without a shadow; one that acts refuses whatever the other modes are.
///
/// Where nothing acts, every request starts at once.
///
/// # Time
///
/// Every call first fires what is due. A `now` before that of an earlier call counts as that one's. When
/// time jumps ahead, everything due by then is refused first and starts are decided after that.
///
/// # Cost
///
/// With nothing waiting, `arrive` and `depart` are O(1) and allocate nothing (beyond 1,024 in flight, nothing once the table of
/// those has grown). Otherwise every start costs
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
    modes: Modes,
    ingress: IngressRates,
    path: Path,
    /// The path of shadows, while something watches.
    shadows: Option<Box<Path>>,
    /// Number of the present or last spell of watching.
    spell: u32,
    limiter: Limiter,
    dormant: Dormant,
    /// The capacity's bounds by the knobs, and those in force: what was told goes before the knobs.
    capacity: CapacityBounds,
    bounds: CapacityBounds,
    /// What somebody told of the capacity.
    told: Option<Given>,
    /// What is left of a capacity that is given, by the knobs and by telling.
    givings: [Giving; 2],
    /// What was told of the capacity since somebody asked.
    tellings: VecDeque<CapacityEvent>,
    /// The limit, as found and with what is dormant on top, and the rate, whether or not they hold.
    limit: u32,
    rate: Option<f64>,
    share: Share,
    /// Whether the share is worth nothing of the limit.
    is_closed: bool,
    streams: LongStreams,
    /// TLS sessions, while something looks at them.
    tls_sessions: Option<Box<TlsSessions>>,
    tls_sessions_mode: Mode,
    /// When [`supply`](Self::supply) was last asked for.
    paced: Timestamp,
}

impl Admission {
    /// Nothing in flight, buckets full, limits at their start.
    #[must_use]
    pub fn new(settings: &AdmissionSettings, now: Timestamp) -> Self {
        assert!(!settings.classes.is_empty(), "the default class always exists");
        let share = settings.share;
        let settings = &*share.of(settings);
        let mut admission = Self {
            now,
            modes: settings.modes_in_force(),
            ingress: IngressRates::new(now, settings),
            path: Path::new(settings.scheduler),
            shadows: None,
            spell: 0,
            limiter: Limiter::new(settings.algorithm, settings.limit),
            dormant: Dormant::new(now),
            capacity: settings.capacity,
            bounds: CapacityBounds::default(),
            told: None,
            givings: [Giving::default(); 2],
            tellings: VecDeque::new(),
            limit: 0,
            rate: None,
            share,
            is_closed: holds_nothing(settings),
            streams: LongStreams::new(settings),
            tls_sessions: None,
            tls_sessions_mode: Mode::Off,
            paced: now,
        };
        admission.configure_paths(settings);
        admission.configure_limiter(settings);
        admission.configure_tls_sessions(settings.tls_sessions);
        admission
    }

    /// Applies new knobs while running, atomically, losing nothing that waits.
    ///
    /// Classes are append-only: ids keep their meaning, and a class missing from `settings` keeps its
    /// settings and drains. Another algorithm starts from `in_flight.limit`; the same one keeps what it
    /// has learnt. What waits over a new bound stays, and nobody is refused for what was before bounds of queues began to
    /// act: waits begin anew, and deadlines that have passed are forgotten. What nothing holds back any more starts. A share of
    /// settings is renewed by the same settings with a later end.
    pub fn configure(&mut self, now: Timestamp, settings: &AdmissionSettings) {
        assert!(!settings.classes.is_empty(), "the default class always exists");
        self.advance(now);
        self.share = settings.share;
        let settings = &*settings.share.of(settings);
        self.is_closed = holds_nothing(settings);
        self.modes = settings.modes_in_force();
        self.ingress.configure(self.now, settings);
        self.configure_paths(settings);
        if self.limiter.algorithm() == settings.algorithm {
            self.limiter.set_bounds(settings.limit);
        } else {
            self.limiter = Limiter::new(settings.algorithm, settings.limit);
        }
        self.configure_limiter(settings);
        self.streams.configure(settings);
        self.configure_tls_sessions(settings.tls_sessions);
        // What the new constants make overdue, such as the end of an epoch that is shorter now.
        self.advance_limiter();
        self.settle_paths();
    }

    /// A request arrives.
    pub fn arrive(&mut self, now: Timestamp, exchange: Exchange) -> Arrival {
        self.advance(now);
        let exchange = self.known(exchange);
        let would_refuse = match self.ingress.charge(self.now, exchange.class) {
            Charged::Paid => None,
            Charged::Watched => {
                self.path.count_refusal(exchange.class, Refusal::IngressRate);
                Some(Refusal::IngressRate)
            }
            Charged::Refused => return Arrival::Refuse(Refusal::IngressRate),
        };
        self.enter(exchange, would_refuse)
    }

    /// A request arrives again that has been admitted before and gave its permit back unused, since its
    /// client was not ready to go on. It is judged as a newcomer, but takes no ingress token again.
    pub fn arrive_again(&mut self, now: Timestamp, exchange: Exchange) -> Arrival {
        self.advance(now);
        let exchange = self.known(exchange);
        self.enter(exchange, None)
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

    #[inline(always)]
    fn enter(&mut self, exchange: Exchange, would_refuse: Option<Refusal>) -> Arrival {
        let answer = self.path.arrive(self.now, &exchange, false);
        if self.shadows.is_some() || would_refuse.is_some() {
            return self.enter_watched(exchange, answer, would_refuse);
        }
        match answer {
            Answer::Start(started) => Arrival::Start(self.permit(&exchange, started)),
            Answer::Wait(ticket) => Arrival::Wait(ticket),
            Answer::Refuse(refusal) => Arrival::Refuse(refusal),
        }
    }

    /// The same with what only watches; not inline, so that it costs nothing where nothing does.
    #[inline(never)]
    fn enter_watched(
        &mut self,
        exchange: Exchange,
        answer: Answer,
        would_refuse: Option<Refusal>,
    ) -> Arrival {
        match answer {
            Answer::Start(started) => {
                let mut permit = self.permit(&exchange, started);
                permit.would_refuse = would_refuse;
                if let Some(shadows) = &mut self.shadows {
                    let spell = self.spell;
                    permit.standing = match would_refuse {
                        Some(_) => Standing::Outside { spell },
                        None => match shadows.arrive(self.now, &exchange, true) {
                            Answer::Start(Started { place, .. }) => Standing::Counted { place, spell },
                            Answer::Wait(ticket) => Standing::Shadow(Shadow { ticket, spell }),
                            Answer::Refuse(refusal) => {
                                permit.would_refuse = Some(refusal);
                                Standing::Outside { spell }
                            }
                        },
                    };
                }
                Arrival::Start(permit)
            }
            Answer::Wait(ticket) => {
                let shadows = self.shadows.as_mut().filter(|_| would_refuse.is_none());
                let shadow = shadows.and_then(|shadows| shadows.arrive_waiting(self.now, &exchange));
                self.path.note_shadow(ticket, shadow, would_refuse);
                Arrival::Wait(ticket)
            }
            Answer::Refuse(refusal) => Arrival::Refuse(refusal),
        }
    }

    /// The verdict on a request that waits, if there is one; consumes it and frees the ticket. `None`:
    /// it still waits.
    ///
    /// A stale ticket is a mistake of the caller; in a release build it is answered like one that waits.
    #[must_use]
    pub fn collect(&mut self, now: Timestamp, ticket: Ticket) -> Option<Result<Permit, Refusal>> {
        self.advance(now);
        self.verdict(ticket)
    }

    /// The client left while its request waited.
    ///
    /// A stale ticket is a mistake of the caller; in a release build it is answered
    /// [`Departure::Left`].
    pub fn leave(&mut self, now: Timestamp, ticket: Ticket) -> Departure {
        self.advance(now);
        match self.verdict(ticket) {
            None => {
                let shadow = self.path.entry(ticket).and_then(|entry| entry.shadow);
                self.path.forget(self.now, ticket);
                self.withdraw(shadow);
                Departure::Left
            }
            Some(Ok(permit)) => Departure::AlreadyGranted(permit),
            Some(Err(refusal)) => Departure::AlreadyRefused(refusal),
        }
    }

    /// An exchange is over: its weight is given back, the limit learns, and others may start. Answers what would have
    /// refused it, if something that only watches would have.
    pub fn depart(&mut self, now: Timestamp, permit: Permit, outcome: Outcome) -> Option<Refusal> {
        self.end(now, &permit, outcome, true)
    }

    /// `is_whole`: the server has done all of it.
    #[inline]
    fn end(&mut self, now: Timestamp, permit: &Permit, outcome: Outcome, is_whole: bool) -> Option<Refusal> {
        self.advance(now);
        let counted = self.learn(permit, outcome);
        // What has been dormant was not at the server for all its time.
        let is_time = is_whole && outcome == Outcome::Success && counted == permit.age(self.now);
        self.path.depart(self.now, permit.class, permit.weight, permit.in_class, is_time);
        if self.shadows.is_some() { self.depart_watched(permit, is_time) } else { permit.would_refuse }
    }

    #[inline(never)]
    fn depart_watched(&mut self, permit: &Permit, is_time: bool) -> Option<Refusal> {
        let Permit { class, weight, in_class, standing, would_refuse, .. } = *permit;
        let shadows = self.shadows.as_mut()?;
        let place = match standing {
            Standing::Shadow(Shadow { ticket, spell }) if spell == self.spell => {
                return shadows.end(self.now, ticket, is_time).or(would_refuse);
            }
            Standing::Outside { spell } if spell == self.spell => {
                shadows.stand_in(self.now);
                return would_refuse;
            }
            Standing::Counted { place, spell } if spell == self.spell => place,
            _ => in_class,
        };
        shadows.depart(self.now, class, weight, place, is_time);
        would_refuse
    }

    /// The client of an exchange that goes on has left, whose [shadow](Permit::shadow) waited when it began: if that
    /// waits still, it leaves too. Answers what has refused it, if anything has; [`depart`](Self::depart) does not again.
    pub fn abandon(&mut self, now: Timestamp, shadow: Shadow) -> Option<Refusal> {
        self.advance(now);
        let shadows = self.shadows.as_mut().filter(|_| shadow.spell == self.spell)?;
        shadows.abandon(self.now, shadow.ticket)
    }

    /// Moves an exchange from the in-flight limit to the limit of long streams: its connection was
    /// upgraded, its response goes on and on, or its client keeps it waiting. What has come of it so far is the outcome.
    ///
    /// # Errors
    ///
    /// The permit, if as many streams are open as may be; it stays in flight.
    pub fn begin_stream(
        &mut self,
        now: Timestamp,
        permit: Permit,
        outcome: Outcome,
    ) -> Result<StreamPermit, Permit> {
        if self.streams.refuses() {
            return Err(permit);
        }
        let class = permit.class;
        let by_another = self.end(now, &permit, outcome, false);
        let opened = self.streams.begin(by_another.is_some());
        let would_refuse = by_another.or((opened == Opened::Beyond).then_some(Refusal::LongStreams));
        if by_another.is_none() && would_refuse.is_some() {
            self.path.count_refusal(class, Refusal::LongStreams);
        }
        Ok(StreamPermit { class, would_refuse, opened })
    }

    /// A long stream is over.
    pub fn end_stream(&mut self, stream: StreamPermit) {
        self.streams.end(stream.opened);
    }

    /// Fires what is due: waits, deadlines, tokens. Every other call does so first by itself.
    #[inline(always)]
    pub fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        if self.told.is_some() || !self.share.is_valid(self.now) {
            self.advance_terms();
        }
        if self.advance_limiter() {
            self.settle_paths();
            return;
        }
        self.path.advance(self.now);
        if self.shadows.is_some() {
            self.advance_shadows();
        }
    }

    /// What was told of the capacity, and a share, are ours for a time.
    #[inline(never)]
    fn advance_terms(&mut self) {
        if self.told.is_some_and(|told| told.per_s(self.now).is_none()) {
            self.told = None;
            self.bound_capacity(Cause::Given);
        }
        if !self.share.is_valid(self.now) {
            // Nothing can start by it, so nothing is settled.
            self.apply_limit();
        }
    }

    #[inline(never)]
    fn advance_shadows(&mut self) {
        if let Some(shadows) = &mut self.shadows {
            shadows.advance(self.now);
        }
    }

    /// When [`advance`](Self::advance) must be called next, if nothing else happens.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Timestamp> {
        // A limit that finds its way by itself wants to move while it keeps something waiting.
        let held = self.modes.in_flight == Mode::Enforce && self.path.is_held();
        let tick = held.then(|| self.limiter.next_tick().map(|tick| tick.max(self.now))).flatten();
        let dormant = held.then(|| self.dormant.due()).flatten();
        let told = self.told.map(|told| told.until()).filter(|until| *until < Timestamp::FAR_FUTURE);
        let of_shadows = self.shadows.as_ref().and_then(|shadows| shadows.next_timeout());
        let ours = Timestamp::earlier(Timestamp::earlier(tick, dormant), told);
        Timestamp::earlier(Timestamp::earlier(self.path.next_timeout(), of_shadows), ours)
    }

    /// Moves the tickets decided since the last call to `out`, in the order decided. A client that has
    /// left meanwhile may be among them; its ticket is stale.
    pub fn drain_decided(&mut self, out: &mut Vec<Ticket>) {
        self.path.drain_decided(out);
    }

    /// Reports what would have been refused since the last call, had what only watches acted.
    pub fn drain_would_refuse(&mut self, f: impl FnMut(ClassId, Refusal, u64)) {
        if let Some(shadows) = &mut self.shadows {
            self.path.take_counts(shadows);
        }
        self.path.drain_would_refuse(f);
    }

    /// Levels for meters.
    #[must_use]
    pub fn levels(&self) -> Levels<'_> {
        Levels {
            in_flight: self.path.in_flight.total(),
            limit: self.limit,
            dormant: self.dormant.total(),
            capacity: self.limiter.work_capacity().or_else(|| self.bounds.given()),
            long_streams: self.streams.open(),
            tls_sessions: self.tls_sessions.as_deref(),
            path: &self.path,
            shadows: self.shadows.as_deref(),
            limiter: &self.limiter,
        }
    }

    /// The algorithm that finds the limit, with its state.
    #[must_use]
    pub const fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Panics if something is inconsistent: permits, queues, lists, deadlines, timers, or something
    /// waits that may start. For tests and simulation; O(everything).
    pub fn check_invariants(&self) {
        self.path.check_invariants(self.now);
        self.dormant.check_invariants();
        if let Some(shadows) = &self.shadows {
            shadows.check_invariants(self.now);
        }
    }

    /// Weight of permits that are granted and not collected.
    pub(super) fn uncollected(&self) -> u64 {
        self.path.uncollected()
    }

    /// Takes the verdict on a request and frees its ticket; `None`: it waits, or the ticket is stale.
    fn verdict(&mut self, ticket: Ticket) -> Option<Result<Permit, Refusal>> {
        let entry = self.path.entry(ticket);
        debug_assert!(entry.is_some(), "ticket {ticket} is stale");
        let entry = entry?;
        let (shadow, would_refuse) = (entry.shadow, entry.would_refuse);
        let verdict = match entry.phase {
            Phase::Waiting | Phase::Free => return None,
            Phase::Granted { started, in_flight, place } => Ok(Permit {
                class: entry.class,
                weight: entry.weight,
                started,
                in_flight: self.dormant.without(in_flight),
                place: self.dormant.begin(self.now, entry.class, entry.weight),
                in_class: place,
                standing: Standing::Counted { place: Place::NOWHERE, spell: self.spell },
                would_refuse,
            }),
            Phase::Refused(refusal) => Err(refusal),
        };
        self.path.forget(self.now, ticket);
        Some(if self.shadows.is_some() { self.verdict_watched(verdict, shadow) } else { verdict })
    }

    /// A request that waited is decided, so its shadow does not wait for that any more.
    #[inline(never)]
    fn verdict_watched(
        &mut self,
        verdict: Result<Permit, Refusal>,
        shadow: Option<Ticket>,
    ) -> Result<Permit, Refusal> {
        let spell = self.spell;
        let Ok(mut permit) = verdict else {
            self.withdraw(shadow);
            return verdict;
        };
        let begun =
            shadow.zip(self.shadows.as_mut()).map(|(ticket, shadows)| (ticket, shadows.begin(ticket)));
        permit.standing = match begun {
            Some((_, Begun::InFlight(place))) => Standing::Counted { place, spell },
            Some((ticket, Begun::Waiting)) => Standing::Shadow(Shadow { ticket, spell }),
            Some((_, Begun::Refused(refusal))) => {
                permit.would_refuse = Some(refusal);
                Standing::Outside { spell }
            }
            Some((_, Begun::Over)) | None => Standing::Outside { spell },
        };
        Ok(permit)
    }

    /// A request that waited will never start.
    fn withdraw(&mut self, shadow: Option<Ticket>) {
        if let (Some(shadows), Some(ticket)) = (&mut self.shadows, shadow) {
            shadows.withdraw(self.now, ticket);
        }
    }

    fn permit(&mut self, exchange: &Exchange, started: Started) -> Permit {
        Permit {
            class: exchange.class,
            weight: exchange.weight,
            started: self.now,
            in_flight: self.dormant.without(started.in_flight),
            place: self.dormant.begin(self.now, exchange.class, exchange.weight),
            in_class: started.place,
            standing: Standing::Counted { place: Place::NOWHERE, spell: self.spell },
            would_refuse: None,
        }
    }

    /// The limit learns from an exchange that has ended; for how long it counted.
    fn learn(&mut self, permit: &Permit, outcome: Outcome) -> Duration {
        // The limit for what counts, as it was until now.
        let limit = self.dormant.without(self.limit);
        let response_time = self.dormant.end(self.now, permit.place, permit.started, outcome);
        if self.modes.in_flight == Mode::Off {
            return response_time;
        }
        if outcome != Outcome::Ignore {
            let held = self.modes.in_flight == Mode::Enforce && self.path.held_since(permit.started);
            self.limiter.sample(&Sample {
                now: self.now,
                class: permit.class,
                response_time,
                in_flight: permit.in_flight,
                limit_utilised: held || permit.in_flight >= limit,
                outcome,
                weight: permit.weight,
            });
        }
        self.dormant.settle(self.now, self.path.is_held());
        self.apply_limit();
        response_time
    }

    /// Tells the limiter that time has passed. True if others may start now.
    fn advance_limiter(&mut self) -> bool {
        let has_moved = match self.modes.in_flight {
            Mode::Off => return false,
            Mode::Watch => false,
            Mode::Enforce => {
                let load = self.path.load(self.now);
                let in_flight = self.dormant.counting(load.in_flight);
                self.limiter.advance(self.now, &Load { in_flight, ..load })
            }
        };
        let is_raised = self.dormant.settle(self.now, self.path.is_held());
        (has_moved || is_raised) && self.apply_limit()
    }

    /// Puts the limiter's limit and rate in force. True if one of them has changed: the caller then settles.
    fn apply_limit(&mut self) -> bool {
        let (limit, rate) = (self.limit_in_force(), self.limiter.rate());
        (limit, rate) != (self.limit, self.rate) && self.set_found(limit, rate)
    }

    fn set_found(&mut self, limit: u32, rate: Option<f64>) -> bool {
        (self.limit, self.rate) = (limit, rate);
        let changed = self.path.set_found(self.now, limit, rate);
        let shadows = self.shadows.as_mut();
        shadows.is_some_and(|shadows| shadows.set_found(self.now, limit, rate)) || changed
    }

    fn settle(&mut self) {
        if self.apply_limit() {
            self.settle_paths();
        }
    }

    fn settle_paths(&mut self) {
        self.path.settle(self.now);
        if let Some(shadows) = &mut self.shadows {
            shadows.settle(self.now);
        }
    }

    /// A limit that is found by holding requests back is not known before it has: while it only watches it holds nothing back.
    /// A share that is worth nothing, or has ended, is a limit of 0.
    fn limit_in_force(&self) -> u32 {
        if self.is_closed || !self.share.is_valid(self.now) {
            return 0;
        }
        match &self.limiter {
            Limiter::KneeTrack(knee) if self.modes.in_flight == Mode::Watch && knee.knee().is_none() => {
                knee.bounds().max
            }
            limiter => self.dormant.raised(limiter.limit()),
        }
    }

    fn configure_limiter(&mut self, settings: &AdmissionSettings) {
        self.limiter.set_power_ratio(settings.power_ratio);
        self.dormant.configure(settings);
        self.give_by_knobs(settings.capacity);
        self.bound_capacity(Cause::Given);
        // Also if it is the same: what holds of it may be other.
        self.set_found(self.limit_in_force(), self.limiter.rate());
    }

    /// New settings for what acts and, where something watches, for shadows.
    fn configure_paths(&mut self, settings: &AdmissionSettings) {
        match (settings.watches(), &self.shadows) {
            (true, None) => {
                self.spell = self.spell.wrapping_add(1);
                self.shadows = Some(Box::new(self.path.cast_shadows()));
            }
            (false, Some(_)) => {
                if let Some(mut shadows) = self.shadows.take() {
                    self.path.take_counts(&mut shadows);
                }
            }
            _ => {}
        }
        self.path.configure(self.now, settings);
        if let Some(shadows) = &mut self.shadows {
            shadows.configure(self.now, settings);
        }
    }
}

/// Whether a share of settings is worth nothing of the in-flight limit.
fn holds_nothing(own: &AdmissionSettings) -> bool {
    let units = if own.algorithm == Algorithm::Fixed { own.limit.initial } else { own.limit.max };
    units == 0
}

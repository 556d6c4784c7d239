//! KneeTrack: the smallest limit in flight at which the server gives nearly all it can, and how much that is.
//!
//! While the limit keeps something waiting, the server is as full as the limit makes it, and the rate at
//! which work departs is a direct sample of its capacity at that limit. With `D` departures by class, `θ`
//! their costs, `T` the time and `p` the mix of what starts:
//!
//! ```text
//! ρ = Σ θ·D / T                          work departing a second of saturation
//! Ĉ = ρ / Σ p·θ                          capacity, requests a second of the present mix
//! R = ∫ in flight dt / D                 response time without a queue, measured at a low limit
//! N = Ĉ · Σ p·R                          the knee (Little's law)
//! L = min(⌈N + β·√N·min(1, N − ½) − ¼⌉, L_cap)   the limit; β = 1.5 to begin with, 0.5 to 8
//! ```
//!
//! The square root is headroom: with I/O, at `N` itself goodput is 84 to 97 %, at `N + 1.5·√N` 98 to 99.7 %;
//! a server bound by CPU alone needs none, and the tight probe takes it away. What is told of `Ĉ` is held against
//! chance ([`counted`]).
//!
//! # Modes
//!
//! | mode | limit | decides | file |
//! |---|---|---|---|
//! | start | doubled while the departure rate grows | the first `Ĉ` | [`start`] |
//! | low | `0.6·N` | `R`, and so `N` | [`low`] |
//! | base | `L` | `Ĉ`, costs, changes | [`base`] |
//! | up | `1.5·L`, every 5 s | whether there is more | [`probe`] |
//! | tight | `N` | whether the headroom pays: `β` | [`probe`] |
//!
//! A new limit is first *settled*: until no more than it is in flight, a mean response time has passed
//! and a limit's worth has departed (two limits' worth in low, up and tight), for at most `max(1 s, 3·rt)`. After raising the limit
//! short requests leave first; what leaves before the turnover tells nothing. What passes the limit or weighs more than it keeps more in
//! flight than the limit: it is settled, too, once what was in flight before and as much as a new limit turns over have departed. Then the *block* is
//! measured: departures, requests in flight over time, time. In low and tight it begins anew where the server pauses.
//!
//! After a first search downwards (or upwards from limits of which few departed), a change or a proof `R` is in doubt, and a probe for it would cost what the estimate needs first: departures that
//! count. The knee is *kept* meanwhile ([`low`]).
//!
//! The search begins at 8 in flight, which few servers are too small for and which lets a first burst through sooner, or at
//! `in_flight.limit` if that is less. Where requests are slow (not half of a limit has departed in 0.4 s, of the next in 0.8 s, and
//! so on), it goes up to `in_flight.limit`, where the other algorithms start, without waiting for them. Where hardly anybody is served
//! (clients have given up), that was too far: it goes back by halves, also where those who gave up make room, so that nothing seems to
//! wait ([`futility`]). Bursts of slow
//! requests, which end before anything departs, are told apart by their response times ([`bursts`]).
//!
//! Where few ask, a place that becomes free is not taken at once: the server is still full for a quarter of a response time after
//! something last waited, as long as half of the limit is in flight.
//!
//! Below capacity (nothing waits on the limit) nothing is probed, nothing is learnt but `R`, which is free
//! when little is in flight, and the limit stays. An `R` that is longer there is not believed: it may be a queue. A full low probe goes
//! on when the load is back, since without `R` the limit could only follow the queue. An estimate too low feeds itself, since it hides the load that
//! would disprove it; two rules break that: the up probe, and the *proof*: work that departs, saturated or not, for a second
//! at over `1.06 + 2.5·√(F/2X)` times the estimate, or at a rate that a cumulative sum ([`change`]) takes for more than 1.06
//! times the estimate, is taken over as the estimate.
//!
//! A ceiling below what is found holds the limit: the server is not full then, and of what departs nothing is counted and nothing
//! is looked for above; only that it does less than the ceiling is a fall. Under a floor above what is found `R` comes from
//! six tenths of the knee that is found.
//!
//! # Inputs
//!
//! Weight in flight by class without what is dormant, whether the limit keeps something waiting, and each departure with its class,
//! weight and response time. All of it is counted in requests; only the limit that is told is in weight units ([`weights`]). Ticks are every 20 ms of the
//! time it is told; a jump of over 5 s counts as a pause without load. When time stands still nothing is decided. One call costs O(classes), at most 16
//! of which have a cost of their own; a tick O(16), and 2.5 times a second costs are fitted, O(30·16²).
//!
//! Source: our own; the load and response rules are Little's law and the utilisation law (Denning & Buzen,
//! "The Operational Analysis of Queueing Network Models", 1978), the changes Page's CUSUM.

mod base;
mod bursts;
mod change;
mod costs;
mod counted;
mod found;
mod futility;
mod knee;
mod low;
mod probe;
mod responses;
mod saturation;
mod slots;
mod start;
mod weights;

use std::{collections::VecDeque, mem, time::Duration};

pub use self::found::{Found, FoundClass};
use self::{
    change::{Cusums, Proof},
    costs::Costs,
    counted::Counted,
    responses::{Responses, Variation},
    weights::Weights,
};
use super::{
    CapacityBounds, CapacityEvent, Cause,
    per_class::{COST_CLASSES, PerClass, place},
};
use crate::{
    ClassId, Timestamp,
    admission::Outcome,
    limit::{Limit, LimitBounds, Load, Sample, whole},
};

/// Time between ticks, seconds.
const TICK: f64 = 0.02;
const TICK_SPAN: Duration = Duration::from_millis(20);
/// Ticks made up for at most; a longer silence is a pause.
const TICKS_MISSED_MAX: u32 = 250;
/// Where the search begins, requests.
const LIMIT_FIRST: f64 = 8.0;
/// While nothing is known, a limit of which no such share has departed in this time, seconds, is doubled, up to where other
/// algorithms start: the requests are slow, and a search that waits for them would keep everybody waiting. Each limit passed by
/// doubles the time, so that the first replies stop it near what has been waited for.
const PATIENCE: f64 = 0.4;
const PATIENCE_SHARE: f64 = 0.5;
/// Headroom over the knee, in its square root.
const HEADROOM: f64 = 1.5;
/// Level of a low probe, of the knee.
const LOW: f64 = 0.6;
/// Response time believed before any is known, seconds.
const RESPONSE_FIRST: f64 = 0.05;
/// Dispersion of the work that departs, counted as in Poisson's case: 1.
const DISPERSION_FIRST: f64 = 1.0;
/// Memory of the mix of what starts, in starts, over twice the limit.
const MIX_MEMORY: f64 = 20.0;
/// Events kept until somebody asks for them.
const EVENTS_MAX: usize = 64;

/// What the machine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Start,
    Low,
    Base,
    Up,
    Tight,
}

/// Finds the knee of a server: see the head of its file.
///
/// One step by hand: a server of which 100 requests a second depart, 25 ms each without a queue, has its
/// knee at 100 · 0.025 = 2.5 in flight and works at ⌈2.5 + 1.5·√2.5 − ¼⌉ = 5.
///
/// ```
/// use tidegate_control::{capacity::KneeTrack, limit::{Limit, LimitBounds}};
///
/// let knee = KneeTrack::new(LimitBounds { initial: 20, min: 1, max: 1000 });
/// assert_eq!(knee.limit(), 8); // the search begins from below
/// assert_eq!(knee.capacity(), None);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct KneeTrack {
    bounds: LimitBounds,
    capacity_bounds: CapacityBounds,
    /// The limit, requests.
    level: f64,
    weights: Weights,
    level_cap: f64,
    mode: Mode,
    /// Time 0.
    origin: Timestamp,
    last: f64,
    next_tick: Timestamp,
    began: bool,
    block: Block,
    /// Since the limit that is in force settled, once the knee is known.
    ended: futility::Ended,
    /// Since one last ended well, or the limit was last lowered because none did.
    unanswered: futility::Ended,
    settling: Option<Settling>,
    /// What a search or a full low probe had measured when the load went away, to go on from when it is back.
    interrupted: Option<start::Interrupted>,
    bursts: bursts::Bursts,
    saturation: saturation::Saturation,
    /// Mean response time, seconds.
    response: f64,
    /// When an exchange last ended well.
    last_reply: f64,
    /// How much response times varied at the limits of the first search, each by itself.
    first_variation: Variation,
    /// `F`: variance of the work departing in a span over that of as many even Poisson departures.
    dispersion: f64,
    dispersion_windows: f64,
    /// What windows say of it in which a change seems to begin: their sum and number.
    dispersion_pending: [f64; 2],
    /// Classes seen, up to [`COST_CLASSES`].
    classes: usize,
    /// How long the first search waits for a limit's departures before it goes on without, seconds; infinite once it has
    /// turned back.
    patience: f64,
    /// Starts of each class, as far as they are in the mix.
    starts_seen: [u64; COST_CLASSES],
    mix: PerClass,
    costs: Option<Costs>,
    /// Saturated departures and time since the last change.
    counted: Counted,
    /// Whether the server has been as full as the limit of base makes it since base last settled.
    is_full: bool,
    /// Since when, seconds.
    full_since: f64,
    /// Departures and requests in flight over time, at low levels.
    low: Area,
    low_repeats: u32,
    /// When a probe last measured them anew, seconds.
    low_measured: f64,
    steps: Vec<start::Step>,
    cusums: Cusums,
    cost_window: Span,
    dispersion_window: Span,
    tick_departed: PerClass,
    /// `N`, requests.
    knee: Option<f64>,
    kept: Option<knee::Kept>,
    headroom: probe::Headroom,
    schedule: probe::Schedule,
    reference: probe::Reference,
    /// Departures a second, over half a second.
    rate: f64,
    /// Work a second, over a second.
    work_rate: f64,
    /// Since that has been more than is known.
    exceeding: Span,
    proof: Proof,
    /// What had been found when `in_flight.max` was set below its limit.
    above_maximum: Option<Found>,
    /// Growth of the slots while too little waits.
    boost: f64,
    events: VecDeque<CapacityEvent>,
}

/// Departures in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Span {
    departed: PerClass,
    seconds: f64,
}

/// Departures, and requests in flight integrated over time, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Area {
    departed: PerClass,
    in_flight_s: PerClass,
}

/// What is measured at one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Block {
    began: f64,
    area: Area,
    /// Response times of those that departed, seconds.
    responses: Responses,
    /// Requests that have left, however they ended.
    left: f64,
    /// Exchanges started.
    started: f64,
    /// Requests in flight at its beginning, where nothing is kept waiting and that has been asked for.
    before: Option<f64>,
}

/// A limit that has just been set.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Settling {
    began: f64,
    earliest: f64,
    latest: f64,
    /// Requests that have left since.
    turned: f64,
    /// Requests in flight at its beginning, once that is known.
    before: Option<f64>,
}

impl KneeTrack {
    /// Knows nothing; the search begins at 8 in flight or `initial`, whichever is less, within the bounds.
    #[must_use]
    pub fn new(bounds: LimitBounds) -> Self {
        let mut knee = Self {
            bounds,
            capacity_bounds: CapacityBounds::default(),
            level: LIMIT_FIRST,
            weights: Weights::default(),
            level_cap: f64::from(bounds.max),
            mode: Mode::Start,
            origin: Timestamp::EPOCH,
            last: 0.0,
            next_tick: Timestamp::EPOCH,
            began: false,
            block: Block::default(),
            ended: futility::Ended::default(),
            unanswered: futility::Ended::default(),
            settling: Some(Settling {
                began: 0.0,
                earliest: RESPONSE_FIRST,
                latest: 1.0,
                turned: 0.0,
                before: None,
            }),
            interrupted: None,
            bursts: bursts::Bursts::default(),
            saturation: saturation::Saturation::default(),
            response: RESPONSE_FIRST,
            last_reply: 0.0,
            first_variation: Variation::default(),
            dispersion: DISPERSION_FIRST,
            dispersion_windows: 0.0,
            dispersion_pending: [0.0; 2],
            classes: 1,
            patience: PATIENCE,
            starts_seen: [0; COST_CLASSES],
            mix: PerClass::ZERO,
            costs: None,
            counted: Counted::default(),
            is_full: false,
            full_since: 0.0,
            low: Area::default(),
            low_repeats: 0,
            low_measured: f64::NEG_INFINITY,
            steps: Vec::with_capacity(start::STEPS_MAX),
            cusums: Cusums::default(),
            cost_window: Span::default(),
            dispersion_window: Span::default(),
            tick_departed: PerClass::ZERO,
            knee: None,
            kept: None,
            headroom: probe::Headroom::default(),
            schedule: probe::Schedule::new(),
            reference: probe::Reference::default(),
            rate: 0.0,
            work_rate: 0.0,
            exceeding: Span::default(),
            proof: Proof::default(),
            above_maximum: None,
            boost: 1.0,
            events: VecDeque::with_capacity(EVENTS_MAX),
        };
        knee.set_level(LIMIT_FIRST.min(f64::from(bounds.initial)));
        knee
    }

    /// Capacity for the present mix, requests a second, within its bounds; `None` while nothing is known.
    #[must_use]
    pub fn capacity(&self) -> Option<f64> {
        self.capacity_by(Self::told_rho)
    }

    /// The same by all that is counted, which moves with every departure.
    fn counted_capacity(&self) -> Option<f64> {
        self.capacity_by(Self::saturated_rho)
    }

    fn capacity_by(&self, rho: impl Fn(&Self) -> f64) -> Option<f64> {
        let found = match &self.costs {
            Some(costs) => Some(Self::capacity_at(rho(self), costs, &self.mix)),
            None => self.seen_in_search().or(self.capacity_bounds.floor),
        };
        found.map(|found| self.capacity_bounds.clamp(found))
    }

    /// Capacity for another mix, given by each class's part of the requests (dense by class, at most 16 count), requests a second;
    /// `None` while costs are not known; of one class there is no other mix.
    #[must_use]
    pub fn capacity_for(&self, mix: &[f64]) -> Option<f64> {
        let Some(costs) = &self.costs else {
            return self.capacity().filter(|_| self.classes <= 1);
        };
        let mut parts = PerClass::ZERO;
        for (index, part) in mix.iter().enumerate().take(self.classes) {
            parts[index] = *part;
        }
        (parts.sum() > 0.0)
            .then(|| self.capacity_bounds.clamp(Self::capacity_at(self.told_rho(), costs, &parts)))
    }

    /// Capacity in work units a second; one unit is what a request of class `unit` costs. `None` while
    /// nothing is known.
    #[must_use]
    pub fn work_capacity(&self, unit: ClassId) -> Option<f64> {
        self.in_units(unit, self.capacity()?)
    }

    /// The same by all that is counted, for what is promised: what is told stays where it is until chance is excluded (`counted.rs`),
    /// and within a second half a minute may be promised.
    #[must_use]
    pub fn work_to_promise(&self, unit: ClassId) -> Option<f64> {
        self.in_units(unit, self.counted_capacity()?)
    }

    /// Requests a second of the present mix as work units a second.
    fn in_units(&self, unit: ClassId, per_s: f64) -> Option<f64> {
        let theta = self.costs.as_ref()?.theta();
        let of_unit = (place(unit) < self.classes).then(|| theta[place(unit)]).filter(|cost| *cost > 0.0)?;
        Some(per_s * self.mean(theta) / of_unit)
    }

    /// What a request of `class` costs, where one of class `unit` costs 1. `None` while nothing is known.
    #[must_use]
    pub fn cost(&self, class: ClassId, unit: ClassId) -> Option<f64> {
        let theta = self.costs.as_ref()?.theta();
        let known = |class| (place(class) < self.classes).then(|| theta[place(class)]);
        Some(known(class)? / known(unit).filter(|cost| *cost > 0.0)?)
    }

    /// The knee `N`, requests; `None` while nothing is known.
    #[must_use]
    pub const fn knee(&self) -> Option<f64> {
        self.knee
    }

    /// Bounds of the limit.
    #[must_use]
    pub const fn bounds(&self) -> LimitBounds {
        self.bounds
    }

    /// Bounds of the capacity, from now on.
    pub fn set_capacity_bounds(&mut self, bounds: CapacityBounds) {
        self.capacity_bounds = bounds;
        if self.is_probe_far_above_base() {
            self.go_base(self.last);
        } else if self.mode == Mode::Base && self.costs.is_some() {
            let before = self.level;
            self.set_base_level();
            if self.level > before + 1.0 {
                self.settle_base();
            }
        }
    }

    /// Forgets what was found and searches again, as on the first day.
    pub fn rediscover(&mut self) {
        let mut fresh = Self::new(self.bounds);
        fresh.capacity_bounds = self.capacity_bounds;
        fresh.weights = self.weights.clone();
        fresh.origin = self.origin;
        fresh.last = self.last;
        fresh.next_tick = self.next_tick;
        fresh.began = self.began;
        fresh.classes = self.classes;
        fresh.starts_seen = self.starts_seen;
        fresh.mix = self.mix;
        mem::swap(&mut fresh.events, &mut self.events);
        *self = fresh;
        self.begin(Mode::Start, self.last);
        self.note(Cause::Told, None);
    }

    /// The server is known to be `factor` times what it was: servers were lost or added. What a request
    /// takes without a queue stays.
    pub fn resize(&mut self, factor: f64) {
        if !(factor.is_finite() && factor > 0.0) || self.costs.is_none() {
            return;
        }
        let before = self.capacity();
        if let Some(costs) = &mut self.costs {
            costs.speed_up(factor);
        }
        // Work departs as fast as before, each request being less of it; soon what departs now counts more.
        let mut work = self.saturated_work();
        work.departed.scale(factor);
        work.shorten(1.0);
        self.counted = Counted::of(work);
        self.level_cap = (self.level_cap * factor).clamp(1.0, self.level_max());
        if let Some(kept) = &mut self.kept {
            kept.knee *= factor;
            kept.highest *= factor;
        }
        if let Some(found) = &mut self.above_maximum {
            found.speed_up(factor);
        }
        self.forget_windows();
        self.note(Cause::Servers, before);
        self.set_base_level();
        self.settle_base();
    }

    /// Moves the events since the last call to `out`.
    pub fn drain_events(&mut self, out: &mut Vec<CapacityEvent>) {
        out.extend(self.events.drain(..));
    }
}

impl Limit for KneeTrack {
    fn limit(&self) -> u32 {
        whole(self.bounds.clamp(self.weights.units(self.level)))
    }

    fn sample(&mut self, sample: &Sample) {
        if self.next_tick <= sample.now {
            // Nobody tells it how things stand: it only watches. All at once, later, it would be far more than there is.
            return;
        }
        self.note_burst(sample);
        let class = place(sample.class);
        self.make_place(class);
        let response = sample.response_time.as_secs_f64();
        self.weights.note(class, f64::from(sample.weight), response);
        if let Some(settling) = &mut self.settling {
            settling.turned += 1.0;
        }
        self.block.left += 1.0;
        if sample.outcome != Outcome::Success {
            // It left the server, but was no work done.
            return;
        }
        self.last_reply = self.last;
        self.ended.replied += 1.0;
        self.unanswered = futility::Ended::default();
        self.block.area.departed[class] += 1.0;
        self.block.responses.add(response);
        self.tick_departed[class] += 1.0;
        let gain = if response > self.response { 0.1 } else { 0.05 };
        self.response += (response - self.response) * gain;
    }

    #[inline]
    fn advance(&mut self, now: Timestamp, load: &Load<'_>) -> bool {
        // Twice for each request, and ticks are few.
        let ticks = self.next_tick <= now;
        if ticks {
            self.tick_until(now, load);
        }
        self.integrate(self.seconds(now), load.in_flight);
        ticks
    }

    fn next_tick(&self) -> Option<Timestamp> {
        self.began.then_some(self.next_tick)
    }

    fn set_bounds(&mut self, bounds: LimitBounds) {
        let (lowest, highest) = (self.level_min(), self.level_max());
        let found = self.found();
        self.bounds = bounds;
        self.level_cap = self.level_cap.min(self.level_max());
        let before = self.level;
        self.set_level(self.level);
        if self.mode == Mode::Base && self.level < before {
            self.settle_base();
        }
        if self.level_min() < lowest {
            self.leave_minimum(lowest);
        }
        if self.level_max() < highest {
            self.keep_above_maximum(found);
        } else if self.level_max() > highest {
            self.leave_maximum(highest);
        }
    }
}

impl KneeTrack {
    /// Since time 0.
    fn seconds(&self, at: Timestamp) -> f64 {
        at.since(self.origin).as_secs_f64()
    }

    #[inline(never)]
    fn tick_until(&mut self, now: Timestamp, load: &Load<'_>) {
        if !self.began {
            (self.began, self.origin, self.next_tick) = (true, now, now + TICK_SPAN);
        }
        if now.since(self.next_tick) > TICK_SPAN * TICKS_MISSED_MAX {
            // Nobody has asked for so long: there was no load, or time jumped.
            self.next_tick = now + TICK_SPAN;
            self.last = self.seconds(now);
            self.pause(self.last);
            self.saturation.stays_busy = false;
        }
        self.note_starts(load.started);
        let in_flight = self.weights.follow(&self.mix, load.in_flight);
        while self.next_tick <= now {
            let t = self.seconds(self.next_tick);
            self.integrate(t, load.in_flight);
            self.tick(t, in_flight, load.limit_holds);
            self.next_tick = self.next_tick + TICK_SPAN;
        }
    }

    /// Tables grow for a place that is new.
    fn make_place(&mut self, place: usize) {
        if place < self.classes {
            return;
        }
        if let Some(costs) = &mut self.costs {
            let guess = costs.theta().dot(&self.mix) / self.mix.sum().max(f64::MIN_POSITIVE);
            costs.grow(place + 1, if guess > 0.0 { guess } else { costs.theta()[0] });
        }
        self.classes = place + 1;
    }

    /// Takes what has started since the last look into the mix, as if classes had started evenly meanwhile.
    fn note_starts(&mut self, started: &[u64]) {
        let mut seen = [0; COST_CLASSES];
        for (index, starts) in started.iter().enumerate() {
            seen[index.min(COST_CLASSES - 1)] += starts;
        }
        let mut new = PerClass::ZERO;
        for (place, (now, before)) in seen.into_iter().zip(self.starts_seen).enumerate() {
            if now > before {
                new[place] = (now - before) as f64;
                self.make_place(place);
            }
        }
        self.starts_seen = seen;
        let sum = new.sum();
        if sum > 0.0 {
            self.block.started += sum;
            self.ended.started += sum;
            self.unanswered.started += sum;
            let share = 1.0 / (MIX_MEMORY + 2.0 * self.level);
            let kept = (1.0 - share).powf(sum);
            self.mix.scale(kept);
            self.mix.add(&new.scaled((1.0 - kept) / (share * sum)));
        }
    }

    fn integrate(&mut self, t: f64, in_flight: &[u64]) {
        let passed = t - self.last;
        if passed <= 0.0 {
            return;
        }
        self.last = t;
        for (index, weight) in in_flight.iter().enumerate() {
            if *weight > 0 {
                let class = index.min(COST_CLASSES - 1);
                self.block.area.in_flight_s[class] += self.weights.requests_of(class, *weight) * passed;
            }
        }
    }

    fn tick(&mut self, t: f64, in_flight: f64, held: bool) {
        let departed = mem::take(&mut self.tick_departed);
        self.rate += (departed.sum() / TICK - self.rate) * 0.04;
        self.prove(t, &departed);
        if self.leave_futile(t, in_flight) {
            return;
        }
        if held {
            self.saturation.last_held = t;
        } else if !self.is_still_full(t, in_flight) {
            self.unsaturated(t, in_flight);
            return;
        }
        if !self.saturation.holds {
            (self.saturation.holds, self.saturation.since) = (true, t);
            // While nothing is known of the response time, or what is known is in doubt, the limit could only follow the queue.
            let is_routine = self.mode == Mode::Low && self.low_repeats == 0;
            // Up and tight compare with what departed just before them.
            if is_routine || matches!(self.mode, Mode::Up | Mode::Tight) {
                self.mode = Mode::Base;
                self.set_base_level();
            }
            let stays_busy = mem::replace(&mut self.saturation.stays_busy, true);
            if self.mode != Mode::Start || !stays_busy {
                self.begin(self.mode, t);
            } else if self.settling.is_none() {
                self.zero(t);
                self.resume(t);
            }
            return;
        }
        if self.count_saturated(t, &departed) || self.ends_up(t) {
            return;
        }
        if let Some(settling) = &mut self.settling {
            let before = *settling.before.get_or_insert(in_flight);
            let settling = *settling;
            let turnovers = if matches!(self.mode, Mode::Start | Mode::Base) { 1.0 } else { 2.0 };
            let turned = t >= settling.earliest && settling.turned >= self.level * turnovers;
            // What passes the limit (the top priority), or weighs more than all of it, does not go down to it.
            let drained = in_flight <= self.level || settling.turned >= before + self.level * turnovers;
            if drained && (turned || t >= settling.latest) {
                self.settling = None;
                self.zero(t);
                self.resume(t);
            } else if self.costs.is_none()
                && self.steps.is_empty()
                && settling.turned < PATIENCE_SHARE * self.level
                && t - settling.began > self.patience
                && self.level < self.level_initial()
            {
                self.pass_by(in_flight, settling.turned, t - settling.began);
                self.patience *= 2.0;
                self.set_level((2.0 * self.level).min(self.level_initial()));
                self.begin(Mode::Start, t);
            }
            return;
        }
        if matches!(self.mode, Mode::Low | Mode::Tight) && self.is_paused(t) {
            self.zero(t);
        }
        let seconds = t - self.block.began;
        match self.mode {
            Mode::Start if self.is_futile(seconds) => self.turn_back(t),
            Mode::Start => self.tick_start(t, seconds),
            Mode::Low => self.tick_low(t, seconds),
            Mode::Base => self.tick_base(t, seconds, &departed),
            Mode::Up => self.tick_up(t, seconds),
            Mode::Tight => self.tick_tight(t, seconds),
        }
    }

    fn begin(&mut self, mode: Mode, t: f64) {
        if !matches!(mode, Mode::Start | Mode::Low) {
            self.interrupted = None;
        }
        self.mode = mode;
        self.settling = Some(Settling {
            began: t,
            earliest: t + self.response.clamp(0.02, 5.0),
            latest: t + (3.0 * self.response).max(1.0),
            turned: 0.0,
            before: None,
        });
    }

    /// The limit of base is another one now. Until that has settled, what departs is that of the limit before, and does not count.
    fn settle_base(&mut self) {
        self.is_full = false;
        self.begin(Mode::Base, self.last);
    }

    /// A new block.
    fn zero(&mut self, t: f64) {
        self.block = Block { began: t, ..Block::default() };
    }

    fn forget_windows(&mut self) {
        self.cost_window = Span::default();
        self.dispersion_window = Span::default();
        self.dispersion_pending = [0.0; 2];
        self.cusums.reset();
        self.proof.reset();
        // What departed before is in other units, or of another server.
        self.work_rate = self.saturated_rho();
        self.exceeding = Span::default();
    }

    fn note(&mut self, cause: Cause, before: Option<f64>) {
        self.note_at(self.last, cause, before);
    }

    fn note_at(&mut self, t: f64, cause: Cause, before: Option<f64>) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        let at = self.origin + Duration::from_secs_f64(t.max(0.0));
        self.events.push_back(CapacityEvent { at, cause, before, after: self.capacity() });
    }
}

impl Span {
    fn add(&mut self, departed: &PerClass, seconds: f64) {
        self.departed.add(departed);
        self.seconds += seconds;
    }

    /// Makes it count for `seconds` at most, at the same rate.
    fn shorten(&mut self, seconds: f64) {
        if self.seconds > seconds {
            self.departed.scale(seconds / self.seconds);
            self.seconds = seconds;
        }
    }
}

//! A slow and obvious admission: one list of requests, everything found by looking through it.
//!
//! For property tests, fuzzing and simulation: whatever [`Admission`](super::Admission) does under a sequence of operations, this does
//! as well, or one of the two is wrong. Limits have references of their own beside them and are used as they
//! are; everything else is written again, buckets, CoDel and deficits in `naive`, the way of requests and of shadows in `world`.

mod naive;
#[cfg(test)]
mod tests;
mod world;

use naive::NaiveBucket;
pub(crate) use naive::NaiveDeficitRoundRobin;
use world::{Begun, State, World, has_token, set, take_token};

use super::{
    AdmissionSettings, ClassSettings, Exchange, Outcome,
    dormant::{self, Stay},
    grammar::{Event, Op, View},
};
use crate::{
    ClassId, Refusal, Timestamp,
    knobs::{Algorithm, Mode},
    limit::{Limit, Limiter, Load, Sample},
};

/// An exchange in flight.
#[derive(Clone, Debug)]
struct Out {
    /// Of its request.
    sequence: u64,
    class: usize,
    weight: u32,
    started: Timestamp,
    in_flight: u32,
    among_shadows: Standing,
    would_refuse: Option<Refusal>,
    /// `None`: it cannot become dormant.
    followed: Option<Followed>,
}

/// What is kept of an exchange that may become dormant.
#[derive(Clone, Debug)]
struct Followed {
    /// In the order of starts.
    order: u64,
    since: Timestamp,
    /// Once so many have ended well, it has been overtaken.
    overtaken_at: u64,
    dormant: Option<Timestamp>,
}

impl Out {
    fn dormant(&self) -> Option<Timestamp> {
        self.followed.as_ref().and_then(|followed| followed.dormant)
    }
}

/// How it stands among shadows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    /// In flight, by that number.
    Counted(u64),
    /// Its shadow waited when it started.
    Shadow(u64),
    /// It is none of them.
    Outside,
}

/// Admission, slow and obvious.
#[derive(Clone, Debug)]
pub struct Reference {
    now: Timestamp,
    settings: AdmissionSettings,
    classes: Vec<ClassSettings>,
    ingress: Option<NaiveBucket>,
    class_ingress: Vec<Option<NaiveBucket>>,
    limiter: Limiter,
    acts: World,
    shadows: Option<World>,
    /// What the caller holds, in the order of the driver's lists.
    permits: Vec<Out>,
    stay: Stay,
    followed: u64,
    ended_well: u64,
    last_end: Timestamp,
    unheld: Timestamp,
    waiting: Vec<u64>,
    waited: u64,
    /// Those open, each with whether it would be if what watches acted.
    streams: Vec<bool>,
    would_refuse: Vec<(ClassId, Refusal)>,
}

impl Reference {
    /// Begins at `now`.
    #[must_use]
    pub fn new(settings: &AdmissionSettings, now: Timestamp) -> Self {
        let mut reference = Self {
            now,
            settings: settings.clone(),
            classes: Vec::new(),
            ingress: None,
            class_ingress: Vec::new(),
            limiter: Limiter::new(settings.algorithm, settings.share.of(settings).limit),
            acts: World::new(settings.scheduler, now),
            shadows: None,
            permits: Vec::new(),
            stay: Stay::default(),
            followed: 0,
            ended_well: 0,
            last_end: now,
            unheld: now,
            waiting: Vec::new(),
            waited: 0,
            streams: Vec::new(),
            would_refuse: Vec::new(),
        };
        reference.take_settings(settings);
        reference
    }

    fn worlds(&mut self) -> impl Iterator<Item = &mut World> {
        std::iter::once(&mut self.acts).chain(&mut self.shadows)
    }

    fn take_settings(&mut self, settings: &AdmissionSettings) {
        let now = self.now;
        let settings = &*settings.share.of(settings);
        set(&mut self.ingress, now, settings.ingress);
        for (id, class) in settings.classes.iter().enumerate() {
            if id == self.classes.len() {
                self.classes.push(class.clone());
                self.class_ingress.push(None);
            }
            self.classes[id] = class.clone();
            set(&mut self.class_ingress[id], now, class.ingress);
        }
        if settings.watches() && self.shadows.is_none() {
            self.shadows = Some(self.acts.cast_shadows());
            for permit in &mut self.permits {
                permit.among_shadows = Standing::Counted(permit.sequence);
            }
        }
        if !settings.watches()
            && let Some(shadows) = self.shadows.take()
        {
            self.would_refuse.extend(shadows.would_refuse);
        }
        let classes = self.classes.clone();
        self.worlds().for_each(|world| world.configure(settings, &classes));
        if self.limiter.algorithm() == settings.algorithm {
            self.limiter.set_bounds(settings.limit);
        } else {
            self.limiter = Limiter::new(settings.algorithm, settings.limit);
        }
        self.limiter.set_power_ratio(settings.power_ratio);
        self.limiter.set_capacity_bounds(settings.capacity);
        self.settings = settings.clone();
        self.tell_limit();
    }

    fn limit(&self) -> u32 {
        let bounds = self.settings.limit;
        let ours = if self.settings.algorithm == Algorithm::Fixed { bounds.initial } else { bounds.max };
        if ours == 0 || !self.settings.share.is_valid(self.now) {
            return 0;
        }
        match &self.limiter {
            Limiter::KneeTrack(knee) if self.in_flight_mode() == Mode::Watch && knee.knee().is_none() => {
                self.settings.limit.max
            }
            limiter if !dormant::follows(&self.settings) => limiter.limit(),
            limiter => {
                let limit = u64::from(limiter.limit());
                u32::try_from((limit + self.dormant(None)).min(limit.max(u64::from(bounds.max)))).unwrap()
            }
        }
    }

    /// Weight that is dormant, of a class or of all.
    fn dormant(&self, class: Option<usize>) -> u64 {
        let dormant = self.permits.iter().filter(|permit| permit.dormant().is_some());
        let of_class = dormant.filter(|permit| class.is_none_or(|class| class == permit.class));
        of_class.map(|permit| u64::from(permit.weight)).sum()
    }

    /// A weight in flight, or a limit, without what is dormant.
    fn without_dormant(&self, weight: u32) -> u32 {
        u32::try_from(u64::from(weight).saturating_sub(self.dormant(None))).unwrap()
    }

    /// Positions of those that may become dormant, and what is kept of them.
    fn listed(&self) -> impl Iterator<Item = (usize, &Followed)> {
        let followed = self.permits.iter().enumerate();
        let followed = followed.filter_map(|(at, permit)| Some((at, permit.followed.as_ref()?)));
        followed.filter(|(_, followed)| followed.dormant.is_none())
    }

    /// Which permit is dormant next, and when.
    fn next_dormant(&self) -> Option<(usize, Timestamp)> {
        let (position, first) = self.listed().min_by_key(|(_, followed)| followed.order)?;
        let span = self.stay.span()?;
        let max = if dormant::follows(&self.settings) { u64::from(self.settings.dormant_max) } else { 0 };
        if self.dormant(None) + u64::from(self.permits[position].weight) > max {
            return None;
        }
        let overtaken = self.ended_well >= first.overtaken_at;
        let last = if overtaken { first.since } else { first.since.max(self.last_end).max(self.unheld) };
        Some((position, last + span))
    }

    fn settle_dormant(&mut self) {
        if !self.acts.held {
            self.unheld = self.now;
        }
        while let Some((position, due)) = self.next_dormant()
            && due <= self.now
        {
            self.permits[position].followed.as_mut().unwrap().dormant = Some(self.now);
        }
    }

    fn start(&mut self, mut out: Out) -> Event {
        out.in_flight = self.without_dormant(out.in_flight);
        if dormant::follows(&self.settings) {
            out.followed = Some(Followed {
                order: self.followed,
                since: self.now,
                overtaken_at: self.ended_well + self.listed().count() as u64 + 1 + dormant::OVERTAKEN,
                dormant: None,
            });
            self.followed += 1;
        }
        let started = Event::Started(out.in_flight);
        self.permits.push(out);
        started
    }

    fn in_flight_mode(&self) -> Mode {
        self.settings.modes.in_flight.unwrap_or(self.settings.mode)
    }

    /// True if something that holds has changed.
    fn tell_limit(&mut self) -> bool {
        let (limit, rate) = (self.limit(), self.limiter.rate());
        self.worlds().map(|world| world.set_found(limit, rate)).filter(|changed| *changed).count() > 0
    }

    fn settle(&mut self) {
        self.worlds().for_each(World::settle);
    }

    fn advance_limiter(&mut self) -> bool {
        if self.in_flight_mode() == Mode::Off {
            return false;
        }
        if self.in_flight_mode() == Mode::Enforce {
            let counting = |class| self.acts.in_flight(Some(class)) - self.dormant(Some(class));
            let in_flight: Vec<u64> = (0..self.classes.len()).map(counting).collect();
            self.limiter.advance(
                self.now,
                &Load {
                    in_flight: &in_flight,
                    started: &self.acts.started,
                    limit_holds: self.acts.held,
                    rate_holds: !self.acts.queue(None).is_empty() && !has_token(&self.acts.egress, self.now),
                },
            );
        }
        self.settle_dormant();
        self.tell_limit()
    }

    fn advance(&mut self) {
        let now = self.now;
        self.worlds().for_each(|world| world.now = now);
        self.tell_limit();
        if self.advance_limiter() {
            self.settle();
        }
    }

    /// The mode of the application's rate of admission, or of a class's.
    fn ingress_mode(&self, class: Option<usize>) -> Mode {
        let own = class.and_then(|class| self.classes[class].modes.ingress);
        own.or(self.settings.modes.ingress).unwrap_or(self.settings.mode)
    }

    /// Whether the rates of that mode have a token each, which then is taken.
    fn pays(&mut self, class: usize, mode: Mode) -> bool {
        let all = self.ingress_mode(None) == mode;
        let own = self.ingress_mode(Some(class)) == mode;
        if all && !has_token(&self.ingress, self.now)
            || own && !has_token(&self.class_ingress[class], self.now)
        {
            return false;
        }
        if all {
            take_token(&mut self.ingress, self.now);
        }
        if own {
            take_token(&mut self.class_ingress[class], self.now);
        }
        true
    }

    fn arrive(&mut self, exchange: Exchange, again: bool) -> Event {
        let class = exchange.class.index();
        if !again && !self.pays(class, Mode::Enforce) {
            return Event::Refused(Refusal::IngressRate);
        }
        let mut would_refuse = None;
        if !again && !self.pays(class, Mode::Watch) {
            self.would_refuse.push((exchange.class, Refusal::IngressRate));
            would_refuse = Some(Refusal::IngressRate);
        }
        let (sequence, state) = self.acts.arrive(exchange, false);
        let shadows = self.shadows.as_mut();
        match state {
            State::Refused(refusal) => Event::Refused(refusal),
            State::Granted { started, in_flight } => {
                let among_shadows = match shadows {
                    None => Standing::Counted(sequence),
                    Some(_) if would_refuse.is_some() => Standing::Outside,
                    Some(shadows) => match shadows.arrive(exchange, true) {
                        (shadow, State::Granted { .. }) => Standing::Counted(shadow),
                        (shadow, State::Waiting) => Standing::Shadow(shadow),
                        (_, State::Refused(refusal)) => {
                            would_refuse = Some(refusal);
                            Standing::Outside
                        }
                    },
                };
                let (class, weight) = (exchange.class.index(), exchange.weight);
                let followed = None;
                self.start(Out {
                    sequence,
                    class,
                    weight,
                    started,
                    in_flight,
                    among_shadows,
                    would_refuse,
                    followed,
                })
            }
            State::Waiting => {
                let shadows = shadows.filter(|_| would_refuse.is_none());
                let shadow = shadows.map(|shadows| shadows.arrive_waiting(exchange));
                let request = self.acts.find(sequence);
                (request.shadow, request.would_refuse) = (shadow, would_refuse);
                request.number = Some(self.waited);
                self.waiting.push(sequence);
                self.waited += 1;
                Event::Waits
            }
        }
    }

    fn verdict(&mut self, position: usize, leaves: bool) -> Event {
        let sequence = self.waiting[position];
        let request = self.acts.find(sequence).clone();
        if request.state == State::Waiting && !leaves {
            return Event::Waits;
        }
        self.waiting.swap_remove(position);
        self.acts.remove(sequence);
        let State::Granted { started, in_flight } = request.state else {
            self.acts.dispatch();
            if let Some(shadows) = &mut self.shadows {
                shadows.withdraw(request.shadow);
            }
            return match request.state {
                State::Refused(refusal) => Event::Refused(refusal),
                _ => Event::Left,
            };
        };
        let exchange = request.exchange;
        let mut would_refuse = request.would_refuse;
        let begun = self.shadows.as_mut().map(|shadows| shadows.begin(request.shadow));
        let among_shadows = match begun {
            None => Standing::Counted(sequence),
            Some(Begun::InFlight) => Standing::Counted(request.shadow.unwrap()),
            Some(Begun::Waiting) => Standing::Shadow(request.shadow.unwrap()),
            Some(Begun::Over) => Standing::Outside,
            Some(Begun::Refused(refusal)) => {
                would_refuse = Some(refusal);
                Standing::Outside
            }
        };
        let (class, weight) = (exchange.class.index(), exchange.weight);
        let followed = None;
        self.start(Out { sequence, class, weight, started, in_flight, among_shadows, would_refuse, followed })
    }

    fn depart(&mut self, position: usize, outcome: Outcome, is_whole: bool) -> Option<Refusal> {
        let limit = self.without_dormant(self.limit());
        let out = self.permits.swap_remove(position);
        let counted = out.dormant().unwrap_or(self.now).since(out.started);
        if out.followed.is_some() && outcome == Outcome::Success {
            self.ended_well += u64::from(out.dormant().is_none());
            self.last_end = self.now;
            self.stay.note(counted);
        }
        if self.in_flight_mode() != Mode::Off {
            if outcome != Outcome::Ignore {
                let acts = &self.acts;
                let held_since = acts.held || acts.last_held.is_some_and(|last| last >= out.started);
                let held = self.in_flight_mode() == Mode::Enforce && held_since;
                self.limiter.sample(&Sample {
                    now: self.now,
                    class: ClassId(u16::try_from(out.class).unwrap()),
                    response_time: counted,
                    in_flight: out.in_flight,
                    limit_utilised: held || out.in_flight >= limit,
                    outcome,
                    weight: out.weight,
                });
            }
            self.settle_dormant();
            self.tell_limit();
        }
        let is_time = is_whole && outcome == Outcome::Success && counted == self.now.since(out.started);
        self.acts.depart(out.sequence, is_time);
        if let Some(shadows) = &mut self.shadows {
            match out.among_shadows {
                Standing::Counted(shadow) => shadows.depart(shadow, is_time),
                Standing::Shadow(shadow) => return shadows.end(shadow, is_time).or(out.would_refuse),
                Standing::Outside => shadows.stand_in(),
            }
        }
        out.would_refuse
    }

    fn abandon(&mut self, position: usize) -> Option<Refusal> {
        let (permit, shadows) = (&mut self.permits[position], self.shadows.as_mut()?);
        let Standing::Shadow(shadow) = permit.among_shadows else { return None };
        let (has_left, refused) = shadows.abandon(shadow);
        if has_left {
            permit.among_shadows = Standing::Outside;
        }
        refused
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let mut moments = Vec::new();
        moments.extend(self.acts.next_timeout());
        moments.extend(self.shadows.as_ref().and_then(World::next_timeout));
        if self.in_flight_mode() == Mode::Enforce && self.acts.held {
            moments.extend(self.limiter.next_tick());
            moments.extend(self.next_dormant().map(|(_, due)| due));
        }
        moments.into_iter().filter(|moment| *moment > self.now).min()
    }

    /// Does what a [`Driver`](super::grammar::Driver) does at that operation.
    pub fn apply(&mut self, op: &Op) -> (Event, View) {
        let event = match *op {
            Op::Advance(span) => {
                let due = self.next_timeout();
                self.now = self.now + span;
                self.advance();
                if due.is_some_and(|moment| moment <= self.now) {
                    self.settle();
                }
                Event::Nothing
            }
            Op::Arrive { again, class, priority, weight, deadline, bytes } => {
                self.advance();
                let class = ClassId(class % u16::try_from(self.classes.len()).unwrap());
                let deadline = deadline.map(|span| self.now + span);
                self.arrive(Exchange { class, priority, weight, deadline, bytes }, again)
            }
            Op::Collect(position) | Op::Leave(position) => match position.checked_rem(self.waiting.len()) {
                Some(position) => {
                    self.advance();
                    self.verdict(position, matches!(op, Op::Leave(_)))
                }
                None => Event::Nothing,
            },
            Op::Depart(position, outcome) => match position.checked_rem(self.permits.len()) {
                Some(position) => {
                    self.advance();
                    Event::Ended(self.depart(position, outcome, true))
                }
                None => Event::Nothing,
            },
            Op::Abandon(position) => match position.checked_rem(self.permits.len()) {
                Some(position) => {
                    self.advance();
                    Event::Abandoned(self.abandon(position))
                }
                None => Event::Nothing,
            },
            Op::Stream(position, outcome) => match position.checked_rem(self.permits.len()) {
                Some(position)
                    if self.settings.long_streams_mode != Mode::Enforce
                        || (self.streams.len() as u64) < self.settings.long_streams_max =>
                {
                    self.advance();
                    let class = self.permits[position].class;
                    let is_refused = self.depart(position, outcome, false);
                    self.open_stream(class, is_refused);
                    Event::Streams
                }
                Some(position) => {
                    let permit = self.permits.swap_remove(position);
                    self.permits.push(permit);
                    Event::Nothing
                }
                None => Event::Nothing,
            },
            Op::EndStream => {
                if !self.streams.is_empty() {
                    self.streams.remove(0);
                }
                Event::Nothing
            }
            Op::Configure(ref settings) => {
                self.advance();
                self.take_settings(settings);
                self.advance_limiter();
                self.settle();
                Event::Nothing
            }
        };
        let classes = 0..self.classes.len();
        let queued = |world: &World| classes.clone().map(|class| world.queue(Some(class)).len()).collect();
        let view = View {
            in_flight: self.acts.in_flight(None),
            limit: self.limit(),
            long_streams: self.streams.len() as u64,
            queued: queued(&self.acts),
            would_wait: self.shadows.as_ref().map_or_else(Vec::new, queued),
            decided: std::mem::take(&mut self.acts.decided),
            would_refuse: self.drain_would_refuse(),
            next_timeout: self.next_timeout(),
        };
        (event, view)
    }

    /// What watches counts those that would be open if it acted.
    fn open_stream(&mut self, class: usize, would_refuse: Option<Refusal>) {
        let max = usize::try_from(self.settings.long_streams_max).unwrap();
        let is_over = self.streams.iter().filter(|would_be| **would_be).count() >= max;
        let is_refused = is_over && self.settings.long_streams_mode == Mode::Watch;
        if would_refuse.is_none() && is_refused {
            let class = ClassId(u16::try_from(class).unwrap());
            self.would_refuse.push((class, Refusal::LongStreams));
        }
        self.streams.push(would_refuse.is_none() && !is_refused);
    }

    /// Counted by class and reason.
    fn drain_would_refuse(&mut self) -> Vec<(ClassId, Refusal, u64)> {
        let mut all = std::mem::take(&mut self.would_refuse);
        all.extend(self.worlds().flat_map(|world| std::mem::take(&mut world.would_refuse)));
        all.sort_unstable();
        all.chunk_by(|one, other| one == other)
            .map(|same| (same[0].0, same[0].1, same.len() as u64))
            .collect()
    }
}

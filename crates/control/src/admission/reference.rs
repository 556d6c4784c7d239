//! A slow and obvious admission: one list of requests, everything found by looking through it.
//!
//! For property tests, fuzzing and simulation: whatever [`Admission`](super::Admission) does under a sequence of operations, this does
//! as well, or one of the two is wrong. Limits have references of their own beside them and are used as they
//! are; everything else is written again, buckets, CoDel and deficits in `naive`.

mod naive;
mod settings;
#[cfg(test)]
mod tests;

use std::{cmp::Reverse, time::Duration};

pub(crate) use naive::NaiveDeficitRoundRobin;
use naive::{NaiveBucket, NaiveCodel};

use super::{
    AdmissionSettings, ClassSettings, Exchange, Outcome, Rate,
    grammar::{Event, Op, View},
};
use crate::{
    ClassId, Refusal, Timestamp,
    knobs::{Discipline, Mode, SchedulerKind},
    limit::{Limit, Limiter, Sample},
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waiting,
    Granted { started: Timestamp, in_flight: u32 },
    Refused(Refusal),
}

/// A request that waits or whose verdict was not collected.
#[derive(Clone, Debug)]
struct Request {
    /// Number of its arrival among those queued.
    sequence: u64,
    exchange: Exchange,
    deadline: Option<Timestamp>,
    arrived: Timestamp,
    state: State,
    /// Number among those told to wait.
    number: Option<u64>,
    shadow: bool,
}

/// An exchange in flight. `counted`: in what decisions see; else the shadow's sequence, if it waits.
#[derive(Clone, Debug)]
struct Out {
    class: usize,
    weight: u32,
    started: Timestamp,
    in_flight: u32,
    counted: bool,
    shadow: Option<u64>,
}

/// Admission, slow and obvious.
#[derive(Clone, Debug)]
pub struct Reference {
    now: Timestamp,
    settings: AdmissionSettings,
    classes: Vec<ClassSettings>,
    ingress: Option<NaiveBucket>,
    egress: Option<NaiveBucket>,
    class_ingress: Vec<Option<NaiveBucket>>,
    class_egress: Vec<Option<NaiveBucket>>,
    codels: Vec<Option<NaiveCodel>>,
    /// Adaptive LIFO, by class: since when a newcomer is followed, how many have to start before it
    /// has waited, and what the one before it waited.
    followed: Vec<(Timestamp, usize, Duration)>,
    limiter: Limiter,
    egress_in_force: Option<Rate>,
    /// Starts by class, as decisions see them and, while watching, in truth.
    started: Vec<u64>,
    started_in_truth: Vec<u64>,
    requests: Vec<Request>,
    sequence: u64,
    /// What the caller holds, in the order of the driver's lists.
    permits: Vec<Out>,
    waiting: Vec<u64>,
    waited: u64,
    streams: u64,
    round_robin: usize,
    drr: NaiveDeficitRoundRobin,
    held: bool,
    last_held: Option<Timestamp>,
    decided: Vec<u64>,
    would_refuse: Vec<(ClassId, Refusal, u64)>,
}

fn has_token(bucket: &Option<NaiveBucket>, now: Timestamp) -> bool {
    bucket.clone().is_none_or(|mut bucket| bucket.is_ready(now))
}

fn take_token(bucket: &mut Option<NaiveBucket>, now: Timestamp) {
    if let Some(bucket) = bucket {
        assert!(bucket.try_take(now));
    }
}

impl Reference {
    /// Begins at `now`.
    #[must_use]
    pub fn new(settings: &AdmissionSettings, now: Timestamp) -> Self {
        let mut reference = Self {
            now,
            settings: AdmissionSettings { mode: Mode::Enforce, ..settings.clone() },
            classes: Vec::new(),
            ingress: None,
            egress: None,
            class_ingress: Vec::new(),
            class_egress: Vec::new(),
            codels: Vec::new(),
            followed: Vec::new(),
            limiter: Limiter::new(settings.algorithm, settings.share.of(settings).limit),
            egress_in_force: None,
            started: Vec::new(),
            started_in_truth: Vec::new(),
            requests: Vec::new(),
            sequence: 0,
            permits: Vec::new(),
            waiting: Vec::new(),
            waited: 0,
            streams: 0,
            round_robin: 0,
            drr: NaiveDeficitRoundRobin::default(),
            held: false,
            last_held: None,
            decided: Vec::new(),
            would_refuse: Vec::new(),
        };
        reference.take_settings(settings);
        reference
    }

    /// Who waits, of a class or of all, by arrival.
    fn queue(&self, class: Option<usize>) -> Vec<&Request> {
        let mut queue: Vec<_> = self
            .requests
            .iter()
            .filter(|request| request.state == State::Waiting)
            .filter(|request| class.is_none_or(|class| request.exchange.class.index() == class))
            .collect();
        queue.sort_by_key(|request| request.sequence);
        queue
    }

    /// Weight in flight as decisions see it, of a class or of all.
    fn counted(&self, class: Option<usize>) -> u64 {
        let of = |other| class.is_none_or(|class| class == other);
        let permits = self.permits.iter().filter(|permit| permit.counted && of(permit.class));
        let grants = self.requests.iter().filter(|request| {
            matches!(request.state, State::Granted { .. }) && of(request.exchange.class.index())
        });
        permits.map(|permit| u64::from(permit.weight)).sum::<u64>()
            + grants.map(|request| u64::from(request.exchange.weight)).sum::<u64>()
    }

    /// Weight in flight in truth.
    fn in_flight(&self) -> u64 {
        let grants = self.requests.iter().filter(|r| !r.shadow && matches!(r.state, State::Granted { .. }));
        self.permits.iter().map(|permit| u64::from(permit.weight)).sum::<u64>()
            + grants.map(|request| u64::from(request.exchange.weight)).sum::<u64>()
    }

    fn fits(&self, class: Option<usize>, limit: u32, exchange: &Exchange) -> bool {
        let taken = self.counted(class);
        exchange.priority == 7
            || limit > 0 && (taken == 0 || taken + u64::from(exchange.weight) <= u64::from(limit))
    }

    fn find(&mut self, sequence: u64) -> &mut Request {
        self.requests.iter_mut().find(|request| request.sequence == sequence).unwrap()
    }

    /// One has left the queue of a class, started or not, and what follows.
    fn left_queue(&mut self, class: usize, started: bool) {
        let left = self.queue(Some(class)).len();
        let (since, ahead, _) = &mut self.followed[class];
        if started {
            *ahead -= 1;
        }
        *ahead = left.min(*ahead);
        if *ahead == 0 {
            self.followed[class] = (self.now, left, self.now.since(*since));
        }
        if left == 0 {
            self.drr.emptied(class);
            self.codels[class].as_mut().map(NaiveCodel::emptied);
        }
    }

    fn remove(&mut self, sequence: u64) {
        let request = self.find(sequence).clone();
        self.requests.retain(|request| request.sequence != sequence);
        if request.state == State::Waiting {
            self.left_queue(request.exchange.class.index(), false);
        }
    }

    fn grant(&mut self, sequence: u64) {
        let weight = self.find(sequence).exchange.weight;
        let in_flight = u32::try_from(self.counted(None) + u64::from(weight)).unwrap();
        let started = self.now;
        let class = self.find(sequence).exchange.class.index();
        self.started[class] += 1;
        self.decide(sequence, State::Granted { started, in_flight });
    }

    fn refuse(&mut self, sequence: u64, refusal: Refusal) {
        if self.find(sequence).shadow {
            let class = self.find(sequence).exchange.class;
            self.would_refuse(class, refusal);
        }
        self.decide(sequence, State::Refused(refusal));
    }

    fn would_refuse(&mut self, class: ClassId, refusal: Refusal) {
        match self.would_refuse.iter_mut().find(|(c, r, _)| (*c, *r) == (class, refusal)) {
            Some((_, _, count)) => *count += 1,
            None => self.would_refuse.push((class, refusal, 1)),
        }
        self.would_refuse.sort();
    }

    fn decide(&mut self, sequence: u64, state: State) {
        let request = self.find(sequence);
        request.state = state;
        let (class, number) = (request.exchange.class.index(), request.number);
        self.left_queue(class, matches!(state, State::Granted { .. }));
        self.decided.extend(number);
    }

    fn settle(&mut self) {
        self.expire();
        self.dispatch();
    }

    fn expire(&mut self) {
        for class in 0..self.classes.len() {
            // Waits first, by arrival; then deadlines, the earliest first.
            let queue: Vec<Request> = self.queue(Some(class)).into_iter().cloned().collect();
            for request in &queue {
                let over = self.classes[class].queue.wait_max.map(|span| request.arrived + span);
                if over.is_some_and(|moment| moment <= self.now) {
                    let first = request.deadline.is_some_and(|due| Some(due) <= over);
                    let refusal = if first { Refusal::DeadlinePassed } else { Refusal::WaitTooLong };
                    self.refuse(request.sequence, refusal);
                }
            }
            let mut due: Vec<Request> = self.queue(Some(class)).into_iter().cloned().collect();
            due.retain(|request| request.deadline.is_some_and(|due| due <= self.now));
            due.sort_by_key(|request| (request.deadline, request.sequence));
            for request in due {
                self.refuse(request.sequence, Refusal::DeadlinePassed);
            }
        }
    }

    fn is_lifo(&self, class: usize) -> bool {
        let queue = &self.classes[class].queue;
        match queue.discipline {
            Discipline::Fifo => false,
            Discipline::Lifo => true,
            Discipline::AdaptiveLifo => {
                let (since, _, last) = self.followed[class];
                last >= queue.stands_after || since + queue.stands_after <= self.now
            }
        }
    }

    /// What a class offers, and whether it starves.
    fn candidate(&self, class: usize) -> Option<(Request, bool)> {
        let queue = self.queue(Some(class));
        let highest = queue.iter().map(|request| request.exchange.priority).max()?;
        let mut same = queue.iter().filter(|request| request.exchange.priority == highest);
        let mut chosen = if self.is_lifo(class) { *same.next_back()? } else { *same.next()? };
        let mut starving = false;
        if highest < 7 {
            if self.settings.scheduler == SchedulerKind::Strict
                && let Some(span) = self.settings.starvation_max
                && queue[0].arrived + span <= self.now
            {
                (chosen, starving) = (queue[0], true);
            }
            if self.settings.scheduler == SchedulerKind::EarliestDeadline {
                let with = queue.iter().filter(|request| request.deadline.is_some());
                chosen = with.min_by_key(|request| (request.deadline, request.sequence)).unwrap_or(&chosen);
            }
        }
        let open = has_token(&self.class_egress[class], self.now)
            && self.classes[class]
                .in_flight_max
                .is_none_or(|max| self.fits(Some(class), max, &chosen.exchange));
        open.then(|| (chosen.clone(), starving))
    }

    fn end_hold(&mut self) {
        if std::mem::take(&mut self.held) {
            self.last_held = Some(self.now);
        }
    }

    fn dispatch(&mut self) {
        loop {
            self.end_hold();
            if self.queue(None).is_empty() || !has_token(&self.egress, self.now) {
                return;
            }
            let candidates: Vec<_> =
                (0..self.classes.len()).filter_map(|class| self.candidate(class)).collect();
            let top = candidates.iter().filter(|c| c.0.exchange.priority == 7).min_by_key(|c| c.0.sequence);
            let class_of = |c: &&(Request, bool)| c.0.exchange.class.index();
            let mut drr = self.drr.clone();
            let pick = top.or_else(|| match self.settings.scheduler {
                SchedulerKind::Strict => candidates.iter().min_by_key(|c| {
                    let rank = if c.1 { 0 } else { c.0.exchange.priority };
                    (Reverse(c.1), Reverse(rank), c.0.sequence)
                }),
                SchedulerKind::RoundRobin => {
                    candidates.iter().min_by_key(|c| (class_of(c) < self.round_robin, class_of(c)))
                }
                SchedulerKind::EarliestDeadline => {
                    candidates.iter().min_by_key(|c| (c.0.deadline.is_none(), c.0.deadline, c.0.sequence))
                }
                SchedulerKind::Weighted => {
                    let offers: Vec<_> =
                        candidates.iter().map(|c| (class_of(&c), c.0.exchange.weight)).collect();
                    let class = drr.next(&offers)?;
                    candidates.iter().find(|c| class_of(c) == class)
                }
            });
            let Some((request, _)) = pick.cloned() else { return };
            let class = request.exchange.class.index();
            if !self.fits(None, self.limit(), &request.exchange) {
                self.held = true;
                return;
            }
            if request.exchange.priority < 7 {
                let behind = self.queue(Some(class)).len() - 1;
                let wait = self.now.since(request.arrived);
                let now = self.now;
                if self.codels[class].as_mut().is_some_and(|codel| codel.drops(now, wait, behind)) {
                    self.refuse(request.sequence, Refusal::Codel);
                    continue;
                }
                self.round_robin = class + 1;
                self.drr = drr;
            }
            take_token(&mut self.egress, self.now);
            take_token(&mut self.class_egress[class], self.now);
            self.grant(request.sequence);
        }
    }

    /// Pushes a permit and reports it.
    fn start(&mut self, exchange: &Exchange, in_flight: u32, counted: bool, shadow: Option<u64>) -> Event {
        self.permits.push(Out {
            class: exchange.class.index(),
            weight: exchange.weight,
            started: self.now,
            in_flight,
            counted,
            shadow,
        });
        Event::Started(in_flight)
    }

    /// The mode of the application's rate of admission, or of a class's.
    fn ingress_mode(&self, class: Option<usize>) -> Mode {
        let own = class.and_then(|class| self.classes[class].ingress_mode);
        own.or(self.settings.ingress_mode).unwrap_or(self.settings.mode)
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
        let in_time = again || self.pays(class, Mode::Watch);
        if !in_time {
            self.would_refuse(exchange.class, Refusal::IngressRate);
        }
        let in_truth = u32::try_from(self.in_flight() + u64::from(exchange.weight)).unwrap();
        if self.settings.mode == Mode::Off {
            self.started[class] += 1;
            return self.start(&exchange, in_truth, true, None);
        }
        self.started_in_truth[class] += 1;
        let watching = self.settings.mode == Mode::Watch;
        let own = self.classes[class].deadline.map(|span| self.now + span);
        let deadline = [exchange.deadline, own].into_iter().flatten().min();
        let verdict = if watching && !in_time {
            Err(Refusal::IngressRate)
        } else if deadline.is_some_and(|deadline| deadline <= self.now) {
            if watching {
                self.would_refuse(exchange.class, Refusal::DeadlinePassed);
            }
            Err(Refusal::DeadlinePassed)
        } else {
            Ok(self.enqueue(exchange, deadline))
        };
        let (refused, sequence) = match verdict {
            Err(refusal) => (Some(refusal), None),
            Ok(sequence) => match self.find(sequence).state {
                State::Refused(refusal) => {
                    self.remove(sequence);
                    (Some(refusal), None)
                }
                State::Granted { in_flight, .. } => {
                    self.remove(sequence);
                    return self.start(&exchange, if watching { in_truth } else { in_flight }, true, None);
                }
                State::Waiting => (None, Some(sequence)),
            },
        };
        if watching {
            return self.start(&exchange, in_truth, false, sequence);
        }
        if let Some(refusal) = refused {
            return Event::Refused(refusal);
        }
        let number = self.waited;
        let sequence = sequence.unwrap();
        self.find(sequence).number = Some(number);
        self.waiting.push(sequence);
        self.waited += 1;
        Event::Waits
    }

    fn enqueue(&mut self, exchange: Exchange, deadline: Option<Timestamp>) -> u64 {
        let class = exchange.class.index();
        let settings = self.classes[class].queue;
        let before = (self.queue(Some(class)).len(), self.bytes(class));
        let sequence = self.sequence;
        self.sequence += 1;
        if before.0 == 0 {
            self.followed[class] = (self.now, 1, Duration::ZERO);
        }
        self.requests.push(Request {
            sequence,
            exchange,
            deadline,
            arrived: self.now,
            state: State::Waiting,
            number: None,
            shadow: self.settings.mode == Mode::Watch,
        });
        let room = self.fits(None, self.limit(), &exchange)
            && self.classes[class].in_flight_max.is_none_or(|max| self.fits(Some(class), max, &exchange));
        let tokens = has_token(&self.egress, self.now) && has_token(&self.class_egress[class], self.now);
        if self.queue(None).len() == 1 && room && tokens {
            // Nothing else waits: it starts and takes no turn of the scheduler's.
            take_token(&mut self.egress, self.now);
            take_token(&mut self.class_egress[class], self.now);
            let (round_robin, drr) = (self.round_robin, self.drr.clone());
            self.grant(sequence);
            (self.round_robin, self.drr) = (round_robin, drr);
            return sequence;
        }
        self.dispatch();
        if self.find(sequence).state == State::Waiting {
            while self.queue(Some(class)).len() > settings.max.max(before.0)
                || self.bytes(class) > settings.bytes_max.max(before.1)
            {
                let lowest = self.queue(Some(class)).iter().map(|r| r.exchange.priority).min().unwrap();
                let queue = self.queue(Some(class));
                let oldest = queue.iter().find(|r| r.exchange.priority == lowest).unwrap().sequence;
                let newcomer = !self.is_lifo(class) || u64::from(exchange.bytes) > settings.bytes_max;
                self.refuse(if newcomer { sequence } else { oldest }, Refusal::QueueFull);
                if self.find(sequence).state != State::Waiting {
                    break;
                }
            }
            self.dispatch();
        }
        sequence
    }

    fn bytes(&self, class: usize) -> u64 {
        self.queue(Some(class)).iter().map(|request| u64::from(request.exchange.bytes)).sum()
    }

    fn verdict(&mut self, position: usize, leaves: bool) -> Event {
        let sequence = self.waiting[position];
        let request = self.find(sequence).clone();
        if request.state == State::Waiting && !leaves {
            return Event::Waits;
        }
        self.waiting.swap_remove(position);
        self.remove(sequence);
        match request.state {
            State::Waiting => {
                self.dispatch();
                Event::Left
            }
            State::Refused(refusal) => Event::Refused(refusal),
            State::Granted { started, in_flight } => {
                self.start(&request.exchange, in_flight, true, None);
                self.permits.last_mut().unwrap().started = started;
                Event::Started(in_flight)
            }
        }
    }

    fn depart(&mut self, position: usize, outcome: Outcome) {
        let out = self.permits[position].clone();
        if self.settings.mode != Mode::Off && outcome != Outcome::Ignore {
            let held_since = self.held || self.last_held.is_some_and(|last| last >= out.started);
            let held = self.settings.mode == Mode::Enforce && held_since;
            self.limiter.sample(&Sample {
                now: self.now,
                class: ClassId(u16::try_from(out.class).unwrap()),
                response_time: self.now.since(out.started),
                in_flight: out.in_flight,
                limit_utilised: held || out.in_flight >= self.limit(),
                outcome,
                weight: out.weight,
            });
        }
        self.permits.swap_remove(position);
        let shadow = out.shadow.map(|sequence| self.find(sequence).clone());
        if let Some(shadow) = &shadow {
            self.remove(shadow.sequence);
        }
        self.dispatch();
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let mut moments = Vec::new();
        if self.queue(None).is_empty() {
            return None;
        }
        if self.settings.mode == Mode::Enforce && self.held {
            moments.extend(self.limiter.next_tick());
        }
        let application = self.egress.clone().map_or(self.now, |mut bucket| bucket.next(self.now));
        moments.push(application);
        for class in 0..self.classes.len() {
            let queue = self.queue(Some(class));
            let Some(oldest) = queue.first() else { continue };
            let settings = &self.classes[class].queue;
            moments.extend(settings.wait_max.map(|span| oldest.arrived + span));
            moments.extend(queue.iter().filter_map(|request| request.deadline));
            if self.settings.scheduler == SchedulerKind::Strict {
                moments.extend(self.settings.starvation_max.map(|span| oldest.arrived + span));
            }
            if settings.discipline == Discipline::AdaptiveLifo && !self.is_lifo(class) {
                moments.push(self.followed[class].0 + settings.stands_after);
            }
            if application == self.now
                && let Some(mut bucket) = self.class_egress[class].clone()
            {
                moments.push(bucket.next(self.now));
            }
        }
        moments.into_iter().filter(|moment| *moment > self.now).min()
    }

    /// Does what a [`Driver`](super::grammar::Driver) does at that operation.
    pub fn apply(&mut self, op: &Op) -> (Event, View) {
        let event = match *op {
            Op::Advance(span) => {
                let due = self.next_timeout();
                self.now = self.now + span;
                if self.advance_limiter() || due.is_some_and(|moment| moment <= self.now) {
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
            Op::Depart(position, outcome) => {
                if let Some(position) = position.checked_rem(self.permits.len()) {
                    self.advance();
                    self.depart(position, outcome);
                }
                Event::Nothing
            }
            Op::Stream(position) => match position.checked_rem(self.permits.len()) {
                Some(position)
                    if self.settings.mode != Mode::Enforce
                        || self.streams < self.settings.long_streams_max =>
                {
                    self.advance();
                    self.streams += 1;
                    self.depart(position, Outcome::Ignore);
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
                self.streams = self.streams.saturating_sub(1);
                Event::Nothing
            }
            Op::Configure(ref settings) => {
                self.advance();
                self.configure(settings);
                Event::Nothing
            }
        };
        let view = View {
            in_flight: self.in_flight(),
            limit: self.limit(),
            long_streams: self.streams,
            queued: (0..self.classes.len()).map(|class| self.queue(Some(class)).len()).collect(),
            decided: std::mem::take(&mut self.decided),
            would_refuse: std::mem::take(&mut self.would_refuse),
            next_timeout: self.next_timeout(),
        };
        (event, view)
    }
}

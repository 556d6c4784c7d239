//! One path of the reference, of requests or of shadows: who waits, who is next.

mod under_way;

use std::time::Duration;

use under_way::UnderWay;

use super::{
    super::{AdmissionSettings, ClassSettings, Exchange, Rate},
    NaiveDeficitRoundRobin,
    naive::{NaiveBucket, NaiveCodel},
};
use crate::{
    ClassId, Refusal, Timestamp,
    knobs::{Discipline, Mode, SchedulerKind},
    queue,
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Waiting,
    Granted { started: Timestamp, in_flight: u32 },
    Refused(Refusal),
}

/// A request that waits or whose verdict was not collected; or a shadow that is not forgotten.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Number of its arrival among those queued.
    pub(super) sequence: u64,
    pub(super) exchange: Exchange,
    deadline: Option<Timestamp>,
    arrived: Timestamp,
    pub(super) state: State,
    /// Number among those told to wait.
    pub(super) number: Option<u64>,
    /// A shadow whose request has started.
    begun: bool,
    /// Of a request: the number of its shadow, and what would have refused it at once.
    pub(super) shadow: Option<u64>,
    pub(super) would_refuse: Option<Refusal>,
}

/// How a shadow stands when its request starts.
pub(super) enum Begun {
    InFlight,
    Waiting,
    Refused(Refusal),
    Over,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    of_shadows: bool,
    scheduler: SchedulerKind,
    starvation_max: Option<Duration>,
    /// What does not hold is not set here.
    classes: Vec<ClassSettings>,
    /// Since when the bounds of queues hold, by class.
    bounded_since: Vec<Option<Timestamp>>,
    found_holds: bool,
    egress_set: Option<Rate>,
    egress_in_force: Option<Rate>,
    limit: Option<u32>,
    pub(super) egress: Option<NaiveBucket>,
    class_egress: Vec<Option<NaiveBucket>>,
    codels: Vec<Option<NaiveCodel>>,
    /// Adaptive LIFO, by class: since when a newcomer is followed, how many have to start before it
    /// has waited, and what the one before it waited.
    followed: Vec<(Timestamp, usize, Duration)>,
    /// Starts by class.
    pub(super) started: Vec<u64>,
    /// In the order in which the server could begin with them.
    under_way: Vec<UnderWay>,
    /// How long exchanges took, by class.
    times: Vec<Vec<Duration>>,
    pub(super) requests: Vec<Request>,
    sequence: u64,
    round_robin: usize,
    drr: NaiveDeficitRoundRobin,
    pub(super) held: bool,
    pub(super) last_held: Option<Timestamp>,
    pub(super) decided: Vec<u64>,
    pub(super) would_refuse: Vec<(ClassId, Refusal)>,
}

pub(super) fn set(bucket: &mut Option<NaiveBucket>, now: Timestamp, rate: Option<Rate>) {
    *bucket = rate.map(|rate| match bucket.take() {
        Some(mut bucket) => {
            bucket.configure(now, rate.per_s, rate.burst);
            bucket
        }
        None => NaiveBucket::new(now, rate.per_s, rate.burst),
    });
}

pub(super) fn has_token(bucket: &Option<NaiveBucket>, now: Timestamp) -> bool {
    bucket.clone().is_none_or(|mut bucket| bucket.is_ready(now))
}

pub(super) fn take_token(bucket: &mut Option<NaiveBucket>, now: Timestamp) {
    if let Some(bucket) = bucket {
        assert!(bucket.try_take(now));
    }
}

impl World {
    /// Of requests, with nothing in it; to be configured.
    pub(super) fn new(scheduler: SchedulerKind, now: Timestamp) -> Self {
        Self {
            now,
            of_shadows: false,
            scheduler,
            starvation_max: None,
            classes: Vec::new(),
            bounded_since: Vec::new(),
            found_holds: true,
            egress_set: None,
            egress_in_force: None,
            limit: Some(0),
            egress: None,
            class_egress: Vec::new(),
            codels: Vec::new(),
            followed: Vec::new(),
            started: Vec::new(),
            under_way: Vec::new(),
            times: Vec::new(),
            requests: Vec::new(),
            sequence: 0,
            round_robin: 0,
            drr: NaiveDeficitRoundRobin::default(),
            held: false,
            last_held: None,
            decided: Vec::new(),
            would_refuse: Vec::new(),
        }
    }

    /// The same for shadows, from here on.
    pub(super) fn cast_shadows(&mut self) -> Self {
        for request in &mut self.requests {
            let is_refused = matches!(request.state, State::Refused(_));
            request.shadow = (!is_refused).then_some(request.sequence);
        }
        let mut shadows = Self { of_shadows: true, ..self.clone() };
        shadows.requests.retain(|request| request.shadow.is_some());
        for request in &mut shadows.requests {
            request.number = None;
        }
        shadows.decided.clear();
        shadows.would_refuse.clear();
        shadows
    }

    fn heeds(&self, mode: Mode) -> bool {
        mode == Mode::Enforce || self.of_shadows && mode == Mode::Watch
    }

    pub(super) fn configure(&mut self, settings: &AdmissionSettings, classes: &[ClassSettings]) {
        let now = self.now;
        let of_all = settings.modes_in_force();
        self.found_holds = self.heeds(of_all.in_flight);
        self.egress_set = settings.egress.filter(|_| self.heeds(of_all.egress));
        for (id, class) in classes.iter().enumerate() {
            let modes = class.modes.over(of_all);
            let mut class = class.clone();
            class.egress = class.egress.filter(|_| self.heeds(modes.egress));
            class.in_flight_max = class.in_flight_max.filter(|_| self.heeds(modes.in_flight));
            class.in_flight_lead = class.in_flight_lead.filter(|_| class.in_flight_max.is_some());
            let is_bounded = self.heeds(modes.queue);
            if !is_bounded {
                class.queue.max = class.queue.max.max(queue::LEN_MAX);
                class.queue.bytes_max = class.queue.bytes_max.max(queue::BYTES_MAX);
                (class.queue.wait_max, class.queue.codel) = (None, None);
            }
            if id == self.classes.len() {
                self.classes.push(class.clone());
                self.bounded_since.push(is_bounded.then_some(now));
                self.started.push(0);
                self.times.push(Vec::new());
                self.class_egress.push(None);
                self.codels.push(None);
                self.followed.push((now, 0, Duration::ZERO));
            }
            set(&mut self.class_egress[id], now, class.egress);
            self.codels[id] = class.queue.codel.map(|(target, interval)| match self.codels[id].take() {
                Some(mut codel) => {
                    codel.configure(target, interval);
                    codel
                }
                None => NaiveCodel::new(target, interval),
            });
            self.classes[id] = class;
            self.follow(id);
            let since = self.bounded_since[id];
            self.bounded_since[id] = is_bounded.then(|| since.unwrap_or(now));
            if is_bounded && since.is_none() {
                for request in self.requests.iter_mut().filter(|r| r.exchange.class.index() == id) {
                    request.deadline = request.deadline.filter(|deadline| *deadline > now);
                }
            }
        }
        if self.scheduler != settings.scheduler {
            self.round_robin = 0;
            self.drr = NaiveDeficitRoundRobin::default();
        }
        self.scheduler = settings.scheduler;
        self.starvation_max = settings.starvation_max;
        self.drr.set_shares(&self.classes.iter().map(|class| class.share).collect::<Vec<_>>());
    }

    /// True if what is in force has changed.
    pub(super) fn set_found(&mut self, limit: u32, rate: Option<f64>) -> bool {
        let before = (self.limit, self.egress_in_force);
        self.limit = self.found_holds.then_some(limit);
        self.egress_in_force = Rate::lower(self.egress_set, rate.filter(|_| self.found_holds));
        if before.1 != self.egress_in_force {
            set(&mut self.egress, self.now, self.egress_in_force);
        }
        before != (self.limit, self.egress_in_force)
    }

    /// Who waits, of a class or of all, by arrival.
    pub(super) fn queue(&self, class: Option<usize>) -> Vec<&Request> {
        let mut queue: Vec<_> = self
            .requests
            .iter()
            .filter(|request| request.state == State::Waiting)
            .filter(|request| class.is_none_or(|class| request.exchange.class.index() == class))
            .collect();
        queue.sort_by_key(|request| request.sequence);
        queue
    }

    fn fits(&self, class: Option<usize>, limit: Option<u32>, exchange: &Exchange) -> bool {
        let taken = self.in_flight(class);
        exchange.priority == 7
            || limit.is_none_or(|limit| {
                limit > 0 && (taken == 0 || taken + u64::from(exchange.weight) <= u64::from(limit))
            })
    }

    pub(super) fn find(&mut self, sequence: u64) -> &mut Request {
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

    /// Forgets a request, whatever has become of it.
    pub(super) fn remove(&mut self, sequence: u64) {
        let request = self.find(sequence).clone();
        self.requests.retain(|request| request.sequence != sequence);
        if request.state == State::Waiting {
            self.left_queue(request.exchange.class.index(), false);
        }
    }

    fn grant(&mut self, sequence: u64) {
        let weight = self.find(sequence).exchange.weight;
        let in_flight = u32::try_from(self.in_flight(None) + u64::from(weight)).unwrap();
        let started = self.now;
        let exchange = self.find(sequence).exchange;
        let class = exchange.class.index();
        let is_followed = self.classes[class].in_flight_lead.is_some();
        let is_early = is_followed && !self.fits(Some(class), self.classes[class].in_flight_max, &exchange);
        let is_expected = is_followed && !is_early;
        let since = is_expected.then_some(started);
        self.under_way.push(UnderWay { sequence, class, weight, since, is_early, is_expected });
        self.started[class] += 1;
        self.decide(sequence, State::Granted { started, in_flight });
    }

    fn refuse(&mut self, sequence: u64, refusal: Refusal) {
        if self.find(sequence).begun {
            let class = self.find(sequence).exchange.class;
            self.would_refuse.push((class, refusal));
        }
        self.decide(sequence, State::Refused(refusal));
    }

    fn decide(&mut self, sequence: u64, state: State) {
        let request = self.find(sequence);
        request.state = state;
        let (class, number) = (request.exchange.class.index(), request.number);
        self.left_queue(class, matches!(state, State::Granted { .. }));
        self.decided.extend(number);
    }

    pub(super) fn settle(&mut self) {
        self.expire();
        self.dispatch();
    }

    fn expire(&mut self) {
        for class in 0..self.classes.len() {
            let Some(bounded) = self.bounded_since[class] else { continue };
            // Waits first, by arrival; then deadlines, the earliest first.
            let queue: Vec<Request> = self.queue(Some(class)).into_iter().cloned().collect();
            for request in &queue {
                let over = self.classes[class].queue.wait_max.map(|span| request.arrived.max(bounded) + span);
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
            if self.scheduler == SchedulerKind::Strict
                && let Some(span) = self.starvation_max
                && queue[0].arrived + span <= self.now
            {
                (chosen, starving) = (queue[0], true);
            }
            if self.scheduler == SchedulerKind::EarliestDeadline {
                let with = queue.iter().filter(|request| request.deadline.is_some());
                chosen = with.min_by_key(|request| (request.deadline, request.sequence)).unwrap_or(&chosen);
            }
        }
        let open = has_token(&self.class_egress[class], self.now) && self.has_room(&chosen.exchange);
        open.then(|| (chosen.clone(), starving))
    }

    /// Of those that have starved, else of those of the highest priority, the oldest, or the newest: that if a class gives its newest
    /// and none is FIFO.
    fn strictly_first<'c>(&self, candidates: &'c [(Request, bool)]) -> Option<&'c (Request, bool)> {
        let starving: Vec<_> = candidates.iter().filter(|c| c.1).collect();
        if !starving.is_empty() {
            return starving.into_iter().min_by_key(|c| c.0.sequence);
        }
        let highest = candidates.iter().map(|c| c.0.exchange.priority).max()?;
        let mut equal: Vec<_> = candidates.iter().filter(|c| c.0.exchange.priority == highest).collect();
        equal.sort_by_key(|c| c.0.sequence);
        let classes: Vec<_> = equal.iter().map(|c| c.0.exchange.class.index()).collect();
        let newest = classes.iter().any(|class| self.is_lifo(*class))
            && classes.iter().all(|class| self.classes[*class].queue.discipline != Discipline::Fifo);
        if newest { equal.pop() } else { equal.into_iter().next() }
    }

    fn end_hold(&mut self) {
        if std::mem::take(&mut self.held) {
            self.last_held = Some(self.now);
        }
    }

    pub(super) fn dispatch(&mut self) {
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
            let pick = top.or_else(|| match self.scheduler {
                SchedulerKind::Strict => self.strictly_first(&candidates),
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
            if !self.fits(None, self.limit, &request.exchange) {
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

    /// What becomes of an arrival at once. Who waits has that number; who starts is in flight.
    pub(super) fn arrive(&mut self, exchange: Exchange, begun: bool) -> (u64, State) {
        let class = exchange.class.index();
        let own = self.classes[class].deadline.map(|span| self.now + span);
        let deadline = [exchange.deadline, own].into_iter().flatten().min();
        if self.bounded_since[class].is_some() && deadline.is_some_and(|deadline| deadline <= self.now) {
            if begun {
                self.would_refuse.push((exchange.class, Refusal::DeadlinePassed));
            }
            return (0, State::Refused(Refusal::DeadlinePassed));
        }
        let sequence = self.enqueue(exchange, deadline, begun);
        let state = self.find(sequence).state;
        if state != State::Waiting {
            self.remove(sequence);
        }
        (sequence, state)
    }

    /// The shadow of a request that waits is kept.
    pub(super) fn arrive_waiting(&mut self, exchange: Exchange) -> u64 {
        let (sequence, state) = self.arrive(exchange, false);
        if state == State::Waiting {
            return sequence;
        }
        let kept = self.request(exchange, None, state, false);
        if let State::Granted { .. } = state {
            self.under_way.iter_mut().find(|one| one.sequence == sequence).unwrap().sequence = kept;
        }
        kept
    }

    fn request(&mut self, exchange: Exchange, deadline: Option<Timestamp>, state: State, begun: bool) -> u64 {
        let sequence = self.sequence;
        self.sequence += 1;
        self.requests.push(Request {
            sequence,
            exchange,
            deadline,
            arrived: self.now,
            state,
            number: None,
            begun,
            shadow: None,
            would_refuse: None,
        });
        sequence
    }

    pub(super) fn depart(&mut self, sequence: u64, is_time: bool) {
        self.give_back(sequence, is_time);
        self.dispatch();
    }

    /// The request of a shadow starts.
    pub(super) fn begin(&mut self, sequence: Option<u64>) -> Begun {
        let Some(found) = self.requests.iter_mut().find(|request| Some(request.sequence) == sequence) else {
            return Begun::Over;
        };
        let request = found.clone();
        match request.state {
            State::Waiting => {
                found.begun = true;
                Begun::Waiting
            }
            State::Granted { .. } => {
                self.remove(request.sequence);
                Begun::InFlight
            }
            State::Refused(refusal) => {
                self.remove(request.sequence);
                self.would_refuse.push((request.exchange.class, refusal));
                Begun::Refused(refusal)
            }
        }
    }

    /// The request of a shadow never starts.
    pub(super) fn withdraw(&mut self, sequence: Option<u64>) {
        let Some(found) = self.requests.iter().find(|request| Some(request.sequence) == sequence) else {
            return;
        };
        let (sequence, state) = (found.sequence, found.state);
        self.remove(sequence);
        if let State::Granted { .. } = state {
            self.give_back(sequence, false);
        }
        self.dispatch();
    }

    /// The client of an exchange has left whose shadow waited when it began. Whether that has left too, and what had
    /// refused it.
    pub(super) fn abandon(&mut self, sequence: u64) -> (bool, Option<Refusal>) {
        let state = self.find(sequence).state;
        if let State::Granted { .. } = state {
            return (false, None);
        }
        self.remove(sequence);
        self.dispatch();
        match state {
            State::Refused(refusal) => (true, Some(refusal)),
            _ => (true, None),
        }
    }

    /// The exchange is over whose shadow waited when it began.
    pub(super) fn end(&mut self, sequence: u64, is_time: bool) -> Option<Refusal> {
        let state = self.find(sequence).state;
        self.remove(sequence);
        match state {
            State::Granted { .. } => {
                self.give_back(sequence, is_time);
                self.dispatch();
                None
            }
            State::Waiting => {
                self.dispatch();
                self.stand_in();
                None
            }
            // Nobody's turn comes by what was none any more, but by the one it stands for: where the limit has just risen,
            // a class's own bound must not send another one first.
            State::Refused(refusal) => {
                self.stand_in();
                Some(refusal)
            }
        }
    }

    /// An exchange is over that is none here: it stands for the first whose request waits.
    pub(super) fn stand_in(&mut self) {
        let ahead = self.requests.iter().filter(|r| !r.begun && matches!(r.state, State::Granted { .. }));
        if let Some(sequence) = ahead.map(|request| request.sequence).min() {
            self.remove(sequence);
            self.give_back(sequence, false);
        }
        self.dispatch();
    }

    fn enqueue(&mut self, exchange: Exchange, deadline: Option<Timestamp>, begun: bool) -> u64 {
        let class = exchange.class.index();
        let settings = self.classes[class].queue;
        let before = (self.queue(Some(class)).len(), self.bytes(class));
        if before.0 == 0 {
            self.followed[class] = (self.now, 1, Duration::ZERO);
        }
        let sequence = self.request(exchange, deadline, State::Waiting, begun);
        let room = self.fits(None, self.limit, &exchange) && self.has_room(&exchange);
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

    /// When something is due next, of what waits.
    pub(super) fn next_timeout(&self) -> Option<Timestamp> {
        let mut moments = Vec::new();
        if self.queue(None).is_empty() {
            return None;
        }
        let application = self.egress.clone().map_or(self.now, |mut bucket| bucket.next(self.now));
        moments.push(application);
        for class in 0..self.classes.len() {
            let queue = self.queue(Some(class));
            let Some(oldest) = queue.first() else { continue };
            let settings = &self.classes[class].queue;
            if let Some(bounded) = self.bounded_since[class] {
                moments.extend(settings.wait_max.map(|span| oldest.arrived.max(bounded) + span));
                moments.extend(queue.iter().filter_map(|request| request.deadline));
            }
            if self.scheduler == SchedulerKind::Strict {
                moments.extend(self.starvation_max.map(|span| oldest.arrived + span));
            }
            if settings.discipline == Discipline::AdaptiveLifo && !self.is_lifo(class) {
                moments.push(self.followed[class].0 + settings.stands_after);
            }
            moments.extend(self.lead_moments(class));
            if application == self.now
                && let Some(mut bucket) = self.class_egress[class].clone()
            {
                moments.push(bucket.next(self.now));
            }
        }
        moments.into_iter().filter(|moment| *moment > self.now).min()
    }
}

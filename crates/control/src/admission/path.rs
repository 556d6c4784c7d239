//! The path of a request: its class's queue, the scheduler, egress buckets, room.
//!
//! An application has one that acts, and while something only watches a second one of shadows ([`Role`]).

use std::{collections::BTreeMap, time::Duration};

use super::{AdmissionSettings, Rate, class::Class};
use crate::{
    ClassId, Refusal, Ticket, Timestamp,
    in_flight::{InFlight, TOP_PRIORITY},
    knobs::{Mode, SchedulerKind},
    limit::Load,
    queue::{Entry, Exit, Newcomer, Phase, WaitTable},
    roster::Place,
    scheduler::{Candidate, Scheduler},
    token_bucket::TokenBucket,
};

/// Whose path it is, and so which controls hold on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Requests; what acts holds.
    Acts,
    /// Their shadows; what acts and what watches holds.
    Watches,
}

/// What the path answers to an arrival.
#[must_use]
pub(super) enum Answer {
    Start(Started),
    Wait(Ticket),
    Refuse(Refusal),
}

/// An exchange that has just started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    /// Weight in flight just after.
    pub(super) in_flight: u32,
    /// Where its class finds it, with which it is given back.
    pub(super) place: Place,
}

#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) role: Role,
    pub(super) in_flight: InFlight,
    pub(super) table: WaitTable,
    classes: Vec<Class>,
    /// Classes of which something waits, by id.
    busy: Vec<ClassId>,
    /// Whether the limit that is found holds, and the rate that comes with it.
    found_holds: bool,
    /// The rate of starts that is set, if it holds, and the one in force: lower where the limiter says so.
    egress_set: Option<Rate>,
    egress_in_force: Option<Rate>,
    egress: Option<TokenBucket>,
    scheduler: Scheduler,
    starvation_max: Option<Duration>,
    pub(super) arrivals: u64,
    /// Whether the in-flight limit keeps something waiting, and when it ceased to.
    held: bool,
    last_held: Option<Timestamp>,
    /// What the classes offer; kept for its memory.
    candidates: Vec<Candidate>,
    /// Tickets whose verdict nobody has been told of.
    pub(super) decided: Vec<Ticket>,
    /// Shadows in flight whose requests still wait in truth: entries by the number of their arrival.
    pub(super) ahead: BTreeMap<u64, u32>,
    pub(super) would_refuse: Vec<[u64; Refusal::ALL.len()]>,
    next_timeout: Option<Timestamp>,
}

impl Role {
    /// Whether a control of that mode holds.
    pub(super) fn heeds(self, mode: Mode) -> bool {
        match self {
            Self::Acts => mode == Mode::Enforce,
            Self::Watches => mode != Mode::Off,
        }
    }
}

impl Path {
    /// One that acts, to be configured and given its limit before it is used.
    pub(super) fn new(scheduler: SchedulerKind) -> Self {
        Self {
            role: Role::Acts,
            in_flight: InFlight::new(0, 0),
            table: WaitTable::new(),
            classes: Vec::new(),
            busy: Vec::new(),
            found_holds: true,
            egress_set: None,
            egress_in_force: None,
            egress: None,
            scheduler: Scheduler::new(scheduler),
            starvation_max: None,
            arrivals: 0,
            held: false,
            last_held: None,
            candidates: Vec::new(),
            decided: Vec::new(),
            ahead: BTreeMap::new(),
            would_refuse: Vec::new(),
            next_timeout: None,
        }
    }

    /// New knobs, and which of them hold. The caller tells the limit and settles afterwards.
    pub(super) fn configure(&mut self, now: Timestamp, settings: &AdmissionSettings) {
        let modes = settings.modes_in_force();
        self.found_holds = self.role.heeds(modes.in_flight);
        self.egress_set = settings.egress.filter(|_| self.role.heeds(modes.egress));
        let known = self.classes.len();
        self.classes.extend(settings.classes.iter().skip(known).map(Class::new));
        for (id, class) in self.classes.iter_mut().enumerate() {
            class.configure(now, &mut self.table, settings.classes.get(id), modes, self.role);
        }
        self.in_flight.grow(self.classes.len());
        self.would_refuse.resize(self.classes.len(), [0; Refusal::ALL.len()]);
        if self.scheduler.kind() != settings.scheduler {
            self.scheduler = Scheduler::new(settings.scheduler);
        }
        self.scheduler.set_shares(self.classes.iter().map(Class::share));
        self.starvation_max = settings.starvation_max;
    }

    /// The limit in flight as found, and the rate that comes with it. True if what is in force has changed: the caller
    /// then settles.
    pub(super) fn set_found(&mut self, now: Timestamp, limit: u32, per_s: Option<f64>) -> bool {
        let limit = Some(limit).filter(|_| self.found_holds);
        let egress = Rate::lower(self.egress_set, per_s.filter(|_| self.found_holds));
        let changed = limit != self.in_flight.limit() || egress != self.egress_in_force;
        if changed {
            self.in_flight.set_limit(limit);
            self.egress_in_force = egress;
            set_bucket(&mut self.egress, now, egress);
        }
        changed
    }

    /// The class of that id, or the default class if there is no such class.
    pub(super) fn known(&self, class: ClassId) -> ClassId {
        debug_assert!(class.index() < self.classes.len(), "a class that was never configured: {class:?}");
        if class.index() < self.classes.len() { class } else { ClassId(0) }
    }

    /// A request that the rates of admission let pass. Of a shadow: whether its request has `begun` in truth.
    #[inline(always)]
    pub(super) fn arrive(&mut self, now: Timestamp, exchange: &super::Exchange, begun: bool) -> Answer {
        let class_id = exchange.class;
        let class = &mut self.classes[class_id.index()];
        let deadline = class.deadline(now, exchange.deadline);
        if deadline.is_some_and(|deadline| deadline <= now) && class.queue.is_bounded() {
            return self.turn_away(class_id, Refusal::DeadlinePassed, begun);
        }
        let (weight, priority) = (exchange.weight, exchange.priority);
        if self.busy.is_empty()
            && self.in_flight.fits(weight, priority)
            && class.has_room(now, &self.in_flight, class_id, weight, priority)
            && take_both(now, self.egress.as_mut(), class.egress.as_mut())
        {
            return Answer::Start(self.take(now, class_id, weight, priority));
        }
        self.queue(now, Newcomer { deadline, begun, ..newcomer(now, exchange, self.arrivals) })
    }

    /// Refuses an arrival that was never queued.
    fn turn_away(&mut self, class: ClassId, refusal: Refusal, begun: bool) -> Answer {
        if begun {
            self.count_refusal(class, refusal);
        }
        Answer::Refuse(refusal)
    }

    /// Queues a newcomer, starts it if it is its turn, and only then enforces the queue's bounds.
    #[inline(never)]
    fn queue(&mut self, now: Timestamp, newcomer: Newcomer) -> Answer {
        let Some(index) = self.table.insert(newcomer) else {
            return self.turn_away(newcomer.class, Refusal::QueueFull, newcomer.begun);
        };
        self.arrivals += 1;
        let queue = &mut self.classes[newcomer.class.index()].queue;
        let (len_max, bytes_max) = (queue.len_max().max(queue.len()), queue.bytes_max().max(queue.bytes()));
        if queue.len() == 0 {
            let position = self.busy.partition_point(|busy| *busy < newcomer.class);
            self.busy.insert(position, newcomer.class);
        }
        queue.push(&mut self.table, index, now);
        self.dispatch(now);
        if self.table[index].phase == Phase::Waiting
            && self.displace(now, newcomer, index, len_max, bytes_max)
        {
            self.dispatch(now);
        }
        self.arm(now);
        let answer = match self.table[index].phase {
            Phase::Waiting => {
                self.table[index].announced = true;
                return Answer::Wait(self.table.ticket(index));
            }
            Phase::Granted { in_flight, place, .. } => Answer::Start(Started { in_flight, place }),
            Phase::Refused(refusal) => Answer::Refuse(refusal),
            Phase::Free => unreachable!("an entry is freed by its ticket's owner, and nobody has the ticket"),
        };
        self.table.remove(index);
        answer
    }

    /// Refuses whom the bounds leave no place; true if others may start now.
    fn displace(
        &mut self,
        now: Timestamp,
        newcomer: Newcomer,
        index: u32,
        len_max: usize,
        bytes_max: u64,
    ) -> bool {
        let mut displaced = false;
        loop {
            let queue = &self.classes[newcomer.class.index()].queue;
            if queue.len() <= len_max && queue.bytes() <= bytes_max {
                return displaced;
            }
            let hopeless = u64::from(newcomer.bytes) > queue.bytes_max() || !queue.is_lifo(now);
            let victim = if hopeless { index } else { queue.least().unwrap_or(index) };
            self.refuse(now, victim, Refusal::QueueFull);
            displaced = true;
            if victim == index {
                return displaced;
            }
        }
    }

    /// What has become of a ticket: its entry if it is not stale.
    pub(super) fn entry(&self, ticket: Ticket) -> Option<&Entry> {
        self.table.find(ticket).map(|index| &self.table[index])
    }

    /// Forgets a ticket, whatever has become of it. A grant's weight stays taken.
    pub(super) fn forget(&mut self, now: Timestamp, ticket: Ticket) {
        let Some(index) = self.table.find(ticket) else { return };
        let waited = self.table[index].phase == Phase::Waiting;
        if waited {
            self.unqueue(now, index, Exit::Gone);
        }
        self.table.remove(index);
        if waited {
            self.dispatch(now);
            self.arm(now);
        }
    }

    /// An exchange is over; `is_time`: the server has done all of it, and what that took says what others will take.
    pub(super) fn depart(
        &mut self,
        now: Timestamp,
        class: ClassId,
        weight: u32,
        place: Place,
        is_time: bool,
    ) {
        self.give_back(now, class, weight, place, is_time);
        self.reconsider(now);
    }

    /// The same, with nobody started for it yet.
    #[inline]
    pub(super) fn give_back(
        &mut self,
        now: Timestamp,
        class: ClassId,
        weight: u32,
        place: Place,
        is_time: bool,
    ) {
        self.in_flight.give_back(class, weight);
        if let Some(class) = self.classes.get_mut(class.index()) {
            class.end(now, place, is_time);
        }
    }

    /// Starts what may start after room or limit have changed.
    pub(super) fn reconsider(&mut self, now: Timestamp) {
        if !self.busy.is_empty() {
            self.dispatch(now);
            self.arm(now);
        }
    }

    /// Fires what is due.
    pub(super) fn advance(&mut self, now: Timestamp) {
        if self.next_timeout.is_some_and(|moment| moment <= now) {
            self.settle(now);
        }
    }

    /// Refuses what is due and starts what may start.
    pub(super) fn settle(&mut self, now: Timestamp) {
        self.expire(now);
        self.dispatch(now);
        self.arm(now);
    }

    pub(super) const fn next_timeout(&self) -> Option<Timestamp> {
        self.next_timeout
    }

    pub(super) fn drain_decided(&mut self, out: &mut Vec<Ticket>) {
        out.append(&mut self.decided);
    }

    pub(super) fn drain_would_refuse(&mut self, mut f: impl FnMut(ClassId, Refusal, u64)) {
        for (class, counts) in (0..).map(ClassId).zip(&mut self.would_refuse) {
            for (refusal, count) in Refusal::ALL.iter().zip(counts) {
                if *count > 0 {
                    f(class, *refusal, std::mem::take(count));
                }
            }
        }
    }

    /// How things stand, for the limit.
    pub(super) fn load(&mut self, now: Timestamp) -> Load<'_> {
        let rate_holds = !self.busy.is_empty() && !is_ready(now, self.egress.as_mut());
        Load {
            in_flight: self.in_flight.classes(),
            started: self.in_flight.started(),
            limit_holds: self.held,
            rate_holds,
        }
    }

    /// Whether the in-flight limit keeps something waiting.
    pub(super) const fn is_held(&self) -> bool {
        self.held
    }

    /// Whether the in-flight limit has kept something waiting since `since`.
    pub(super) fn held_since(&self, since: Timestamp) -> bool {
        self.held || self.last_held.is_some_and(|last| last >= since)
    }

    /// Requests waiting, by class.
    pub(super) fn queued(&self) -> impl Iterator<Item = (ClassId, usize)> + '_ {
        (0..).map(ClassId).zip(self.classes.iter().map(|class| class.queue.len()))
    }

    /// Weight of permits that are granted and not collected.
    pub(super) fn uncollected(&self) -> u64 {
        self.table
            .iter()
            .filter(|(_, entry)| matches!(entry.phase, Phase::Granted { .. }))
            .map(|(_, entry)| u64::from(entry.weight))
            .sum()
    }

    /// Refuses what has waited as long as it may or whose deadline has passed: the earlier of the two
    /// is the reason.
    fn expire(&mut self, now: Timestamp) {
        let mut position = 0;
        while let Some(&class) = self.busy.get(position) {
            let queue = &self.classes[class.index()].queue;
            let due = match queue.wait_expires(&self.table) {
                Some((index, moment)) if moment <= now => {
                    let deadline_first = self.table[index].deadline.is_some_and(|due| due <= moment);
                    Some((index, if deadline_first { Refusal::DeadlinePassed } else { Refusal::WaitTooLong }))
                }
                _ => queue
                    .deadline_passes(&self.table)
                    .filter(|(_, moment)| *moment <= now)
                    .map(|(index, _)| (index, Refusal::DeadlinePassed)),
            };
            match due {
                // A class that becomes empty gives its position to another.
                Some((index, refusal)) => self.refuse(now, index, refusal),
                None => position += 1,
            }
        }
    }

    /// Starts what may start, in the scheduler's order, until nothing may.
    fn dispatch(&mut self, now: Timestamp) {
        while let Some(pick) = self.pick(now) {
            let chosen = self.candidates[pick];
            let class = &mut self.classes[chosen.class.index()];
            if chosen.priority < TOP_PRIORITY {
                if class.queue.codel_drops(&self.table[chosen.index], now) {
                    self.refuse(now, chosen.index, Refusal::Codel);
                    continue;
                }
                self.scheduler.served(&self.candidates, pick);
            }
            let taken = take_both(now, self.egress.as_mut(), class.egress.as_mut());
            debug_assert!(taken, "a candidate has its tokens");
            self.grant(now, chosen.index);
        }
    }

    /// The candidate to start now; `None` if nothing may. Notes whether that is for want of room.
    fn pick(&mut self, now: Timestamp) -> Option<usize> {
        self.end_hold(now);
        if self.busy.is_empty() || !is_ready(now, self.egress.as_mut()) {
            return None;
        }
        self.candidates.clear();
        for &id in &self.busy {
            let class = &mut self.classes[id.index()];
            if let Some(candidate) =
                class.candidate(now, id, &self.table, &self.in_flight, &self.scheduler, self.starvation_max)
            {
                self.candidates.push(candidate);
            }
        }
        let top = (0..self.candidates.len())
            .filter(|position| self.candidates[*position].priority >= TOP_PRIORITY)
            .min_by_key(|position| self.candidates[*position].sequence);
        let pick = top.or_else(|| self.scheduler.pick(&self.candidates))?;
        let chosen = &self.candidates[pick];
        if !self.in_flight.fits(chosen.weight, chosen.priority) {
            self.held = true;
            return None;
        }
        Some(pick)
    }

    fn end_hold(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.held) {
            self.last_held = Some(now);
        }
    }

    fn grant(&mut self, now: Timestamp, index: u32) {
        self.unqueue(now, index, Exit::Started);
        let Entry { class, weight, priority, .. } = self.table[index];
        let Started { in_flight, place } = self.take(now, class, weight, priority);
        self.table[index].phase = Phase::Granted { started: now, in_flight, place };
        self.announce(index);
    }

    /// Takes weight, asking nobody.
    fn take(&mut self, now: Timestamp, class: ClassId, weight: u32, priority: u8) -> Started {
        let place = self.classes[class.index()].begin(now, &self.in_flight, class, weight, priority);
        self.in_flight.take(class, weight);
        Started { in_flight: whole(self.in_flight.total()), place }
    }

    fn refuse(&mut self, now: Timestamp, index: u32, refusal: Refusal) {
        self.unqueue(now, index, Exit::Gone);
        self.table[index].phase = Phase::Refused(refusal);
        if self.table[index].begun {
            self.count_refusal(self.table[index].class, refusal);
        }
        self.announce(index);
    }

    /// Counts what would have been refused.
    pub(super) fn count_refusal(&mut self, class: ClassId, refusal: Refusal) {
        self.would_refuse[class.index()][refusal.index()] += 1;
    }

    fn announce(&mut self, index: u32) {
        if !self.table[index].announced {
            return;
        }
        match self.role {
            Role::Acts => self.decided.push(self.table.ticket(index)),
            Role::Watches => self.note_ahead(index),
        }
    }

    fn unqueue(&mut self, now: Timestamp, index: u32, exit: Exit) {
        let class = self.table[index].class;
        let queue = &mut self.classes[class.index()].queue;
        queue.remove(&mut self.table, index, exit, now);
        if queue.len() == 0 {
            self.busy.retain(|busy| *busy != class);
            self.scheduler.emptied(class);
        }
    }

    /// Notes when something is due next, with nothing due now.
    fn arm(&mut self, now: Timestamp) {
        self.next_timeout = None;
        if self.busy.is_empty() {
            return;
        }
        let application_ready = is_ready(now, self.egress.as_mut());
        let mut next = match &mut self.egress {
            Some(bucket) if !application_ready => bucket.next(now),
            _ => Timestamp::FAR_FUTURE,
        };
        let starvation_max = match self.scheduler.kind() {
            SchedulerKind::Strict => self.starvation_max,
            _ => None,
        };
        for id in &self.busy {
            let class = &mut self.classes[id.index()];
            if let Some((_, moment)) = class.queue.wait_expires(&self.table) {
                next = next.min(moment);
            }
            if let Some((_, moment)) = class.queue.deadline_passes(&self.table) {
                next = next.min(moment);
            }
            if let (Some(span), Some(oldest)) = (starvation_max, class.queue.oldest(&self.table)) {
                let starves = self.table[oldest].arrived + span;
                if starves > now {
                    next = next.min(starves);
                }
            }
            if let Some(moment) = class.queue.turns_at(now) {
                next = next.min(moment);
            }
            if let Some(moment) = class.lead_turns(now, &self.in_flight, *id) {
                next = next.min(moment);
            }
            if application_ready && let Some(bucket) = &mut class.egress {
                let moment = bucket.next(now);
                if moment > now {
                    next = next.min(moment);
                }
            }
        }
        self.next_timeout = (next < Timestamp::FAR_FUTURE).then_some(next);
    }

    /// Panics if something is inconsistent, or waits that might have started at `now`.
    pub(super) fn check_invariants(&self, now: Timestamp) {
        self.in_flight.check_invariants();
        let mut waiting = 0;
        for (id, class) in (0..).map(ClassId).zip(&self.classes) {
            class.check_invariants(&self.table);
            waiting += class.queue.len();
            assert_eq!(class.queue.len() > 0, self.busy.contains(&id), "busy classes are known");
            for index in class.queue.iter(&self.table) {
                assert_eq!(self.table[index].class, id, "in the queue of its class");
            }
        }
        let (mut in_phase, mut settled) = (0, 0);
        for (index, entry) in self.table.iter() {
            in_phase += usize::from(entry.phase == Phase::Waiting);
            settled += usize::from(entry.phase != Phase::Waiting);
            assert!(entry.announced, "somebody holds the ticket of {index}");
            assert!(self.role == Role::Watches || !entry.begun, "only shadows stand for what has begun");
        }
        assert!(self.uncollected() <= self.in_flight.total(), "grants hold their weight");
        self.check_ahead();
        assert_eq!(waiting, in_phase, "what waits is queued once");
        assert_eq!(self.table.used() as usize, in_phase + settled, "no entry is lost");
        assert!(self.next_timeout.is_none_or(|moment| moment > now), "nothing is overdue");
        let mut copy = self.clone();
        assert_eq!(copy.pick(now), None, "what may start does not wait");
    }
}

/// An arrival without a deadline, as the table keeps it.
pub(super) const fn newcomer(now: Timestamp, exchange: &super::Exchange, sequence: u64) -> Newcomer {
    Newcomer {
        class: exchange.class,
        priority: exchange.priority,
        weight: exchange.weight,
        bytes: exchange.bytes,
        arrived: now,
        deadline: None,
        sequence,
        begun: false,
    }
}

/// Weight as permits and samples carry it.
fn whole(weight: u64) -> u32 {
    u32::try_from(weight).unwrap_or(u32::MAX)
}

/// A new bucket is full.
pub(super) fn set_bucket(present: &mut Option<TokenBucket>, now: Timestamp, rate: Option<Rate>) {
    match (rate, present) {
        (Some(rate), Some(bucket)) => bucket.configure(now, rate.per_s, rate.burst),
        (rate, present) => *present = rate.map(|rate| TokenBucket::new(now, rate.per_s, rate.burst)),
    }
}

pub(super) fn is_ready(now: Timestamp, bucket: Option<&mut TokenBucket>) -> bool {
    bucket.is_none_or(|bucket| bucket.is_ready(now))
}

/// Takes a token of each bucket, or of neither.
pub(super) fn take_both(
    now: Timestamp,
    mut one: Option<&mut TokenBucket>,
    mut other: Option<&mut TokenBucket>,
) -> bool {
    if !is_ready(now, one.as_deref_mut()) || !is_ready(now, other.as_deref_mut()) {
        return false;
    }
    for bucket in [one, other].into_iter().flatten() {
        let taken = bucket.try_take(now);
        debug_assert!(taken, "ready means there is a token");
    }
    true
}
